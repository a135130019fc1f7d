//! Auxiliary services that are Java classes, in a process of their own: the host.
//!
//! ```text
//! agent ─ what begins and ends ─▶ Model: what runs, a queue for each service ─▶ supervisor
//!                                                                                 │ frames
//!                                       socket pair: events, answers              ▼
//!                                  java: nm-agent-aux-host.jar (`java/aux-host`), one a node
//! ```
//!
//! - `message`, `frame`: what both sides say, and how; `protocol` below
//! - `model`: applications and containers that run, and what each service has to learn (pure)
//! - `restarts`: pauses between lives, and when a node is unfit (pure)
//! - `process`: the process of one life, its socket, its log
//! - `start`: a life from its process to its last service
//! - `shared`: what that thread, the reader of answers and callers share
//! - `supervisor`: the thread that owns the lives
//!
//! Owns the host's process and what it must learn. In: a [`HostConfig`], beginnings and ends of
//! applications and containers. Out: the services' metadata, log lines, the [`HostHealth`]. May not
//! know Hadoop's property names, what a service is for, or any other part of the agent.
//!
//! **Protocol.** A frame is its length (4 bytes, without themselves), its type (a byte), and its
//! fields: integers big-endian, texts and bytes behind their length (4 bytes). The host begins with
//! its number of the protocol; the agent then names configuration and services, and each service
//! answers in turn that it runs. Afterwards the agent sends events, of each service at most
//! 32 that are not answered, in order.

mod config;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod message;
mod model;
mod output;
mod process;
mod restarts;
mod shared;
mod start;
mod supervisor;
#[cfg(test)]
mod tests;

pub use config::{Folders, HostConfig, HostedService, Patience};
pub use error::{DataRefused, HostError, HostFault};
pub use model::{ContainerFacts, SERVICES_MAX};
pub use supervisor::{AuxHost, HostHealth, HostThread, StartedHost, Watch};
