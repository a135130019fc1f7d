//! Claims about the core and the effects that it returns. No thread, no file, no waiting.

use std::sync::Arc;

use bytes::Bytes;
use records::{
    ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, MonoMillis,
    NodeId, Now, Resource,
};
use sched::{
    ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, OpportunisticContainersStatus,
};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::ContainerStateProto;
use wire::token::MasterKey;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{ContainerSignal, LaunchEvent, LaunchTimings};
use container_runtime::monitor::{MemoryExceeded, MemoryKind};
use localize::{ResourceKind, ResourceSpec, ResourceUrl, Visibility};
use node_web::metrics::Metrics;
use node_web::view::{ContainerCounts, MemoryChecks, NodeHealth, Versions};
use test_support::ids::{self, container as container_id};

use super::*;
use crate::performer::record_metrics;
use crate::worker_event::WorkerEvent;

pub(crate) const RM_IDENTIFIER: i64 = 77;
const KEY_ID: i32 = 1;
/// The application of [`container_id`]'s containers.
const APP: ApplicationId = ids::application(1);

/// Orders to workers among the effects, reduced to what tests compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Localize(ContainerId),
    Launch(ContainerId),
    Pause(ContainerId),
    Resume(ContainerId),
    Limits(ContainerSpec),
    Terminate(ContainerId),
    ForceKill(ContainerId),
    CleanUp(ContainerId),
    FinishApplication(ApplicationId),
    DeleteLogs(ApplicationId),
}

impl Work {
    /// Returns the work that an effect orders; `None` if the effect is of another kind.
    pub(crate) fn of(effect: &Effect) -> Option<Self> {
        Some(match effect {
            Effect::Localize { id, .. } => Self::Localize(*id),
            Effect::Launch(order) => Self::Launch(order.spec.id),
            Effect::Pause(id) => Self::Pause(*id),
            Effect::Resume(id) => Self::Resume(*id),
            Effect::ApplyLimits(spec) => Self::Limits(*spec),
            Effect::Terminate(id) => Self::Terminate(*id),
            Effect::ForceKill(id) => Self::ForceKill(*id),
            Effect::CleanUp { id, .. } => Self::CleanUp(*id),
            Effect::FinishApplication { id, .. } => Self::FinishApplication(*id),
            Effect::DeleteLogs(id) => Self::DeleteLogs(*id),
            Effect::SetNodeResource(_)
            | Effect::Signal { .. }
            | Effect::EndPipelines(_)
            | Effect::AnswerLocalization(_)
            | Effect::NotifyEnded(_)
            | Effect::HeartbeatNow
            | Effect::Record(_) => return None,
        })
    }
}

/// Returns the facts that pages show of the node, before the core fills in its part.
fn about() -> NodeSnapshot {
    NodeSnapshot {
        node_id: NodeId {
            host: "node-1.example".to_owned(),
            port: 8041,
        },
        http_port: 8042,
        versions: Versions::default(),
        started_at: EpochMillis(1_700_000_000_123),
        registered: true,
        health: NodeHealth {
            healthy: true,
            report: String::new(),
            updated_at: EpochMillis(1_700_000_009_000),
        },
        total: Resource::new(8192, 8),
        allocated: Resource::default(),
        memory_checks: MemoryChecks {
            pmem: true,
            vmem: false,
            vmem_pmem_ratio: 2.1,
        },
        counts: ContainerCounts::default(),
        opportunistic: OpportunisticContainersStatus::default(),
        frozen_memory_mb: 0,
        queuing_limit: None,
        log_roots: Vec::new(),
        applications: Vec::new(),
        containers: Vec::new(),
    }
}

/// A core for a node of 8 GiB and 8 cores, whose keys are known and which is not registered.
pub(crate) fn core_with(secrets: &Arc<NodeSecrets>) -> Core {
    let key = || MasterKey::new(KEY_ID, Bytes::from_static(b"12345678"));
    secrets.roll_container_token_key(key());
    secrets.roll_nm_token_key(key());
    let config = ContainerSchedulerConfig {
        queue_length_max: 10,
        use_pause_for_preemption: true,
        ..ContainerSchedulerConfig::default()
    };
    Core::new(CoreParts {
        config: CoreConfig {
            about: about(),
            node_address: "192.0.2.1".to_owned(),
            log_retain_ms: 1000,
            track_stopped_ms: 60_000,
            can_freeze: true,
        },
        scheduler: ContainerScheduler::new(config, Resource::new(8192, 8)),
        secrets: Arc::clone(secrets),
    })
}

