//! A node: the shipped agent without its threads, and what the world does for its workers.

use std::collections::BTreeSet;

use amrm_proxy::NodeTokenKeys;
use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{LaunchEvent, LaunchTimings};
use container_runtime::monitor::Sample;
use node_core::{Effect, Observed, ServiceMetadata, WorkerEvent};
use node_manager::resource_manager::{Answer, Heartbeat};
use records::{ContainerExitStatus, ContainerId, MonoMillis, Now};
use sched::{ContainerSchedulerConfig, Sight};
use sim_agent::{AgentConfig, Shell, Start};
use wire::token::Token;

use super::resource_manager::ResourceManager;
use crate::node::{News, node_id, room_of};
use crate::scenario::NodeKind;

/// Time for which logs stay on a node after their application's end: Hadoop's three hours.
const LOG_RETAIN_MS: u64 = 10_800_000;

/// Node of the cluster.
pub(super) struct Agent {
    pub(super) kind: NodeKind,
    shell: Shell,
    /// Keys with which proxies on the node sign; `None` before its registration.
    keys: Option<NodeTokenKeys>,
    /// Whether the core has asked for a heartbeat out of turn.
    pub(super) beats_now: bool,
    /// Containers whose processes have been told to end.
    ending: BTreeSet<ContainerId>,
    /// Number of the last process.
    last_pid: i32,
    /// Opportunistic containers that may wait, by the node's own configuration.
    queue_length_max: usize,
}

impl Agent {
    pub(super) fn new(number: usize, kind: NodeKind, scheduler: ContainerSchedulerConfig) -> Self {
        let config = AgentConfig {
            id: node_id(number),
            capacity: room_of(kind),
            scheduler,
            log_aggregation: None,
            log_retain_ms: LOG_RETAIN_MS,
            services: ServiceMetadata::default(),
            remembers: false,
            records_events: false,
        };
        Self {
            kind,
            shell: Shell::new(&config),
            keys: None,
            beats_now: false,
            ending: BTreeSet::new(),
            last_pid: 0,
            queue_length_max: scheduler.queue_length_max,
        }
    }

    pub(super) const fn keys(&self) -> Option<&NodeTokenKeys> {
        self.keys.as_ref()
    }

    pub(super) fn queue_length(&self) -> usize {
        let opportunistic = self.shell.core.numbers().opportunistic;
        usize::try_from(opportunistic.queued_opport_containers).unwrap_or(usize::MAX)
    }

    /// Returns what the node's page of metrics shows.
    pub(super) fn sight(&self, seen_at: MonoMillis) -> Sight {
        let numbers = self.shell.core.numbers();
        let counts = numbers.counts;
        Sight {
            running: counts.running_guaranteed + counts.running_opportunistic,
            queued: counts.waiting,
            free: numbers.total.saturating_sub(numbers.allocated),
            seen_at,
        }
    }

    /// Returns the most containers that a proxy on this node lets wait on a node: as the
    /// ResourceManager has published, and as nodes are configured.
    pub(super) fn max_queue_length(&self) -> usize {
        let published = self.shell.core.numbers().limit_length();
        published.map_or(self.queue_length_max, |published| {
            published.min(self.queue_length_max)
        })
    }

    pub(super) fn register(&mut self, rm: &mut ResourceManager, now: Now) {
        let request = self.shell.registration(now);
        let mut response = rm.register_node(&request, now);
        let registered = self.shell.registered(&mut response, now);
        let registered = registered.expect("the ResourceManager accepts every node");
        let keys = registered
            .keys
            .container_token
            .zip(registered.keys.nm_token);
        self.keys = keys.map(|(container_token, nm_token)| NodeTokenKeys {
            container_token,
            nm_token,
            rm_identifier: registered.rm_identifier,
        });
        self.settle(&mut Vec::new());
    }

    pub(super) fn beat(&mut self, rm: &mut ResourceManager, now: Now, news: &mut Vec<News>) {
        self.beats_now = false;
        let report = self.shell.core.heartbeat_report(now);
        let keys = self.shell.secrets.current_keys();
        let Heartbeat { request, delivery } =
            self.shell
                .session
                .heartbeat(report, Sample::default(), keys);
        match self.shell.session.answered(rm.heartbeat(request, now)) {
            Answer::GoOn { orders, keys, .. } => {
                self.shell.secrets.roll(keys);
                self.shell.core.heartbeat_answered(&delivery, *orders, now);
                self.settle(news);
            }
            answer @ (Answer::Resync | Answer::Shutdown { .. }) => {
                panic!("no heartbeat is lost, and the answer is {answer:?}");
            }
        }
    }

