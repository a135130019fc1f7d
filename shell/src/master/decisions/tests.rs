//! Decisions of the AM, case by case.

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, Resource};
use wire::proto::hadoop_common::TokenProto;

use super::Master;
use crate::job::Job;
use crate::master::asks::request_id;
use crate::master::testing::{container, node};
use crate::master::vocabulary::{
    Action, Answer, Ask, ChangeRefusal, Changed, Completed, Event, Granted, Heartbeat, Loss,
    Promote, Seen,
};
use crate::summary::{Outcome, Summary};

const GUARANTEED: ExecutionType = ExecutionType::Guaranteed;
const OPPORTUNISTIC: ExecutionType = ExecutionType::Opportunistic;

/// An AM and the time; each event comes a millisecond after the one before.
struct Bench {
    master: Master,
    now: u64,
    seen: Vec<Action>,
}

impl Bench {
    /// Returns a registered AM whose first heartbeat is in flight.
    fn start(guaranteed: u32, opportunistic: u32, change: impl FnOnce(&mut Job)) -> Self {
        let mut job = Job {
            guaranteed,
            opportunistic,
            ..Job::new(vec!["true".to_owned()])
        };
        change(&mut job);
        let mut bench = Self {
            master: Master::new(job, "u".to_owned(), MonoMillis(0)),
            now: 0,
            seen: Vec::new(),
        };
        bench.tell(Event::Registered { largest: None });
        bench
    }

    fn tell(&mut self, event: Event) -> Vec<Action> {
        self.now += 1;
        let actions = self.master.handle(event, MonoMillis(self.now));
        self.seen.clone_from(&actions);
        actions
    }

    /// Lets time pass to each wake-up until `ms` later; returns all actions on the way.
    fn pass(&mut self, ms: u64) -> Vec<Action> {
        let end = self.now + ms;
        let mut actions = Vec::new();
        while let Some(wake) = self.master.next_wake().filter(|wake| wake.0 <= end) {
            assert!(wake.0 + 1 >= self.now, "a wake-up in the past");
            self.now = self.now.max(wake.0);
            let new = self.master.handle(Event::Tick, MonoMillis(self.now));
            assert!(!new.is_empty(), "a wake-up for nothing at {}", self.now);
            actions.extend(new);
        }
        self.now = end;
        actions
    }

    /// Answers the heartbeat in flight.
    fn answer(&mut self, change: impl FnOnce(&mut Answer)) -> Vec<Action> {
        let mut answer = Answer::default();
        change(&mut answer);
        self.tell(Event::Answered(answer))
    }

    fn grant(&mut self, granted: &[(i64, ExecutionType)]) -> Vec<Action> {
        let granted: Vec<Granted> = granted.iter().map(|(id, of)| grant(*id, *of)).collect();
        self.answer(|answer| answer.granted = granted)
    }

    /// Returns the promotions that are asked for within `ms`, while nothing else happens.
    fn promotions(&mut self, ms: u64) -> Vec<Promote> {
        let mut promotions = Vec::new();
        for _ in 0..ms / PAUSE + 1 {
            let mut actions = self.pass(PAUSE);
            actions.extend(self.answer(|_| {}));
            let asked = heartbeats(&actions).into_iter();
            promotions.extend(asked.flat_map(|heartbeat| heartbeat.promotions.clone()));
        }
        promotions
    }

    fn accept(&mut self, id: i64) {
        self.tell(Event::Started {
            accepted: vec![container(id)],
            refused: Vec::new(),
        });
    }

    fn fail_update(&mut self) {
        self.tell(Event::Updated {
            node: node(1),
            settled: Vec::new(),
            has_failed: true,
        });
    }

    fn see_running(&mut self, id: i64) {
        self.tell(Event::StatusPolled {
            node: node(1),
            seen: Some(vec![Seen::Running(container(id))]),
        });
    }

    /// Reports the end of a container from its node.
    fn end(&mut self, id: i64, exit_status: i32) -> Vec<Action> {
        self.tell(Event::StatusPolled {
            node: node(1),
            seen: Some(vec![Seen::Completed(completed(id, exit_status))]),
        })
    }

