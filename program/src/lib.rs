//! Surroundings of a program of this workspace: its log, the signals and panics that end it, and
//! who has a port that it wants.
//!
//! Owns the process's log subscriber, its signal handlers, its panic hook and its allocator's
//! settings. In: the filter that the environment asks for. Out: log lines, also into systemd's
//! journal, signals in the order of their arrival, threads that have panicked. All belong to a
//! whole process, so only the programs use this crate, `nm-agent` and its quick start. May not know
//! any other crate of the workspace; no part of a node may know it.

pub mod allocator;
mod escaped;
pub mod holder;
pub mod journal;
pub mod log_file;
pub mod logging;
pub mod panics;
pub mod signals;
