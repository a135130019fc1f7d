//! The `nm-agent` program: its command line, its reports on a configuration, on a file of a role
//! history and on a running agent, and nothing else.
//!
//! Owns nothing but the process. In: arguments, the environment, standard streams. Out: an exit
//! status. The libraries do the work: `node_manager` is the node, `mini_rm` the embedded
//! ResourceManager, `shell` runs jobs, `quickstart` tries all of them out. Is a library too, so
//! that a test can start the whole program from a binary of its own. No other crate may know it.

pub mod check;
pub mod cli;
pub mod history;
mod java_node;
pub mod logs;
pub mod operate;
