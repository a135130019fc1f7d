//! Tests of the rules, without a pipeline.

use proptest::prelude::*;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerIdProto, ExecutionTypeRequestProto,
};

use super::*;
use crate::testing::{ATTEMPT, allocate, answer, context};

fn rule(percent: u8) -> RelabelRule {
    RelabelRule {
        name: "batch".to_owned(),
        user: None,
        tag: None,
        priority_min: 1,
        priority_max: 10,
        percent,
        promote_after_ms: Some(1000),
    }
}

fn relabel(percent: u8) -> Relabel {
    Relabel::new(&[rule(percent)], "alice", &[]).unwrap()
}

fn ask(priority: i32, name: &str, count: i32) -> ResourceRequestProto {
    ResourceRequestProto {
        priority: Some(priority.into()),
        resource_name: Some(name.to_owned()),
        num_containers: Some(count),
        ..ResourceRequestProto::default()
    }
}

/// Name, count and type of each ask that goes on.
fn passed(
    relabel: &mut Relabel,
    asks: Vec<ResourceRequestProto>,
) -> Vec<(String, i32, ExecutionTypeProto)> {
    let mut request = allocate(&AllocateRequestProto {
        ask: asks,
        ..AllocateRequestProto::default()
    });
    relabel
        .on_request(&mut request, &context(0), &mut Vec::new())
        .unwrap();
    let read = AllocateRequestProto::decode(request.message.encode()).unwrap();
    let describe = |ask: ResourceRequestProto| {
        let kind = ask.execution_type_request.unwrap_or_default();
        (
            ask.resource_name().to_owned(),
            ask.num_containers(),
            kind.execution_type(),
        )
    };
    read.ask.into_iter().map(describe).collect()
}

use ExecutionTypeProto::{Guaranteed, Opportunistic};

#[test]
fn a_rule_for_all_makes_every_line_opportunistic() {
    let lines = passed(
        &mut relabel(100),
        vec![ask(1, "*", 5), ask(1, "host", 2), ask(1, "*", 0)],
    );
    let expected = [("*", 5), ("host", 2), ("*", 0)];
    assert_eq!(lines.len(), 3);
    for (line, (name, count)) in lines.iter().zip(expected) {
        assert_eq!(*line, (name.to_owned(), count, Opportunistic));
    }
}

#[test]
fn a_share_states_both_parts_even_of_nothing() {
    let lines = passed(&mut relabel(40), vec![ask(1, "*", 5)]);
    assert_eq!(
        lines,
        [
            ("*".to_owned(), 3, Guaranteed),
            ("*".to_owned(), 2, Opportunistic)
        ]
    );
    let lines = passed(&mut relabel(40), vec![ask(1, "*", 0)]);
    assert_eq!(
        lines,
        [
            ("*".to_owned(), 0, Guaranteed),
            ("*".to_owned(), 0, Opportunistic)
        ]
    );
}

#[test]
fn asks_outside_the_rule_or_with_a_mind_of_their_own_are_left() {
    let mut own = ask(1, "*", 5);
    own.execution_type_request = Some(ExecutionTypeRequestProto {
        execution_type: Some(Guaranteed.into()),
        enforce_execution_type: Some(true),
    });
    let mut other = ask(1, "*", 6);
    other.execution_type_request = Some(ExecutionTypeRequestProto {
        execution_type: Some(Opportunistic.into()),
        enforce_execution_type: Some(false),
    });
    let lines = passed(
        &mut relabel(50),
        vec![ask(0, "*", 1), ask(11, "*", 2), ask(1, "*", -3), own, other],
    );
    let counts: Vec<_> = lines
        .iter()
        .map(|(_, count, kind)| (*count, *kind))
        .collect();
    assert_eq!(
        counts,
        [
            (1, Guaranteed),
            (2, Guaranteed),
            (-3, Guaranteed),
            (5, Guaranteed),
            (6, Opportunistic)
        ]
    );
}

#[test]
fn rules_apply_to_their_users_and_tags() {
    let of_user = RelabelRule {
        user: Some("bob".to_owned()),
        ..rule(100)
    };
    let of_tag = RelabelRule {
        tag: Some("nightly".to_owned()),
        ..rule(100)
    };
    let rules = [of_user, of_tag];
    assert!(Relabel::new(&rules, "alice", &[]).is_none());
    assert_eq!(Relabel::new(&rules, "bob", &[]).unwrap().rules.len(), 1);
    let tags = ["nightly".to_owned()];
    assert_eq!(Relabel::new(&rules, "bob", &tags).unwrap().rules.len(), 2);
}

fn container(id: i64) -> ContainerProto {
    ContainerProto {
        id: Some(container_id(id)),
        priority: Some(1.into()),
        execution_type: Some(Opportunistic.into()),
        ..ContainerProto::default()
    }
}

fn container_id(id: i64) -> ContainerIdProto {
    ContainerId {
        attempt: ATTEMPT,
        id,
    }
    .into()
}

fn promotions(relabel: &mut Relabel, at_ms: u64) -> Vec<UpdateContainerRequestProto> {
    let mut request = allocate(&AllocateRequestProto::default());
    relabel
        .on_request(&mut request, &context(at_ms), &mut Vec::new())
        .unwrap();
    AllocateRequestProto::decode(request.message.encode())
        .unwrap()
        .update_requests
}