    /// Handles `startContainers`. Returns the node's refusal, if it is one.
    pub(super) fn start(
        &mut self,
        nm_token: &Token,
        start: Start,
        now: Now,
        news: &mut Vec<News>,
    ) -> Result<(), String> {
        let each = self.shell.start(nm_token, vec![start], now);
        self.settle(news);
        let each = each.map_err(|error| error.message)?;
        each.into_iter().try_for_each(|(_, outcome)| outcome)
    }

    pub(super) fn launched(&mut self, id: ContainerId, now: Now, news: &mut Vec<News>) {
        self.last_pid += 1;
        let launched = LaunchEvent::Launched {
            id,
            pid: self.last_pid,
            start_time: now.mono.0,
            timings: LaunchTimings::default(),
            signals: Vec::new(),
        };
        self.handle(WorkerEvent::Launch(launched), now, news);
    }

    /// Ends the processes of a container, with success unless they were killed.
    pub(super) fn exit(&mut self, id: ContainerId, now: Now, news: &mut Vec<News>) {
        let status = if self.ending.remove(&id) {
            ContainerExitStatus::TERMINATED
        } else {
            ContainerExitStatus::SUCCESS
        };
        let gone = LaunchEvent::ProcessesGone(id);
        self.handle(WorkerEvent::Launch(gone), now, news);
        let exited = LaunchEvent::Exited {
            id,
            status,
            cause: String::new(),
            diagnostics: String::new(),
        };
        self.handle(WorkerEvent::Launch(exited), now, news);
    }

    pub(super) fn frozen(&mut self, id: ContainerId, now: Now, news: &mut Vec<News>) -> bool {
        let is_asked = !self.ending.contains(&id);
        if is_asked {
            let paused = IsolationEvent::Paused { id, held_mb: None };
            self.handle(WorkerEvent::Isolation(paused), now, news);
        }
        is_asked
    }

    pub(super) fn thawed(&mut self, id: ContainerId, now: Now, news: &mut Vec<News>) {
        let resumed = IsolationEvent::Resumed(id);
        self.handle(WorkerEvent::Isolation(resumed), now, news);
    }

    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        self.shell.core.next_deadline()
    }

    pub(super) fn tick(&mut self, now: Now, news: &mut Vec<News>) {
        self.shell.core.tick(now);
        self.settle(news);
    }

    fn handle(&mut self, event: WorkerEvent, now: Now, news: &mut Vec<News>) {
        self.shell.core.handle(event, now, now.mono.0 * 1_000);
        self.settle(news);
    }

    /// Turns the core's effects into news. Those that are no news are for workers that have nothing
    /// to do here: containers have no files, and nothing is recorded.
    fn settle(&mut self, news: &mut Vec<News>) {
        for effect in self.shell.core.take_effects() {
            match effect {
                Effect::Launch(order) => news.push(News::Launching(order.spec.id)),
                Effect::Terminate(id) | Effect::ForceKill(id) => {
                    if self.ending.insert(id) {
                        news.push(News::Ending(id));
                    }
                }
                Effect::Pause(id) => news.push(News::Freezing(id)),
                Effect::Resume(id) => news.push(News::Thawing(id)),
                Effect::HeartbeatNow => self.beats_now = true,
                Effect::Observe(observed) => news.extend(news_of(observed)),
                Effect::SetRmIdentifier(identifier) => {
                    self.shell.secrets.set_rm_identifier(identifier);
                }
                Effect::ContainerInitialized(_)
                | Effect::ContainerStopped(_)
                | Effect::InitializeApplication { .. }
                | Effect::Tokens { .. }
                | Effect::ForgetTokens(_)
                | Effect::Localize { .. }
                | Effect::UseSets { .. }
                | Effect::Link(_)
                | Effect::ApplyLimits(_)
                | Effect::SetNodeResource(_)
                | Effect::SetQueuingLimit(_)
                | Effect::Signal { .. }
                | Effect::ReleaseResources(_)
                | Effect::ForgetResources(_)
                | Effect::CleanUp { .. }
                | Effect::FinishApplication { .. }
                | Effect::EndPipelines(_)
                | Effect::Logs(_)
                | Effect::DeleteLogs(_)
                | Effect::Adopt(_)
                | Effect::Store(_)
                | Effect::Reap { .. }
                | Effect::Record(_)
                // Nobody reserves at this level.
                | Effect::Offer(_)
                | Effect::AllEnded => {}
            }
        }
    }
}

/// Returns the news in what the core tells observers.
fn news_of(observed: Observed) -> Option<News> {
    match observed {
        Observed::Note(note) => News::of(&note),
        Observed::Completed { completion, .. } => {
            Some(News::Completed(completion.id, completion.exit_status))
        }
        Observed::Accepted { .. }
        | Observed::StopRequested { .. }
        | Observed::Reinit { .. }
        | Observed::Localized { .. }
        | Observed::Launched { .. }
        | Observed::LogsUploaded { .. }
        | Observed::OfferAnswered { .. }
        | Observed::LaunchFailed => None,
    }
}
