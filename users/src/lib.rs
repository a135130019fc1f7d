//! Accounts of the system that containers run as: which account a submitter's containers get, and
//! acting with that account's rights and no others.
//!
//! ```text
//! submitter ── rules ──▶ account's name ── system ──▶ uid, gid, groups ── rules ──▶ Account
//!                                                        Account::assume   a child, for good
//!                                                        Account::act      a thread, for a moment
//! ```
//!
//! - `rules`: who may run containers, and as whom; pure. `executor_cfg`: the rules' file, parsed
//! - `accounts`: look-ups in the system's directory of users, remembered for some minutes
//! - `assume`: what a new process does before it executes a program of the account, or reads what
//!   strangers send
//! - `act`: a thread that uses files with the account's rights
//! - `privileges`: what this process must be allowed to for all of that
//!
//! Owns no process and no file. May not know YARN, cgroups, or any other crate of the workspace.
//! System calls here change the calling thread only, unlike the C library's, which change all
//! threads of a process.

mod accounts;
mod act;
mod assume;
mod executor_cfg;
mod privileges;
mod rules;

pub use accounts::{Account, AccountIds, GroupError, RefusedUser, Users};
pub use assume::renounce_capabilities;
pub use executor_cfg::{ExecutorCfg, ExecutorCfgError};
pub use privileges::{Obstacle, obstacles, seal_this_process};
pub use rules::{Refusal, Rules, RunAs, UserPattern};