pub(crate) fn asker() -> Asker {
    Asker {
        attempt: container_id(1).attempt,
        key_id: KEY_ID,
    }
}

/// A verified request to start the guaranteed container of this number.
pub(crate) fn request(n: i64) -> StartRequest {
    request_for(container_id(n), ExecutionType::Guaranteed)
}

pub(crate) fn request_for(id: ContainerId, execution_type: ExecutionType) -> StartRequest {
    let spec = ContainerSpec {
        id,
        resource: Resource::new(1024, 1),
        execution_type,
        version: 0,
    };
    StartRequest {
        spec,
        token: Arc::new(token(&spec)),
        context: Ok(LaunchContext::default()),
        received_us: 0,
    }
}

fn token(spec: &ContainerSpec) -> ContainerTokenIdentifierProto {
    ContainerTokenIdentifierProto {
        container_id: Some(spec.id.into()),
        app_submitter: Some("alice".to_owned()),
        resource: Some(spec.resource.into()),
        expiry_time_stamp: Some(i64::MAX),
        rm_identifier: Some(RM_IDENTIFIER),
        version: Some(spec.version),
        ..Default::default()
    }
}

struct Node {
    core: Core,
    now: Now,
}

impl Node {
    fn new() -> Self {
        let mut core = core_with(&Arc::default());
        let now = Now {
            mono: MonoMillis(0),
            wall: EpochMillis(0),
        };
        core.registered(RM_IDENTIFIER, None, now);
        Self { core, now }
    }

    fn start(&mut self, n: i64) -> StartOutcome {
        self.core.start(asker(), request(n), self.now)
    }

    fn refusal(&mut self, request: StartRequest) -> RemoteException {
        match self.core.start(asker(), request, self.now) {
            StartOutcome::Refused(error) => error,
            other @ (StartOutcome::Started | StartOutcome::CallFailed(_)) => panic!("{other:?}"),
        }
    }

    /// Starts a container and says that its process exists.
    fn run(&mut self, n: i64) {
        let outcome = self.start(n);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
        self.launched(n);
    }

    fn launched(&mut self, n: i64) {
        self.handle(LaunchEvent::Launched {
            id: container_id(n),
            pid: 4711,
            timings: LaunchTimings::default(),
        });
    }

    fn exit(&mut self, n: i64, status: i32) {
        self.handle(LaunchEvent::ProcessesGone(container_id(n)));
        self.handle(LaunchEvent::Exited {
            id: container_id(n),
            status: ContainerExitStatus(status),
            diagnostics: String::new(),
        });
    }

    fn handle(&mut self, event: LaunchEvent) {
        self.core.handle(WorkerEvent::Launch(event), self.now, 0);
    }

    /// Takes the effects since the last call, notifies waiting callers, and returns the orders to
    /// workers.
    fn work(&mut self) -> Vec<Work> {
        let mut work = Vec::new();
        for effect in self.core.take_effects() {
            work.extend(Work::of(&effect));
            if let Effect::NotifyEnded(waiter) = effect {
                waiter.send(()).unwrap();
            }
        }
        work
    }

    /// Returns the containers of the next heartbeat: number, state, exit status.
    fn beat(&mut self) -> Vec<(i64, ContainerStateProto, i32)> {
        let statuses = self.core.heartbeat_report(self.now).containers;
        let mut told: Vec<_> = statuses
            .iter()
            .map(|status| {
                let id = ContainerId::try_from(status.container_id.as_ref().unwrap()).unwrap();
                (id.id, status.state(), status.exit_status())
            })
            .collect();
        told.sort_by_key(|(id, ..)| *id);
        told
    }

    fn answered(&mut self, orders: HeartbeatOrders) {
        let increased = self.core.heartbeat_report(self.now).increased;
        let delivery = Delivery::Everything { increased };
        self.core.heartbeat_answered(&delivery, orders, self.now);
    }

    fn finish_application(&mut self) {
        self.answered(HeartbeatOrders {
            finish_applications: vec![APP],
            ..HeartbeatOrders::default()
        });
    }

    fn acknowledge(&mut self, n: i64) {
        self.answered(HeartbeatOrders {
            acknowledged: vec![container_id(n)],
            ..HeartbeatOrders::default()
        });
    }

    fn diagnostics(&self, n: i64) -> String {
        let status = self
            .core
            .container_status(asker(), container_id(n), self.now);
        status.unwrap().diagnostics().to_owned()
    }

