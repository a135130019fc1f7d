//! Bounds of what is remembered, and its restoration after a restart of the agent.

use wire::proto::hadoop_yarn::FinishApplicationMasterRequestProto;

use super::*;
use crate::registration::outstanding::RememberError;

#[test]
fn an_am_that_says_too_much_is_told_to_register_by_itself() {
    let mut huge = Attempt::new();
    huge.register(&RegisterApplicationMasterRequestProto {
        tracking_url: Some("u".repeat(REGISTER_REQUEST_MAX)),
        ..register_request()
    });
    let mut many = Attempt::registered();
    let name = |number| format!("{number:0100}");
    let lines = (0..60_000).map(|number| ask(1, &name(number), 1)).collect();
    many.call(&allocate_with(0, lines), &answer_with(0, vec![]));
    let mut broken = Attempt::registered();
    let mut request = allocate(&allocate_with(0, vec![]));
    request.message.push(allocate_request::RELEASE, b"\xff");
    let _ = broken.registration.on_request(&mut request);
    broken
        .done(&mut request, Ok(answer(&answer_with(0, vec![]))))
        .unwrap();
    for mut attempt in [huge, many, broken] {
        assert!(attempt.registration.outstanding.is_none());
        let mut request = attempt.begin(&allocate_with(0, vec![]));
        let told = attempt.done(&mut request, not_registered()).unwrap_err();
        assert!(told.is(HadoopException::ApplicationMasterNotRegistered));
        // After its own registration the AM is served as any other.
        attempt.register(&register_request());
        attempt.call(
            &allocate_with(0, vec![ask(1, "*", 1)]),
            &answer_with(1, vec![]),
        );
        assert_eq!(
            sent(&attempt.forgotten(&allocate_with(1, vec![])))
                .ask
                .len(),
            1
        );
    }
}

#[test]
fn nothing_is_remembered_for_an_am_that_cannot_be_registered_again() {
    let mut attempt = Attempt::new();
    attempt.register(&RegisterApplicationMasterRequestProto {
        tracking_url: Some("u".repeat(REGISTER_REQUEST_MAX)),
        ..register_request()
    });
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    assert!(attempt.registration.outstanding.is_none());
    assert!(!attempt.persisted.contains_key(&OUTSTANDING));
}

#[test]
fn a_tracking_url_too_long_to_remember_leaves_the_earlier_one() {
    let mut attempt = Attempt::registered();
    let moved = AllocateRequestProto {
        tracking_url: Some("u".repeat(REGISTER_REQUEST_MAX)),
        ..allocate_with(0, vec![])
    };
    attempt.call(&moved, &answer_with(1, vec![]));
    let mut request = attempt.begin(&allocate_with(1, vec![]));
    let Step::Register(again) = attempt.outcome(&mut request, not_registered()) else {
        panic!("the attempt can be registered again");
    };
    assert_eq!(again.message.encode(), register_request().encode_to_vec());
}

#[test]
fn an_attempt_that_has_finished_leaves_nothing_outstanding() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut finish = request(
        AmMethod::Finish,
        &FinishApplicationMasterRequestProto::default(),
    );
    let _ = attempt.registration.on_request(&mut finish);
    let unregistered = Response {
        message: raw(&FinishApplicationMasterResponseProto {
            is_unregistered: Some(true),
        }),
        ..Response::default()
    };
    let _ = attempt.outcome(&mut finish, Ok(unregistered));
    assert!(attempt.registration.outstanding.is_none());
    assert_eq!(attempt.persisted[&OUTSTANDING], None);
}

#[test]
fn what_is_outstanding_weighs_nothing_once_it_is_done() {
    let mut outstanding = Outstanding::default();
    let stated = AllocateRequestProto {
        release: vec![id(1).into(), id(1).into()],
        blacklist_request: Some(ResourceBlacklistRequestProto {
            blacklist_additions: vec!["h".to_owned(), "h".to_owned()],
            blacklist_removals: vec![],
        }),
        ..allocate_with(0, vec![ask(1, "*", 1), ask(1, "h1", 1), ask(1, "h1", 1)])
    };
    outstanding.apply_request(&raw(&stated)).unwrap();
    let given = container(1, 1, "h1").encode_to_vec();
    outstanding.apply_answer(allocate_response::ALLOCATED_CONTAINERS, given.into());
    let ended = ContainerStatusProto {
        container_id: Some(id(1).into()),
        ..ContainerStatusProto::default()
    };
    outstanding.apply_answer(
        allocate_response::COMPLETED_CONTAINERS,
        ended.encode_to_vec().into(),
    );
    let removed = ResourceBlacklistRequestProto {
        blacklist_removals: vec!["h".to_owned()],
        blacklist_additions: vec![],
    };
    let removed = AllocateRequestProto {
        blacklist_request: Some(removed),
        ..AllocateRequestProto::default()
    };
    outstanding.apply_request(&raw(&removed)).unwrap();
    assert!(outstanding.is_empty(), "{outstanding:?}");
    assert!(outstanding.weighs_nothing(), "{outstanding:?}");
}

