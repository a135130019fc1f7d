//! Node reports as far as they change asks of roles that are not anti-affine.

use super::*;

#[test]
fn reports_without_host_or_state_are_skipped_and_counted() {
    let mut service = Service::new();
    let report = |host: &str, state| NodeReport {
        host: host.to_owned(),
        state,
        label: String::new(),
    };
    let reports = [report("", Some(NodeState::Running)), report("n1", None)];
    let now = service.now();
    service
        .history
        .on_nodes_updated(&reports, now, &mut service.actions);
    assert!(service.history.nodes().is_empty());
    assert_eq!(service.history.ignored().incomplete_node_reports, 2);
}

#[test]
fn a_node_that_left_the_cluster_stays_known() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.report(&[("n1", NodeState::Decommissioned, "")]);
    assert_eq!(service.history.nodes().len(), 1);
    assert!(service.ready().is_empty());
    service.flex(STORE, 1);
    assert_eq!(service.done(), ["request 1: any"]);
}

#[test]
fn a_decommissioning_node_gets_no_new_work() {
    let mut service = Service::new().thawed(&[("n1", 10), ("n2", 20)]);
    service.report(&[("n1", NodeState::Decommissioning, "")]);
    assert_eq!(service.ready(), ["n2"]);
}

#[test]
fn reports_leave_asks_of_other_roles_alone() {
    let mut service = Service::new().thawed(&[("n1", 10)]);
    service.flex(STORE, 2);
    service.done();
    service.up(&["n1", "n2"]);
    assert!(service.done().is_empty());
}
