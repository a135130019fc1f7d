//! The crate on this machine's own hierarchies. A test that they do not support prints a line
//! `SKIPPED BY KERNEL`; with `NM_AGENT_REQUIRE_ALL=kernel` it fails. A test that this user may not
//! run prints a line `SKIPPED`; with `NM_AGENT_REQUIRE_ALL=1` it fails, too.
//!
//! Each test works below a path of its own (`nm-agent-test-…`) and removes it. On a machine with
//! only the unified hierarchy, the same tests run there.

#![cfg(test)]

pub(crate) mod fixture;
mod freezing;
mod killing;
mod limits;
mod spawning;
mod usage;
