//! Control groups of the kernel, versions 1 and 2 and both at once, behind one interface. Knows bytes and microseconds,
//! not YARN. No async, no threads of its own: every call is a few reads and writes of kernel files, and those that wait
//! say for how long.
//!
//! ```text
//! Layout ─ what is mounted ──▶ Root ─ the place for containers ──▶ Parent ─ a class of them ──▶ Cgroup ─ one of them
//! (texts, pure)                made, locked, controllers given on   limits of all together       limit, spawn, freeze,
//!                                                                                                read, kill, remove
//! ```
//!
//! - `layout`: which hierarchies there are, from two texts of `/proc`
//! - `root`: the place to work in: a delegated cgroup (`delegation`), or a configured path below each mount
//! - `group`: one cgroup; `limits`, `usage`, `pressure`: what is written to and read from its files; `freezer`, `ending`: its
//!   processes
//! - `scale`, `text`: conversions and formats, pure
//! - `spawn`, `clone`: a process that is born inside
//! - `dir`, `place`: directories by handle; `tree`: what was made inside a cgroup
//!
//! A cgroup is one directory in each hierarchy that is used. On a hybrid host the unified hierarchy is used for what it
//! can, even without a controller: freezing, killing, counting processor time, pressure.

mod clone;
mod delegation;
mod dir;
mod ending;
mod error;
mod freezer;
mod group;
mod layout;
mod limits;
mod place;
mod pressure;
mod probe;
mod process;
mod root;
mod scale;
mod spawn;
mod text;
mod tree;
mod usage;

pub use delegation::Delegation;
pub use error::{CgroupError, Unusable};
pub use group::Cgroup;
pub use layout::{Controller, Hierarchy, Layout, LegacyHierarchy, Version};
pub use limits::Limits;
pub use pressure::{PressureFile, Resource};
pub use root::{Missing, Parent, Root, RootConfig};
pub use scale::{Bound, CpuQuota, Weight};
pub use spawn::{Child, Command, SpawnError, Step, spawn};
pub use text::{Pressure, Stall};
pub use usage::{MemoryEvents, Sampler, Usage};
