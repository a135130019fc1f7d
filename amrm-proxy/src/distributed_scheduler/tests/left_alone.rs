//! Asks that the scheduler leaves to the ResourceManager, and the state that a refused call leaves
//! unchanged.

use wire::proto::hadoop_yarn::{ResourceInformationProto, ResourceProto};

use super::*;

fn with_gpus(count: i64) -> ResourceRequestProto {
    let mut size = ResourceProto::from(Resource::new(200, 1));
    size.resource_value_map.push(ResourceInformationProto {
        key: "yarn.io/gpu".to_owned(),
        value: Some(count),
        ..ResourceInformationProto::default()
    });
    ResourceRequestProto {
        capability: Some(size),
        ..ask("*", 1, ExecutionType::Opportunistic)
    }
}

#[test]
fn asks_for_more_than_memory_and_cores_are_the_resource_managers() {
    let mut attempt = Attempt::registered();
    let asks = vec![with_gpus(2), with_gpus(0)];
    let (passed, announced) = attempt.send(0, asks).unwrap();
    assert_eq!(passed.ask, [with_gpus(2)]);
    assert_eq!(announced.len(), 1);
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
}

#[test]
fn without_a_grant_all_asks_are_the_resource_managers() {
    let mut attempt = Attempt::new();
    let (passed, announced) = attempt.send(0, opportunistic(2)).unwrap();
    assert_eq!(passed.ask, opportunistic(2));
    assert_eq!(announced, []);
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
}

#[test]
fn of_a_call_whose_blacklist_is_refused_no_ask_is_in_force() {
    let mut attempt = Attempt::registered();
    let list = ResourceBlacklistRequestProto {
        blacklist_additions: vec!["host1".to_owned(), "x".repeat(1000)],
        blacklist_removals: Vec::new(),
    };
    let mut request = allocate(&AllocateRequestProto {
        ask: opportunistic(3),
        blacklist_request: Some(list),
        ..AllocateRequestProto::default()
    });
    let refusal = attempt
        .scheduler
        .on_request(&mut request, &context(1), &mut Requested::new().actions())
        .unwrap_err();
    assert!(
        refusal.is(HadoopException::InvalidResourceBlacklistRequest),
        "{refusal}"
    );
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
    let told = attempt.call(0, opportunistic(3));
    assert_eq!(told.allocated_containers.len(), 3, "no host is on the list");
}

#[test]
fn of_a_call_with_too_many_asks_none_is_in_force() {
    let mut attempt = Attempt::registered();
    let asks = (0_i64..).take(sched::ASKS_MAX + 1);
    let asks = asks.map(|id| ResourceRequestProto {
        allocation_request_id: Some(id),
        ..ask("*", 1, ExecutionType::Opportunistic)
    });
    let refusal = attempt.send(0, asks.collect()).unwrap_err();
    assert!(
        refusal.is(HadoopException::InvalidResourceRequest),
        "{refusal}"
    );
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
}

#[test]
fn a_token_of_the_resource_manager_that_cannot_be_read_is_not_relied_on() {
    let mut attempt = Attempt::registered();
    attempt.send(0, opportunistic(1)).unwrap();
    let mut broken = token_of_the_rm("host1", 1);
    broken.token.as_mut().unwrap().identifier = Bytes::from_static(b"\xff");
    let told = attempt.answer(&AllocateResponseProto {
        nm_tokens: vec![broken],
        ..AllocateResponseProto::default()
    });
    assert_eq!(told.nm_tokens.len(), 2);
}

#[test]
fn the_first_ids_of_a_new_epoch_are_written_down_before_they_are_used() {
    let mut attempt = Attempt::registered();
    attempt.call(0, opportunistic(3));
    let floor_of = |attempt: &Attempt| {
        let record = attempt.persisted[&NEXT_ID].clone().unwrap();
        NextIdRecord::from_stored(&record).unwrap().floor
    };
    let ahead = START - floor_of(&attempt);
    attempt.register(2 * START, 3);
    assert_eq!(floor_of(&attempt), 2 * START - 3 - ahead);
}

#[test]
fn asks_that_the_same_containers_answer_are_lowered_by_their_own_only() {
    let mut attempt = Attempt::registered();
    let sized = |memory_mb| ResourceRequestProto {
        capability: Some(Resource::new(memory_mb, 1).into()),
        ..ask("*", 2, ExecutionType::Opportunistic)
    };
    // Both get containers of 256 MB. Three nodes: two for the first size, one for the second.
    let asks = vec![sized(150), sized(200)];
    let (_, first) = attempt.send(0, asks.clone()).unwrap();
    assert_eq!(first.len(), 3);
    attempt.fail();
    let (_, again) = attempt.send(0, asks).unwrap();
    assert_eq!(ids(&again), ids(&first));
    assert_eq!(attempt.scheduler.gauges().containers_outstanding, 1);
}
