//! The `nm-agent` program: its command line, its report on a configuration, and nothing else.
//!
//! In: arguments, the environment, standard streams. Out: an exit status. What it runs is in libraries: the node in
//! `node_manager`, the embedded ResourceManager in `mini_rm`, jobs in `shell`, the trial of all of them in `quickstart`.
//! It is a library too, so that a test can start the whole program from a binary of its own.

pub mod check;
pub mod cli;
