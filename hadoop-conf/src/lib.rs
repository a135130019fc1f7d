//! Hadoop's configuration, as every program of a cluster reads it: files, `${…}`, units, addresses.
//!
//! In: folders, an environment as a map, defaults from the caller. Out: properties, each with where it came from. Knows
//! the rules by which Hadoop reads its files, and no program: what a property is for is up to who asks for it. Reads
//! nothing but the named files: not the process's environment, no name server, no socket.

pub mod site_xml;
