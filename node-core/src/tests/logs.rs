//! Aggregation of logs.

use std::collections::BTreeSet;

use access_control::AccessList;
use log_aggregation::Outcome;
use log_aggregation::aggregated_log::AccessType;
use log_aggregation::policy::Policy;
use log_aggregation::upload::{RemoteLog, Uploaded, UploadedFile};
use node_view::overview::Decision;
use records::ContainerName;
use time::UtcOffset;
use wire::proto::hadoop_yarn::{ContainerTypeProto, LogAggregationStatusProto};

use super::*;

fn node() -> Node {
    let mut node = Node::new();
    node.core.config.log_aggregation = Some(LogAggregation {
        policy: Policy::All,
        local_cleanup: true,
        utc_offset: UtcOffset::UTC,
    });
    node
}

/// Takes the effects and returns the orders for logs among them, in short.
fn orders(node: &mut Node) -> Vec<String> {
    let mut orders = Vec::new();
    for effect in node.core.take_effects() {
        if Work::of(&effect) == Some(Work::DeleteLogs(APP)) {
            orders.push("delete".to_owned());
        }
        let Effect::Logs(order) = effect else {
            continue;
        };
        orders.push(match order {
            LogOrder::Begin(app) => format!("begin {} of {}", app.id.id, app.user.as_str()),
            LogOrder::ContainerStarted(id, role) => format!("started {} {role:?}", id.number()),
            LogOrder::ContainerEnded(end) => {
                format!("ended {} {}", end.id.number(), end.exit_status.0)
            }
            LogOrder::Finish(id) => format!("finish {}", id.id),
        });
    }
    orders
}

fn outcome(is_last: bool) -> Outcome {
    Outcome {
        application: APP,
        result: Ok(Uploaded {
            files: 1,
            listed: vec![UploadedFile {
                container: container_id(1).name(),
                name: "stdout".to_owned(),
                modified_s: 0,
                length: 3,
            }],
            bytes: 3,
            remote: Some(RemoteLog {
                name: "node_1_17".to_owned(),
                completed_at: EpochMillis(17),
                removed: Vec::new(),
            }),
            ..Uploaded::default()
        }),
        is_last,
    }
}

fn reports(node: &mut Node) -> Vec<LogAggregationStatusProto> {
    let reports = node.core.heartbeat_report(node.now).log_reports.0;
    reports
        .iter()
        .map(|report| report.log_aggregation_status())
        .collect()
}

fn ended_application(node: &mut Node) {
    node.run(1);
    node.exit(1, 7);
    node.finish_application();
}

#[test]
fn an_application_begins_once_and_finishes_after_its_last_container() {
    let mut node = node();
    node.run(1);
    node.run(2);
    node.exit(1, 7);
    node.finish_application();
    let expected = [
        "begin 1 of alice",
        "started 1 Task",
        "started 2 Task",
        "ended 1 7",
    ];
    assert_eq!(orders(&mut node), expected);
    node.exit(2, 143);
    assert_eq!(orders(&mut node), ["ended 2 -107", "finish 1"]);
}

#[test]
fn logs_are_deleted_and_the_application_forgotten_once_they_are_uploaded() {
    let mut node = node();
    ended_application(&mut node);
    let _begun = orders(&mut node);
    node.now.mono = MonoMillis(1_000_000);
    node.core.tick(node.now);
    assert!(orders(&mut node).is_empty(), "not while they are uploaded");
    let uploaded = WorkerEvent::LogsUploaded(outcome(true));
    node.core.handle(uploaded, node.now, 0);
    assert_eq!(node.core.next_deadline(), Some(node.now.mono));
    node.core.tick(node.now);
    assert_eq!(orders(&mut node), ["delete"]);
    assert!(node.core.applications.get(&APP).is_none());
}

#[test]
fn logs_that_are_to_be_kept_stay_as_long_as_without_aggregation() {
    let mut node = node();
    if let Some(logs) = &mut node.core.config.log_aggregation {
        logs.local_cleanup = false;
    }
    ended_application(&mut node);
    let uploaded = WorkerEvent::LogsUploaded(outcome(true));
    node.core.handle(uploaded, node.now, 0);
    assert_eq!(node.core.next_deadline(), Some(MonoMillis(1000)));
}

#[test]
fn reports_go_with_heartbeats_until_one_is_answered() {
    use LogAggregationStatusProto::{LogRunning, LogSucceeded};
    let mut node = node();
    ended_application(&mut node);
    let uploaded = WorkerEvent::LogsUploaded(outcome(true));
    node.core.handle(uploaded, node.now, 0);
    assert_eq!(reports(&mut node), [LogRunning, LogSucceeded]);
    let orders = HeartbeatOrders::default();
    node.core
        .heartbeat_answered(&Delivery::PerhapsNothing, orders, node.now);
    assert_eq!(reports(&mut node).len(), 2);
    node.answered(HeartbeatOrders::default());
    assert!(reports(&mut node).is_empty());
    let again = node.core.registration_report().log_reports;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].log_aggregation_status(), LogSucceeded);
}

#[test]
fn the_first_container_says_who_may_see_the_logs() {
    let mut node = node();
    for (number, list) in [(1, "bob"), (2, "eve")] {
        let mut request = request(number);
        let lists = &mut request.context.as_mut().unwrap().acls;
        lists.push((AccessType::ModifyApp, "carol".to_owned()));
        lists.push((AccessType::ViewApp, list.to_owned()));
        node.core.start(asker(), request, node.now);
    }
    let snapshot = node.core.snapshot();
    assert_eq!(snapshot.applications[0].view_acl, AccessList::new("bob"));
}

