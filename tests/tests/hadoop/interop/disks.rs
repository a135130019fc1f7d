//! Disks of a node that fail and return, as the ResourceManager and its clients show the node.

use std::fs;
use std::path::Path;

use test_support::mounts::{set_writable, small_disk, with_own_mounts};
use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::lab::{LOCALHOST, Lab};
use tests::node::Node;
use tests::rm::{ResourceManager, RmKind};
use tests::{require, wait};

use crate::interop::{NODE_CLI, node_kind, run_client};

const CHECKER: &str = "yarn.nodemanager.disk-health-checker";

/// Bytes of the node's only disk.
const DISK: u64 = 256 << 20;

#[test]
fn a_node_whose_disks_fail_is_unhealthy_at_the_resource_manager_until_they_return() {
    require!(java, hadoop);
    let name = "a_node_whose_disks_fail_is_unhealthy_at_the_resource_manager_until_they_return";
    with_own_mounts(name, || {
        let lab = Lab::new(&RmKind::Hadoop, Options::default());
        let disk = lab.folder().join("disk");
        fs::create_dir(&disk).unwrap();
        small_disk(&disk, DISK);
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let mut node = start_on(&lab, &disk);
        node.wait_state(&rm, "RUNNING", STATE_DEADLINE);

        set_writable(&disk, false);
        node.wait_state(&rm, "UNHEALTHY", STATE_DEADLINE);
        // A check that was under way may have seen one of the directories before the change.
        let report = wait::until("a report of both directories", STATE_DEADLINE, || {
            let shown = node.at_rm(&rm)?;
            let report = shown["healthReport"].as_str().unwrap_or_default();
            let is_told = |kind| {
                let dir = disk.join(kind);
                let fault = format!("Directory is not writable: {}", dir.display());
                report.contains(&format!("1/1 {kind}-dirs have errors")) && report.contains(&fault)
            };
            let both = is_told("local") && is_told("log");
            wait::check(both, report.to_owned())
        });
        assert_eq!(state_in_list(&lab, &node), "UNHEALTHY");
        let status = run_client(&lab, NODE_CLI, &["-status", &node.id()]);
        assert!(status.contains(report.trim()), "{status}");

        set_writable(&disk, true);
        node.wait_state(&rm, "RUNNING", STATE_DEADLINE);
        wait::until("no report at the ResourceManager", STATE_DEADLINE, || {
            let shown = node.at_rm(&rm)?;
            let has_none = shown["healthReport"] == "";
            wait::check(has_none, shown.to_string())
        });
        assert_eq!(state_in_list(&lab, &node), "RUNNING");
        let job = Job {
            command: "true",
            containers: 2,
            memory_mb: SLOT_MB,
            container_type: ContainerType::Guaranteed,
        };
        distributed_shell::start(&lab, "after", &job).assert_succeeds(JOB_DEADLINE);
    });
}

/// Starts a node whose directories are on this disk, which it checks often.
fn start_on(lab: &Lab, disk: &Path) -> Node {
    let site = lab.node_site_changed("node", LOCALHOST, |site| {
        for kind in ["local", "log"] {
            let dir = disk.join(kind);
            site.set(format!("yarn.nodemanager.{kind}-dirs"), dir.display());
        }
        site.set(format!("{CHECKER}.interval-ms"), 200);
    });
    Node::start_at(site, &node_kind())
}

/// Returns the state of a node in the list of `yarn node`, whose lines begin with id and state.
fn state_in_list(lab: &Lab, node: &Node) -> String {
    let list = run_client(lab, NODE_CLI, &["-list", "-all"]);
    let id = node.id();
    let line = list.lines().find(|line| line.trim_start().starts_with(&id));
    let state = line.and_then(|line| line.split_whitespace().nth(1));
    state
        .unwrap_or_else(|| panic!("{id} is not in {list}"))
        .to_owned()
}