    #[track_caller]
    fn finished(&self) -> &Summary {
        match self.seen.last() {
            Some(Action::Finish { summary, .. }) => summary,
            other => panic!("not over: {other:?}"),
        }
    }
}

fn grant(id: i64, execution_type: ExecutionType) -> Granted {
    Granted {
        id: container(id),
        node: node(1),
        node_http: "n1:8042".to_owned(),
        execution_type,
        allocation_request_id: request_id(execution_type),
        version: 0,
    }
}

fn completed(id: i64, exit_status: i32) -> Completed {
    Completed {
        id: container(id),
        exit_status: ContainerExitStatus(exit_status),
        diagnostics: String::new(),
    }
}

fn heartbeats(actions: &[Action]) -> Vec<&Heartbeat> {
    let mut heartbeats = Vec::new();
    for action in actions {
        if let Action::Allocate(heartbeat) = action {
            heartbeats.push(heartbeat);
        }
    }
    heartbeats
}

fn started(actions: &[Action]) -> Vec<ContainerId> {
    let mut ids = Vec::new();
    for action in actions {
        if let Action::Start { containers, .. } = action {
            ids.extend(containers.iter().map(|start| start.id));
        }
    }
    ids
}

#[test]
fn the_first_heartbeat_asks_for_everything_at_once() {
    let bench = Bench::start(2, 3, |_| {});
    let ask = |execution_type, count| Ask {
        execution_type,
        count,
    };
    let asks = &heartbeats(&bench.seen)[0].asks;
    assert_eq!(asks, &[ask(GUARANTEED, 2), ask(OPPORTUNISTIC, 3)]);
}

#[test]
fn what_is_granted_is_started_and_not_asked_for_again() {
    let mut bench = Bench::start(2, 0, |_| {});
    let actions = bench.grant(&[(2, GUARANTEED)]);
    assert_eq!(started(&actions), [container(2)]);
    let actions = bench.pass(1_000);
    let asks = heartbeats(&actions)
        .iter()
        .map(|h| h.asks.len())
        .sum::<usize>();
    assert_eq!(asks, 0, "{actions:?}");
}

#[test]
fn what_is_granted_beyond_need_goes_back() {
    let mut bench = Bench::start(1, 0, |_| {});
    let actions = bench.grant(&[(2, GUARANTEED), (3, GUARANTEED)]);
    assert_eq!(started(&actions), [container(2)]);
    let actions = bench.pass(100);
    assert_eq!(heartbeats(&actions)[0].releases, [container(3)]);
}

#[test]
fn a_container_of_another_type_answers_the_ask_that_it_names() {
    let mut bench = Bench::start(0, 1, |_| {});
    let mut granted = grant(2, OPPORTUNISTIC);
    granted.execution_type = GUARANTEED;
    let actions = bench.answer(|answer| answer.granted = vec![granted]);
    assert_eq!(started(&actions), [container(2)]);
    assert_eq!(bench.master.counts().retyped, 1);
}

#[test]
fn the_job_is_over_when_every_task_is() {
    let mut bench = Bench::start(2, 0, |_| {});
    bench.grant(&[(2, GUARANTEED), (3, GUARANTEED)]);
    bench.accept(2);
    bench.accept(3);
    bench.end(2, 0);
    bench.end(3, 0);
    let summary = bench.finished();
    assert_eq!(summary.outcome, Outcome::Succeeded);
    assert_eq!(summary.counts.succeeded, 2);
    assert_eq!(bench.master.next_wake(), None);
    assert!(bench.tell(Event::Tick).is_empty());
}

#[test]
fn a_command_that_fails_is_not_tried_again_and_fails_the_job() {
    let mut bench = Bench::start(1, 0, |_| {});
    bench.grant(&[(2, GUARANTEED)]);
    bench.accept(2);
    bench.end(2, 3);
    let summary = bench.finished();
    assert_eq!(summary.outcome, Outcome::Failed);
    let failure = &summary.failures[0];
    assert_eq!((failure.task, failure.exit_status), (1, Some(3)));
    let url = format!("http://n1:8042/node/containerlogs/{}/u/", container(2));
    assert_eq!(failure.log_url, url);
}

#[test]
fn an_end_that_is_told_twice_counts_once() {
    let mut bench = Bench::start(0, 2, |_| {});
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    bench.end(2, -108);
    bench.pass(0);
    bench.answer(|answer| answer.completed = vec![completed(2, -108)]);
    assert_eq!(bench.master.counts().shed, 1);
}

