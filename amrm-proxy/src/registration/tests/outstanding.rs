//! Requests that are remembered until they are fulfilled.

use super::*;

fn change(number: i64) -> UpdateContainerRequestProto {
    UpdateContainerRequestProto {
        container_version: 0,
        container_id: id(number).into(),
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        capability: None,
        execution_type: None,
    }
}

fn constrained(tag: &str, count: i32) -> SchedulingRequestProto {
    SchedulingRequestProto {
        allocation_request_id: Some(1),
        priority: Some(3.into()),
        allocation_tags: vec![tag.to_owned()],
        resource_sizing: Some(ResourceSizingProto {
            num_allocations: Some(count),
            resources: Some(Resource::new(64, 1).into()),
        }),
        ..SchedulingRequestProto::default()
    }
}

#[test]
fn an_answer_that_the_am_did_not_get_takes_nothing_off() {
    let mut attempt = Attempt::registered();
    let stated = allocate_with(0, vec![ask(1, "*", 5)]);
    attempt.call(
        &stated,
        &answer_with(1, vec![container(1, 1, "h1"), container(2, 1, "h1")]),
    );
    let mut again = attempt.forgotten(&stated);
    assert_eq!(sent(&again), stated);
    // A new answer, which counts once the AM has it.
    let new = answer_with(1, vec![container(3, 1, "h1")]);
    let told = attempt.done(&mut again, Ok(answer(&new))).unwrap();
    assert_eq!(told, new);
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    assert_eq!(sent(&again).ask, vec![ask(1, "*", 4)]);
}

#[test]
fn a_call_that_was_refused_is_not_remembered() {
    let mut attempt = Attempt::registered();
    let mut request = attempt.begin(&allocate_with(0, vec![ask(1, "*", -5)]));
    let kind = HadoopException::InvalidResourceRequest;
    let refusal = RemoteException::new(kind, "negative");
    assert_eq!(
        attempt.done(&mut request, Err(refusal.clone())),
        Err(refusal)
    );
    let again = attempt.forgotten(&allocate_with(0, vec![]));
    assert_eq!(sent(&again), allocate_with(0, vec![]));
}

#[test]
fn the_ams_last_word_on_a_line_counts() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5), ask(2, "*", 2)]),
        &answer_with(1, vec![]),
    );
    attempt.call(
        &allocate_with(1, vec![ask(2, "*", 0), ask(1, "*", 7)]),
        &answer_with(2, vec![]),
    );
    let mut again = attempt.forgotten(&allocate_with(2, vec![ask(1, "*", 1)]));
    assert_eq!(sent(&again).ask, vec![ask(1, "*", 1)]);
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let again = attempt.forgotten(&allocate_with(3, vec![]));
    assert_eq!(sent(&again).ask, vec![ask(1, "*", 1)]);
}

#[test]
fn containers_lower_the_ask_they_answer_and_no_other() {
    let mut attempt = Attempt::registered();
    let large = ResourceRequestProto {
        capability: Some(Resource::new(9000, 1).into()),
        ..ask(1, "*", 3)
    };
    let opportunistic = ResourceRequestProto {
        execution_type_request: Some(wire::proto::hadoop_yarn::ExecutionTypeRequestProto {
            execution_type: Some(ExecutionTypeProto::Opportunistic.into()),
            enforce_execution_type: None,
        }),
        ..ask(1, "*", 3)
    };
    let numbered = ResourceRequestProto {
        allocation_request_id: Some(4),
        ..ask(1, "*", 3)
    };
    let asks = vec![
        ask(1, "*", 3),
        large.clone(),
        opportunistic.clone(),
        numbered.clone(),
    ];
    let given = vec![container(1, 1, "h1"), container(2, 9, "h1")];
    attempt.call(&allocate_with(0, asks), &answer_with(1, given));
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    assert_eq!(
        sent(&again).ask,
        vec![ask(1, "*", 2), large, opportunistic, numbered]
    );
}

