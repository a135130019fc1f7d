//! A distributed shell: runs one command in many containers, of both execution types, on any ResourceManager.
//!
//! The client ([`submit`]) and the ApplicationMaster ([`master`]) are in one program: the client submits an application
//! whose master is that program with the subcommand [`MASTER_SUBCOMMAND`]. What the master shall do travels in the
//! environment of its container, how it went in the diagnostics with which it unregisters, and how it is going through a
//! small endpoint of the master, for as long as it runs.
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
//! | [`job`], [`cluster`] | what to run, and where |
//! | [`quote`] | commands through two shells unharmed. Pure |
//! | [`progress`], [`summary`], [`text`] | how it goes and how it went, and what the master and people are told of it. Pure |
//! | [`retry`] | when a ResourceManager that does not answer is tried again. Pure |
//! | [`client`] | submits, follows, kills |
//! | [`master`] | asks for containers, starts them, asks again for those that were taken away |

pub mod client;
pub mod cluster;
pub mod error;
pub mod job;
pub mod master;
pub mod progress;
pub mod quote;
pub mod retry;
mod rm_link;
mod spec;
pub mod summary;
pub mod text;

pub use client::{Submitted, submit};
pub use cluster::Cluster;
pub use error::ShellError;
pub use job::Job;
pub use progress::{Counts, Progress, Stage};
pub use rm_link::LinkError;
pub use spec::SpecError;
pub use summary::{Outcome, Summary};

/// The subcommand of [`Cluster::program`] that runs the master.
pub const MASTER_SUBCOMMAND: &str = "shell-master";
