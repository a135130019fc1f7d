//! Containers when the ResourceManager changes, and a restarted agent.

use super::*;

#[test]
fn a_new_epoch_has_its_own_ids_and_the_count_goes_on() {
    let mut attempt = Attempt::registered();
    attempt.call(0, opportunistic(1));
    attempt.register(START, 3);
    attempt.node_registers();
    let told = attempt.call(0, opportunistic(1));
    assert_eq!(ids(&told.allocated_containers), [START - 2]);
    assert_eq!(
        told.nm_tokens.len(),
        1,
        "the master has lost its tokens' books"
    );
    attempt.register(2 * START, 3);
    attempt.node_registers();
    let told = attempt.call(0, opportunistic(1));
    assert_eq!(ids(&told.allocated_containers), [2 * START - 3]);
}

#[test]
fn containers_that_a_new_resource_manager_has_not_heard_of_are_given_anew() {
    let mut attempt = Attempt::registered();
    attempt.call(0, Vec::new());
    let (_, first) = attempt.send(1, opportunistic(2)).unwrap();
    assert_eq!(first.len(), 2);
    attempt.rejoin(2 * START);
    let told = attempt.answer(&AllocateResponseProto::default());
    assert_eq!(told.allocated_containers, []);
    // The node is still registered with the previous ResourceManager, whose tokens would be
    // refused.
    assert_eq!(attempt.call(2, Vec::new()).allocated_containers, []);
    attempt.node_registers();
    let told = attempt.call(3, Vec::new());
    let given = ids(&told.allocated_containers);
    assert_eq!(given, [2 * START - 3, 2 * START - 4]);
    for container in &told.allocated_containers {
        let token = container.container_token.as_ref().unwrap();
        let identifier = ContainerTokenIdentifierProto::decode(&*token.identifier).unwrap();
        assert_eq!(identifier.rm_identifier(), 78);
    }
    assert_eq!(told.nm_tokens.len(), 2);
    assert_eq!(attempt.call(4, Vec::new()).allocated_containers, []);
}

#[test]
fn containers_of_an_answer_that_was_lost_before_a_restart_are_given_anew() {
    let mut attempt = Attempt::registered();
    let lost = attempt.call(0, opportunistic(2));
    attempt.node_registers();
    attempt.send(0, opportunistic(2)).unwrap();
    attempt.rejoin(2 * START);
    let told = attempt.answer(&AllocateResponseProto::default());
    assert_eq!(told.allocated_containers, []);
    let told = attempt.call(1, Vec::new());
    assert_eq!(told.allocated_containers.len(), 2);
    let (lost, given) = (
        ids(&lost.allocated_containers),
        ids(&told.allocated_containers),
    );
    assert!(given.iter().all(|id| !lost.contains(id)));
    assert_eq!(attempt.scheduler.gauges().containers_live, 2);
}

#[test]
fn a_first_call_whose_answer_is_lost_is_sent_again_without_containers() {
    let mut attempt = Attempt::registered();
    attempt.call(0, Vec::new());
    attempt.send(1, opportunistic(1)).unwrap();
    attempt.node_registers();
    attempt.rejoin(2 * START);
    attempt.fail();
    // The ResourceManager may have answered the call, and then ignores anything new in it.
    let (_, announced) = attempt.send(1, Vec::new()).unwrap();
    assert_eq!(announced, []);
    attempt.answer(&AllocateResponseProto::default());
    assert_eq!(attempt.call(2, Vec::new()).allocated_containers.len(), 1);
}

#[test]
fn a_node_whose_resource_manager_stays_the_same_is_not_waited_for_for_ever() {
    let mut attempt = Attempt::registered();
    attempt.call(0, Vec::new());
    attempt.send(1, opportunistic(1)).unwrap();
    attempt.rejoin(START);
    attempt.answer(&AllocateResponseProto::default());
    let calls = (2..100).find(|id| {
        !attempt
            .call(*id, Vec::new())
            .allocated_containers
            .is_empty()
    });
    assert_eq!(calls, Some(61));
}

#[test]
fn a_restarted_agent_goes_on_with_asks_limits_and_unused_ids() {
    let mut before = Attempt::registered();
    let used = ids(&before.call(0, opportunistic(8)).allocated_containers);
    assert_eq!(used.len(), 3, "one for each node");
    let mut after = Attempt::new();
    let now = context(0).now;
    for (part, value) in &before.persisted {
        if let Some(value) = value {
            after.scheduler.restore(ATTEMPT, *part, value, now);
        }
    }
    assert_eq!(after.scheduler.gauges().containers_outstanding, 5);
    // The list of nodes comes with the next answer.
    assert_eq!(after.call(1, Vec::new()).allocated_containers, []);
    let told = after.call(2, Vec::new());
    let next = ids(&told.allocated_containers);
    assert_eq!(next.len(), 3);
    let lowest = used.iter().min().unwrap();
    assert!(next.iter().all(|id| id < lowest), "{used:?} {next:?}");
    let large = ResourceRequestProto {
        capability: Some(Resource::new(4096, 1).into()),
        ..ask("*", 1, ExecutionType::Opportunistic)
    };
    let told = after.call(3, vec![large]).allocated_containers;
    assert_eq!(largest_mb(&told), LARGEST_MB);
}

#[test]
fn ids_are_written_down_before_they_are_used() {
    let mut attempt = Attempt::registered();
    for response_id in 0..500 {
        let told = attempt.call(response_id, opportunistic(3));
        let written = attempt.persisted[&Part::NextId].as_deref().unwrap();
        let floor = NextIdRecord::from_stored(written).unwrap().floor;
        assert!(ids(&told.allocated_containers).iter().all(|id| *id > floor));
    }
}

#[test]
fn what_was_kept_and_cannot_be_read_is_dropped() {
    let mut attempt = Attempt::new();
    let now = context(0).now;
    for part in Part::ALL {
        attempt
            .scheduler
            .restore(ATTEMPT, part, &[1, 0xff, 0xff], now);
        attempt.scheduler.restore(ATTEMPT, part, &[], now);
    }
    attempt.register(START, 3);
    assert_eq!(
        attempt.call(0, opportunistic(1)).allocated_containers.len(),
        1
    );
}
