//! Claims about the calls of ApplicationMasters: start, stop, status, update.

use node_view::usage::Uses;

use super::*;

#[test]
fn a_refused_start_may_be_tried_again_with_the_same_token_and_an_accepted_one_not() {
    let mut node = Node::new();
    let bad_credentials = RemoteException::new(HadoopException::YarnException, "no token storage");
    let mut broken = request(1);
    broken.context = Err(bad_credentials.clone());
    assert_eq!(node.refusal(broken), bad_credentials);
    let mut nameless = request(1);
    nameless.token.submitter.clear();
    node.refusal(nameless);
    assert!(matches!(node.start(1), StartOutcome::Started));
    let id = container_id(1);
    assert_eq!(
        node.refusal(request(1)).message,
        format!(
            "Unauthorized request to start container.\n Attempt to relaunch the same container with id {id}."
        )
    );
}

#[test]
fn of_two_ids_with_one_text_the_second_is_refused_as_long_as_the_first_is_here() {
    let mut node = Node::new();
    let expiring = |n: i64, now: EpochMillis| {
        let mut request = request(n);
        request.token.expiry = EpochMillis(now.0 + 1);
        request
    };
    let first = expiring(-1, node.now.wall);
    let outcome = node.core.start(asker(), first, node.now);
    assert!(matches!(outcome, StartOutcome::Started));
    // The token of the first has expired since, so that only the container speaks against it.
    node.now.wall.0 += 100;
    let refusal = node.refusal(expiring((1 << 40) - 1, node.now.wall));
    assert!(refusal.message.contains("already is running"), "{refusal}");
}

#[test]
fn a_container_whose_id_a_node_counted_down_is_explained_by_its_text() {
    let mut node = Node::new();
    node.start(-1);
    let name = container_id(-1).to_string().parse().unwrap();
    let explained = node
        .core
        .operator_explanation(name, &Uses::default(), node.now);
    assert!(explained.is_some());
}

#[test]
fn the_status_of_an_end_tells_how_long_the_container_ran_and_not_how_long_it_waited() {
    let mut node = Node::new();
    assert!(matches!(node.start(1), StartOutcome::Started));
    node.now.mono = node.now.mono + 60_000;
    node.launched(1);
    node.now.mono = node.now.mono + 70;
    let ran = |node: &mut Node| {
        let statuses = node.core.heartbeat_report(node.now).containers;
        statuses.iter().map(wire::run_time::of).collect::<Vec<_>>()
    };
    assert_eq!(ran(&mut node), [None], "it runs");
    node.exit(1, 3);
    assert_eq!(ran(&mut node), [Some(70)]);
}

/// The sentence of `docs/users.md`: the check comes before any executor.
#[test]
fn names_that_are_no_folders_names_are_refused_with_the_text_of_the_docs() {
    let docs = include_str!("../../../docs/users.md");
    for name in ["DOM\\bob", "john doe"] {
        assert!(docs.contains(&format!("`{name}`")), "{name}");
        let mut node = Node::new();
        let mut request = request(1);
        name.clone_into(&mut request.token.submitter);
        let text = format!("invalid user name {name:?}");
        let refusal = node.refusal(request);
        assert!(refusal.message.ends_with(&text), "{refusal}");
        assert!(name.contains(' ') || docs.contains(&text), "{text}");
    }
}

/// A request whose launch context takes nearly as much as a context may.
fn large_request(n: i64) -> StartRequest {
    let mut large = request_for(container_id(n), ExecutionType::Opportunistic);
    large.spec.resource = Resource::new(8192, 8);
    large.context = Ok(LaunchContext {
        credentials: vec![0; 900_000],
        ..LaunchContext::default()
    });
    large
}