    /// Nothing of a container is left but, for a while, that it was here.
    fn knows_nothing_of_containers(&self) -> bool {
        self.core.containers.is_empty()
            && self.core.scheduler.is_empty()
            && self
                .core
                .applications
                .iter()
                .all(|(_, app)| app.containers.is_empty() && app.live.is_empty())
    }
}

const RUNNING: ContainerStateProto = ContainerStateProto::CRunning;
const COMPLETE: ContainerStateProto = ContainerStateProto::CComplete;

#[test]
fn a_completion_is_reported_until_it_was_surely_delivered() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 3);
    let reported = [(1, COMPLETE, 3)];
    assert_eq!(node.beat(), reported);
    // The heartbeat after one that was not answered: the RM may have taken it for its repetition.
    let orders = HeartbeatOrders::default();
    node.core
        .heartbeat_answered(&Delivery::PerhapsNothing, orders, node.now);
    assert_eq!(node.beat(), reported);
    node.answered(HeartbeatOrders::default());
    assert_eq!(node.beat(), []);
}

#[test]
fn a_container_acknowledged_too_early_stays_in_heartbeats_until_it_is_done() {
    let mut node = Node::new();
    node.run(1);
    node.acknowledge(1);
    assert_eq!(node.beat(), [(1, RUNNING, -1000)]);
    node.exit(1, 0);
    assert_eq!(node.beat(), [(1, COMPLETE, 0)]);
    node.answered(HeartbeatOrders::default());
    assert_eq!(node.beat(), []);
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn an_acknowledged_container_is_forgotten_and_remembered_as_recently_stopped() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.acknowledge(1);
    assert!(node.knows_nothing_of_containers());
    let id = container_id(1);
    assert!(node.core.stop_container(asker(), id, node.now).is_ok());
    let error = node
        .core
        .container_status(asker(), id, node.now)
        .unwrap_err();
    assert_eq!(
        error.message,
        format!("Container {id} was recently stopped on node manager.")
    );
}

#[test]
fn the_end_of_an_application_waits_for_a_launch_under_way() {
    let mut node = Node::new();
    node.start(1);
    node.work();
    node.finish_application();
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
    assert_eq!(node.beat(), [(1, RUNNING, -107)]);
    node.handle(LaunchEvent::LaunchFailed {
        id: container_id(1),
        status: ContainerExitStatus::TERMINATED,
        diagnostics: "Container terminated before launch.".to_owned(),
    });
    let done = [Work::CleanUp(container_id(1)), Work::FinishApplication(APP)];
    assert_eq!(node.work(), done);
    assert_eq!(node.beat(), [(1, COMPLETE, -107)]);
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn a_container_of_an_ended_application_is_accepted_killed_and_never_launched() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.finish_application();
    node.work();
    assert!(matches!(node.start(2), StartOutcome::Started));
    let asked = node.work();
    assert_eq!(
        asked,
        [Work::CleanUp(container_id(2)), Work::FinishApplication(APP)]
    );
    let statuses = node.core.heartbeat_report(node.now).containers;
    assert_eq!(statuses.len(), 1, "the first one's end was told before");
    assert_eq!(statuses[0].exit_status(), -107);
    assert!(
        statuses[0]
            .diagnostics()
            .contains("Application no longer running.")
    );
    assert!(node.knows_nothing_of_containers());
}

#[test]
fn logs_go_when_they_are_old_enough_and_the_application_with_them() {
    let mut node = Node::new();
    node.run(1);
    node.exit(1, 0);
    node.finish_application();
    node.work();
    let due = node.core.next_deadline().unwrap();
    node.now.mono = due;
    node.core.tick(node.now);
    assert_eq!(node.work(), [Work::DeleteLogs(APP)]);
    assert_eq!(node.core.next_deadline(), None);
    assert_eq!(node.core.applications.iter().count(), 0);
}

#[test]
fn a_resync_keeps_completions_pending_that_no_registration_carries() {
    let mut node = Node::new();
    node.run(1);
    node.run(2);
    node.exit(1, 0);
    node.finish_application();
    node.exit(2, 143);
    assert!(node.knows_nothing_of_containers());
    let (done, mut answer) = oneshot::channel();
    node.core.resync(true, done, node.now);
    node.work();
    assert_eq!(answer.try_recv(), Ok(()));
    assert!(node.core.registration_report().containers.is_empty());
    node.core.registered(RM_IDENTIFIER, None, node.now);
    assert_eq!(node.beat(), [(2, COMPLETE, -107)]);
}

