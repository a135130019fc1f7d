//! Launching containers: from a plan with finished paths to a process, and from its end to an exit
//! status.
//!
//! ```text
//! Launcher::launch ─bounded queues─▶ launch-N threads: environment, links, script, files, spawn
//!        ▲                                  │ Launched / LaunchFailed
//! terminate, force_kill, signal             ▼
//!        └──────── registry ◀──────── one watch task per container: pidfd, orders, sweep, reap,
//!                                           │                      diagnostics
//!                                           │ ProcessesGone, Exited
//! ```
//! Guaranteed containers have a queue and threads of their own (`lanes`), so that none waits for an
//! opportunistic one.
//!
//! Pure: `context`, `environment`, `markers`, `script`, `one_bash`, `glob`. Knows nothing of
//! localization but [the folders](localize::ContainerDirs) that it made, and nothing of why a
//! container is killed.
//! Besides the launch threads there are two more: `process-scan`, which reads `/proc` for
//! everybody, and `debug-info`. The runtime needs I/O and time enabled. `unsafe` is in `process`
//! and `exit_watch` only; making a process is the cgroup crate's.

mod blocking;
mod confined_end;
mod context;
mod debug_info;
mod diagnostics;
mod environment;
mod error;
mod exit_watch;
mod files;
mod finish;
mod finishing;
mod glob;
mod lanes;
mod launcher;
mod leader;
mod links;
mod markers;
mod one_bash;
mod outlives;
mod places;
mod process;
mod process_tree;
mod registered;
mod registry;
mod scanner;
mod script;
mod shared;
mod spawn;
mod survivors;
mod sweep;
#[cfg(test)]
pub(crate) mod testing;
mod tracer;

pub use context::{
    ContainerSignal, LaunchConfig, LaunchEvent, LaunchPlan, LaunchTimings, Link,
    LocalizationCounters, PlanError,
};
pub use error::{LaunchError, NoPlan};
pub use files::add_links;
pub use lanes::LAUNCH_QUEUE_MAX;
pub use launcher::{Adoption, Later, LaunchRefused, Launcher, MakePlan, Planned};
pub use leader::{SharedExits, end_leftovers};
pub use markers::java_feature_version;
pub use outlives::{Outlives, size_in};
pub use process_tree::adopt_orphans;
pub use registry::RunningProcess;

/// Limit on the links of one container. Hadoop has none; a job with more than this uses an archive,
/// and a link that the script has to make costs a fork.
pub const LINKS_MAX: usize = 16_384;