#[test]
fn waiting_launch_contexts_share_a_budget_that_a_launch_and_an_end_return() {
    let mut node = Node::new();
    let start = |node: &mut Node, n| node.core.start(asker(), large_request(n), node.now);
    assert!(matches!(start(&mut node, 1), StartOutcome::Started));
    assert!(matches!(start(&mut node, 2), StartOutcome::Started));
    let launched = node.core.take_effects();
    assert!(
        matches!(start(&mut node, 3), StartOutcome::Refused(_)),
        "in the launcher's queue"
    );
    drop(launched);
    assert!(
        matches!(start(&mut node, 3), StartOutcome::Started),
        "the first was launched"
    );
    let StartOutcome::Refused(refusal) = start(&mut node, 4) else {
        panic!("the node is full");
    };
    assert!(refusal.is(HadoopException::NmNotYetReady), "{refusal}");
    assert!(refusal.message.contains("of user alice"), "{refusal}");
    node.core
        .stop_container(asker(), container_id(2), node.now)
        .unwrap();
    node.core.take_effects();
    assert!(matches!(start(&mut node, 4), StartOutcome::Started));
}

#[test]
fn an_oversized_launch_context_is_refused_and_leaves_nothing_behind() {
    let mut node = Node::new();
    let mut large = large_request(1);
    let Ok(context) = &mut large.context else {
        unreachable!()
    };
    context
        .environment
        .insert("A".to_owned(), "x".repeat(100_000));
    let refusal = node.refusal(large);
    assert!(refusal.is(HadoopException::YarnException), "{refusal}");
    assert!(
        refusal.message.contains("at most 1000000 are allowed"),
        "{refusal}"
    );
    assert!(node.knows_nothing_of_containers());
    assert_eq!(node.core.applications.iter().count(), 0);
}

#[test]
fn diagnostics_of_many_statuses_share_one_answer() {
    let mut node = Node::new();
    node.run(1);
    node.handle(LaunchEvent::ProcessesGone(container_id(1)));
    node.handle(LaunchEvent::Exited {
        id: container_id(1),
        status: ContainerExitStatus(1),
        cause: String::new(),
        diagnostics: format!("{}the end", "x".repeat(5_000)),
    });
    let ids = vec![container_id(1); 5_000];
    let statuses = node.core.container_statuses(asker(), &ids, node.now);
    let mut texts = statuses
        .iter()
        .map(|status| status.as_ref().unwrap().diagnostics());
    assert!(texts.clone().map(str::len).sum::<usize>() <= 8 << 20);
    assert!(texts.next_back().unwrap().trim_end().ends_with("the end"));
}

#[test]
fn refused_starts_leave_nothing_behind() {
    let mut node = Node::new();
    let mut broken = request(1);
    broken.context = Err(RemoteException::new(HadoopException::YarnException, "x"));
    node.refusal(broken);
    let mut expired = request(1);
    expired.token.expiry = EpochMillis(-1);
    let error = node.refusal(expired);
    assert!(error.message.starts_with(
        "Unauthorized request to start container.\nThis token is expired. current time is 0 found -1\n"
    ));
    assert!(node.knows_nothing_of_containers());
    assert_eq!(node.core.applications.iter().count(), 0);
    assert_eq!(node.work(), []);
}

#[test]
fn a_token_of_an_update_does_not_start_the_container_again_once_it_has_ended() {
    let mut node = Node::new();
    node.now.wall = EpochMillis(1_000_000);
    let with_life = |version, expires_in_ms: i64, now: EpochMillis| {
        let mut request = request(1);
        request.spec.version = version;
        request.token = ContainerToken::from(ContainerTokenIdentifierProto {
            expiry_time_stamp: Some(now.0 + expires_in_ms),
            creation_time: Some(1_000_000),
            ..token(&request.spec)
        });
        request
    };
    let first = with_life(0, 600_000, node.now.wall);
    assert!(matches!(
        node.core.start(asker(), first, node.now),
        StartOutcome::Started
    ));
    node.launched(1);
    // Issued just before the end, and presented long after the first token has expired and the
    // container is forgotten.
    node.now.wall.0 += 3_600_000;
    let update = with_life(1, 600_000, node.now.wall);
    node.exit(1, 0);
    node.answered(HeartbeatOrders::default());
    node.acknowledge(1);
    assert!(node.knows_nothing_of_containers());
    node.now.wall.0 += 599_000;
    let refusal = node.refusal(update);
    assert!(refusal.message.contains("Attempt to relaunch"), "{refusal}");
}