fn answered(
    relabel: &mut Relabel,
    at_ms: u64,
    message: &AllocateResponseProto,
) -> AllocateResponseProto {
    let mut outcome = Ok(answer(message));
    relabel.on_response(
        AmMethod::Allocate,
        &mut outcome,
        &context(at_ms),
        &mut Vec::new(),
    );
    AllocateResponseProto::decode(outcome.unwrap().message.encode()).unwrap()
}

fn with_containers(ids: &[i64]) -> AllocateResponseProto {
    AllocateResponseProto {
        allocated_containers: ids.iter().map(|id| container(*id)).collect(),
        ..AllocateResponseProto::default()
    }
}

#[test]
fn what_has_run_long_is_promoted_once_and_the_master_hears_nothing_of_it() {
    let mut relabel = relabel(100);
    let response = with_containers(&[7, 8]);
    assert_eq!(answered(&mut relabel, 0, &response), response);
    assert_eq!(promotions(&mut relabel, 999), []);
    let ended = AllocateResponseProto {
        completed_container_statuses: vec![ContainerStatusProto {
            container_id: Some(container_id(8)),
            ..ContainerStatusProto::default()
        }],
        ..AllocateResponseProto::default()
    };
    assert_eq!(answered(&mut relabel, 999, &ended), ended);
    let asked = promotions(&mut relabel, 1000);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].container_id, container_id(7));
    assert_eq!(
        asked[0].update_type(),
        ContainerUpdateTypeProto::PromoteExecutionType
    );
    let promoted = |id| UpdatedContainerProto {
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        container: container(id),
    };
    let response = AllocateResponseProto {
        updated_containers: vec![promoted(7), promoted(9)],
        ..AllocateResponseProto::default()
    };
    let told = answered(&mut relabel, 1001, &response);
    assert_eq!(told.updated_containers, [promoted(9)]);
    assert_eq!(promotions(&mut relabel, 2000), []);
    assert!(relabel.watched.is_empty());
}

#[test]
fn a_promotion_whose_call_failed_is_asked_again() {
    let mut relabel = relabel(100);
    answered(&mut relabel, 0, &with_containers(&[7]));
    assert_eq!(promotions(&mut relabel, 1000).len(), 1);
    let refusal = RemoteException::new(wire::exception::HadoopException::YarnException, "no");
    relabel.on_response(
        AmMethod::Allocate,
        &mut Err(refusal),
        &context(1000),
        &mut Vec::new(),
    );
    assert_eq!(promotions(&mut relabel, 1000).len(), 1);
    // Given up without an answer.
    assert_eq!(promotions(&mut relabel, 1000).len(), 1);
}

#[test]
fn an_error_to_a_promotion_of_ours_is_kept_too() {
    let mut relabel = relabel(100);
    answered(&mut relabel, 0, &with_containers(&[7]));
    let asked = promotions(&mut relabel, 1000);
    let error = |request: &UpdateContainerRequestProto| UpdateContainerErrorProto {
        reason: Some("INVALID_CONTAINER_ID".to_owned()),
        update_request: Some(request.clone()),
        ..UpdateContainerErrorProto::default()
    };
    let others = UpdateContainerRequestProto {
        container_id: container_id(99),
        ..asked[0].clone()
    };
    let response = AllocateResponseProto {
        update_errors: vec![error(&asked[0]), error(&others)],
        ..AllocateResponseProto::default()
    };
    let told = answered(&mut relabel, 1001, &response);
    assert_eq!(told.update_errors, [error(&others)]);
    assert!(relabel.watched.is_empty());
}

proptest! {
    #[test]
    fn no_container_is_won_or_lost(count in 0..2_000_000_i32, percent in 1..=100_u8) {
        let lines = passed(&mut relabel(percent), vec![ask(1, "*", count)]);
        prop_assert_eq!(lines.iter().map(|(_, count, _)| count).sum::<i32>(), count);
        let opportunistic: i32 = lines
            .iter()
            .filter(|(_, _, kind)| *kind == Opportunistic)
            .map(|(_, count, _)| count)
            .sum();
        let wanted = f64::from(count) * f64::from(percent) / 100.0;
        prop_assert!((f64::from(opportunistic) - wanted).abs() <= 0.5);
    }

    #[test]
    fn fields_that_nobody_knows_stay_in_both_parts(text in "[a-z]{1,20}") {
        let mut unknown = RawMessage::default();
        unknown.set(2000, text.as_bytes());
        let line = [ask(1, "*", 10).encode_to_vec(), unknown.encode().to_vec()].concat();
        let mut message = RawMessage::default();
        message.push(allocate_request::ASK, &line);
        relabel(50).relabel(&mut message);
        let lines: Vec<_> = message.all(allocate_request::ASK).collect();
        prop_assert_eq!(lines.len(), 2);
        for line in lines {
            let line = RawMessage::parse(line).unwrap();
            prop_assert_eq!(line.message(2000).unwrap(), text.as_bytes());
        }
    }
}
