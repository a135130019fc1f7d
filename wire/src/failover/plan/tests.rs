use std::sync::Arc;

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::*;
use crate::client::LossReason;

const POLICY: Policy = Policy {
    pauses: Pauses::NODE,
    interval_max: Duration::from_secs(30),
    give_up_after: None,
    reactions: Reactions::REPEATABLE,
};

fn failed(failure: Failure, began: Instant) -> Failed {
    Failed {
        failure,
        began,
        deadline: None,
    }
}

/// The steps after so many failures in one moment.
fn steps(policy: Policy, endpoints: usize, count: usize) -> Vec<(usize, Duration)> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut plan = Plan::new(policy, endpoints);
    let now = Instant::now();
    let step = |_| match plan.failed(failed(Failure::Unreachable, now), now, &mut rng) {
        Step::Retry { endpoint, pause } => (endpoint, pause),
        other @ (Step::Return | Step::GiveUp { .. }) => panic!("{other:?}"),
    };
    (0..count).map(step).collect()
}

#[test]
fn pauses_grow_from_a_second_to_half_of_what_a_restarted_rm_waits() {
    let nominals = [1, 2, 4, 5, 5, 5, 5, 5].map(Duration::from_secs);
    for ((_, pause), nominal) in steps(POLICY, 1, 8).into_iter().zip(nominals) {
        assert!(pause >= nominal / 2 && pause <= nominal, "{pause:?}");
    }
}

#[test]
fn callers_do_not_come_back_in_step() {
    let steps = steps(POLICY, 1, 100);
    let last: std::collections::BTreeSet<_> = steps[50..].iter().collect();
    assert!(last.len() > 40, "{last:?}");
}

#[test]
fn a_shorter_configured_interval_applies() {
    let policy = Policy {
        interval_max: Duration::from_millis(100),
        ..POLICY
    };
    let is_short = |(_, pause): &(usize, Duration)| *pause <= policy.interval_max;
    assert!(steps(policy, 1, 5).iter().all(is_short));
}

#[test]
fn every_endpoint_is_tried_in_turn_before_a_pause() {
    let steps = steps(POLICY, 3, 6);
    let order: Vec<_> = steps.iter().map(|(endpoint, _)| *endpoint).collect();
    assert_eq!(order, [1, 2, 0, 1, 2, 0]);
    let is_zero: Vec<_> = steps.iter().map(|(_, pause)| pause.is_zero()).collect();
    assert_eq!(is_zero, [true, true, false, true, true, false]);
    // As long as with one endpoint: rounds count, not failures.
    for (step, nominal) in [(2, 1), (5, 2)] {
        let (pause, nominal) = (steps[step].1, Duration::from_secs(nominal));
        assert!(pause >= nominal / 2 && pause <= nominal, "{pause:?}");
    }
}

#[test]
fn only_a_connection_that_was_open_before_the_call_is_stale() {
    let lost = RpcError::ConnectionLost {
        address: ([127, 0, 0, 1], 1).into(),
        reason: Arc::new(LossReason::ClosedByServer),
    };
    assert_eq!(Failure::of(&lost, true), Failure::Stale);
    // A server that closes each new connection is no better than none.
    assert_eq!(Failure::of(&lost, false), Failure::Unreachable);
}

#[test]
fn only_an_active_server_is_busy_or_refuses() {
    for failure in [Failure::Busy, Failure::Refused] {
        assert!(failure.is_of_active(), "{failure:?}");
    }
    for failure in [
        Failure::Stale,
        Failure::Unreachable,
        Failure::Standby,
        Failure::Unusable,
    ] {
        assert!(!failure.is_of_active(), "{failure:?}");
    }
}

#[test]
fn the_limit_counts_from_the_first_failure_until_an_answer_and_the_last_try_is_at_it() {
    let policy = Policy {
        give_up_after: Some(Duration::from_secs(10)),
        ..POLICY
    };
    let mut rng = StdRng::seed_from_u64(1);
    let mut plan = Plan::new(policy, 1);
    let began = Instant::now();
    let at = |ms| began + Duration::from_millis(ms);
    let mut fail = |plan: &mut Plan, from, to| {
        plan.failed(failed(Failure::Unreachable, at(from)), at(to), &mut rng)
    };
    assert!(matches!(fail(&mut plan, 0, 1_000), Step::Retry { .. }));
    let last = Step::Retry {
        endpoint: 0,
        pause: Duration::from_millis(50),
    };
    assert_eq!(fail(&mut plan, 9_900, 9_950), last);
    assert_eq!(plan.failing_for(at(9_950)), Some(at(9_950) - began));
    plan.answered();
    assert_eq!(plan.failing_for(at(9_950)), None);
    assert!(matches!(
        fail(&mut plan, 10_000, 12_000),
        Step::Retry { .. }
    ));
    let waited = Duration::from_secs(10);
    assert_eq!(fail(&mut plan, 19_000, 20_000), Step::GiveUp { waited });
}

#[test]
fn no_pause_ends_at_or_after_the_deadline() {
    let now = Instant::now();
    let mut plan = Plan::new(POLICY, 1);
    let failed = Failed {
        deadline: Some(now + Duration::from_millis(400)),
        ..failed(Failure::Unreachable, now)
    };
    let step = plan.failed(failed, now, &mut StdRng::seed_from_u64(1));
    let waited = Duration::ZERO;
    assert_eq!(step, Step::GiveUp { waited });
}

