//! Calls that fail, are repeated, or are abandoned.

use super::*;

#[test]
fn what_a_failed_call_gave_out_goes_with_the_next_and_is_not_given_again() {
    let mut attempt = Attempt::registered();
    let (_, first) = attempt.send(0, opportunistic(2)).unwrap();
    attempt.fail();
    // The AM states the asks of a failed call again.
    let (_, second) = attempt.send(0, opportunistic(2)).unwrap();
    assert_eq!(ids(&first), ids(&second));
    let told = attempt.answer(&AllocateResponseProto::default());
    assert_eq!(ids(&told.allocated_containers), ids(&first));
    assert_eq!(attempt.call(1, Vec::new()).allocated_containers, []);
}

#[test]
fn a_master_that_missed_an_answer_gets_it_again_and_nothing_more() {
    let mut attempt = Attempt::registered();
    let first = attempt.call(0, opportunistic(2));
    let (passed, announced) = attempt.send(0, opportunistic(2)).unwrap();
    assert_eq!((passed.ask, announced), (Vec::new(), Vec::new()));
    let again = attempt.answer(&AllocateResponseProto::default());
    assert_eq!(again, first);
    assert_eq!(attempt.call(1, Vec::new()).allocated_containers, []);
    assert_eq!(attempt.scheduler.gauges().containers_live, 2);
}

#[test]
fn containers_that_could_not_go_along_go_with_a_later_call() {
    let mut attempt = Attempt::registered();
    let (_, first) = attempt.send(0, opportunistic(2)).unwrap();
    attempt.fail();
    attempt.keys = None;
    assert_eq!(attempt.call(0, opportunistic(2)).allocated_containers, []);
    attempt.keys = Some(keys(1));
    let told = attempt.call(1, Vec::new());
    assert_eq!(ids(&told.allocated_containers), ids(&first));
}

/// Fate of one call.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Delivered,
    /// The ResourceManager does not answer this node.
    RmFails,
    /// This node's answer does not reach the AM.
    AnswerLost,
    /// The call is abandoned half-way.
    GivenUp,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Delivered),
        1 => Just(Fate::RmFails),
        1 => Just(Fate::AnswerLost),
        1 => Just(Fate::GivenUp),
    ]
}

proptest! {
    /// An AM like Hadoop's library: its counts are absolute, and counts of an unanswered call are
    /// stated again.
    #[test]
    fn every_container_comes_once_whatever_becomes_of_calls(
        steps in proptest::collection::vec((0..5_i32, fate()), 1..60),
    ) {
        let mut attempt = Attempt::registered();
        let (mut wanted, mut response_id) = (0, 0);
        let mut received = BTreeSet::new();
        let mut restate = false;
        let mut known_to_rm = BTreeSet::new();
        let settle = std::iter::repeat_n((0, Fate::Delivered), 100);
        for (more, fate) in steps.into_iter().chain(settle) {
            wanted += more;
            let outstanding = wanted - i32::try_from(received.len()).unwrap();
            let states = restate || more > 0;
            let asks = if states { opportunistic(outstanding) } else { Vec::new() };
            let (_, announced) = attempt.send(response_id, asks).unwrap();
            restate = states && !matches!(fate, Fate::Delivered);
            match fate {
                Fate::RmFails => attempt.fail(),
                Fate::GivenUp => {}
                Fate::Delivered | Fate::AnswerLost => {
                    known_to_rm.extend(ids(&announced));
                    let told = attempt.answer(&AllocateResponseProto::default());
                    if let Fate::Delivered = fate {
                        response_id += 1;
                        for id in ids(&told.allocated_containers) {
                            prop_assert!(received.insert(id), "{id} twice");
                            prop_assert!(known_to_rm.contains(&id), "the RM would kill {id}");
                        }
                    }
                }
            }
        }
        prop_assert_eq!(i32::try_from(received.len()).unwrap(), wanted);
        prop_assert_eq!(attempt.scheduler.gauges().containers_outstanding, 0);
    }
}

#[test]
fn a_call_sent_again_asks_for_no_more_than_it_did() {
    let mut attempt = Attempt::registered();
    let smallest = ResourceRequestProto {
        capability: Some(Resource::new(0, 0).into()),
        ..ask("*", 2, ExecutionType::Opportunistic)
    };
    let at_host = ResourceRequestProto {
        resource_name: Some("host1".to_owned()),
        ..smallest.clone()
    };
    let asks = vec![smallest, at_host];
    let (_, first) = attempt.send(0, asks.clone()).unwrap();
    attempt.fail();
    let (_, again) = attempt.send(0, asks).unwrap();
    assert_eq!(again, first);
    let allocator = &attempt.scheduler.allocator;
    assert_eq!(allocator.asks().requests().next(), None);
}

#[test]
fn an_old_call_that_is_repeated_drops_no_container_and_brings_the_newest_nodes() {
    let mut attempt = Attempt::registered();
    attempt.call(0, Vec::new());
    let (_, unconfirmed) = attempt.send(1, opportunistic(2)).unwrap();
    attempt.fail();
    attempt.call(0, Vec::new());
    let told = attempt.call(1, Vec::new());
    assert_eq!(told.allocated_containers, unconfirmed);
    attempt.call(1, Vec::new());
    let now = MonoMillis(attempt.now_ms);
    assert_eq!(attempt.scheduler.gauges().nodes_at, Some(now));
}

#[test]
fn a_master_that_finishes_gets_no_more_containers() {
    let mut attempt = Attempt::registered();
    attempt.call(0, opportunistic(9));
    let mut request = allocate(&AllocateRequestProto::default());
    request.method = AmMethod::Finish;
    let keys = keys(1);
    let context = Context {
        keys: Some(&keys),
        ..context(attempt.now_ms)
    };
    let passed =
        attempt
            .scheduler
            .on_request(&mut request, &context, &mut Requested::new().actions());
    assert!(passed.is_ok() && request.notes.get::<AllocatedContainers>().is_none());
}
