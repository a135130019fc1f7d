//! Tests of the rules alone, without a pipeline.

use proptest::prelude::*;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerIdProto, ContainerUpdateTypeProto,
    ExecutionTypeProto, ExecutionTypeRequestProto, ResourceInformationProto, ResourceProto,
    ResourceRequestProto,
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

/// An AM that makes calls, and a ResourceManager that answers.
struct Talk {
    relabel: Relabel,
    response_id: i32,
    actions: Vec<Action>,
}

impl Talk {
    /// Begins with ten requested containers, all of them relabelled.
    fn begin() -> Self {
        let mut talk = Self {
            relabel: relabel(100),
            response_id: 0,
            actions: Vec::new(),
        };
        let asked = AllocateRequestProto {
            ask: vec![ask(1, "*", 10)],
            ..AllocateRequestProto::default()
        };
        talk.says(0, asked);
        talk.hears(0, &AllocateResponseProto::default());
        talk
    }

    /// Makes the next call, or repeats the last if it has no answer; returns the forwarded call.
    fn says(&mut self, at_ms: u64, message: AllocateRequestProto) -> AllocateRequestProto {
        let mut request = allocate(&AllocateRequestProto {
            response_id: Some(self.response_id),
            ..message
        });
        self.relabel
            .on_request(&mut request, &context(at_ms), &mut self.actions)
            .unwrap();
        AllocateRequestProto::decode(request.message.encode()).unwrap()
    }

    /// Answers the call; returns the answer as the AM sees it.
    fn hears(&mut self, at_ms: u64, message: &AllocateResponseProto) -> AllocateResponseProto {
        let mut outcome = Ok(answer(message));
        self.relabel.on_response(
            AmMethod::Allocate,
            &mut outcome,
            &context(at_ms),
            &mut self.actions,
        );
        self.response_id += 1;
        AllocateResponseProto::decode(outcome.unwrap().message.encode()).unwrap()
    }

    /// Loses the answer on its way to the AM, which repeats the call.
    fn loses_answer(&mut self) {
        self.response_id -= 1;
    }

    /// Returns the promotions that a heartbeat requests, without answering it.
    fn promotions(&mut self, at_ms: u64) -> Vec<UpdateContainerRequestProto> {
        self.says(at_ms, AllocateRequestProto::default())
            .update_requests
    }

    /// Makes a heartbeat with this answer.
    fn beat(&mut self, at_ms: u64, message: &AllocateResponseProto) -> AllocateResponseProto {
        self.says(at_ms, AllocateRequestProto::default());
        self.hears(at_ms, message)
    }

    fn node_updates(&mut self) -> Vec<NodeUpdate> {
        let actions = std::mem::take(&mut self.actions);
        let update = |action| match action {
            Action::UpdateContainers(update) => Some(update),
            Action::UseRmToken(_) | Action::Persist(..) | Action::Observe(_) => None,
        };
        actions.into_iter().filter_map(update).collect()
    }
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
    known_as(id).into()
}

fn known_as(id: i64) -> ContainerId {
    ContainerId {
        attempt: ATTEMPT,
        id,
    }
}

fn with_containers(ids: &[i64]) -> AllocateResponseProto {
    AllocateResponseProto {
        allocated_containers: ids.iter().map(|id| container(*id)).collect(),
        ..AllocateResponseProto::default()
    }
}

fn node() -> NodeId {
    NodeId {
        host: "host".to_owned(),
        port: 8041,
    }
}

fn token() -> TokenProto {
    TokenProto {
        identifier: b"newer".as_slice().into(),
        ..TokenProto::default()
    }
}

fn promoted(id: i64, version: i32) -> UpdatedContainerProto {
    UpdatedContainerProto {
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        container: ContainerProto {
            node_id: Some((&node()).into()),
            container_token: Some(token()),
            version: Some(version),
            execution_type: Some(Guaranteed.into()),
            ..container(id)
        },
    }
}

fn with_promoted(updated: &[UpdatedContainerProto]) -> AllocateResponseProto {
    AllocateResponseProto {
        updated_containers: updated.to_vec(),
        ..AllocateResponseProto::default()
    }
}

fn with_end(id: i64, exit_status: i32) -> AllocateResponseProto {
    AllocateResponseProto {
        completed_container_statuses: vec![ContainerStatusProto {
            container_id: Some(container_id(id)),
            exit_status: Some(exit_status),
            diagnostics: Some("why".to_owned()),
            ..ContainerStatusProto::default()
        }],
        ..AllocateResponseProto::default()
    }
}

fn refusal(
    request: &UpdateContainerRequestProto,
    reason: &str,
    current: i32,
) -> AllocateResponseProto {
    AllocateResponseProto {
        update_errors: vec![UpdateContainerErrorProto {
            reason: Some(reason.to_owned()),
            update_request: Some(request.clone()),
            current_container_version: Some(current),
        }],
        ..AllocateResponseProto::default()
    }
}

#[test]
fn what_is_old_is_promoted_once_its_node_is_told_and_the_master_hears_nothing_of_it() {
    let mut talk = Talk::begin();
    let response = with_containers(&[7, 8]);
    assert_eq!(talk.beat(0, &response), response);
    assert_eq!(talk.promotions(999), []);
    let ended = with_end(8, 0);
    assert_eq!(talk.hears(999, &ended), ended);
    let asked = talk.promotions(1000);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].container_id, container_id(7));
    assert_eq!(
        asked[0].update_type(),
        ContainerUpdateTypeProto::PromoteExecutionType
    );
    // The grant arrives some heartbeats later, when the node has capacity.
    talk.hears(1000, &AllocateResponseProto::default());
    assert_eq!(talk.promotions(2000), []);
    let told = talk.hears(2000, &with_promoted(&[promoted(7, 1), promoted(9, 1)]));
    assert_eq!(told.updated_containers, [promoted(9, 1)]);
    let update = NodeUpdate {
        node: node(),
        containers: vec![(known_as(7), token())],
    };
    assert_eq!(talk.node_updates(), [update]);
    assert_eq!(talk.promotions(3000), []);
    talk.hears(3000, &with_end(7, 0));
    assert!(talk.relabel.promotions.is_empty());
}