#[test]
fn an_old_nm_token_fails_the_whole_call() {
    let mut node = Node::new();
    let old = Asker {
        key_id: KEY_ID + 1,
        ..asker()
    };
    let outcome = node.core.start(old, request(1), node.now);
    assert!(
        matches!(&outcome, StartOutcome::CallFailed(error) if error.is(HadoopException::InvalidToken)),
        "{outcome:?}"
    );
}

/// An ApplicationMaster of another application.
fn stranger() -> Asker {
    Asker {
        attempt: ApplicationId::new(APP.cluster_timestamp, APP.id + 1).attempt(1),
        ..asker()
    }
}

#[test]
fn other_applications_cannot_learn_whether_a_container_is_here() {
    let mut node = Node::new();
    node.run(1);
    for n in [1, 9] {
        let id = container_id(n);
        let attempt = stranger().attempt;
        let refused = node.core.stop_container(stranger(), id, node.now);
        assert_eq!(
            refused.unwrap_err().message,
            format!("{attempt} attempted to stop non-application container : {id}")
        );
        let refused = node.core.container_status(stranger(), id, node.now);
        assert_eq!(
            refused.unwrap_err().message,
            format!("{attempt} attempted to get status for non-application container : {id}")
        );
        let checked = node.core.localization_sets(stranger(), vec![id], node.now);
        assert!(checked[0].is_err());
    }
    let started = node.core.start(stranger(), request(2), node.now);
    assert!(
        matches!(&started, StartOutcome::Refused(error) if error.message.starts_with(
            "Unauthorized request to start container.\nNMToken for application attempt : "
        )),
        "{started:?}"
    );
    assert_eq!(node.beat(), [(1, RUNNING, -1000)]);
}

fn update(node: &mut Node, n: i64, version: i32, memory_mb: u64) -> Result<(), RemoteException> {
    let spec = ContainerSpec {
        id: container_id(n),
        resource: Resource::new(memory_mb, 1),
        execution_type: ExecutionType::Guaranteed,
        version,
    };
    let request = update_of(spec, token(&spec));
    node.core.update_container(asker(), request, node.now)
}

#[test]
fn an_increase_is_reported_until_it_was_surely_delivered_and_no_other_comes_before() {
    let mut node = Node::new();
    node.run(1);
    update(&mut node, 1, 1, 2048).unwrap();
    assert_eq!(node.core.heartbeat_report(node.now).increased.len(), 1);
    let refused = update(&mut node, 1, 2, 4096).unwrap_err();
    assert!(refused.message.contains("resource is being increased"));
    let orders = HeartbeatOrders::default();
    node.core
        .heartbeat_answered(&Delivery::PerhapsNothing, orders, node.now);
    assert_eq!(node.core.heartbeat_report(node.now).increased.len(), 1);
    node.answered(HeartbeatOrders::default());
    assert_eq!(node.core.heartbeat_report(node.now).increased, []);
    update(&mut node, 1, 2, 4096).unwrap();
    let refused = update(&mut node, 1, 2, 8192).unwrap_err();
    assert_eq!(
        refused.message,
        format!(
            "Container {} resource is being increased -or- is undergoing ExecutionType promoted.",
            container_id(1)
        )
    );
}

#[test]
fn an_increase_of_a_finished_container_succeeds_and_is_not_reported() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    update(&mut node, 1, 1, 2048).unwrap();
    assert_eq!(node.core.heartbeat_report(node.now).increased, []);
}

#[test]
fn an_update_with_a_strangers_or_an_old_token_is_refused_with_texts_of_its_own() {
    let mut node = Node::new();
    node.run(1);
    let spec = ContainerSpec {
        version: 1,
        ..request(1).spec
    };
    let refused = |node: &mut Node, asker, token| {
        let request = update_of(spec, token);
        let result = node.core.update_container(asker, request, node.now);
        result.unwrap_err().message
    };
    let message = refused(&mut node, stranger(), token(&spec));
    assert!(
        message.starts_with("Unauthorized request to increase container resource.\nNMToken for"),
        "{message}"
    );
    let expired = ContainerTokenIdentifierProto {
        expiry_time_stamp: Some(-1),
        ..token(&spec)
    };
    let message = refused(&mut node, asker(), expired);
    assert!(
        message.starts_with("Unauthorized request to increase container resource.\nThis token is"),
        "{message}"
    );
}
