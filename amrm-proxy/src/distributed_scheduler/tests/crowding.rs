//! Measures against crowding: refusing nodes are left alone, and short lists are reported.

use wire::proto::hadoop_yarn::{NodeReportProto, NodeStateProto};

use super::*;

#[test]
fn a_node_that_refused_a_container_gets_none_and_short_lists_are_reported_once() {
    let mut attempt = Attempt::registered();
    let (_, given) = attempt.send(0, opportunistic(3)).unwrap();
    attempt.answer(&AllocateResponseProto::default());
    let refused = given[0].clone();
    attempt.send(1, Vec::new()).unwrap();
    let status = ContainerStatusProto {
        container_id: refused.id,
        exit_status: Some(ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER.0),
        ..ContainerStatusProto::default()
    };
    let answer = AllocateResponseProto {
        completed_container_statuses: vec![status],
        num_cluster_nodes: Some(31),
        ..AllocateResponseProto::default()
    };
    attempt.answer(&answer);
    let (_, given) = attempt.send(2, opportunistic(3)).unwrap();
    assert_eq!(given.len(), 2);
    assert!(given.iter().all(|one| one.node_id != refused.node_id));
    attempt.answer(&AllocateResponseProto {
        num_cluster_nodes: Some(31),
        ..AllocateResponseProto::default()
    });
    let count = |what: &Observation| attempt.observed.iter().filter(|one| *one == what).count();
    assert_eq!(count(&Observation::ShortNodeLists), 1);
    assert_eq!(count(&Observation::AllocatedCompleted), 1);
}

#[test]
fn a_node_that_is_reported_as_gone_gets_no_container() {
    let mut attempt = Attempt::registered();
    let listed = nodes(3);
    let report = |at: usize, state: NodeStateProto| NodeReportProto {
        node_id: listed[at].node_id.clone(),
        node_state: Some(state.into()),
        ..NodeReportProto::default()
    };
    attempt.call(0, Vec::new());
    attempt.send(1, Vec::new()).unwrap();
    let answer = AllocateResponseProto {
        updated_nodes: vec![
            report(0, NodeStateProto::NsLost),
            report(1, NodeStateProto::NsRunning),
            report(2, NodeStateProto::NsDecommissioning),
        ],
        ..AllocateResponseProto::default()
    };
    assert_eq!(attempt.answer(&answer), answer);
    let (_, given) = attempt.send(2, opportunistic(3)).unwrap();
    let hosts: Vec<_> = given.iter().map(|given| given.node_id.clone()).collect();
    assert_eq!(hosts, [listed[1].node_id.clone()]);
}