#[test]
fn a_container_that_made_way_is_asked_for_again_at_once() {
    let mut bench = Bench::start(0, 1, |_| {});
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    bench.see_running(2);
    bench.end(2, -108);
    let asks = &heartbeats(&bench.pass(PAUSE))[0].asks.clone();
    assert_eq!(asks[0].count, 1);
    assert_eq!(bench.master.counts().evicted, 1);
}

/// Time in which two heartbeats fit, in milliseconds.
const PAUSE: u64 = 120;

#[test]
fn a_container_that_was_shed_rests_before_it_is_asked_for_again() {
    let mut bench = Bench::start(0, 1, |_| {});
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    bench.end(2, -108);
    let early = bench.pass(200);
    assert!(heartbeats(&early).iter().all(|h| h.asks.is_empty()));
}

#[test]
fn a_rest_ends_when_room_comes_free() {
    let mut bench = Bench::start(0, 2, |_| {});
    bench.grant(&[(2, OPPORTUNISTIC), (3, OPPORTUNISTIC)]);
    bench.accept(2);
    bench.accept(3);
    bench.end(2, -108);
    bench.answer(|_| {});
    bench.end(3, 0);
    assert_eq!(bench.master.counts().waiting, 1);
    bench.answer(|_| {});
    let actions = bench.pass(PAUSE);
    let asks: Vec<u32> = heartbeats(&actions)
        .iter()
        .flat_map(|heartbeat| heartbeat.asks.iter().map(|ask| ask.count))
        .collect();
    assert_eq!(asks, [1], "{actions:?}");
}

#[test]
fn a_task_that_loses_its_container_too_often_fails_with_the_reason() {
    let mut bench = Bench::start(1, 0, |job| job.retries_max = 1);
    for id in [2, 3] {
        bench.grant(&[(id, GUARANTEED)]);
        bench.accept(id);
        bench.end(id, -100);
        if id == 2 {
            bench.pass(PAUSE);
        }
    }
    let summary = bench.finished();
    assert_eq!(summary.counts.lost, 2);
    let reason = &summary.failures[0].reason;
    assert!(reason.starts_with("lost its container 2 times"), "{reason}");
}

#[test]
fn a_container_that_its_node_refuses_goes_back_and_another_is_asked_for() {
    let mut bench = Bench::start(1, 0, |_| {});
    bench.grant(&[(2, GUARANTEED)]);
    bench.tell(Event::Started {
        accepted: Vec::new(),
        refused: vec![(container(2), "no".to_owned())],
    });
    let actions = bench.pass(PAUSE);
    let heartbeat = heartbeats(&actions)[0];
    assert_eq!(heartbeat.releases, [container(2)]);
    assert_eq!(heartbeat.asks[0].count, 1);
}

#[test]
fn after_a_resync_everything_is_said_again() {
    let mut bench = Bench::start(2, 0, |_| {});
    bench.grant(&[(2, GUARANTEED), (3, GUARANTEED), (4, GUARANTEED)]);
    bench.accept(2);
    bench.tell(Event::Started {
        accepted: Vec::new(),
        refused: vec![(container(3), "no".to_owned())],
    });
    let actions = bench.pass(PAUSE);
    assert_eq!(
        heartbeats(&actions)[0].releases,
        [container(3), container(4)]
    );
    assert_eq!(bench.tell(Event::Resync), [Action::Register]);
    assert!(heartbeats(&bench.pass(PAUSE)).is_empty(), "not registered");
    let actions = bench.tell(Event::Registered { largest: None });
    let heartbeat = heartbeats(&actions)[0];
    assert_eq!(heartbeat.asks[0].count, 1);
    assert_eq!(heartbeat.releases, [container(3), container(4)]);
}

