//! Distributed shell: runs one command in many containers, of both execution types, on any
//! ResourceManager.
//!
//! The client ([`submit`]) and the ApplicationMaster ([`master`]) are in one program: the client
//! submits an application whose AM is that program with the subcommand [`MASTER_SUBCOMMAND`]. The
//! job travels to the AM in its container's environment. The result travels back in the diagnostics
//! with which the AM unregisters, and progress through a small HTTP endpoint of the running AM.
//!
//! ```text
//!            submitApplication                     starts
//!  client ───────────────────────▶ ResourceManager ──────▶ master ──────▶ nodes
//!    ▲  ◀── getApplicationReport ──    ▲    allocate ───────┘  │  start, watch, promote, stop
//!    └───────────────── GET /progress ────────────────────────┘
//! ```
//!
//! | Module | Subject |
//! |---|---|
//! | [`job`], [`cluster`] | the command to run, and the cluster to run it on |
//! | [`quote`] | quoting of commands against two shells. Pure |
//! | [`progress`], [`summary`], [`text`] | progress and result, and their text forms. Pure |
//! | [`client`] | submits, follows and kills an application |
//! | [`master`] | asks for containers, starts them, and replaces those taken away |

pub mod client;
pub mod cluster;
pub mod error;
pub mod job;
pub mod master;
pub mod progress;
pub mod quote;
mod rm_link;
mod spec;
pub mod summary;
pub mod text;

pub use client::{Submitted, submit};
pub use cluster::Cluster;
pub use error::ShellError;
pub use job::{Job, RoleHistoryOptIn};
pub use progress::{Counts, Progress, Stage};
pub use spec::SpecError;
pub use summary::{Outcome, Summary};

/// Subcommand of [`Cluster::program`] that runs the AM.
pub const MASTER_SUBCOMMAND: &str = "shell-master";
