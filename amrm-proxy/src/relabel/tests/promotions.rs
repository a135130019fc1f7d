//! Promotions and completions, in the calls of an AM.

use super::*;

/// An AM that makes calls, and a ResourceManager that answers.
struct Conversation {
    relabel: Relabel,
    response_id: i32,
    actions: Requested<Effect>,
}

impl Conversation {
    /// Begins with ten requested containers, all of them relabelled.
    fn begin() -> Self {
        let mut talk = Self {
            relabel: relabel(100),
            response_id: 0,
            actions: Requested::new(),
        };
        let asked = AllocateRequestProto {
            ask: vec![ask(1, "*", 10)],
            ..AllocateRequestProto::default()
        };
        talk.send(0, asked);
        talk.answer(0, &AllocateResponseProto::default());
        talk
    }

    /// Makes the next call, or repeats the last if it has no answer; returns the forwarded call.
    fn send(&mut self, at_ms: u64, message: AllocateRequestProto) -> AllocateRequestProto {
        let mut request = allocate(&AllocateRequestProto {
            response_id: Some(self.response_id),
            ..message
        });
        self.relabel
            .on_request(&mut request, &context(at_ms), &mut self.actions.actions())
            .unwrap();
        AllocateRequestProto::decode(request.message.encode()).unwrap()
    }

    /// Answers the call; returns the answer as the AM sees it.
    fn answer(&mut self, at_ms: u64, message: &AllocateResponseProto) -> AllocateResponseProto {
        let mut outcome = Ok(answer(message));
        self.relabel.on_response(
            AmMethod::Allocate,
            &mut outcome,
            &context(at_ms),
            &mut self.actions.actions(),
        );
        self.response_id += 1;
        AllocateResponseProto::decode(outcome.unwrap().message.encode()).unwrap()
    }

    /// Loses the answer on its way to the AM, which repeats the call.
    fn lose_answer(&mut self) {
        self.response_id -= 1;
    }

    /// Registers the AM by itself, whose response ids then begin at 0.
    fn register(&mut self, at_ms: u64) {
        let mut register = Request {
            method: AmMethod::Register,
            ..allocate(&AllocateRequestProto::default())
        };
        self.relabel
            .on_request(&mut register, &context(at_ms), &mut self.actions.actions())
            .unwrap();
        self.response_id = 0;
    }

    /// Returns the promotions that a heartbeat requests, without answering it.
    fn promotions(&mut self, at_ms: u64) -> Vec<UpdateContainerRequestProto> {
        self.send(at_ms, AllocateRequestProto::default())
            .update_requests
    }

    /// Makes a heartbeat with this answer.
    fn heartbeat(&mut self, at_ms: u64, message: &AllocateResponseProto) -> AllocateResponseProto {
        self.send(at_ms, AllocateRequestProto::default());
        self.answer(at_ms, message)
    }

    fn node_updates(&mut self) -> Vec<NodeUpdate> {
        let effects = std::mem::take(&mut self.actions.own);
        let update = |effect| match effect {
            Effect::UpdateContainers(update) => Some(update),
            Effect::WithdrawUpdates(_) => None,
        };
        effects.into_iter().filter_map(update).collect()
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
    let mut talk = Conversation::begin();
    let response = with_containers(&[7, 8]);
    assert_eq!(talk.heartbeat(0, &response), response);
    assert_eq!(talk.promotions(999), []);
    let ended = with_end(8, 0);
    assert_eq!(talk.answer(999, &ended), ended);
    let asked = talk.promotions(1000);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].container_id, container_id(7));
    assert_eq!(
        asked[0].update_type(),
        ContainerUpdateTypeProto::PromoteExecutionType
    );
    // The grant arrives some heartbeats later, when the node has capacity.
    talk.answer(1000, &AllocateResponseProto::default());
    assert_eq!(talk.promotions(2000), []);
    let told = talk.answer(2000, &with_promoted(&[promoted(7, 1), promoted(9, 1)]));
    assert_eq!(told.updated_containers, [promoted(9, 1)]);
    let update = NodeUpdate {
        node: node(),
        containers: vec![(known_as(7), token())],
    };
    assert_eq!(talk.node_updates(), [update]);
    assert_eq!(talk.promotions(3000), []);
    talk.actions = Requested::new();
    talk.answer(3000, &with_end(7, 0));
    let withdrawn = Effect::WithdrawUpdates(vec![known_as(7)]);
    assert_eq!(talk.actions.own, [withdrawn]);
    assert!(talk.relabel.promotions.is_empty());
}

