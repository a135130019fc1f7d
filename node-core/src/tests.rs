//! Claims about the core and the effects that it returns. No thread, no file, no waiting.

mod calls;
mod drain;
mod health;
mod logs;
mod recovery;
mod reinit;
mod reservations;
mod resource_manager;
mod run_lengths;
mod services;
mod tokens;
mod workers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use records::{
    ApplicationId, ContainerExitStatus, ContainerId, EpochMillis, ExecutionType, MonoMillis, Now,
    Resource,
};
use sched::{ContainerRetryContext, ContainerSpec, RetryOn};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{ContainerStateProto, ContainerTokenIdentifierProto};

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{ContainerSignal, LaunchEvent, LaunchTimings};
use container_runtime::monitor::{MemoryExceeded, MemoryKind};
use dir_handle::DirHandle;
use launch_context::LaunchContext;
use localize::{
    ContainerDirs, ContainerFolder, LocalizedResource, ResourceKind, ResourceSpec, ResourceUrl,
    SetNumber, UsedSets, Visibility,
};
use test_support::ids::{self, container as container_id};

use super::*;
pub(crate) use crate::fixture::*;
pub(crate) use crate::recorder::Recorder;

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
    Release(ContainerId),
    Forget(ContainerId),
    CleanUp(ContainerId),
    FinishApplication(ApplicationId),
    DeleteLogs(ApplicationId),
    AllEnded,
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
            Effect::ReleaseResources(id) => Self::Release(*id),
            Effect::ForgetResources(id) => Self::Forget(*id),
            Effect::CleanUp { id, .. } => Self::CleanUp(*id),
            Effect::FinishApplication { id, .. } => Self::FinishApplication(*id),
            Effect::DeleteLogs(id) => Self::DeleteLogs(*id),
            Effect::AllEnded => Self::AllEnded,
            Effect::SetNodeResource(_)
            | Effect::SetRmIdentifier(_)
            | Effect::SetQueuingLimit(_)
            | Effect::UseSets { .. }
            | Effect::ContainerInitialized(_)
            | Effect::ContainerStopped(_)
            | Effect::InitializeApplication { .. }
            | Effect::Tokens { .. }
            | Effect::ForgetTokens(_)
            | Effect::Signal { .. }
            | Effect::Link(_)
            | Effect::EndPipelines(_)
            | Effect::Logs(_)
            | Effect::HeartbeatNow
            | Effect::Adopt(_)
            | Effect::Store(_)
            | Effect::Reap { .. }
            | Effect::Record(_)
            | Effect::Offer(_)
            | Effect::Observe(_) => return None,
        })
    }
}

/// Returns a moment so many seconds after the agent's start, at the beginning of the wall clock.
pub(crate) fn at_second(second: u64) -> Now {
    Now {
        mono: MonoMillis(second * 1000),
        wall: EpochMillis(0),
    }
}

/// Attempts whose NMTokens are signed with the key [`KEY_ID`].
struct OneKey;

impl Attempts for OneKey {
    fn remember(&self, _: ApplicationAttemptId, key_id: i32) -> Result<(), RemoteException> {
        let known = (key_id == KEY_ID).then_some(());
        known.ok_or_else(|| RemoteException::new(HadoopException::InvalidToken, "another key"))
    }

    fn forget_application(&self, _: ApplicationId) {}
}

/// Returns a core that is not registered.
pub(crate) fn unregistered_core() -> Core {
    Core::new(parts(Arc::new(OneKey)))
}

pub(crate) fn asker() -> Asker {
    asker_of(container_id(1).attempt)
}

/// A verified request to start the guaranteed container of this number.
pub(crate) fn request(n: i64) -> StartRequest {
    request_for(container_id(n), ExecutionType::Guaranteed)
}

/// Takes the effects, among which is one launch.
fn launch_order(node: &mut Node) -> LaunchOrder {
    let launch = |effect| {
        if let Effect::Launch(order) = effect {
            Some(*order)
        } else {
            None
        }
    };
    let effects = node.core.take_effects();
    effects.into_iter().find_map(launch).unwrap()
}

/// Returns an open folder in place of a container's.
fn some_dirs() -> ContainerDirs {
    let root = Arc::new(DirHandle::open_ambient(Path::new("/")).unwrap());
    let folder = || ContainerFolder::new(Arc::clone(&root), Path::new("/"), PathBuf::new());
    ContainerDirs {
        work_dir: folder(),
        log_dir: folder(),
        local_dirs: Vec::new(),
        local_user_dirs: Vec::new(),
        log_dirs: Vec::new(),
    }
}

struct Node {
    core: Core,
    now: Now,
}

impl Node {
    fn new() -> Self {
        let mut core = unregistered_core();
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

    /// Starts a container and reports that its process exists.
    fn run(&mut self, n: i64) {
        let outcome = self.start(n);
        assert!(matches!(outcome, StartOutcome::Started), "{outcome:?}");
        self.launched(n);
    }

    fn launched(&mut self, n: i64) {
        self.launched_and_signalled(n, Vec::new());
    }

    fn launched_and_signalled(&mut self, n: i64, signals: Vec<String>) {
        self.handle(LaunchEvent::Launched {
            start_time: 0,
            id: container_id(n),
            pid: 4711,
            timings: LaunchTimings::default(),
            signals,
        });
    }

    fn exit(&mut self, n: i64, status: i32) {
        self.handle(LaunchEvent::ProcessesGone(container_id(n)));
        self.handle(LaunchEvent::Exited {
            id: container_id(n),
            status: ContainerExitStatus(status),
            cause: String::new(),
            diagnostics: String::new(),
        });
    }

    fn handle(&mut self, event: LaunchEvent) {
        self.core.handle(WorkerEvent::Launch(event), self.now, 0);
    }

    /// Takes the effects since the last call, and returns the orders to workers.
    fn work(&mut self) -> Vec<Work> {
        let effects = self.core.take_effects();
        effects.iter().filter_map(Work::of).collect()
    }

    /// Returns the containers of the next heartbeat: number, state, exit status.
    fn beat(&mut self) -> Vec<(i64, ContainerStateProto, i32)> {
        let statuses = self.core.heartbeat_report(self.now).containers;
        let mut reported: Vec<_> = statuses
            .iter()
            .map(|status| {
                let id = ContainerId::try_from(status.container_id.as_ref().unwrap()).unwrap();
                (id.id, status.state(), status.exit_status())
            })
            .collect();
        reported.sort_by_key(|(id, ..)| *id);
        reported
    }

    fn answered(&mut self, orders: HeartbeatOrders) {
        let report = self.core.heartbeat_report(self.now);
        let delivery = Delivery::Everything {
            increased: report.increased,
            log_reports: report.log_reports.1,
        };
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
