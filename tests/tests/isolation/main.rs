//! Containers that must not harm each other, with the agent as a process of its own: on this
//! machine's hierarchies, and, by booting a guest and running this same program there, on the
//! unified hierarchy under systemd.
//!
//! Nothing is timed here: the guest is emulated. Tests assert order, and which containers are left
//! alone.

#![cfg(test)]

mod adopt;
mod classes;
mod eviction;
mod launches;
mod limits;
mod package;
mod pressure;
mod service;
mod stories;
mod usage;

/// Tests of the crate `cgroup`, so that the guest runs them too.
#[path = "../../../cgroup/tests/real/main.rs"]
mod kernel;

use std::path::Path;

use tests::{guest, require};

/// Deadline for all tests of this program in an emulated guest, on a machine that is busy building.
const DEADLINE_S: u32 = 1800;

#[test]
fn all_of_this_holds_in_a_guest_with_systemd_and_the_unified_hierarchy() {
    if guest::is_here() {
        return;
    }
    require!(guest);
    let own = std::env::current_exe().unwrap();
    let agent = Path::new(env!("CARGO_BIN_EXE_agent-under-test"));
    let command =
        "export NM_AGENT_REQUIRE_ALL=kernel RUST_BACKTRACE=1\nexec ./isolation --test-threads=1";
    let status = guest::run(
        &[("isolation", &own), ("agent", agent)],
        command,
        DEADLINE_S,
    );
    assert_eq!(status, 0, "the guest's own report is above");
}
