//! Tests of the throttle alone, without a pipeline.

use proptest::prelude::*;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ResourceProto,
};

use super::*;
use crate::testing::{Requested, allocate, answer, context};

const CONFIG: ThrottleConfig = ThrottleConfig {
    calls_per_second_max: 10,
    calls_burst: 5,
    asks_per_call_max: 4,
    containers_outstanding_max: 100,
};

fn ask(priority: i32, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(PriorityProto {
            priority: Some(priority),
        }),
        resource_name: Some("*".to_owned()),
        num_containers: Some(count),
        capability: Some(ResourceProto {
            memory: Some(1024),
            ..ResourceProto::default()
        }),
        ..ResourceRequestProto::default()
    }
}

fn with_asks(asks: Vec<ResourceRequestProto>) -> Request {
    allocate(&AllocateRequestProto {
        ask: asks,
        ..AllocateRequestProto::default()
    })
}

fn call(
    throttle: &mut Throttle,
    at_ms: u64,
    asks: Vec<ResourceRequestProto>,
) -> Result<u64, RemoteException> {
    let mut request = with_asks(asks);
    throttle
        .on_request(
            &mut request,
            &context(at_ms),
            &mut Requested::new().actions(),
        )
        .map(|pass| pass.delay_ms)
}

fn got(throttle: &mut Throttle, priority: i32, containers: usize) {
    let container = ContainerProto {
        priority: Some(priority.into()),
        ..ContainerProto::default()
    };
    let mut outcome = Ok(answer(&AllocateResponseProto {
        allocated_containers: vec![container; containers],
        ..AllocateResponseProto::default()
    }));
    throttle.on_response(
        AmMethod::Allocate,
        &mut outcome,
        &context(0),
        &mut Requested::new().actions(),
    );
}

#[test]
fn a_master_that_heartbeats_is_never_delayed() {
    let mut throttle = Throttle::new(CONFIG);
    for call_number in 0..1000 {
        assert_eq!(
            call(&mut throttle, call_number * 100, Vec::new()).unwrap(),
            0
        );
    }
}

#[test]
fn a_call_that_says_much_counts_as_several() {
    let mut throttle = Throttle::new(CONFIG);
    let long_name = ResourceRequestProto {
        resource_name: Some("x".repeat(20 * BYTES_PER_CALL)),
        ..ask(1, 1)
    };
    // Twenty-one calls at ten a second, of which five are free.
    let delay_ms = call(&mut throttle, 0, vec![long_name]).unwrap();
    assert_eq!(delay_ms, 1600);
}

#[test]
fn an_empty_call_of_a_master_with_many_asks_counts_as_several() {
    let config = ThrottleConfig {
        asks_per_call_max: 100_000,
        containers_outstanding_max: 1_000_000,
        ..CONFIG
    };
    let mut throttle = Throttle::new(config);
    let asks = (0_i32..)
        .take(10 * ASKS_PER_CALL)
        .map(|priority| ask(priority, 1));
    call(&mut throttle, 0, asks.collect()).unwrap();
    let delay_ms = call(&mut throttle, 1_000_000, Vec::new()).unwrap();
    assert_eq!(delay_ms, 600);
}

#[test]
fn a_master_that_calls_without_pause_is_slowed_to_the_rate() {
    let mut throttle = Throttle::new(CONFIG);
    let mut now = 0;
    for _ in 0..105 {
        now += call(&mut throttle, now, Vec::new()).unwrap();
    }
    // Five at once, a hundred more at ten a second.
    assert_eq!(now, 10_000);
}

#[test]
fn a_rate_of_nothing_means_any_rate() {
    let mut throttle = Throttle::new(ThrottleConfig {
        calls_per_second_max: 0,
        ..CONFIG
    });
    for _ in 0..1000 {
        assert_eq!(call(&mut throttle, 0, Vec::new()).unwrap(), 0);
    }
}

#[test]
fn too_many_lines_are_refused_as_a_bad_ask() {
    let mut throttle = Throttle::new(CONFIG);
    let refusal = call(&mut throttle, 0, vec![ask(1, 1); 5]).unwrap_err();
    assert!(
        refusal.is(HadoopException::InvalidResourceRequest),
        "{refusal}"
    );
    assert!(call(&mut throttle, 0, vec![ask(1, 1); 4]).is_ok());
}

#[test]
fn asks_are_absolute_so_repeating_one_costs_nothing() {
    let mut throttle = Throttle::new(CONFIG);
    for _ in 0..10 {
        assert!(call(&mut throttle, 0, vec![ask(1, 60), ask(1, 60)]).is_ok());
    }
    let refusal = call(&mut throttle, 0, vec![ask(2, 41)]).unwrap_err();
    assert!(
        refusal.is(HadoopException::InvalidResourceRequest),
        "{refusal}"
    );
    assert!(call(&mut throttle, 0, vec![ask(2, 40)]).is_ok());
}

