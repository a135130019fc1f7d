//! The task that owns the agent's state: takes a command or an effect, feeds it to [`Core`], sleeps
//! until the next one or the next deadline. Everybody else holds a [`Handle`].

use std::sync::Arc;

use amrm_proxy::attempts::Activity;
use container_runtime::launch::ContainerSignal;
use node_web::live::LiveView;
use node_web::view::{Changes, NodeSnapshot, NodeSource};
use records::{ContainerId, Resource};
use sched::ContainerSpec;
use tokio::sync::{mpsc, oneshot, watch};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::{
    ContainerStatusProto, ContainerTokenIdentifierProto, LocalizationStatusProto,
};

use crate::clock::Clock;
use crate::core::{
    Asker, Core, Delivery, HeartbeatDuties, HeartbeatReport, RegistrationReport, StartOutcome,
    StartRequest,
};
use crate::hands::Effect;

/// Commands under way. Filled by RPC calls, whose number the server bounds, and by the status
/// updater; a sender waits when it is full, which slows callers down and loses nothing.
pub const COMMANDS_MAX: usize = 1024;

/// The agent is stopping: the task that owned its state has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent is stopping")]
pub struct Stopped;

/// An update of a container whose token was verified.
#[derive(Debug)]
pub struct UpdateRequest {
    /// What the token says.
    pub spec: ContainerSpec,
    /// Its identifier.
    pub token: Arc<ContainerTokenIdentifierProto>,
}

type Answers<T> = oneshot::Sender<Vec<Result<T, RemoteException>>>;

enum Command {
    Start {
        asker: Asker,
        requests: Vec<StartRequest>,
        reply: oneshot::Sender<Vec<StartOutcome>>,
    },
    Stop {
        asker: Asker,
        ids: Vec<ContainerId>,
        reply: Answers<()>,
    },
    Status {
        asker: Asker,
        ids: Vec<ContainerId>,
        reply: Answers<ContainerStatusProto>,
    },
    Localization {
        asker: Asker,
        ids: Vec<ContainerId>,
        reply: Answers<Vec<LocalizationStatusProto>>,
    },
    Update {
        asker: Asker,
        requests: Vec<UpdateRequest>,
        reply: Answers<()>,
    },
    Signal {
        id: ContainerId,
        signal: ContainerSignal,
    },
    Registration {
        reply: oneshot::Sender<RegistrationReport>,
    },
    Registered {
        rm_identifier: i64,
        resource: Option<Resource>,
    },
    Resync {
        keep_containers: bool,
        done: oneshot::Sender<()>,
    },
    Heartbeat {
        reply: oneshot::Sender<HeartbeatReport>,
    },
    Answered {
        delivery: Delivery,
        duties: Box<HeartbeatDuties>,
    },
    HeartbeatFailed,
    Live {
        reply: oneshot::Sender<LiveView>,
    },
    Snapshot {
        reply: oneshot::Sender<NodeSnapshot>,
    },
    Shutdown {
        done: oneshot::Sender<()>,
    },
}

/// Access to the agent's state from other tasks. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    /// The core's revision for people who watch.
    changes: watch::Receiver<u64>,
    masters: Option<Activity>,
}

impl Handle {
    /// The same, which also tells those who watch of what passes the AMRMProxy.
    #[must_use]
    pub fn with_masters(self, masters: Option<Activity>) -> Self {
        Self { masters, ..self }
    }

