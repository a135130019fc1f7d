//! The agent beside Hadoop's own NodeManager: what scripts and people read, scenario by scenario.
//!
//! Each scenario is done on both nodes, and the texts must be equal once ids, ports, folders and
//! times are masked. What the agent says differently on purpose is left out of a comparison in its
//! scenario, with the reason there.

#![expect(clippy::unwrap_used, reason = "helpers of tests: they fail with it")]

mod access;
mod audit;
mod beans;
mod ends;
mod filters;
mod health;
mod heartbeats;
mod localization;
pub(crate) mod mask;
mod refusals;
mod reinit;
mod rest;
mod retries;
mod rolled_logs;
mod servlets;
mod twins;
mod updates;

pub(crate) use twins::once;
