//! Log aggregation: the logs of an application's containers, in one file for each node on a
//! common file system.
//!
//! ```text
//!  orders ─► schedule ──► upload ──► aggregated_log ──► tfile ──► Destination
//!              ▲  which next  │  files of containers    blocks, indexes
//!              └── outcome ◄──┘
//! ```
//!
//! Owns what is pending of each application, the threads that upload, and the format of the files.
//! In: applications, their containers' ends, log folders by [`localize::NodeDirs`]. Out: files that
//! `yarn logs` reads, an [`Outcome`] for each upload, and the content of logs in these files. May
//! not know RPC, the node's state or Hadoop's property names.
//!
//! | module | subject |
//! |---|---|
//! | [`tfile`], [`aggregated_log`] | the TFile format; pure over `Write` |
//! | [`indexed_log`], `java_objects` | the indexed format; pure over `Write` |
//! | `format` | both behind one writer |
//! | [`policy`], [`selection`], [`remote`] | which containers, which files, which names; pure |
//! | `schedule` | which upload is next; pure |
//! | `listing` | entries of a folder in order, a part at a time |
//! | [`upload`], [`destination`] | one upload, and where it goes |
//! | `service` | the threads |

pub mod aggregated_log;
pub mod destination;
mod format;
pub mod indexed_log;
mod java_objects;
mod listing;
pub mod policy;
pub mod remote;
mod schedule;
pub mod selection;
mod service;
pub mod tfile;
#[cfg(test)]
mod tfile_reader;
pub mod upload;

pub use format::Format;
pub use schedule::{Application, Outcome};
pub use service::{Listener, LogAggregation, ServiceConfig};
