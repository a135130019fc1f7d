//! Hadoop's configuration, as every program of a cluster reads it: files, `${…}`, units, addresses,
//! ResourceManagers.
//!
//! ```text
//! folders ─▶ site_xml ─▶ Properties ─▶ PropertyReader ─▶ values, problems and warnings
//!                            ▲               ▲
//!                 defaults of a KeyTable   units, defaults
//! ```
//!
//! Owns the rules by which Hadoop reads its files and values, and the [keys](shared) that several
//! programs read. In: folders, an environment as a map, the caller's [`KeyTable`]. Out: typed
//! values, or the defect of each property, its place, and the values allowed. May not know any
//! program, nor the purpose of a property. Reads only the named files: not the process's
//! environment, no name server, no socket.

mod endpoints;
mod host_port;
mod keys;
mod lenient;
pub mod parse;
mod problem;
mod reader;
mod secret;
pub mod shared;
mod site;
pub mod site_xml;
mod unknown;

pub use endpoints::{RmEndpoint, RmService, only_resource_manager, resource_managers};
pub use host_port::{HostPort, ParseHostPortError};
pub use keys::{DefaultSource, Family, Key, KeyClass, KeyTable, Unit, key};
pub use lenient::{Guard, Instead, Lenient};
pub use problem::{ConfigProblems, Expected, Problem, Suffix, Warning};
pub use reader::PropertyReader;
pub use secret::{REDACTED, Secrets};
pub use site::{AGENT_SITE, Site, conf_dirs};
pub use unknown::suggest;