    async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.tell(make(reply)).await?;
        answer.await.map_err(|_| Stopped)
    }

    async fn tell(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// Starts containers in order; one outcome each, fewer when one fails the whole call.
    ///
    /// # Errors
    /// [`Stopped`], as for every other method.
    pub async fn start(
        &self,
        asker: Asker,
        requests: Vec<StartRequest>,
    ) -> Result<Vec<StartOutcome>, Stopped> {
        self.ask(|reply| Command::Start {
            asker,
            requests,
            reply,
        })
        .await
    }

    /// Stops containers; one answer each, in order.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn stop(
        &self,
        asker: Asker,
        ids: Vec<ContainerId>,
    ) -> Result<Vec<Result<(), RemoteException>>, Stopped> {
        self.ask(|reply| Command::Stop { asker, ids, reply }).await
    }

    /// Statuses of containers; one answer each, in order.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn statuses(
        &self,
        asker: Asker,
        ids: Vec<ContainerId>,
    ) -> Result<Vec<Result<ContainerStatusProto, RemoteException>>, Stopped> {
        self.ask(|reply| Command::Status { asker, ids, reply })
            .await
    }

    /// How far the resources of containers are; one answer each, in order.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn localization_statuses(
        &self,
        asker: Asker,
        ids: Vec<ContainerId>,
    ) -> Result<Vec<Result<Vec<LocalizationStatusProto>, RemoteException>>, Stopped> {
        self.ask(|reply| Command::Localization { asker, ids, reply })
            .await
    }

    /// Updates containers; one answer each, in order.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn update(
        &self,
        asker: Asker,
        requests: Vec<UpdateRequest>,
    ) -> Result<Vec<Result<(), RemoteException>>, Stopped> {
        self.ask(|reply| Command::Update {
            asker,
            requests,
            reply,
        })
        .await
    }

    /// Signals a container, if it has a process.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn signal(&self, id: ContainerId, signal: ContainerSignal) -> Result<(), Stopped> {
        self.tell(Command::Signal { id, signal }).await
    }

    /// What a registration is to say.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn registration_report(&self) -> Result<RegistrationReport, Stopped> {
        self.ask(|reply| Command::Registration { reply }).await
    }

    /// The RM has accepted the node.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn registered(
        &self,
        rm_identifier: i64,
        resource: Option<Resource>,
    ) -> Result<(), Stopped> {
        self.tell(Command::Registered {
            rm_identifier,
            resource,
        })
        .await
    }

    /// The RM wants a new registration. Resolves when it may follow: when no container lives any
    /// more, if they are not kept.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn resync(&self, keep_containers: bool) -> Result<(), Stopped> {
        self.ask(|done| Command::Resync {
            keep_containers,
            done,
        })
        .await
    }

    /// What a heartbeat is to say.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn heartbeat_report(&self) -> Result<HeartbeatReport, Stopped> {
        self.ask(|reply| Command::Heartbeat { reply }).await
    }

    /// A heartbeat was answered.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn heartbeat_answered(
        &self,
        delivery: Delivery,
        duties: HeartbeatDuties,
    ) -> Result<(), Stopped> {
        self.tell(Command::Answered {
            delivery,
            duties: Box::new(duties),
        })
        .await
    }

    /// A heartbeat was not answered.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn heartbeat_failed(&self) -> Result<(), Stopped> {
        self.tell(Command::HeartbeatFailed).await
    }

    /// Ends all applications; resolves when no container lives any more.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn shutdown(&self) -> Result<(), Stopped> {
        self.ask(|done| Command::Shutdown { done }).await
    }
}

impl Handle {
    /// A handle that does not keep the core alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakHandle {
        WeakHandle {
            commands: self.commands.downgrade(),
            changes: self.changes.clone(),
            masters: self.masters.clone(),
        }
    }
}

impl NodeSource for Handle {
    async fn snapshot(&self) -> Option<Arc<NodeSnapshot>> {
        self.ask(|reply| Command::Snapshot { reply })
            .await
            .ok()
            .map(Arc::new)
    }

    async fn live(&self) -> Option<LiveView> {
        self.ask(|reply| Command::Live { reply }).await.ok()
    }

    fn changes(&self) -> Changes {
        let masters = self.masters.as_ref().map(Activity::watch);
        Changes::new(self.changes.clone(), masters)
    }
}

/// A handle that does not keep the core alive: the core ends when every [`Handle`] is gone.
#[derive(Clone)]
pub struct WeakHandle {
    commands: mpsc::WeakSender<Command>,
    changes: watch::Receiver<u64>,
    masters: Option<Activity>,
}