#[test]
fn an_answer_that_the_master_asks_for_again_is_kept_from_it_again_and_no_node_told_twice() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7, 8]));
    talk.promotions(1000);
    let mut evicted = with_end(8, -108);
    evicted.updated_containers = vec![promoted(7, 1)];
    let first = talk.answer(1000, &evicted);
    assert_eq!(talk.node_updates().len(), 1);
    talk.lose_answer();
    assert_eq!(talk.promotions(5000), []);
    let again = talk.answer(5000, &evicted);
    assert_eq!(again, first);
    assert_eq!(again.updated_containers, []);
    assert_eq!(talk.node_updates(), []);
}

#[test]
fn only_containers_that_a_rule_made_opportunistic_are_promoted() {
    let mut talk = Conversation::begin();
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
    talk.heartbeat(0, &response);
    assert_eq!(talk.promotions(9999), []);
    // Containers that the AM itself updates are its own, including the answers.
    let response = with_promoted(&[promoted(9, 1)]);
    assert_eq!(talk.answer(9999, &response), response);
}

#[test]
fn a_promotion_whose_call_failed_is_asked_for_again_and_no_other_in_the_same_call() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
    let refusal = RemoteException::new(wire::exception::HadoopException::YarnException, "no");
    let context = context(1000);
    let method = AmMethod::Allocate;
    talk.relabel.on_response(
        method,
        &mut Err(refusal),
        &context,
        &mut Requested::new().actions(),
    );
    assert_eq!(talk.promotions(1000).len(), 1);
    // The call is abandoned without an answer.
    assert_eq!(talk.promotions(1000).len(), 1);
    talk.answer(1000, &AllocateResponseProto::default());
    assert_eq!(talk.promotions(1000), []);
}

#[test]
fn a_resource_manager_that_has_forgotten_is_asked_again() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
    talk.answer(1000, &AllocateResponseProto::default());
    talk.register(2000);
    assert_eq!(talk.promotions(2000).len(), 1);
}

#[test]
fn the_first_call_after_a_registration_repeats_none() {
    let mut talk = Conversation::begin();
    talk.register(0);
    talk.heartbeat(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
}

#[test]
fn a_repeated_call_is_new_to_a_resource_manager_that_has_forgotten() {
    let mut talk = Conversation::begin();
    talk.lose_answer();
    talk.send(0, AllocateRequestProto::default());
    talk.relabel.on_reregistered(
        None,
        &mut allocate(&AllocateRequestProto::default()),
        &context(0),
        &mut Requested::new().actions(),
    );
    talk.answer(0, &with_containers(&[7]));
    assert_eq!(talk.promotions(1000).len(), 1);
}

#[test]
fn a_call_that_may_have_arrived_is_made_again_with_the_same_promotions_counted_once() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    talk.heartbeat(500, &with_containers(&[8]));
    talk.actions = Requested::new();
    let asked = talk.promotions(1000);
    assert_eq!(asked.len(), 1);
    // The second container is due, too.
    assert_eq!(talk.promotions(2000), asked);
    let asked = Action::Observe(Observation::PromotionAsked);
    assert_eq!(talk.actions.chain, [asked]);
    talk.answer(2000, &AllocateResponseProto::default());
    let next = talk.promotions(2000);
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].container_id, container_id(8));
}

#[test]
fn a_repeated_call_asks_for_no_promotion() {
    let mut talk = Conversation::begin();
    let response = with_containers(&[7]);
    talk.heartbeat(0, &response);
    talk.lose_answer();
    assert_eq!(talk.promotions(1000), []);
    talk.answer(1000, &response);
    assert_eq!(talk.promotions(1000).len(), 1);
}

#[test]
fn a_newer_grant_goes_to_the_node_too() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    talk.promotions(1000);
    for version in [1, 2] {
        let answer = talk.heartbeat(1000, &with_promoted(&[promoted(7, version)]));
        assert_eq!(answer.updated_containers, []);
        assert_eq!(talk.node_updates().len(), 1, "version {version}");
    }
}

