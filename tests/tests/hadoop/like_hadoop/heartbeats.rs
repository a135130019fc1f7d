//! What a node sends to its ResourceManager: registration and heartbeats.

use test_support::LaunchContext;
use tests::{require, wait};
use wire::proto::hadoop_yarn::{ContainerSubStateProto, NodeIdProto, NodeStatusProto};

use super::twins::{DEADLINE, Twin, Twins};

#[test]
fn registrations_and_heartbeats_are_hadoops() {
    require!(java, hadoop);
    let mut twins = Twins::start(|site| {
        site.set("yarn.nodemanager.container-monitor.interval-ms", 100)
            .set("yarn.nodemanager.node-labels.provider", "config")
            .set(
                "yarn.nodemanager.node-labels.provider.configured-node-partition",
                "gpu",
            )
            .set("yarn.nodemanager.node-attributes.provider", "Config")
            .set(
                "yarn.nodemanager.node-attributes.provider.configured-node-attributes",
                "os,STRING,Linux-6.1",
            );
    });
    twins.compare("the registration", |twin| {
        let mut registration = twin.rm.wait_registrations(1);
        mask_port(registration.node_id.as_mut());
        registration.http_port = None;
        let status = registration.node_status.as_mut().map(mask_status);
        assert!(status.is_some());
        format!("{registration:#?}")
    });
    twins.compare("an idle heartbeat", |twin| heartbeat(twin, |_| true));
    twins.compare("a heartbeat with three containers", |twin| {
        let mut running = twin.allocation(2);
        running.resource.memory_mb = 1024;
        let running = twin.start_sleeping(&running);
        for number in [3, 4] {
            let queued = twin.allocation(number).opportunistic();
            let context = LaunchContext::command("true");
            let queued = twin.am.try_start(&queued, context).unwrap();
            twin.rm
                .wait_sub_state(queued, ContainerSubStateProto::CssScheduled);
        }
        let text = heartbeat(twin, |status| {
            status.containers_statuses.len() == 3
                && status
                    .containers_statuses
                    .iter()
                    .any(|container| !container.container_attributes.is_empty())
        });
        twin.am.stop(running).unwrap();
        twin.rm.wait_completed(running);
        for number in [3, 4] {
            twin.rm.wait_completed(twin.am.attempt().container(number));
        }
        text
    });
}

/// Returns the next heartbeat of this kind, without what is measured.
fn heartbeat(twin: &Twin, is_wanted: impl Fn(&NodeStatusProto) -> bool) -> String {
    let mut status = wait::until("a heartbeat", DEADLINE, || {
        let last = twin.rm.with(|tracker| tracker.heartbeats.back().cloned());
        last.filter(|status| is_wanted(status)).ok_or("none yet")
    });
    mask_status(&mut status);
    format!("{status:#?}")
}

/// Removes what is measured, counted or chosen by chance, and the estimated wait, which Hadoop's
/// NodeManager leaves empty.
fn mask_status(status: &mut NodeStatusProto) {
    mask_port(status.node_id.as_mut());
    status.response_id = None;
    status.containers_utilization = None;
    status.node_utilization = None;
    let opportunistic = status.opportunistic_containers_status.as_mut();
    opportunistic.unwrap().estimated_queue_wait_time = None;
}

fn mask_port(node: Option<&mut NodeIdProto>) {
    node.unwrap().port = None;
}
