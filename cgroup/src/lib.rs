//! Control groups of the kernel behind one interface: version 1, version 2, and hybrid hosts that
//! mount both. Knows bytes and microseconds, not YARN. No async and no threads: a call is a few
//! reads and writes of kernel files, and a call that waits takes a timeout.
//!
//! ```text
//! Layout ── mounts ──▶ Root ── agent's directory ──▶ Parent ── class ──▶ Cgroup ── container
//! parsed from          created, locked,              limits shared       limit, spawn, freeze,
//! /proc, pure          controllers enabled           by its children     read, kill, remove
//! ```
//!
//! - `layout`: the mounted hierarchies, parsed from two files of `/proc`
//! - `root`: the directory that the agent works in: a delegated cgroup (`delegation`) or a
//!   configured path below each mount; `probe`: the same without changing anything
//! - `group`: one cgroup; `limits`, `usage`, `account`, `pressure`: what is written to and read
//!   from its files; `freezer`, `processes`: freezing, listing, killing, moving and removing
//! - `scale`, `text`: conversions and file formats, pure
//! - `spawn`, `clone`: a process that starts inside its cgroup; `note`: its own note that it
//!   exists; `starting`: those that have not yet executed their program
//! - `dir`, `files`: directories by handle and control files in them; `tree`: cgroups that
//!   processes made inside theirs; `pidfd`: signals without pid races
//!
//! A cgroup is one directory in each hierarchy that is used. On a hybrid host the unified hierarchy
//! is used for what works there without a controller: freezing, killing, CPU accounting, pressure.

mod account;
mod clone;
mod delegation;
mod dir;
mod error;
mod files;
mod freezer;
mod group;
mod layout;
mod limits;
mod note;
mod pid_entry;
mod pidfd;
mod pressure;
mod probe;
mod processes;
mod root;
mod root_config;
mod scale;
mod spawn;
mod starting;
mod text;
mod tree;
mod usage;

pub use account::Account;
pub use delegation::{move_below, move_beside};
pub use error::{CgroupError, Unusable};
pub use group::Cgroup;
pub use layout::{Controller, Hierarchy, Layout, LegacyHierarchy, Version};
pub use limits::Limits;
pub use note::{NOTE_BYTES, Note};
pub use pressure::{PressureFile, Resource};
pub use root::{Missing, Parent, Root};
pub use root_config::{Delegation, RootConfig};
pub use scale::{Bound, CpuQuota, Weight};
pub use spawn::{BeforeExec, Child, Command, SpawnError, Step, spawn};
pub use starting::continue_late_children;
pub use text::{Pressure, Stall};
pub use usage::{MemoryEvents, Sampler, Usage};
