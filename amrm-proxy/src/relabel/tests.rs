//! Tests of the rules alone, without a pipeline.

mod promotions;

use proptest::prelude::*;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerIdProto, ContainerUpdateTypeProto,
    ExecutionTypeProto, ExecutionTypeRequestProto, ResourceInformationProto, ResourceProto,
    ResourceRequestProto,
};

use super::*;
use crate::testing::{ATTEMPT, Requested, allocate, answer, context};

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

/// Returns name, count and type of each forwarded ask.
fn passed(
    relabel: &mut Relabel,
    asks: Vec<ResourceRequestProto>,
) -> Vec<(String, i32, ExecutionTypeProto)> {
    let mut request = allocate(&AllocateRequestProto {
        ask: asks,
        ..AllocateRequestProto::default()
    });
    relabel
        .on_request(&mut request, &context(0), &mut Requested::new().actions())
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
    let mut relabel = relabel(40);
    let lines = passed(&mut relabel, vec![ask(1, "*", 5)]);
    assert_eq!(
        lines,
        [
            ("*".to_owned(), 3, Guaranteed),
            ("*".to_owned(), 2, Opportunistic)
        ]
    );
    let lines = passed(&mut relabel, vec![ask(1, "*", 0)]);
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
    let mut other = ask(3, "*", 6);
    other.execution_type_request = Some(ExecutionTypeRequestProto {
        execution_type: Some(Opportunistic.into()),
        enforce_execution_type: Some(false),
    });
    let mut relabel = relabel(50);
    let lines = passed(
        &mut relabel,
        vec![
            ask(0, "*", 1),
            ask(11, "*", 2),
            ask(1, "*", -3),
            own,
            other,
            ask(2, "*", 7),
            with_gpu(2, 8),
        ],
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
            (6, Opportunistic),
            (3, Guaranteed),
            (8, Guaranteed),
            (4, Opportunistic),
        ]
    );
    // An AM that uses types asks for opportunistic containers under this key.
    let lines = passed(&mut relabel, vec![ask(3, "*", 4)]);
    assert_eq!(lines, [("*".to_owned(), 4, Guaranteed)]);
}

fn with_gpu(priority: i32, count: i32) -> ResourceRequestProto {
    let gpu = ResourceInformationProto {
        key: "yarn.io/gpu".to_owned(),
        value: Some(1),
        ..ResourceInformationProto::default()
    };
    ResourceRequestProto {
        capability: Some(ResourceProto {
            resource_value_map: vec![gpu],
            ..ResourceProto::default()
        }),
        ..ask(priority, "*", count)
    }
}

#[test]
fn places_are_shared_out_so_that_their_sums_match_the_whole() {
    let mut relabel = relabel(50);
    let asks = vec![
        ask(1, "a", 1),
        ask(1, "b", 1),
        ask(1, "/r", 2),
        ask(1, "*", 2),
    ];
    let lines = passed(&mut relabel, asks);
    let of = |kind| {
        let counts = lines.iter().filter(|(_, _, of)| *of == kind);
        counts
            .map(|(name, count, _)| (name.as_str(), *count))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Guaranteed), [("a", 0), ("b", 1), ("/r", 1), ("*", 1)]);
    assert_eq!(of(Opportunistic), [("a", 1), ("b", 0), ("/r", 1), ("*", 1)]);
    // One location alone, stated later, gets the share of the whole.
    let lines = passed(&mut relabel, vec![ask(1, "a", 4)]);
    assert_eq!(lines[1], ("a".to_owned(), 2, Opportunistic));
}

#[test]
fn hosts_and_racks_are_shared_out_each_by_themselves() {
    let asks = vec![ask(1, "a", 1), ask(1, "/r", 1), ask(1, "*", 2)];
    let lines = passed(&mut relabel(50), asks);
    let opportunistic = ["a", "/r", "*"].map(|name| (name.to_owned(), 1, Opportunistic));
    assert_eq!(lines[3..], opportunistic);
}

#[test]
fn of_two_lines_for_any_place_the_last_counts() {
    let lines = passed(&mut relabel(50), vec![ask(1, "*", 10), ask(1, "*", 4)]);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], ("*".to_owned(), 2, Guaranteed));
    assert_eq!(lines[3], ("*".to_owned(), 2, Opportunistic));
}

#[test]
fn the_first_rule_for_a_priority_counts() {
    let mut relabel = Relabel::new(&[rule(100), rule(50)], "alice", &[]).unwrap();
    let lines = passed(&mut relabel, vec![ask(1, "*", 4)]);
    assert_eq!(lines, [("*".to_owned(), 4, Opportunistic)]);
}

#[test]
fn a_line_that_no_rule_concerns_is_ignored_whatever_its_type() {
    let opportunistic = ResourceRequestProto {
        execution_type_request: Some(ExecutionTypeRequestProto {
            execution_type: Some(Opportunistic.into()),
            enforce_execution_type: None,
        }),
        ..ask(1, "*", 5)
    };
    for line in [ask(1, "*", 5), opportunistic] {
        let read = lines::read(line.encode_to_vec().into(), |_| false);
        assert!(matches!(read, Line::Ignored), "{read:?}");
    }
}

#[test]
fn asks_that_insist_on_a_place_are_taken_whole_or_not_at_all() {
    let strict = |name: &str| ResourceRequestProto {
        relax_locality: Some(false),
        ..ask(1, name, 4)
    };
    let asks = || vec![ask(1, "a", 4), strict("/r"), strict("*")];
    let lines = passed(&mut relabel(50), asks());
    assert!(
        lines
            .iter()
            .all(|(_, count, kind)| (*count, *kind) == (4, Guaranteed))
    );
    let lines = passed(&mut relabel(100), asks());
    assert!(
        lines
            .iter()
            .all(|(_, count, kind)| (*count, *kind) == (4, Opportunistic))
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