#[test]
fn an_answer_that_the_master_asks_for_again_is_kept_from_it_again_and_no_node_told_twice() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7, 8]));
    talk.promotions(1000);
    let mut evicted = with_end(8, -108);
    evicted.updated_containers = vec![promoted(7, 1)];
    let first = talk.hears(1000, &evicted);
    assert_eq!(talk.node_updates().len(), 1);
    talk.loses_answer();
    assert_eq!(talk.promotions(5000), []);
    let again = talk.hears(5000, &evicted);
    assert_eq!(again, first);
    assert_eq!(again.updated_containers, []);
    assert_eq!(talk.node_updates(), []);
}

#[test]
fn only_containers_that_a_rule_made_opportunistic_are_promoted() {
    let mut talk = Talk::begin();
    let guaranteed = ContainerProto {
        execution_type: Some(Guaranteed.into()),
        ..container(8)
    };
    let of_its_own = ContainerProto {
        priority: Some(2.into()),
        ..container(9)
    };
    let response = AllocateResponseProto {
        allocated_containers: vec![guaranteed, of_its_own],
        ..AllocateResponseProto::default()
    };
    talk.beat(0, &response);
    assert_eq!(talk.promotions(9999), []);
    // Containers that the AM itself updates are its own, including the answers.
    let response = with_promoted(&[promoted(9, 1)]);
    assert_eq!(talk.hears(9999, &response), response);
}

#[test]
fn a_promotion_whose_call_failed_is_asked_for_again_and_no_other_in_the_same_call() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
    let refusal = RemoteException::new(wire::exception::HadoopException::YarnException, "no");
    let context = context(1000);
    let method = AmMethod::Allocate;
    talk.relabel
        .on_response(method, &mut Err(refusal), &context, &mut Vec::new());
    assert_eq!(talk.promotions(1000).len(), 1);
    // The call is abandoned without an answer.
    assert_eq!(talk.promotions(1000).len(), 1);
    talk.hears(1000, &AllocateResponseProto::default());
    assert_eq!(talk.promotions(1000), []);
}

#[test]
fn a_resource_manager_that_has_forgotten_is_asked_again() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
    talk.hears(1000, &AllocateResponseProto::default());
    let mut register = Request {
        method: AmMethod::Register,
        ..allocate(&AllocateRequestProto::default())
    };
    talk.relabel
        .on_request(&mut register, &context(2000), &mut Vec::new())
        .unwrap();
    talk.response_id = 0;
    assert_eq!(talk.promotions(2000).len(), 1);
}

#[test]
fn refusals_are_kept_and_what_has_another_version_is_asked_for_with_that() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7, 8]));
    let asked = talk.promotions(1000);
    let mut response = refusal(&asked[0], "INCORRECT_CONTAINER_VERSION_ERROR", 3);
    response
        .update_errors
        .extend(refusal(&asked[1], "INVALID_CONTAINER_ID", -1).update_errors);
    let others = UpdateContainerRequestProto {
        container_id: container_id(99),
        ..asked[0].clone()
    };
    let of_others = refusal(&others, "INVALID_CONTAINER_ID", -1);
    response
        .update_errors
        .extend(of_others.update_errors.clone());
    let told = talk.hears(1000, &response);
    assert_eq!(told.update_errors, of_others.update_errors);
    let again = talk.promotions(1001);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].container_id, container_id(7));
    assert_eq!(again[0].container_version, 3);
    // The ResourceManager has the request already, and will answer it.
    let told = talk.hears(1001, &refusal(&again[0], "UPDATE_OUTSTANDING_ERROR", 3));
    assert_eq!(told.update_errors, []);
    assert_eq!(talk.promotions(1002), []);
    talk.hears(1002, &with_promoted(&[promoted(7, 4)]));
    assert_eq!(talk.node_updates().len(), 1);
}

#[test]
fn a_master_that_changes_a_promoted_container_is_spared_the_version_that_it_does_not_know() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7]));
    talk.promotions(1000);
    talk.hears(1000, &with_promoted(&[promoted(7, 1)]));
    let larger = UpdateContainerRequestProto {
        container_version: 0,
        container_id: container_id(7),
        update_type: ContainerUpdateTypeProto::IncreaseResource.into(),
        capability: Some(ResourceProto::default()),
        execution_type: None,
    };
    let request = AllocateRequestProto {
        update_requests: vec![larger.clone()],
        ..AllocateRequestProto::default()
    };
    let passed = talk.says(2000, request).update_requests;
    let newer = UpdateContainerRequestProto {
        container_version: 1,
        ..larger
    };
    assert_eq!(passed, [newer]);
}

#[test]
fn who_has_to_make_way_was_preempted_unless_the_master_knows_of_types() {
    let mut talk = Talk::begin();
    talk.beat(0, &with_containers(&[7, 8]));
    let told = talk.beat(1, &with_end(7, -108));
    assert_eq!(told, with_end(7, -102));
    for response in [with_end(8, 1), with_end(9, -108)] {
        assert_eq!(talk.beat(2, &response), response);
    }
    assert!(
        talk.relabel.relabelled.len() <= 1,
        "{:?}",
        talk.relabel.relabelled
    );
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