#[test]
fn a_restarted_agent_registers_again_with_what_was_outstanding() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 5)]),
        &answer_with(1, vec![]),
    );
    let mut again = attempt.forgotten(&allocate_with(1, vec![]));
    attempt
        .done(&mut again, Ok(answer(&answer_with(1, vec![]))))
        .unwrap();
    let mut attempt = attempt.restarted();
    assert_eq!(
        sent(&attempt.begin(&allocate_with(2, vec![]))),
        allocate_with(1, vec![])
    );
    assert_eq!(
        sent(&attempt.forgotten(&allocate_with(2, vec![]))),
        allocate_with(0, vec![ask(1, "*", 5)])
    );
}

fn parts(part: Part, value: &[u8]) -> AttemptParts {
    AttemptParts::from([(part.key().to_owned(), value.to_vec())])
}

#[test]
fn records_that_cannot_be_read_leave_it_to_the_am() {
    let mut attempt = Attempt::registered();
    attempt
        .registration
        .restore(ATTEMPT, &parts(OUTSTANDING, &[9, 9]));
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    assert!(attempt.done(&mut request, not_registered()).is_err());
    let stored = OutstandingRecord {
        request: vec![0xff],
    }
    .to_stored();
    let mut attempt = Attempt::registered();
    attempt
        .registration
        .restore(ATTEMPT, &parts(OUTSTANDING, &stored));
    let mut request = attempt.begin(&allocate_with(0, vec![]));
    assert!(attempt.done(&mut request, not_registered()).is_err());
}

#[test]
fn an_attempt_that_wants_nothing_takes_hardly_more_than_its_register_request() {
    let mut attempt = Attempt::registered();
    attempt.call(
        &allocate_with(0, vec![ask(1, "*", 1)]),
        &answer_with(1, vec![]),
    );
    assert!(attempt.registration.outstanding.is_some());
    attempt.call(
        &allocate_with(1, vec![ask(1, "*", 0)]),
        &answer_with(2, vec![]),
    );
    let registration = &attempt.registration;
    assert!(registration.outstanding.is_none());
    assert_eq!(
        registration.unconfirmed.as_ref().map(Vec::capacity),
        Some(0)
    );
    assert!(size_of::<Registration>() <= 160);
    let request = registration.request.as_deref();
    assert_eq!(request, Some(&*register_request().encode_to_vec()));
}

#[test]
fn tokens_are_not_shown() {
    let mut attempt = Attempt::registered();
    attempt.registration.nm_tokens = vec![Bytes::from_static(b"hush")];
    attempt.registration.unconfirmed = Some(vec![(3, Bytes::from_static(b"hush"))]);
    assert!(!format!("{:?}", attempt.registration).contains("hush"));
}

#[test]
fn unreadable_requests_of_any_kind_are_errors() {
    for field in [
        allocate_request::ASK,
        allocate_request::SCHEDULING_REQUESTS,
        allocate_request::RELEASE,
        allocate_request::UPDATE_REQUESTS,
        allocate_request::BLACKLIST,
    ] {
        let mut message = raw(&allocate_with(0, vec![]));
        message.push(field, b"\xff");
        let applied = Outstanding::default().apply_request(&message);
        assert_eq!(applied, Err(RememberError::Unreadable), "field {field}");
    }
}

#[test]
fn requests_of_any_kind_are_bounded_in_memory() {
    let long = |number: usize| format!("{number}{}", "x".repeat(1_000_000));
    let tagged = |number| SchedulingRequestProto {
        allocation_tags: vec![long(number)],
        resource_sizing: Some(ResourceSizingProto {
            num_allocations: Some(1),
            resources: Some(Resource::new(64, 1).into()),
        }),
        ..SchedulingRequestProto::default()
    };
    let promotion = |number| UpdateContainerRequestProto {
        container_version: 0,
        container_id: id(number).into(),
        update_type: ContainerUpdateTypeProto::PromoteExecutionType.into(),
        capability: None,
        execution_type: None,
    };
    let avoiding = ResourceBlacklistRequestProto {
        blacklist_additions: (0..10).map(long).collect(),
        blacklist_removals: vec![],
    };
    let calls = [
        AllocateRequestProto {
            scheduling_requests: (0..10).map(tagged).collect(),
            ..allocate_with(0, vec![])
        },
        AllocateRequestProto {
            update_requests: (0..80_000).map(promotion).collect(),
            ..allocate_with(0, vec![])
        },
        AllocateRequestProto {
            release: (0..80_000).map(|number| id(number).into()).collect(),
            ..allocate_with(0, vec![])
        },
        AllocateRequestProto {
            blacklist_request: Some(avoiding),
            ..allocate_with(0, vec![])
        },
    ];
    for stated in calls {
        let applied = Outstanding::default().apply_request(&raw(&stated));
        assert_eq!(applied, Err(RememberError::TooMuch));
    }
}