fn failures() -> impl Strategy<Value = Failure> {
    prop_oneof![
        Just(Failure::Stale),
        Just(Failure::Unreachable),
        Just(Failure::Standby),
        Just(Failure::Busy),
        Just(Failure::Refused),
        Just(Failure::Unusable),
    ]
}

fn reactions() -> impl Strategy<Value = Reactions> {
    let reaction = || {
        prop_oneof![
            Just(Reaction::Return),
            Just(Reaction::Again),
            Just(Reaction::Stay),
            Just(Reaction::Leave),
        ]
    };
    (reaction(), reaction(), reaction(), reaction()).prop_map(|(stale, busy, refused, unusable)| {
        Reactions {
            stale,
            busy,
            refused,
            unusable,
        }
    })
}

/// The inputs of a plan; times in milliseconds.
#[derive(Clone, Debug)]
enum Event {
    Answered,
    Refused,
    MoveTo(usize),
    Failed {
        failure: Failure,
        took: u64,
        deadline_after: Option<u64>,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let failed = (
        failures(),
        0..3_000_u64,
        proptest::option::of(0..20_000_u64),
    );
    prop_oneof![
        1 => Just(Event::Answered),
        1 => Just(Event::Refused),
        1 => (0..9_usize).prop_map(Event::MoveTo),
        9 => failed.prop_map(|(failure, took, deadline_after)| Event::Failed {
            failure,
            took,
            deadline_after,
        }),
    ]
}

/// The state that a plan should have, in the plainest form.
#[derive(Default)]
struct Model {
    endpoint: usize,
    failing_since: Option<Instant>,
    failures: usize,
    is_failing: bool,
}

proptest! {
    /// Any events, in any order, against [`Model`].
    #[test]
    fn a_plan_goes_round_pauses_once_a_round_and_ends_only_at_a_limit(
        endpoints in 1..5_usize,
        limit_ms in proptest::option::of(0..30_000_u64),
        interval_ms in 0..10_000_u64,
        reactions in reactions(),
        events in proptest::collection::vec(events(), 0..60),
        seed in any::<u64>(),
    ) {
        let policy = Policy {
            interval_max: Duration::from_millis(interval_ms),
            give_up_after: limit_ms.map(Duration::from_millis),
            reactions,
            ..POLICY
        };
        let mut rng = StdRng::seed_from_u64(seed);
        let mut plan = Plan::new(policy, endpoints);
        let mut model = Model::default();
        let mut now = Instant::now();
        for event in events {
            prop_assert_eq!(plan.is_failing(), model.is_failing);
            match event {
                Event::Answered => {
                    plan.answered();
                    model = Model { endpoint: model.endpoint, ..Model::default() };
                }
                Event::Refused => {
                    plan.refused();
                    let endpoint = model.endpoint;
                    model = Model { endpoint, is_failing: true, ..Model::default() };
                }
                Event::MoveTo(endpoint) => {
                    plan.move_to(endpoint);
                    model.endpoint = endpoint % endpoints;
                }
                Event::Failed { failure, took, deadline_after } => {
                    let began = now;
                    now += Duration::from_millis(took);
                    let deadline = deadline_after.map(|after| now + Duration::from_millis(after));
                    let step = plan.failed(Failed { failure, began, deadline }, now, &mut rng);
                    let (counted, leaves) = match reactions.to(failure) {
                        Reaction::Return => {
                            prop_assert_eq!(step, Step::Return);
                            continue;
                        }
                        Reaction::Again => (false, false),
                        Reaction::Stay => (true, false),
                        Reaction::Leave => (true, true),
                    };
                    if counted {
                        model.failures += 1;
                        model.is_failing = true;
                        model.failing_since.get_or_insert(began);
                    }
                    if leaves {
                        model.endpoint = (model.endpoint + 1) % endpoints;
                    }
                    let waited = model.failing_since.map(|since| now - since);
                    prop_assert_eq!(plan.failing_for(now), waited);
                    match step {
                        Step::Return => prop_assert!(false, "only for Reaction::Return"),
                        Step::GiveUp { waited: told } => {
                            prop_assert_eq!(Some(told), waited);
                            let limit = policy.give_up_after.is_some_and(|limit| told >= limit);
                            let max = policy.pauses.max.min(policy.interval_max);
                            prop_assert!(limit || deadline.is_some_and(|d| d <= now + max));
                        }
                        Step::Retry { endpoint, pause } => {
                            prop_assert_eq!(endpoint, model.endpoint);
                            let limit = policy.give_up_after;
                            if counted && let Some(limit) = limit {
                                prop_assert!(waited.unwrap() + pause <= limit);
                            }
                            prop_assert!(pause <= policy.pauses.max.min(policy.interval_max));
                            let ends_round = counted && model.failures.is_multiple_of(endpoints);
                            prop_assert!(ends_round || pause.is_zero());
                            let may_be_zero = !ends_round || interval_ms == 0;
                            prop_assert!(may_be_zero || !pause.is_zero());
                            now += pause;
                        }
                    }
                    prop_assert_eq!(plan.endpoint(), model.endpoint);
                }
            }
        }
    }
}
