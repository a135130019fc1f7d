//! Claims about events of workers and the effects that order work.

use node_view::outcome::{CacheUse, CallOutcome};

use super::*;

#[test]
fn a_signal_is_sent_and_noted_in_the_diagnostics() {
    let mut node = Node::new();
    node.run(1);
    node.work();
    let signal = ContainerSignal::OutputThreadDump;
    node.core.signal(container_id(1), signal);
    let effects = node.core.take_effects();
    let [Effect::Signal { id, user, signal }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!((*id, user.as_str()), (container_id(1), "alice"));
    assert_eq!(signal.as_str(), "OUTPUT_THREAD_DUMP");
    let signalled = WorkerEvent::Signalled {
        id: *id,
        diagnostics: "Sent signal OUTPUT_THREAD_DUMP".to_owned(),
    };
    node.core.handle(signalled, node.now, 0);
    assert!(
        node.diagnostics(1)
            .contains("Sent signal OUTPUT_THREAD_DUMP")
    );
    node.core
        .signal(container_id(9), ContainerSignal::GracefulShutdown);
    assert!(
        node.core.take_effects().is_empty(),
        "unknown containers are passed over"
    );
}

#[test]
fn a_signal_that_waited_for_the_process_is_noted_in_the_diagnostics() {
    let mut node = Node::new();
    node.start(1);
    node.launched_and_signalled(1, vec!["Sent signal GRACEFUL_SHUTDOWN".to_owned()]);
    let diagnostics = node.diagnostics(1);
    assert!(
        diagnostics.contains("Sent signal GRACEFUL_SHUTDOWN"),
        "{diagnostics}"
    );
}

#[test]
fn a_refused_launch_completes_the_container_and_counts_no_failed_launch() {
    let mut node = Node::new();
    node.start(1);
    assert_eq!(node.work(), [Work::Launch(container_id(1))]);
    let refused = WorkerEvent::LaunchRefused {
        id: container_id(1),
        diagnostics: "too many launches are waiting".to_owned(),
    };
    node.core.handle(refused, node.now, 0);
    let effects = node.core.take_effects();
    let is_failure = |effect: &Effect| matches!(effect, Effect::Observe(Observed::LaunchFailed));
    assert!(!effects.iter().any(is_failure), "{effects:?}");
    assert_eq!(
        effects.iter().filter_map(Work::of).collect::<Vec<_>>(),
        [Work::CleanUp(container_id(1))]
    );
    let status = ContainerExitStatus::LAUNCH_FAILED;
    assert_eq!(node.beat(), [(1, COMPLETE, status.0)]);
}

#[test]
fn a_failed_container_with_a_retry_policy_is_launched_again_with_its_context_and_folders() {
    let mut node = Node::new();
    let mut request = request(1);
    if let Ok(context) = &mut request.context {
        context.commands = vec!["run".to_owned()];
        context.retry = ContainerRetryContext {
            on: RetryOn::AllErrors,
            max_retries: Some(1),
            ..ContainerRetryContext::default()
        };
    }
    node.core.start(asker(), request, node.now);
    let first = launch_order(&mut node);
    node.launched(1);
    node.exit(1, 7);
    assert_eq!(node.work(), []);
    node.now.mono = node.core.next_deadline().unwrap();
    node.core.tick(node.now);
    let second = launch_order(&mut node);
    assert_eq!(second.context.context.commands, ["run"]);
    assert!(Arc::ptr_eq(&first.dirs, &second.dirs));
    let id = container_id(1);
    assert_eq!(second.spec.id, id);
    node.launched(1);
    node.exit(1, 8);
    assert_eq!(node.work(), [Work::CleanUp(id)]);
    drop(first);
    assert!(
        Arc::try_unwrap(second.context).is_ok(),
        "a container that has ended holds no context"
    );
}

#[test]
fn a_container_with_a_runtime_that_the_node_has_not_fails_and_is_not_launched() {
    let mut node = Node::new();
    node.core.runtimes = RuntimeChecks::new(Runtimes::PlainOnly);
    let mut docker = request(1);
    let runtime = (
        "YARN_CONTAINER_RUNTIME_TYPE".to_owned(),
        "docker".to_owned(),
    );
    docker.context.as_mut().unwrap().environment = [runtime].into();
    node.core.start(asker(), docker, node.now);
    assert_eq!(node.work(), [Work::CleanUp(container_id(1))]);
    let status = ContainerExitStatus::LAUNCH_FAILED;
    assert_eq!(node.beat(), [(1, COMPLETE, status.0)]);
    assert!(node.diagnostics(1).contains("runtime not allowed"));
}

#[test]
fn without_cgroups_an_evicted_container_is_killed_instead_of_frozen() {
    let mut node = Node::new();
    node.core.config.can_freeze = false;
    let mut opportunistic = request_for(container_id(1), ExecutionType::Opportunistic);
    opportunistic.spec.resource = Resource::new(8192, 1);
    opportunistic.token = token(&opportunistic.spec).into();
    node.core.start(asker(), opportunistic, node.now);
    node.launched(1);
    node.work();
    node.start(2);
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
}

#[test]
fn a_container_that_uses_too_much_memory_is_killed_with_diagnostics() {
    for (kind, status) in [(MemoryKind::Physical, -104), (MemoryKind::Virtual, -103)] {
        let mut node = Node::new();
        node.run(1);
        node.work();
        let exceeded = MemoryExceeded {
            id: container_id(1),
            kind,
            diagnostics: "Container [pid=7,containerID=1] is running 5B beyond".to_owned(),
        };
        node.core
            .handle(WorkerEvent::MemoryExceeded(exceeded.clone()), node.now, 0);
        assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
        // A finding that comes after the order of the end changes nothing.
        node.core
            .handle(WorkerEvent::MemoryExceeded(exceeded), node.now, 0);
        assert_eq!(node.work(), []);
        node.exit(1, 143);
        let reported = node.core.heartbeat_report(node.now).containers;
        assert_eq!(reported[0].exit_status, Some(status));
        let text = reported[0].diagnostics.as_deref().unwrap();
        assert_eq!(text.matches("is running 5B beyond").count(), 1, "{text}");
    }
}

#[test]
fn an_evicted_container_is_frozen_and_thawed_by_effects() {
    let mut node = Node::new();
    let mut opportunistic = request_for(container_id(1), ExecutionType::Opportunistic);
    opportunistic.spec.resource = Resource::new(8192, 1);
    opportunistic.token = token(&opportunistic.spec).into();
    let outcome = node.core.start(asker(), opportunistic, node.now);
    assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    node.launched(1);
    node.work();
    node.start(2);
    assert_eq!(node.work(), [Work::Pause(container_id(1))]);
    let paused = WorkerEvent::Isolation(IsolationEvent::Paused {
        id: container_id(1),
        held_mb: Some(7),
    });
    node.core.handle(paused, node.now, 0);
    assert_eq!(node.work(), [Work::Launch(container_id(2))]);
    node.launched(2);
    node.exit(2, 0);
    assert!(node.work().contains(&Work::Resume(container_id(1))));
    node.core.handle(
        WorkerEvent::Isolation(IsolationEvent::PauseFailed(container_id(1))),
        node.now,
        0,
    );
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
}

/// A container with one resource.
fn request_with_resource(n: i64) -> StartRequest {
    let spec = ResourceSpec {
        url: ResourceUrl {
            scheme: None,
            user_info: None,
            host: None,
            port: None,
            path: "/r".to_owned(),
        },
        size: 0,
        timestamp_ms: 0,
        kind: ResourceKind::File,
        visibility: Visibility::Public,
    };
    let mut request = request(n);
    if let Ok(context) = &mut request.context {
        context.resources = vec![("l".to_owned(), spec)];
    }
    request
}

#[test]
fn only_a_container_that_had_resources_releases_some() {
    let mut node = Node::new();
    node.core.start(asker(), request_with_resource(1), node.now);
    let (first, second) = (container_id(1), container_id(2));
    assert_eq!(node.work(), [Work::Localize(first)]);
    let failed = WorkerEvent::LocalizationFailed {
        purpose: LocalizeFor::Start,
        id: first,
        took: Duration::ZERO,
        diagnostics: "the source is gone".to_owned(),
    };
    node.core.handle(failed, node.now, 0);
    assert_eq!(node.work(), [Work::Release(first), Work::CleanUp(first)]);
    // Its AM may ask for the reason until the container is forgotten.
    node.beat();
    assert_eq!(node.work(), []);
    node.acknowledge(1);
    assert_eq!(node.work(), [Work::Forget(first)]);
    node.run(2);
    node.exit(2, 0);
    assert_eq!(node.work(), [Work::Launch(second), Work::CleanUp(second)]);
}

#[test]
fn what_resources_cost_is_counted_by_whether_they_were_there() {
    let mut node = Node::new();
    node.core.start(asker(), request_with_resource(1), node.now);
    let resource = |bytes, was_cached| LocalizedResource {
        link: "l".to_owned(),
        path: "/r".into(),
        set: SetNumber(0),
        bytes,
        was_cached,
    };
    let resources = vec![resource(5, false), resource(7, true)];
    let id = container_id(1);
    let event = WorkerEvent::Localized {
        id,
        purpose: LocalizeFor::Start,
        took: Duration::from_secs(2),
        resources,
    };
    // The call that asked for it came five seconds ago.
    node.core.handle(event, node.now, 5_000_000);
    let mut recorded = Vec::new();
    for effect in node.core.take_effects() {
        if let Effect::Observe(Observed::Localized {
            id,
            outcome,
            took,
            resources,
        }) = effect
        {
            recorded.push((id, outcome, took, resources));
        }
    }
    let resources = vec![(CacheUse::Miss, 5), (CacheUse::Hit, 7)];
    let expected = (id, CallOutcome::Ok, Duration::from_secs(2), resources);
    assert_eq!(recorded, [expected]);
}

#[test]
fn a_process_is_given_up_behind_the_record_of_its_end_and_not_before() {
    let mut node = Node::new();
    node.core.recorder = Recorder::new(true, 0);
    node.run(1);
    node.work();
    node.exit(1, 3);
    let effects = node.core.take_effects();
    let tells_end = |effect: &Effect| {
        let Effect::Store(StoreOrder::State(_, record)) = effect else {
            return false;
        };
        record.ended().is_some()
    };
    let told = effects.iter().position(tells_end).unwrap();
    let reap = &effects[told + 1];
    assert!(matches!(reap, Effect::Reap { id, .. } if *id == container_id(1)));
    assert!(
        !effects[..told]
            .iter()
            .any(|e| matches!(e, Effect::Reap { .. }))
    );
}
