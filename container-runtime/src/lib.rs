//! Containers as processes: launching, confining and measuring them, and ending all that they
//! started.
//!
//! - [`launch`]: from a plan with finished paths to a process, and from its end to an exit status
//! - [`isolation`]: control groups, limits and freezing
//! - [`monitor`]: what the node and its containers use, and which container uses too much memory
//! - [`open_files`]: the limit of open files, of the agent and of containers
//!
//! Owns the processes and control groups of containers, and the threads that act on them. In:
//! plans, signals, limits, and each part's configuration as plain values. Out: events,
//! [`launch::LaunchEvent`], [`isolation::IsolationEvent`] and [`monitor::MemoryExceeded`], and
//! samples. Of localization it uses the folders of a container and nothing else. May not know RPC,
//! web pages, Hadoop's property names, the scheduler's state, or why a container ends.

pub mod config;
pub mod isolation;
pub mod launch;
pub mod monitor;
pub mod open_files;
mod proc_stat;

use records::error_chain;