#[test]
fn a_registration_carries_the_completions_in_memory() {
    let mut node = Node::new();
    node.run(1);
    node.run(2);
    node.exit(1, 5);
    let (done, _answer) = oneshot::channel();
    node.core.resync(true, done, node.now);
    let report = node.core.registration_report();
    let told: Vec<_> = report
        .containers
        .iter()
        .map(|container| {
            (
                container.container_state(),
                container.container_exit_status(),
            )
        })
        .collect();
    assert_eq!(told, [(COMPLETE, 5), (RUNNING, -1000)]);
    assert_eq!(report.running_applications, [APP]);
    assert_eq!(node.beat(), [(2, RUNNING, -1000)]);
}

#[test]
fn nothing_starts_between_a_resync_and_the_registration() {
    let mut node = Node::new();
    let (done, _answer) = oneshot::channel();
    node.core.resync(true, done, node.now);
    let error = node.refusal(request(1));
    assert!(error.is(HadoopException::InvalidContainer), "{error}");
    node.core.registered(RM_IDENTIFIER + 1, None, node.now);
    let error = node.refusal(request(1));
    assert!(error.is(HadoopException::InvalidContainer), "{error}");
}

#[test]
fn a_resync_that_keeps_no_containers_waits_for_their_end() {
    let mut node = Node::new();
    node.run(1);
    let (done, mut answer) = oneshot::channel();
    node.core.resync(false, done, node.now);
    node.work();
    assert!(answer.try_recv().is_err());
    node.exit(1, 143);
    node.work();
    assert_eq!(answer.try_recv(), Ok(()));
    let report = node.core.registration_report();
    assert_eq!(report.containers[0].container_exit_status(), -106);
}

#[test]
fn a_stop_ends_all_and_refuses_starts() {
    let mut node = Node::new();
    node.run(1);
    let (done, mut answer) = oneshot::channel();
    node.core.stop(done, node.now);
    node.work();
    assert!(answer.try_recv().is_err());
    let error = node.refusal(request(2));
    assert!(error.message.contains("in the process of shutting down"));
    node.exit(1, 143);
    node.work();
    assert_eq!(answer.try_recv(), Ok(()));
    assert_eq!(node.beat(), [(1, COMPLETE, -107)]);
    let (done, mut answer) = oneshot::channel();
    node.core.stop(done, node.now);
    node.work();
    assert_eq!(answer.try_recv(), Ok(()), "a second stop is answered too");
}