#[test]
fn asks_keep_fields_that_nobody_knows_even_when_they_are_lowered() {
    let mut attempt = Attempt::registered();
    let line = [&ask(1, "*", 5).encode_to_vec(), UNKNOWN].concat();
    let mut request = allocate(&allocate_with(0, vec![]));
    request.message.push(allocate_request::ASK, &line);
    let _ = attempt.registration.on_request(&mut request);
    attempt
        .done(
            &mut request,
            Ok(answer(&answer_with(1, vec![container(1, 1, "h")]))),
        )
        .unwrap();
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    let lowered = [&ask(1, "*", 4).encode_to_vec(), UNKNOWN].concat();
    let lines: Vec<_> = again.message.all(allocate_request::ASK).collect();
    assert_eq!(lines, [lowered]);
}

#[test]
fn releases_changes_and_hosts_to_avoid_are_said_again_until_they_are_done() {
    let mut attempt = Attempt::registered();
    let list = |additions: &[&str], removals: &[&str]| {
        let texts = |of: &[&str]| of.iter().map(|&text| text.to_owned()).collect();
        Some(ResourceBlacklistRequestProto {
            blacklist_additions: texts(additions),
            blacklist_removals: texts(removals),
        })
    };
    let stated = AllocateRequestProto {
        release: vec![id(1).into(), id(2).into()],
        update_requests: vec![change(3), change(4), change(5)],
        blacklist_request: list(&["h1", "h2"], &[]),
        ..allocate_with(0, vec![])
    };
    let ended = |number: i64| ContainerStatusProto {
        container_id: Some(id(number).into()),
        ..ContainerStatusProto::default()
    };
    let done = AllocateResponseProto {
        completed_container_statuses: vec![ended(1), ended(5)],
        updated_containers: vec![UpdatedContainerProto {
            update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
            container: container(3, 1, "h"),
        }],
        ..answer_with(1, vec![])
    };
    attempt.call(&stated, &done);
    let now = AllocateRequestProto {
        blacklist_request: list(&["h3"], &["h2"]),
        ..allocate_with(1, vec![])
    };
    let mut again = attempt.forgotten(&now);
    let expected = AllocateRequestProto {
        release: vec![id(2).into()],
        update_requests: vec![change(4)],
        blacklist_request: list(&["h1", "h3"], &["h2"]),
        ..allocate_with(0, vec![])
    };
    assert_eq!(sent(&again), expected);
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let again = attempt.forgotten(&allocate_with(2, vec![]));
    assert_eq!(sent(&again).blacklist_request, list(&["h1", "h3"], &[]));
}

#[test]
fn asks_with_constraints_are_said_again_less_what_came_and_what_was_rejected() {
    let mut attempt = Attempt::registered();
    let stated = AllocateRequestProto {
        scheduling_requests: vec![constrained("a", 3), constrained("b", 1)],
        ..allocate_with(0, vec![])
    };
    let tagged = ContainerProto {
        allocation_request_id: Some(1),
        allocation_tags: vec!["a".to_owned()],
        ..container(1, 3, "h")
    };
    let rejected = wire::proto::hadoop_yarn::RejectedSchedulingRequestProto {
        reason: 1,
        request: constrained("b", 1),
    };
    let response = AllocateResponseProto {
        rejected_scheduling_requests: vec![rejected],
        ..answer_with(1, vec![tagged])
    };
    attempt.call(&stated, &response);
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    assert_eq!(sent(&again).scheduling_requests, vec![constrained("a", 2)]);
}

