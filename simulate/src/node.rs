//! A node: the shipped container scheduler, and a model of the shell around it, which localizes at
//! once, launches after a delay, and runs processes that end when their task is over.

use std::collections::{BTreeSet, VecDeque};

use records::{ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, NodeId, Now, Resource};
use sched::{
    Action, ContainerQueuingLimit, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec,
    Event, KillReason, NodeLoad, Note, RunProfile, Sight,
};

use crate::scenario::NodeKind;

/// Size of every container.
pub(crate) const SIZE: Resource = Resource::new(1_024, 1);

/// News of a node about one of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The launch is ordered: the container has a place.
    Launching(ContainerId),
    /// Killed; its processes end after a delay.
    Ending(ContainerId),
    /// Finished, with its final status.
    Completed(ContainerId, ContainerExitStatus),
    /// Turned away on arrival. `Completed` follows.
    Refused(ContainerId),
    /// Removed from the queue. `Completed` follows.
    Shed(ContainerId),
    /// Killed for a guaranteed container, or after it was frozen for one, with so many
    /// milliseconds of run.
    Evicted(ContainerId, u64),
    /// Frozen for a guaranteed container, which takes a delay.
    Freezing(ContainerId),
    /// Thawed, which takes a delay.
    Thawing(ContainerId),
}

impl News {
    /// Returns the news in a decision of a scheduler.
    pub(crate) const fn of(note: &Note) -> Option<Self> {
        match note {
            Note::Rejected { id, .. } => Some(Self::Refused(*id)),
            Note::Shed { id, .. } => Some(Self::Shed(*id)),
            Note::Evicted {
                id,
                ran_ms,
                paused: false,
                ..
            }
            | Note::PausedKilled { id, ran_ms, .. } => Some(Self::Evicted(*id, *ran_ms)),
            Note::Evicted { paused: true, .. }
            | Note::Queued { .. }
            | Note::Started { .. }
            | Note::Passed { .. }
            | Note::LargerThanNode { .. }
            | Note::Drained { .. }
            | Note::Retried { .. }
            | Note::Promoted(_)
            | Note::Demoted(_) => None,
        }
    }
}

/// Node of the cluster.
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// Whether it runs and answers.
    pub(crate) is_up: bool,
    config: ContainerSchedulerConfig,
    scheduler: ContainerScheduler,
    /// Containers that have ended since the last heartbeat.
    pub(crate) completed: Vec<(ContainerId, ContainerExitStatus)>,
    /// Whether each heartbeat needs an estimate of the wait.
    estimates_waits: bool,
    /// Containers whose processes have been told to end.
    ending: BTreeSet<ContainerId>,
    actions: Vec<Action>,
}

impl Node {
    pub(crate) fn new(
        kind: NodeKind,
        config: ContainerSchedulerConfig,
        estimates_waits: bool,
    ) -> Self {
        Self {
            kind,
            is_up: true,
            config,
            scheduler: ContainerScheduler::new(config, room_of(kind)),
            completed: Vec::new(),
            estimates_waits,
            ending: BTreeSet::new(),
            actions: Vec::new(),
        }
    }

    /// Ends the node with all that it has: what comes back is empty. Returns the ends that no
    /// heartbeat has told.
    pub(crate) fn fail(&mut self) -> Vec<(ContainerId, ContainerExitStatus)> {
        let again = Self {
            is_up: false,
            ..Self::new(self.kind, self.config, self.estimates_waits)
        };
        std::mem::replace(self, again).completed
    }

    /// Returns the containers that hold a place and those that wait, as a look from outside shows.
    pub(crate) fn load_now(&self) -> u32 {
        let status = self.scheduler.opportunistic_status();
        let guaranteed = self.scheduler.holding_room_count(ExecutionType::Guaranteed);
        status
            .running_opport_containers
            .saturating_add(status.wait_queue_length)
            .saturating_add(u32::try_from(guaranteed).unwrap_or(u32::MAX))
    }

    /// Returns what a look from outside shows now; `None`: the node is down.
    pub(crate) fn sight(&self, now: MonoMillis) -> Option<Sight> {
        self.is_up.then(|| self.scheduler.sight(now))
    }

    /// Returns the milliseconds that a container of which nothing is known is expected to run.
    pub(crate) fn unknown_run_ms(&self) -> u64 {
        self.scheduler.unknown_run_ms()
    }

    /// Returns the number of opportunistic containers that wait.
    pub(crate) fn queue_length(&self) -> usize {
        self.scheduler.queue_length(ExecutionType::Opportunistic)
    }

    /// Returns the limit of its queue that the last heartbeat has brought.
    pub(crate) fn queuing_limit(&self) -> Option<usize> {
        let limit = self.scheduler.queuing_limit()?;
        limit.max_queue_length
    }

    /// Returns the time at which [`Node::tick`] is due.
    pub(crate) fn next_deadline(&self) -> Option<MonoMillis> {
        self.scheduler.next_deadline()
    }

    pub(crate) fn start(
        &mut self,
        id: ContainerId,
        execution_type: ExecutionType,
        profile: Option<RunProfile>,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) {
        let spec = ContainerSpec {
            id,
            resource: SIZE,
            execution_type,
            version: 0,
        };
        let mut events = vec![Event::Start(spec)];
        events.extend(profile.map(|profile| Event::RunProfile { id, profile }));
        self.feed_all(events, now, news);
    }

