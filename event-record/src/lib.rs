//! Records of the events that a node's scheduler gets, and what they are played for.
//!
//! ```text
//! RecordedScheduler ──▶ Entry ─▶ line ──▶ file
//! file ──▶ Reader ─▶ Begin, Step ─┬─▶ Replay: the same actions?
//!                                 └─▶ Lives ─┬─▶ Model: other settings
//!                                            └─▶ Came ─▶ Task: a trace of jobs
//! ```
//!
//! A file is JSON, an object on a line. The first line is a [`Begin`]: the form with its version,
//! and the state of the scheduler. Each other line is a [`Step`]: the time, what the scheduler got,
//! and the actions with which it answered. Names of fields and events are those of `sched`; a
//! container is `[cluster timestamp, application, attempt, number]`. No text that a user or a
//! process wrote is in it: diagnostics are left out, and users, hosts, paths, launch contexts and
//! tokens never reach the scheduler.
//!
//! | module | subject |
//! |---|---|
//! | `recorded_scheduler` | a scheduler, and the entries of what it gets |
//! | `form` | what a file holds |
//! | `read` | reading a file within bounds |
//! | `replay` | the same events once more: the same actions, or where they part |
//! | `lives` | how long each container took for each step of its life |
//! | `model` | the same starts and orders, with other settings |
//! | `fates` | what became of containers, as counts and as a table |
//! | `tasks` | what containers did that ended by themselves, for a trace of jobs |
//!
//! In: events, entries, or a `BufRead`. Out: entries, bytes, values, text. May not know files,
//! threads or clocks: the agent's worker writes the files (`node-manager/src/event_writer.rs`).

mod fates;
mod form;
mod lives;
mod model;
mod read;
mod recorded_scheduler;
mod replay;
mod tasks;

pub use fates::{Fate, Fates, differences, table};
pub use form::{Begin, Entry, FORMAT, Input, Step, VERSION};
pub use lives::{CONTAINERS_MAX, Lives};
pub use model::{Model, OtherSettings};
pub use read::{FILE_BYTES_MAX, LINE_BYTES_MAX, ReadError, Reader};
pub use recorded_scheduler::RecordedScheduler;
pub use replay::{Parted, Replay};
pub use tasks::{Came, Task};