impl WeakHandle {
    /// A handle to ask through, as long as there is another.
    #[must_use]
    pub fn upgrade(&self) -> Option<Handle> {
        Some(Handle {
            commands: self.commands.upgrade()?,
            changes: self.changes.clone(),
            masters: self.masters.clone(),
        })
    }
}

/// The receiving ends, for [`run`].
pub struct Inbox {
    commands: mpsc::Receiver<Command>,
    effects: mpsc::UnboundedReceiver<Effect>,
    changes: watch::Sender<u64>,
}

/// A handle and the inbox it leads to. `effects` come from the hands: each container has at most a
/// handful under way and the scheduler bounds the containers, so that channel needs no bound of its
/// own.
#[must_use]
pub fn channel(effects: mpsc::UnboundedReceiver<Effect>) -> (Handle, Inbox) {
    let (sender, commands) = mpsc::channel(COMMANDS_MAX);
    let (changes, changed) = watch::channel(0);
    (
        Handle {
            commands: sender,
            changes: changed,
            masters: None,
        },
        Inbox {
            commands,
            effects,
            changes,
        },
    )
}

/// Runs until every [`Handle`] is gone.
pub async fn run(mut core: Core, mut inbox: Inbox, clock: Clock) {
    loop {
        let deadline = core.next_deadline();
        let wake = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(clock.instant_of(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            command = inbox.commands.recv() => match command {
                Some(command) => obey(&mut core, command, clock),
                None => return,
            },
            Some(effect) = inbox.effects.recv() => core.effect(effect, clock.now(), clock.now_us()),
            () = wake => core.tick(clock.now()),
        }
        let revision = core.live_revision();
        let tell = |told: &mut u64| std::mem::replace(told, revision) != revision;
        inbox.changes.send_if_modified(tell);
    }
}

/// One command to its end. An answer that nobody waits for any more is dropped: the caller's
/// connection is gone.
fn obey(core: &mut Core, command: Command, clock: Clock) {
    let now = clock.now();
    match command {
        Command::Start {
            asker,
            requests,
            reply,
        } => {
            let mut outcomes = Vec::with_capacity(requests.len());
            for request in requests {
                let outcome = core.start(asker, request, now);
                let call_failed = matches!(outcome, StartOutcome::CallFailed(_));
                outcomes.push(outcome);
                if call_failed {
                    break;
                }
            }
            let _gone = reply.send(outcomes);
        }
        Command::Stop { asker, ids, reply } => {
            let stop = |id| core.stop_container(asker, id, now);
            let _gone = reply.send(ids.into_iter().map(stop).collect());
        }
        Command::Status { asker, ids, reply } => {
            let status = |id| core.container_status(asker, id, now);
            let _gone = reply.send(ids.into_iter().map(status).collect());
        }
        Command::Localization { asker, ids, reply } => {
            let status = |id| core.localization_statuses(asker, id, now);
            let _gone = reply.send(ids.into_iter().map(status).collect());
        }
        Command::Update {
            asker,
            requests,
            reply,
        } => {
            let update = |r: UpdateRequest| core.update_container(asker, r.spec, r.token, now);
            let _gone = reply.send(requests.into_iter().map(update).collect());
        }
        Command::Signal { id, signal } => core.signal(id, signal, now),
        Command::Registration { reply } => {
            let _gone = reply.send(core.registration_report());
        }
        Command::Registered {
            rm_identifier,
            resource,
        } => core.registered(rm_identifier, resource, now),
        Command::Resync {
            keep_containers,
            done,
        } => core.resync(keep_containers, done, now),
        Command::Heartbeat { reply } => {
            let _gone = reply.send(core.heartbeat_report(now));
        }
        Command::Answered { delivery, duties } => core.heartbeat_answered(&delivery, *duties, now),
        Command::HeartbeatFailed => core.heartbeat_failed(now),
        Command::Live { reply } => {
            let _gone = reply.send(core.live_view(now));
        }
        Command::Snapshot { reply } => {
            let _gone = reply.send(core.snapshot());
        }
        Command::Shutdown { done } => core.stop(done, now),
    }
}