    pub(crate) fn launched(&mut self, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.feed(Event::Launched(id), now, news);
    }

    /// Gives up the place of a container whose process was never created.
    pub(crate) fn abandon(&mut self, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        let event = Event::LaunchFailed {
            id,
            status: ContainerExitStatus::LAUNCH_FAILED,
            diagnostics: String::new(),
        };
        self.feed(event, now, news);
    }

    /// Kills a container at its master's wish.
    pub(crate) fn kill(&mut self, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        let reason = KillReason::ApplicationMaster;
        self.feed(Event::Kill { id, reason }, now, news);
    }

    /// Answers that a container is frozen. Nothing is asked any more of one that is being killed.
    /// Returns whether it is frozen.
    pub(crate) fn frozen(
        &mut self,
        id: ContainerId,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) -> bool {
        let is_asked = !self.ending.contains(&id);
        if is_asked {
            let held_mb = None;
            self.feed(Event::Paused { id, held_mb }, now, news);
        }
        is_asked
    }

    /// Answers that a container runs again.
    pub(crate) fn thawed(&mut self, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        self.feed(Event::Resumed(id), now, news);
    }

    /// Ends a container's process, with success unless it was killed.
    pub(crate) fn exit(&mut self, id: ContainerId, now: MonoMillis, news: &mut Vec<News>) {
        let status = if self.ending.remove(&id) {
            ContainerExitStatus::TERMINATED
        } else {
            ContainerExitStatus::SUCCESS
        };
        let diagnostics = String::new();
        let event = Event::Exited {
            id,
            status,
            diagnostics,
        };
        self.feed(event, now, news);
    }

    pub(crate) fn limit(
        &mut self,
        limit: ContainerQueuingLimit,
        now: MonoMillis,
        news: &mut Vec<News>,
    ) {
        if self.scheduler.queuing_limit() != Some(limit) || self.queue_length() > 0 {
            self.feed(Event::QueuingLimit(limit), now, news);
        }
    }

    pub(crate) fn tick(&mut self, now: MonoMillis, news: &mut Vec<News>) {
        self.feed(Event::Tick, now, news);
    }

    /// Returns the load that a heartbeat reports.
    pub(crate) fn report(&mut self, now: MonoMillis) -> NodeLoad {
        if self.estimates_waits {
            self.feed(Event::EstimateWaits, now, &mut Vec::new());
        }
        let status = self.scheduler.opportunistic_status();
        NodeLoad {
            queue_length: status.wait_queue_length,
            queue_wait_time_ms: status.estimated_queue_wait_ms,
            queue_capacity: status.opport_queue_capacity,
            capability: self.scheduler.node_resource(),
            allocated: self.scheduler.allocated(),
            decommissioning: false,
        }
    }

    /// Handles an event, and answers at once what takes no time.
    fn feed(&mut self, event: Event, now: MonoMillis, news: &mut Vec<News>) {
        self.feed_all(vec![event], now, news);
    }

    fn feed_all(&mut self, events: Vec<Event>, now: MonoMillis, news: &mut Vec<News>) {
        let now = Now {
            mono: now,
            ..Now::default()
        };
        let mut next = VecDeque::from(events);
        let mut actions = std::mem::take(&mut self.actions);
        while let Some(event) = next.pop_front() {
            // The scheduler refuses an event that no action explains, which would be a defect of
            // this model.
            let handled = self.scheduler.handle(event, now, &mut actions);
            debug_assert_eq!(handled, Ok(()));
            for action in actions.drain(..) {
                self.perform(action, &mut next, news);
            }
        }
        self.actions = actions;
    }

    fn perform(&mut self, action: Action, next: &mut VecDeque<Event>, news: &mut Vec<News>) {
        match action {
            Action::Localize(id) => next.push_back(Event::Localized(id)),
            Action::Launch(id) => news.push(News::Launching(id)),
            Action::CleanUp(id) => next.push_back(Event::CleanedUp(id)),
            Action::Completed(completion) => {
                let (id, status) = (completion.id, completion.exit_status);
                next.push_back(Event::Forget(id));
                self.completed.push((id, status));
                news.push(News::Completed(id, status));
            }
            Action::Terminate(id) | Action::ForceKill(id) => {
                if self.ending.insert(id) {
                    news.push(News::Ending(id));
                }
            }
            Action::Note(note) => news.extend(News::of(&note)),
            Action::Pause(id) => news.push(News::Freezing(id)),
            Action::Resume(id) => news.push(News::Thawing(id)),
            Action::ApplyLimits(_) | Action::RollBack(_) => {}
        }
    }
}

/// Returns what a node offers.
pub(crate) const fn room_of(kind: NodeKind) -> Resource {
    let places = kind.places;
    Resource::new(SIZE.memory_mb * places as u64, SIZE.vcores * places)
}

/// Returns the id of a node by its number.
pub(crate) fn node_id(number: usize) -> NodeId {
    NodeId {
        host: format!("n{number}"),
        port: 8041,
    }
}

/// Returns the number of a node by its id.
pub(crate) fn number_of(id: &NodeId) -> Option<usize> {
    id.host.strip_prefix('n')?.parse().ok()
}
