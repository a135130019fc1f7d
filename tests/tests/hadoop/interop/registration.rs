//! A registration that the ResourceManager refuses, and one that it cannot answer yet.

use std::time::Duration;

use tests::cluster::STATE_DEADLINE;
use tests::conf::Options;
use tests::lab::Lab;
use tests::node::Node;
use tests::rm::{ResourceManager, RmKind};
use tests::{require, wait};

use crate::interop::node_kind;

with_each_rm!(a_node_goes_on_trying_visibly_until_the_rm_is_there,);

#[test]
fn a_node_older_than_the_rm_allows_ends_with_the_message_of_the_rm() {
    require!(java, hadoop);
    let options =
        Options::default().with("yarn.resourcemanager.nodemanager.minimum.version", "99.0.0");
    let lab = Lab::new(&RmKind::Hadoop, options);
    let _rm = ResourceManager::start(&lab, &RmKind::Hadoop);
    let mut node = Node::start(&lab, &node_kind(), "node");
    let status = node.process.wait_exit(STATE_DEADLINE);
    assert!(!status.success(), "{status}");
    let log = node.process.log();
    assert!(
        log.contains("is less than the minimum version 99.0.0"),
        "{log}"
    );
}

fn a_node_goes_on_trying_visibly_until_the_rm_is_there(rm: &RmKind) {
    let lab = Lab::new(rm, Options::default());
    let mut rm = ResourceManager::absent(&lab, rm);
    let mut node = Node::start(&lab, &node_kind(), "node");
    let address = format!(":{}", lab.rm_ports().tracker);
    wait::until(
        "two log lines that name the address tried",
        STATE_DEADLINE,
        || {
            assert!(
                node.process.exit().is_none(),
                "the node ended: {:?}",
                node.process.exit()
            );
            let lines = node
                .process
                .log()
                .lines()
                .filter(|line| line.contains(&address))
                .count();
            wait::check(lines >= 2, lines)
        },
    );
    rm.start_again(&lab);
    node.wait_state(&rm, "RUNNING", Duration::from_secs(60));
}
