//! Processes of containers, and what containers have noted of their starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tests::cluster::{Cluster, STATE_DEADLINE};
use tests::{proc, wait};

use crate::interop::is_of_application;

/// Returns the process ids of an application's session leaders in the order of their containers,
/// the ApplicationMaster's first: one per container and as long-lived. Children come and go.
pub(super) fn leaders(cluster: &Cluster, application_id: &str) -> Vec<i32> {
    let mut leaders: Vec<(String, i32)> = proc::containers(cluster.lab.folder())
        .into_iter()
        .filter_map(|process| Some((process.container_id?, process.pid)))
        .filter(|(id, pid)| {
            is_of_application(id, application_id)
                && proc::stat(*pid).is_some_and(|stat| stat.session == *pid)
        })
        .collect();
    leaders.sort();
    leaders.into_iter().map(|(_, pid)| pid).collect()
}

/// Shell text with which a container notes its start in a file, for [`started_once`].
pub(super) fn note_start(begun: &Path) -> String {
    format!("echo $CONTAINER_ID >> '{}'", begun.display())
}

/// Returns how many containers have noted their start; asserts that each did once.
#[track_caller]
pub(super) fn started_once(begun: &Path) -> usize {
    let begun = fs::read_to_string(begun).unwrap();
    let mut starts: BTreeMap<&str, u32> = BTreeMap::new();
    for container in begun.lines() {
        *starts.entry(container).or_default() += 1;
    }
    assert!(starts.values().all(|count| *count == 1), "{starts:?}");
    starts.len()
}

/// Waits until no process of a container is left.
#[track_caller]
pub(super) fn wait_empty(cluster: &Cluster) {
    wait::until("the end of all containers", STATE_DEADLINE, || {
        let left = proc::containers(cluster.lab.folder());
        wait::check(left.is_empty(), format!("{left:?}"))
    });
}
