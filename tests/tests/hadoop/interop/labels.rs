//! Labels and attributes that a node gives itself, at a ResourceManager that takes them from nodes.

use test_support::{replace_file, write_program};
use tests::cluster::STATE_DEADLINE;
use tests::conf::Options;
use tests::lab::{LOCALHOST, Lab};
use tests::node::Node;
use tests::rm::{ResourceManager, RmKind};
use tests::wait;

use crate::interop::{NODE_CLI, node_kind, run_client};

/// Class of `yarn rmadmin`.
const ADMIN: &str = "org.apache.hadoop.yarn.client.cli.RMAdminCLI";

#[test]
fn labels_and_attributes_of_scripts_are_the_nodes_at_the_resource_manager() {
    tests::require!(java, hadoop);
    let mut lab = Lab::new(&RmKind::Hadoop, Options::default());
    let store = format!("file://{}", lab.folder().join("node-labels").display());
    lab.set("yarn.node-labels.enabled", true);
    lab.set("yarn.node-labels.configuration-type", "distributed");
    lab.set("yarn.node-labels.fs-store.root-dir", store);
    let printed = lab.folder().join("printed");
    replace_file(
        &printed,
        "NODE_PARTITION:gpu\nNODE_ATTRIBUTE:os,STRING,Linux-6\n",
    );
    let script = write_script(&lab, &format!("cat {}", printed.display()));
    let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
    run_client(&lab, ADMIN, &["-addToClusterNodeLabels", "gpu,fpga"]);

    let site = lab.node_site_changed("node", LOCALHOST, |site| {
        for kind in ["node-labels", "node-attributes"] {
            let property = |name: &str| format!("yarn.nodemanager.{kind}.{name}");
            site.set(property("provider"), "script")
                .set(property("provider.script.path"), &script)
                .set(property("provider.fetch-interval-ms"), 200)
                .set(property("resync-interval-ms"), 500);
        }
    });
    let mut node = Node::start_at(site, &node_kind());
    node.wait_state(&rm, "RUNNING", STATE_DEADLINE);
    wait_shown(&node, &rm, "gpu", "Linux-6");
    let status = run_client(&lab, NODE_CLI, &["-status", &node.id()]);
    assert!(status.contains("Node-Labels : gpu"), "{status}");
    assert!(status.contains("nm.yarn.io/os(STRING)=Linux-6"), "{status}");

    replace_file(
        &printed,
        "NODE_PARTITION:fpga\nNODE_ATTRIBUTE:os,STRING,Linux-7\n",
    );
    wait_shown(&node, &rm, "fpga", "Linux-7");

    // The cluster has no such label.
    replace_file(
        &printed,
        "NODE_PARTITION:nosuch\nNODE_ATTRIBUTE:os,STRING,Linux-8\n",
    );
    node.process.wait_log("nosuch", STATE_DEADLINE);
    wait_shown(&node, &rm, "fpga", "Linux-8");
    node.process
        .wait_log("does not accept the node labels", STATE_DEADLINE);
}

fn write_script(lab: &Lab, command: &str) -> String {
    let path = lab.folder().join("script");
    write_program(&path, &format!("#!/bin/sh\n{command}\n"));
    path.to_str().unwrap().to_owned()
}

/// Waits until the ResourceManager shows the node with this label and this value of its attribute.
#[track_caller]
fn wait_shown(node: &Node, rm: &ResourceManager, label: &str, value: &str) {
    wait::until(
        format!("{label} and {value} at the RM"),
        STATE_DEADLINE,
        || {
            let shown = node.at_rm(rm)?;
            let has_label = shown["nodeLabels"] == serde_json::json!([label]);
            let has_value = shown
                .to_string()
                .contains(&format!("\"value\":\"{value}\""));
            wait::check(has_label && has_value, shown.to_string())
        },
    );
}