#[test]
fn what_a_container_wrote_last_is_told_to_watchers_only_where_all_may_see_it() {
    for (private, said) in [(false, "no such key"), (true, "")] {
        let mut node = node();
        node.core.config.private_output = private;
        node.run(1);
        node.handle(LaunchEvent::Exited {
            id: container_id(1),
            status: ContainerExitStatus(1),
            cause: String::new(),
            diagnostics: "no such key\n".to_owned(),
        });
        let overview = node.core.overview();
        let decision = &overview.decisions[0].decision;
        let told = matches!(decision, Decision::Completed { said: told, .. } if told == said);
        assert!(told, "{decision:?}");
    }
}

#[test]
fn the_token_says_which_container_is_the_master() {
    let mut node = node();
    let mut request = request(1);
    request.token = ContainerToken::from(ContainerTokenIdentifierProto {
        container_type: Some(ContainerTypeProto::ApplicationMaster.into()),
        ..token(&request.spec)
    });
    node.core.start(asker(), request, node.now);
    node.launched(1);
    let expected = ["begin 1 of alice", "started 1 ApplicationMaster"];
    assert_eq!(orders(&mut node), expected);
}

#[test]
fn uploads_are_shown_until_the_application_is_forgotten() {
    let mut node = node();
    node.run(1);
    node.core
        .handle(WorkerEvent::LogsUploaded(outcome(false)), node.now, 0);
    let shown = |node: &Node| {
        let snapshot = node.core.snapshot();
        let application = snapshot
            .applications
            .first()
            .map(|one| one.aggregated.clone());
        application.unwrap_or_default()
    };
    let uploads = shown(&node);
    assert_eq!(uploads.len(), 1);
    assert_eq!(uploads[0].name, "node_1_17");
    assert_eq!(uploads[0].files[0].name, "stdout");
    // An upload whose end comes after the application is forgotten leaves nothing.
    let late = Outcome {
        application: ApplicationId::new(1, 1),
        ..outcome(false)
    };
    node.core
        .handle(WorkerEvent::LogsUploaded(late), node.now, 0);
    assert_eq!(shown(&node).len(), 1);
}

/// Takes the effects and returns the containers that the next agent will know as settled.
fn stored_as_settled(node: &mut Node) -> Vec<ContainerName> {
    let effects = node.core.take_effects().into_iter();
    let settled = effects.filter_map(|effect| {
        if let Effect::Store(StoreOrder::LogsSettled(name)) = effect {
            Some(name)
        } else {
            None
        }
    });
    settled.collect()
}

#[test]
fn a_container_that_the_policy_leaves_out_is_left_out_by_the_next_agent_too() {
    for (policy, expected) in [
        // Containers 2 and 3 end with 0 and 1.
        (Policy::Failed, vec![2]),
        (Policy::All, vec![]),
        // The next agent knows by itself.
        (Policy::None, vec![]),
    ] {
        let mut before = node();
        before.core.recorder = Recorder::new(true, 0);
        before.core.config.log_aggregation.as_mut().unwrap().policy = policy;
        for (number, status) in [(2, 0), (3, 1)] {
            before.run(number);
            before.exit(number, status);
        }
        let settled = stored_as_settled(&mut before);
        let numbers: Vec<i64> = settled.iter().map(|name| name.number()).collect();
        assert_eq!(numbers, expected, "{policy:?}");

        let mut after = node();
        let record = before.core.recorder.application(&APP).unwrap().clone();
        let settled: BTreeSet<ContainerName> = settled.into_iter().collect();
        let state = RestoredState {
            applications: vec![(APP, record)],
            settled_logs: [(APP, settled.clone())].into(),
            ..RestoredState::default()
        };
        after.core.restore(state, after.now);
        let begun = after.core.take_effects().into_iter();
        let mut begun = begun.filter_map(|effect| {
            if let Effect::Logs(LogOrder::Begin(application)) = effect {
                Some(application.settled)
            } else {
                None
            }
        });
        assert_eq!(begun.next(), Some(settled), "{policy:?}");
    }
}

#[test]
fn tokens_of_an_ended_application_are_kept_alive_until_its_logs_are_up() {
    let named = |node: &mut Node| node.core.heartbeat_report(node.now).keep_alive;
    let mut node = node();
    node.core.config.is_secure = true;
    node.run(1);
    assert!(named(&mut node).is_empty(), "it has not ended");
    node.finish_application();
    assert_eq!(named(&mut node), [APP], "its container is being ended");
    node.exit(1, 143);
    assert!(named(&mut node).is_empty(), "it was named a moment ago");
    node.core.heartbeat_failed(node.now);
    assert_eq!(named(&mut node), [APP]);
    // Before the ResourceManager cancels them.
    node.now.mono = node.now.mono + 599_999;
    assert_eq!(named(&mut node), [APP]);
    let uploaded = WorkerEvent::LogsUploaded(outcome(true));
    node.core.handle(uploaded, node.now, 0);
    node.core.heartbeat_failed(node.now);
    assert!(named(&mut node).is_empty(), "its logs are up");
}

#[test]
fn nothing_is_kept_alive_without_kerberos_or_without_aggregation() {
    for (is_secure, aggregates) in [(false, true), (true, false)] {
        let mut node = node();
        node.core.config.is_secure = is_secure;
        if !aggregates {
            node.core.config.log_aggregation = None;
        }
        node.run(1);
        node.finish_application();
        let report = node.core.heartbeat_report(node.now);
        assert!(report.keep_alive.is_empty(), "{is_secure} {aggregates}");
    }
}