#[test]
fn a_promotion_that_is_refused_for_good_is_not_asked_for_again() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    let asked = talk.promotions(1000);
    // The version in the request: another try would be refused, too.
    talk.answer(
        1000,
        &refusal(&asked[0], "INCORRECT_CONTAINER_VERSION_ERROR", 0),
    );
    assert_eq!(talk.promotions(2000), []);
    talk.register(3000);
    assert_eq!(talk.promotions(3000), []);
}

#[test]
fn errors_of_requests_that_this_node_did_not_make_go_to_the_master() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    let promotion = UpdateContainerRequestProto {
        container_version: 0,
        container_id: container_id(7),
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        capability: None,
        execution_type: Some(Guaranteed.into()),
    };
    let increase = UpdateContainerRequestProto {
        update_type: ContainerUpdateTypeProto::IncreaseResource.into(),
        ..promotion.clone()
    };
    let mut response = refusal(&promotion, "INVALID_CONTAINER_ID", -1);
    let of_increase = refusal(&increase, "INVALID_CONTAINER_ID", -1);
    response.update_errors.extend(of_increase.update_errors);
    let mut without_request = response.update_errors[0].clone();
    without_request.update_request = None;
    response.update_errors.push(without_request);
    assert_eq!(talk.heartbeat(1, &response), response);
}

#[test]
fn an_update_that_cannot_be_read_is_left_to_the_master() {
    let mut talk = Conversation::begin();
    talk.send(0, AllocateRequestProto::default());
    let mut response = answer(&AllocateResponseProto::default());
    for field in [
        allocate_response::UPDATED_CONTAINERS,
        allocate_response::UPDATE_ERRORS,
    ] {
        response.message.push(field, b"\xff");
    }
    let received = response.message.encode();
    let mut outcome = Ok(response);
    let method = AmMethod::Allocate;
    talk.relabel.on_response(
        method,
        &mut outcome,
        &context(0),
        &mut talk.actions.actions(),
    );
    assert_eq!(outcome.unwrap().message.encode(), received);
}

#[test]
fn an_end_that_is_reported_again_is_remembered_once() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    for _ in 0..3 {
        assert_eq!(talk.heartbeat(1, &with_end(7, -108)), with_end(7, -102));
        talk.lose_answer();
    }
    assert_eq!(talk.relabel.ended, [known_as(7)]);
}

#[test]
fn containers_known_to_be_relabelled_are_bounded() {
    let mut talk = Conversation::begin();
    let ids: Vec<i64> = (1..).take(RELABELLED_MAX + 1).collect();
    talk.heartbeat(0, &with_containers(&ids));
    assert_eq!(talk.relabel.relabelled.len(), RELABELLED_MAX);
}

#[test]
fn refusals_are_kept_and_what_has_another_version_is_asked_for_with_that() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7, 8]));
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
    let told = talk.answer(1000, &response);
    assert_eq!(told.update_errors, of_others.update_errors);
    let again = talk.promotions(1001);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].container_id, container_id(7));
    assert_eq!(again[0].container_version, 3);
    // The ResourceManager has the request already, and will answer it.
    let told = talk.answer(1001, &refusal(&again[0], "UPDATE_OUTSTANDING_ERROR", 3));
    assert_eq!(told.update_errors, []);
    assert_eq!(talk.promotions(1002), []);
    talk.answer(1002, &with_promoted(&[promoted(7, 4)]));
    assert_eq!(talk.node_updates().len(), 1);
}

#[test]
fn a_master_that_changes_a_promoted_container_is_spared_the_version_that_it_does_not_know() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7]));
    talk.promotions(1000);
    talk.answer(1000, &with_promoted(&[promoted(7, 1)]));
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
    let passed = talk.send(2000, request).update_requests;
    let newer = UpdateContainerRequestProto {
        container_version: 1,
        ..larger
    };
    assert_eq!(passed, [newer]);
}

#[test]
fn who_has_to_make_way_was_preempted_unless_the_master_knows_of_types() {
    let mut talk = Conversation::begin();
    talk.heartbeat(0, &with_containers(&[7, 8]));
    let told = talk.heartbeat(1, &with_end(7, -108));
    assert_eq!(told, with_end(7, -102));
    for response in [with_end(8, 1), with_end(9, -108)] {
        assert_eq!(talk.heartbeat(2, &response), response);
    }
    assert!(
        talk.relabel.relabelled.len() <= 1,
        "{:?}",
        talk.relabel.relabelled
    );
}