#[test]
fn a_container_that_waits_too_long_is_promoted() {
    let mut bench = Bench::start(0, 1, |job| job.promote_after_ms = Some(300));
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    assert_eq!(bench.promotions(100), []);
    let promote = Promote {
        id: container(2),
        version: 0,
    };
    assert_eq!(bench.promotions(2_000), [promote]);
    let actions = bench.answer(|answer| {
        answer.changed = vec![Changed {
            id: container(2),
            version: 1,
            execution_type: GUARANTEED,
            token: Some(TokenProto::default()),
        }];
    });
    let update = Action::Update {
        node: node(1),
        changes: vec![(container(2), TokenProto::default())],
    };
    assert!(actions.contains(&update), "{actions:?}");
    assert_eq!(bench.master.counts().promoted, 1);
    // The node is not reached, and gets the token later, unless the container has ended.
    bench.fail_update();
    assert!(bench.pass(500).contains(&update));
    bench.fail_update();
    bench.end(2, 0);
    assert!(!bench.pass(60_000).contains(&update));
}

#[test]
fn a_container_that_runs_is_not_promoted() {
    let mut bench = Bench::start(0, 1, |job| job.promote_after_ms = Some(300));
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    bench.see_running(2);
    assert_eq!(bench.promotions(2_000), []);
}

#[test]
fn a_promotion_refused_for_its_version_is_asked_for_with_the_right_one() {
    let mut bench = Bench::start(0, 1, |job| job.promote_after_ms = Some(0));
    bench.grant(&[(2, OPPORTUNISTIC)]);
    bench.accept(2);
    assert_eq!(bench.promotions(PAUSE).len(), 1);
    let refusal = ChangeRefusal::Version { current: 4 };
    bench.answer(|answer| answer.refused = vec![(container(2), refusal)]);
    let promote = Promote {
        id: container(2),
        version: 4,
    };
    assert_eq!(bench.promotions(3_000), [promote]);
}

#[test]
fn a_stop_ends_what_runs_and_says_so() {
    let mut bench = Bench::start(2, 0, |_| {});
    bench.grant(&[(2, GUARANTEED)]);
    bench.accept(2);
    let actions = bench.tell(Event::Stop);
    let stop = Action::StopContainers {
        node: node(1),
        containers: vec![container(2)],
    };
    assert_eq!(actions[0], stop);
    assert_eq!(bench.finished().outcome, Outcome::Stopped);
}

#[test]
fn without_a_resource_manager_what_runs_is_ended_and_nobody_is_told() {
    let mut bench = Bench::start(1, 0, |_| {});
    bench.grant(&[(2, GUARANTEED)]);
    let actions = bench.tell(Event::Lost(Loss::Silent));
    assert!(matches!(actions[0], Action::StopContainers { .. }));
    assert!(matches!(
        actions[1],
        Action::Finish {
            loss: Some(Loss::Silent),
            ..
        }
    ));
}

#[test]
fn an_ask_that_is_refused_fails_the_tasks_with_the_reason() {
    let mut bench = Bench::start(1, 1, |_| {});
    bench.tell(Event::AskRefused("too large".to_owned()));
    let summary = bench.finished();
    assert_eq!(summary.outcome, Outcome::Failed);
    assert_eq!(summary.counts.failed, 2);
    assert!(summary.failures.iter().all(|f| f.reason == "too large"));
}

#[test]
fn a_queue_that_gives_no_container_so_large_fails_the_job() {
    let mut bench = Bench::start(1, 0, |_| {});
    bench.tell(Event::Resync);
    let largest = Some(Resource::new(100, 1));
    bench.tell(Event::Registered { largest });
    assert_eq!(bench.finished().outcome, Outcome::Failed);
}

#[test]
fn waits_are_from_acceptance_to_the_first_sight() {
    let mut bench = Bench::start(1, 0, |_| {});
    bench.grant(&[(2, GUARANTEED)]);
    bench.accept(2);
    bench.pass(20);
    bench.see_running(2);
    bench.end(2, 0);
    assert_eq!(bench.finished().queue_wait_p50_ms, Some(21));
}

#[test]
fn many_starts_go_in_calls_of_bounded_size() {
    let mut bench = Bench::start(250, 0, |_| {});
    let granted: Vec<(i64, ExecutionType)> = (2..252).map(|id| (id, GUARANTEED)).collect();
    let actions = bench.grant(&granted);
    let mut sizes = Vec::new();
    for action in &actions {
        if let Action::Start { containers, .. } = action {
            sizes.push(containers.len());
        }
    }
    assert_eq!(sizes, [100, 100, 50]);
}
