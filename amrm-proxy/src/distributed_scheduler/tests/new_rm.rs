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
fn a_last_answer_that_is_lost_twice_is_repeated_without_containers() {
    let mut attempt = Attempt::registered();
    attempt.call(0, opportunistic(1));
    attempt.node_registers();
    attempt.send(0, opportunistic(1)).unwrap();
    attempt.rejoin(2 * START);
    attempt.fail();
    let (_, announced) = attempt.send(0, opportunistic(1)).unwrap();
    assert_eq!(announced, []);
    attempt.answer(&AllocateResponseProto::default());
    assert_eq!(attempt.call(1, Vec::new()).allocated_containers.len(), 1);
}

#[test]
fn a_master_that_registers_again_gets_new_containers_with_its_first_call() {
    let mut attempt = Attempt::registered();
    let (_, lost) = attempt.send(0, opportunistic(2)).unwrap();
    attempt.fail();
    attempt.register(START, 3);
    let (_, announced) = attempt.send(0, opportunistic(2)).unwrap();
    assert_eq!(ids(&lost), [START - 1, START - 2]);
    assert_eq!(ids(&announced), [START - 3, START - 4]);
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
    let mut after = restarted(&before);
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
    let mut asks = opportunistic(30);
    asks.extend(
        ["host1", "host2", "host3"].map(|host| ask(host, 10, ExecutionType::Opportunistic)),
    );
    // More ids than the record of the registration covers.
    for response_id in 0..150 {
        let told = attempt.call(response_id, asks.clone());
        assert_eq!(told.allocated_containers.len(), 30);
        let written = attempt.persisted[&NEXT_ID].as_deref().unwrap();
        let floor = NextIdRecord::from_stored(written).unwrap().floor;
        assert!(ids(&told.allocated_containers).iter().all(|id| *id > floor));
    }
}

/// Restores what an attempt has stored.
fn restarted(before: &Attempt) -> Attempt {
    let mut after = Attempt::new();
    let now = context(0).now;
    for (part, value) in &before.persisted {
        if let Some(value) = value {
            after
                .scheduler
                .restore(ATTEMPT, *part, value, now, &mut Vec::new());
        }
    }
    after
}

/// Returns the containers that an attempt wants after a restart.
fn outstanding(before: &Attempt) -> u64 {
    let gauges = restarted(before).scheduler.gauges();
    gauges.containers_outstanding
}

#[test]
fn asks_are_stored_when_they_come_and_when_they_are_met() {
    let mut attempt = Attempt::registered();
    let keys = attempt.keys.take();
    attempt.call(0, opportunistic(2));
    assert_eq!(outstanding(&attempt), 2);
    attempt.keys = keys;
    attempt.call(1, Vec::new());
    assert_eq!(outstanding(&attempt), 0);
}

#[test]
fn asks_are_stored_once_in_a_second_at_most() {
    let mut attempt = Attempt::registered();
    attempt.call(0, opportunistic(9));
    attempt.persisted.clear();
    // Each call is a second after the last.
    attempt.now_ms -= 500;
    attempt.call(1, Vec::new());
    assert!(!attempt.persisted.contains_key(&ASKS));
    attempt.call(2, Vec::new());
    assert!(attempt.persisted.contains_key(&ASKS));
}

#[test]
fn containers_to_be_given_anew_are_stored_as_asks() {
    // Neither those that no answer confirmed nor those of a lost answer have reached the master.
    let mut unconfirmed = Attempt::registered();
    unconfirmed.send(0, opportunistic(2)).unwrap();
    unconfirmed.fail();
    unconfirmed.keys = None;
    unconfirmed.call(0, Vec::new());
    assert_eq!(outstanding(&unconfirmed), 0);
    unconfirmed.send(1, Vec::new()).unwrap();
    unconfirmed.rejoin(2 * START);
    unconfirmed.answer(&AllocateResponseProto::default());
    assert_eq!(outstanding(&unconfirmed), 2);
    let mut lost = Attempt::registered();
    lost.call(0, opportunistic(2));
    assert_eq!(outstanding(&lost), 0);
    lost.send(0, Vec::new()).unwrap();
    lost.rejoin(2 * START);
    lost.answer(&AllocateResponseProto::default());
    assert_eq!(outstanding(&lost), 2);
}

#[test]
fn a_blacklist_is_stored_until_its_last_host_is_taken_off() {
    let mut attempt = Attempt::registered();
    let host = || vec!["host1".to_owned()];
    let mut change = |additions, removals| {
        let list = ResourceBlacklistRequestProto {
            blacklist_additions: additions,
            blacklist_removals: removals,
        };
        attempt.now_ms += 1_000;
        let mut request = allocate(&AllocateRequestProto {
            blacklist_request: Some(list),
            ..AllocateRequestProto::default()
        });
        let context = context(attempt.now_ms);
        attempt
            .scheduler
            .on_request(&mut request, &context, &mut Requested::new().actions())
            .unwrap();
        attempt.answer(&AllocateResponseProto::default());
        let mut after = restarted(&attempt);
        after.call(1, opportunistic(3));
        after.call(2, Vec::new()).allocated_containers.len()
    };
    assert_eq!(change(host(), Vec::new()), 2);
    assert_eq!(change(Vec::new(), host()), 3);
}

#[test]
fn what_was_kept_and_cannot_be_read_is_dropped() {
    let mut attempt = Attempt::new();
    let now = context(0).now;
    for part in DistributedScheduler::PARTS.iter().copied() {
        attempt
            .scheduler
            .restore(ATTEMPT, part, &[1, 0xff, 0xff], now, &mut Vec::new());
        attempt
            .scheduler
            .restore(ATTEMPT, part, &[], now, &mut Vec::new());
    }
    attempt.register(START, 3);
    assert_eq!(
        attempt.call(0, opportunistic(1)).allocated_containers.len(),
        1
    );
}