#[test]
fn a_refused_start_may_be_tried_again_with_the_same_token_and_an_accepted_one_not() {
    let mut node = Node::new();
    let bad_credentials = RemoteException::new(HadoopException::YarnException, "no token storage");
    let mut broken = request(1);
    broken.context = Err(bad_credentials.clone());
    assert_eq!(node.refusal(broken), bad_credentials);
    let mut nameless = request(1);
    nameless.token = Arc::new(ContainerTokenIdentifierProto {
        app_submitter: None,
        ..token(&nameless.spec)
    });
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
fn refused_starts_leave_nothing_behind() {
    let mut node = Node::new();
    let mut broken = request(1);
    broken.context = Err(RemoteException::new(HadoopException::YarnException, "x"));
    node.refusal(broken);
    let mut expired = request(1);
    expired.token = Arc::new(ContainerTokenIdentifierProto {
        expiry_time_stamp: Some(-1),
        ..token(&expired.spec)
    });
    let error = node.refusal(expired);
    assert!(error.message.starts_with(
        "Unauthorized request to start container.\nThis token is expired. current time is 0 found -1\n"
    ));
    assert!(node.knows_nothing_of_containers());
    assert_eq!(node.core.applications.iter().count(), 0);
    assert_eq!(node.work(), []);
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
        let (reply, _answer) = oneshot::channel();
        node.work();
        node.core
            .localization_statuses(stranger(), vec![id], reply, node.now);
        let effects = node.core.take_effects();
        let [Effect::AnswerLocalization(query)] = &effects[..] else {
            panic!("{effects:?}");
        };
        assert!(query.checked[0].is_err());
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
    assert_eq!((*id, &**user), (container_id(1), "alice"));
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
    let is_failure = |effect: &Effect| matches!(effect, Effect::Record(Record::LaunchFailed));
    assert!(!effects.iter().any(is_failure), "{effects:?}");
    assert_eq!(
        effects.iter().filter_map(Work::of).collect::<Vec<_>>(),
        [Work::CleanUp(container_id(1))]
    );
    let status = ContainerExitStatus::LAUNCH_FAILED;
    assert_eq!(node.beat(), [(1, COMPLETE, status.0)]);
}

#[test]
fn without_cgroups_an_evicted_container_is_killed_instead_of_frozen() {
    let mut node = Node::new();
    node.core.config.can_freeze = false;
    let mut opportunistic = request_for(container_id(1), ExecutionType::Opportunistic);
    opportunistic.spec.resource = Resource::new(8192, 1);
    opportunistic.token = Arc::new(token(&opportunistic.spec));
    node.core.start(asker(), opportunistic, node.now);
    node.launched(1);
    node.work();
    node.start(2);
    assert_eq!(node.work(), [Work::Terminate(container_id(1))]);
}

fn update(node: &mut Node, n: i64, version: i32, memory_mb: u64) -> Result<(), RemoteException> {
    let spec = ContainerSpec {
        id: container_id(n),
        resource: Resource::new(memory_mb, 1),
        execution_type: ExecutionType::Guaranteed,
        version,
    };
    let token = Arc::new(token(&spec));
    node.core.update_container(asker(), spec, token, node.now)
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
        let result = node
            .core
            .update_container(asker, spec, Arc::new(token), node.now);
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

#[test]
fn every_container_is_in_every_heartbeat_until_its_completion_was_reported() {
    let mut node = Node::new();
    for n in 1..=12 {
        let id = container_id(n);
        let kind = if n % 2 == 0 {
            ExecutionType::Opportunistic
        } else {
            ExecutionType::Guaranteed
        };
        let outcome = node.core.start(asker(), request_for(id, kind), node.now);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
    }
    let ids = |node: &mut Node| node.beat().iter().map(|(id, ..)| *id).collect::<Vec<_>>();
    let all: Vec<i64> = (1..=12).collect();
    assert_eq!(ids(&mut node), all);
    node.launched(1);
    node.exit(1, 0);
    node.answered(HeartbeatOrders {
        kill_containers: all.iter().map(|n| container_id(*n)).collect(),
        acknowledged: all.iter().map(|n| container_id(*n)).collect(),
        ..HeartbeatOrders::default()
    });
    // The first was reported; the others are still pending.
    assert_eq!(ids(&mut node), all[1..]);
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
        // What comes after the end was ordered changes nothing.
        node.core
            .handle(WorkerEvent::MemoryExceeded(exceeded), node.now, 0);
        assert_eq!(node.work(), []);
        node.exit(1, 143);
        let told = node.core.heartbeat_report(node.now).containers;
        assert_eq!(told[0].exit_status, Some(status));
        let text = told[0].diagnostics.as_deref().unwrap();
        assert_eq!(text.matches("is running 5B beyond").count(), 1, "{text}");
    }
}

#[test]
fn an_evicted_container_is_frozen_and_thawed_by_effects() {
    let mut node = Node::new();
    let mut opportunistic = request_for(container_id(1), ExecutionType::Opportunistic);
    opportunistic.spec.resource = Resource::new(8192, 1);
    opportunistic.token = Arc::new(token(&opportunistic.spec));
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

#[test]
fn what_resources_cost_is_counted_by_whether_they_were_there() {
    let mut node = Node::new();
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
    let mut request = request(1);
    if let Ok(context) = &mut request.context {
        context.resources = vec![("l".to_owned(), spec)];
    }
    node.core.start(asker(), request, node.now);
    let resource = |bytes, was_cached| LocalizedResource {
        link: "l".to_owned(),
        path: "/r".into(),
        bytes,
        was_cached,
    };
    let resources = vec![resource(5, false), resource(7, true)];
    let id = container_id(1);
    let event = WorkerEvent::Localized { id, resources };
    node.core.handle(event, node.now, 2_000_000);
    let metrics = Metrics::new();
    for effect in node.core.take_effects() {
        if let Effect::Record(record) = effect {
            record_metrics(&metrics, &record);
        }
    }
    let text = metrics.encode();
    for line in [
        "nm_agent_localized_bytes_total{cache=\"miss\"} 5\n",
        "nm_agent_localized_bytes_total{cache=\"hit\"} 7\n",
        "nm_agent_localization_seconds_sum 2\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
}
