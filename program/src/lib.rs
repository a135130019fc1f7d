//! Surroundings of a program of this workspace: its log, and the signals that end it.
//!
//! Owns the process's log subscriber and its signal handlers. In: the filter that the environment
//! asks for. Out: log lines, and signals in the order of their arrival. Both belong to a whole
//! process, so only the programs use this crate, `nm-agent` and its quick start. May not know any
//! other crate of the workspace; no part of a node may know it.

pub mod logging;
pub mod signals;
