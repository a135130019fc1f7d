//! Takes the place of a Java NodeManager on this machine, and gives it back.
//!
//! ```text
//! scan: /proc, folders, pid files ──▶ plan (pure): steps, refusals ──▶ perform: step after step
//!                                                                          │ before each step
//!                                                                          ▼
//!                                                         record: a file of the configuration
//! ```
//!
//! - `scan` reads what is there and changes nothing
//! - `plan` decides whether and how, from values
//! - `record` is the file from which a later `--back`, or an interrupted run, goes on
//! - `perform` does a plan's steps, and undoes them
//! - `machine` runs the commands of Hadoop and of the service manager
//!
//! Owns three names in the folder of Hadoop's configuration: the record, the agent's own
//! properties, and a link to the shell profile by which Hadoop's scripts start the agent. Deletes
//! no log and no cache: the agent gets folders of its own beside the Java node's. What another
//! process's memory and files say is cut and escaped before it is printed, and names no program
//! that is run.
//!
//! May not know how the agent's configuration is read, nor how the agent is asked: the caller
//! brings both (`AgentView`, `Findings`).

mod aside;
mod conf_folder;
mod machine;
mod perform;
mod plan;
mod record;
mod scan;
mod text;

pub use conf_folder::{ConfFolder, FolderError};
pub use machine::{AgentState, AgentView, Limits, Machine, Order, ThisMachine};
pub use perform::{PerformError, Run};
pub use plan::{Findings, Intent, Plan, Refusal, plan};
pub use record::{Adoption, JavaProcess, Record, RecordError, Stage, Step};
pub use scan::{Asked, Folders, JavaNode, PidFile, Scan, Start, StartedBy, scan, unit_main_pid};
pub use text::shown;
