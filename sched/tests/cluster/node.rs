//! Asks, and a simulated node: the shipped scheduler, and a shell that answers every action at
//! once.

use records::{
    ContainerExitStatus, ContainerId, ExecutionType, MonoMillis, NodeId, Now, Priority, Resource,
    ResourceRequest,
};
use sched::{
    Action, ContainerScheduler, ContainerSchedulerConfig, ContainerSpec, Event, NodeLoad, Note,
};

/// Size of every container of the simulations.
pub(crate) const SIZE: Resource = Resource::new(1_024, 1);

/// Returns an ask for `count` containers on any node.
pub(crate) fn ask(count: u32) -> ResourceRequest {
    ResourceRequest::on_any_node(Priority(1), SIZE, count)
}

/// News from a node about one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Process exists from now on.
    Started(ContainerId),
    /// Process ended by itself.
    Succeeded(ContainerId),
    /// Turned away on arrival (-108).
    Refused(ContainerId),
    /// Removed from the queue (-108).
    Shed(ContainerId),
}

/// Scheduler of a node, with the sums that a heartbeat reports.
pub(crate) struct SimulatedNode {
    pub(crate) id: NodeId,
    pub(crate) scheduler: ContainerScheduler,
}

impl SimulatedNode {
    /// Creates a node with places for `places` containers.
    pub(crate) fn new(number: usize, places: u32, config: ContainerSchedulerConfig) -> Self {
        let node = Resource::new(SIZE.memory_mb * u64::from(places), places);
        Self {
            id: NodeId {
                host: format!("n{number}"),
                port: 8041,
            },
            scheduler: ContainerScheduler::new(config, node),
        }
    }

    /// Starts an opportunistic container.
    pub(crate) fn start(&mut self, id: ContainerId, now: MonoMillis) -> Vec<News> {
        self.feed(
            Event::Start(ContainerSpec {
                id,
                resource: SIZE,
                execution_type: ExecutionType::Opportunistic,
                version: 0,
            }),
            now,
        )
    }

    /// Ends a container's process with success.
    pub(crate) fn exit(&mut self, id: ContainerId, now: MonoMillis) -> Vec<News> {
        let status = ContainerExitStatus::SUCCESS;
        self.feed(
            Event::Exited {
                id,
                status,
                diagnostics: String::new(),
            },
            now,
        )
    }

    /// Handles an event and answers the actions, until no action is open.
    pub(crate) fn feed(&mut self, event: Event, now: MonoMillis) -> Vec<News> {
        let now = Now {
            mono: now,
            ..Now::default()
        };
        let mut news = Vec::new();
        let mut events = std::collections::VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut actions = Vec::new();
            self.scheduler.handle(event, now, &mut actions).unwrap();
            for action in actions {
                match action {
                    Action::Localize(id) => events.push_back(Event::Localized(id)),
                    Action::Launch(id) => {
                        events.push_back(Event::Launched(id));
                        news.push(News::Started(id));
                    }
                    Action::CleanUp(id) => events.push_back(Event::CleanedUp(id)),
                    Action::Completed(completion) => {
                        events.push_back(Event::Forget(completion.id));
                        if completion.exit_status == ContainerExitStatus::SUCCESS {
                            news.push(News::Succeeded(completion.id));
                        }
                    }
                    Action::Note(Note::Rejected { id, .. }) => news.push(News::Refused(id)),
                    Action::Note(Note::Shed { id, .. }) => news.push(News::Shed(id)),
                    Action::Note(_) => {}
                    Action::Pause(_)
                    | Action::Resume(_)
                    | Action::Terminate(_)
                    | Action::ForceKill(_)
                    | Action::ApplyLimits(_)
                    | Action::RollBack(_) => {
                        panic!("{action:?} has no place in this simulation")
                    }
                }
            }
        }
        news
    }

    /// Returns the load that a heartbeat reports, with the last estimate of a wait.
    pub(crate) fn load(&self) -> NodeLoad {
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
}
