//! What surrounds a program of this workspace: its log, and the signals that end it.
//!
//! Both belong to a whole process, so only programs use this crate, `nm-agent` and its quick start; no part of a node may
//! know it. In: what the environment asks for. Out: a subscriber for the log, and signals in the order of their arrival.

pub mod logging;
pub mod signals;