#[test]
fn a_call_with_only_a_release_a_change_or_a_host_to_avoid_is_remembered() {
    let avoiding = ResourceBlacklistRequestProto {
        blacklist_additions: vec!["h1".to_owned()],
        blacklist_removals: vec![],
    };
    let calls = [
        AllocateRequestProto {
            release: vec![id(1).into()],
            ..allocate_with(0, vec![])
        },
        AllocateRequestProto {
            update_requests: vec![change(1)],
            ..allocate_with(0, vec![])
        },
        AllocateRequestProto {
            blacklist_request: Some(avoiding),
            ..allocate_with(0, vec![])
        },
    ];
    for stated in calls {
        let mut attempt = Attempt::registered();
        attempt.call(&stated, &answer_with(1, vec![]));
        let again = attempt.forgotten(&allocate_with(1, vec![]));
        assert_eq!(sent(&again), stated);
    }
}

#[test]
fn a_change_ends_when_it_is_refused_or_made_and_the_release_of_its_container_does_not() {
    let mut attempt = Attempt::registered();
    let stated = AllocateRequestProto {
        release: vec![id(1).into(), id(2).into()],
        update_requests: vec![change(1), change(2)],
        ..allocate_with(0, vec![])
    };
    let refused = UpdateContainerErrorProto {
        update_request: Some(change(1)),
        ..UpdateContainerErrorProto::default()
    };
    let made = UpdatedContainerProto {
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        container: container(2, 1, "h"),
    };
    let response = AllocateResponseProto {
        update_errors: vec![refused],
        updated_containers: vec![made],
        ..answer_with(1, vec![])
    };
    attempt.call(&stated, &response);
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    let expected = AllocateRequestProto {
        update_requests: vec![],
        ..stated
    };
    assert_eq!(sent(&again), expected);
}

#[test]
fn a_container_for_an_ask_with_constraints_lowers_no_ask_without() {
    let mut attempt = Attempt::registered();
    let plain = ResourceRequestProto {
        allocation_request_id: Some(1),
        ..ask(3, "*", 2)
    };
    let stated = AllocateRequestProto {
        scheduling_requests: vec![constrained("a", 2)],
        ..allocate_with(0, vec![plain.clone()])
    };
    let tagged = ContainerProto {
        allocation_request_id: Some(1),
        allocation_tags: vec!["a".to_owned()],
        ..container(1, 3, "h")
    };
    attempt.call(&stated, &answer_with(1, vec![tagged]));
    let again = sent(&attempt.forgotten(&allocate_with(1, vec![])));
    assert_eq!(again.ask, [plain]);
    assert_eq!(again.scheduling_requests, [constrained("a", 1)]);
}

#[test]
fn asks_with_constraints_are_said_again_in_their_order() {
    let mut attempt = Attempt::registered();
    let stated = AllocateRequestProto {
        scheduling_requests: vec![constrained("b", 1), constrained("a", 1)],
        ..allocate_with(0, vec![])
    };
    attempt.call(&stated, &answer_with(1, vec![]));
    let again = attempt.forgotten(&allocate_with(1, vec![]));
    assert_eq!(sent(&again), stated);
}

#[test]
fn a_container_lowers_the_largest_ask_that_fits_into_it() {
    // The encodings of these sizes sort as the sizes do.
    let sized = |memory_mb, vcores| ResourceRequestProto {
        capability: Some(Resource::new(memory_mb, vcores).into()),
        ..ask(1, "*", 3)
    };
    let asks = vec![sized(64, 1), sized(100, 1), sized(100, 4)];
    for (memory_mb, vcores, expected) in [
        (64, 1, [2, 3, 3]),
        (100, 1, [3, 2, 3]),
        (99, 8, [2, 3, 3]),
        (120, 4, [3, 3, 2]),
    ] {
        let mut attempt = Attempt::registered();
        let given = ContainerProto {
            resource: Some(Resource::new(memory_mb, vcores).into()),
            ..container(1, 1, "h")
        };
        attempt.call(
            &allocate_with(0, asks.clone()),
            &answer_with(1, vec![given]),
        );
        let again = sent(&attempt.forgotten(&allocate_with(1, vec![])));
        let counts = again.ask.iter().map(ResourceRequestProto::num_containers);
        assert_eq!(counts.collect::<Vec<_>>(), expected, "{memory_mb} MiB");
    }
}
