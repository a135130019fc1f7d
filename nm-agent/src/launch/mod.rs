//! Launching containers: from a plan with finished paths to a process, and from its end to an exit status.
//!
//! ```text
//! Launcher::launch ──bounded queue──▶ launch-N threads: environment, script, files, spawn, pid file
//!        ▲                                   │ Launched / LaunchFailed
//! terminate, force_kill, signal              ▼
//!        └──────── registry ◀──────── one watch task per container: pidfd, orders, sweep, reap, diagnostics
//!                                            │ Exited
//! ```
//! Pure: [`context`](self), `environment`, `script`. Knows nothing of localization and of why a container is killed.

#![expect(dead_code, reason = "the threads that use these parts come next")]

mod context;
mod exit_watch;
mod launcher;
mod registry;
#[cfg(test)]
mod testing;

pub use context::{
    ContainerSignal, LAUNCH_THREADS, LaunchConfig, LaunchEvent, LaunchPlan, LaunchTimings, Link,
    LocalizationCounters, PlanError,
};
pub use launcher::{LAUNCH_QUEUE_MAX, LaunchRefused, Launcher};
pub use registry::RunningProcess;

/// Links of one container that the script makes. Hadoop has no limit; a job with more than this uses an archive, and
/// each link costs a fork in the script.
pub const LINKS_MAX: usize = 16_384;
