//! Requests that are refused, and that a refusal changes nothing.

use super::*;

#[test]
fn what_cannot_be_asked_for_is_refused_and_changes_nothing() {
    let (mut world, attempt) = World::with_master(4, &[]);
    let guaranteed = ExecutionType::Guaranteed;
    let good = asking(1, Resource::new(SLOT_MB, 1), guaranteed);
    let mut stranger = world.master_of(attempt);
    stranger.attempt.attempt_id += 1;
    let bad = [
        AllocateRequestProto {
            ask: vec![
                good.clone(),
                asking(1, Resource::new(1 << 40, 1), guaranteed),
            ],
            ..AllocateRequestProto::default()
        },
        AllocateRequestProto {
            ask: vec![
                good.clone(),
                asking(-1, Resource::new(SLOT_MB, 1), guaranteed),
            ],
            ..AllocateRequestProto::default()
        },
        AllocateRequestProto {
            ask: vec![good.clone(), ResourceRequestProto::default()],
            ..AllocateRequestProto::default()
        },
        AllocateRequestProto {
            ask: vec![
                good.clone(),
                ResourceRequestProto {
                    node_label_expression: Some("gpu".to_owned()),
                    ..good
                },
            ],
            ..AllocateRequestProto::default()
        },
        AllocateRequestProto {
            release: vec![stranger.into()],
            ..AllocateRequestProto::default()
        },
    ];
    for request in bad {
        let refusal = world.try_allocate(attempt, &request);
        assert!(refusal.is_err(), "{request:?}");
        let asks = world.core.guaranteed.asks(attempt).unwrap();
        assert!(asks.is_empty(), "{request:?}");
    }
}

#[test]
fn a_master_must_register_first_and_once() {
    let mut world = World::new(&[]);
    world.register(&node(1), 4, Vec::new());
    world.submit();
    let (attempt, _) = world.take_launch();
    let call = AllocateRequestProto::default();
    assert_eq!(
        world.try_allocate(attempt, &call),
        Err(Refusal::NotRegistered(attempt))
    );
    let finish = FinishApplicationMasterRequestProto::default();
    let refusal = world.core.finish_master(attempt, &finish, world.now);
    assert_eq!(refusal, Err(Refusal::NotRegistered(attempt)));
    let register = RegisterApplicationMasterRequestProto::default();
    world
        .core
        .register_master(attempt, &register, world.now)
        .unwrap();
    let refusal = world.core.register_master(attempt, &register, world.now);
    assert_eq!(
        refusal,
        Err(Refusal::AlreadyRegistered(attempt.application_id))
    );
}

#[test]
fn submissions_that_cannot_run_here_are_refused() {
    let mut world = World::new(&[]);
    let refusal = world.try_submit(|submission| submission.queue = Some("other".to_owned()));
    assert!(
        matches!(refusal, Err(Refusal::UnknownQueue { .. })),
        "{refusal:?}"
    );
    let refusal = world.try_submit(|submission| submission.resource = None);
    assert!(
        matches!(refusal, Err(Refusal::NoMasterSize(_))),
        "{refusal:?}"
    );
    let refusal =
        world.try_submit(|submission| submission.node_label_expression = Some("gpu".to_owned()));
    assert!(
        matches!(refusal, Err(Refusal::NotSupported(_))),
        "{refusal:?}"
    );
    let refusal = world.try_submit(|submission| submission.unmanaged_am = Some(true));
    assert!(
        matches!(refusal, Err(Refusal::NotSupported(_))),
        "{refusal:?}"
    );
    let refusal = world.try_submit(|submission| {
        let spec = submission.am_container_spec.get_or_insert_default();
        spec.tokens = Some(b"no credentials"[..].into());
    });
    assert!(
        matches!(refusal, Err(Refusal::BadCredentials(_))),
        "{refusal:?}"
    );
    let refusal = world.try_submit(|submission| {
        let id = submission.application_id.get_or_insert_default();
        id.cluster_timestamp = Some(1);
    });
    assert!(
        matches!(refusal, Err(Refusal::ForeignApplication(_))),
        "{refusal:?}"
    );
    let refusal = world.try_submit(|submission| {
        submission.application_name = Some("long".repeat(1 << 20));
    });
    assert!(matches!(refusal, Err(Refusal::TooLong(_))));
    assert_eq!(world.core.applications().count(), 0);
}