#[test]
fn containers_that_came_are_outstanding_no_more() {
    let mut throttle = Throttle::new(CONFIG);
    assert!(call(&mut throttle, 0, vec![ask(1, 100)]).is_ok());
    assert!(call(&mut throttle, 0, vec![ask(2, 10)]).is_err());
    got(&mut throttle, 1, 10);
    assert!(call(&mut throttle, 0, vec![ask(2, 10)]).is_ok());
}

#[test]
fn asks_that_are_withdrawn_are_outstanding_no_more() {
    let mut throttle = Throttle::new(CONFIG);
    assert!(call(&mut throttle, 0, vec![ask(1, 100)]).is_ok());
    assert!(call(&mut throttle, 0, vec![ask(1, 0)]).is_ok());
    assert!(throttle.outstanding.is_empty(), "{throttle:?}");
    assert!(call(&mut throttle, 0, vec![ask(2, 100)]).is_ok());
}

#[test]
fn a_line_for_a_host_does_not_replace_its_asks_total() {
    let mut throttle = Throttle::new(CONFIG);
    let on_host = ResourceRequestProto {
        resource_name: Some("h1".to_owned()),
        ..ask(1, 1)
    };
    assert!(call(&mut throttle, 0, vec![ask(1, 100), on_host]).is_ok());
    assert!(call(&mut throttle, 0, vec![ask(2, 1)]).is_err());
}

#[test]
fn the_table_of_asks_is_bounded() {
    let mut throttle = Throttle::new(ThrottleConfig {
        asks_per_call_max: ASKS_COUNTED_MAX + 1,
        containers_outstanding_max: 1_000_000,
        ..CONFIG
    });
    let asks = (0_i32..).map(|priority| ask(priority, 1));
    call(&mut throttle, 0, asks.take(ASKS_COUNTED_MAX + 1).collect()).unwrap();
    assert_eq!(throttle.outstanding.len(), ASKS_COUNTED_MAX);
}

#[test]
fn a_call_that_is_delayed_is_counted_and_no_other() {
    let mut throttle = Throttle::new(CONFIG);
    let mut actions = Requested::new();
    for call_number in 1..=CONFIG.calls_burst + 1 {
        assert!(actions.chain.is_empty(), "before call {call_number}");
        throttle
            .on_request(
                &mut with_asks(Vec::new()),
                &context(0),
                &mut actions.actions(),
            )
            .unwrap();
    }
    let delayed = Observation::Throttled(ThrottleReason::CallRate);
    assert_eq!(actions.chain, [Action::Observe(delayed)]);
}

#[test]
fn who_is_over_the_limit_may_still_ask_for_less() {
    let mut throttle = Throttle::new(CONFIG);
    assert!(call(&mut throttle, 0, vec![ask(1, 100)]).is_ok());
    throttle.config.containers_outstanding_max = 10;
    assert!(call(&mut throttle, 0, Vec::new()).is_ok());
    assert!(call(&mut throttle, 0, vec![ask(1, 90)]).is_ok());
}

#[test]
fn a_master_that_registers_again_begins_anew() {
    let mut throttle = Throttle::new(CONFIG);
    assert!(call(&mut throttle, 0, vec![ask(1, 100)]).is_ok());
    let mut register = Request {
        method: AmMethod::Register,
        ..with_asks(Vec::new())
    };
    throttle
        .on_request(&mut register, &context(0), &mut Requested::new().actions())
        .unwrap();
    assert!(call(&mut throttle, 0, vec![ask(2, 100)]).is_ok());
    // The asks from before count neither for nor against later ones.
    assert!(call(&mut throttle, 0, vec![ask(1, 1)]).is_err());
}

proptest! {
    #[test]
    fn the_total_is_the_sum_of_what_is_remembered(
        steps in proptest::collection::vec((0..5_i32, 0..40_i32, any::<bool>()), 0..100),
    ) {
        let mut throttle = Throttle::new(CONFIG);
        for (priority, count, is_answer) in steps {
            if is_answer {
                got(&mut throttle, priority, usize::try_from(count).unwrap());
            } else {
                let _ = call(&mut throttle, 0, vec![ask(priority, count)]);
            }
            prop_assert_eq!(throttle.total, throttle.outstanding.values().sum::<u64>());
            prop_assert!(throttle.total <= CONFIG.containers_outstanding_max);
        }
    }

    #[test]
    fn delays_never_exceed_what_the_rate_asks_for(gaps in proptest::collection::vec(0..500_u64, 1..100)) {
        let mut throttle = Throttle::new(CONFIG);
        let mut now = 0;
        for gap in gaps {
            // The next call comes after the answer to this one.
            let delay = call(&mut throttle, now, Vec::new()).unwrap();
            prop_assert!(delay <= 100, "one call's share of a second");
            now += delay + gap;
        }
    }
}
