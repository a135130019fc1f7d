//! The crate on this machine's own hierarchies. What they cannot do, or this user may not, is named in a line `SKIPPED BY
//! KERNEL`; with `NM_AGENT_REQUIRE_CGROUPS=1` it fails.
//!
//! Each test works below a hierarchy of its own (`nm-agent-test-…`) and removes it. Where a machine has only the unified
//! hierarchy, the same tests run on it.

#![cfg(test)]

pub(crate) mod fixture;
mod freezing;
mod killing;
mod limits;
mod spawning;
mod usage;
