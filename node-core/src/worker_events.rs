//! Events of workers: resources localized, processes launched and ended, containers frozen.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{LaunchEvent, LaunchTimings};
use container_runtime::monitor::{MemoryExceeded, MemoryKind};
use keeper::ProcessIdentity;
use localize::LocalizedResource;
use node_view::outcome::{CacheUse, CallOutcome};
use records::{ContainerExitStatus, ContainerId, Now};
use sched::{ContainerState, Event, KillReason};

use super::Core;
use super::effect::{LocalizeFor, Observed};
use super::stories::Happening;
use crate::WorkerEvent;

impl Core {
    /// Handles one event.
    pub fn handle(&mut self, event: WorkerEvent, now: Now, now_us: u64) {
        match event {
            WorkerEvent::Localized {
                id,
                purpose,
                took,
                resources,
            } => match purpose {
                LocalizeFor::Start => self.localized(id, resources, took, now),
                LocalizeFor::Running => self.localized_more(id, resources, now),
                LocalizeFor::Reinit => self.reinit_localized(id, resources, now),
            },
            WorkerEvent::LocalizationFailed {
                id,
                purpose: LocalizeFor::Running,
                diagnostics,
                took: _,
            } => {
                let diagnostics = diagnostics.trim_end().to_owned();
                self.must_feed(Event::Annotate { id, diagnostics }, now);
            }
            WorkerEvent::LocalizationFailed {
                id,
                purpose: LocalizeFor::Reinit,
                diagnostics,
                took: _,
            } => self.reinit_failed(id, diagnostics, now),
            WorkerEvent::LocalizationFailed {
                id,
                purpose: LocalizeFor::Start,
                diagnostics,
                took,
            } => {
                self.observe(Observed::Localized {
                    id,
                    outcome: CallOutcome::Error,
                    took,
                    resources: Vec::new(),
                });
                if self.localized_again(id, Err(diagnostics.clone()), now) {
                    return;
                }
                self.must_feed(Event::LocalizationFailed { id, diagnostics }, now);
            }
            WorkerEvent::Moved { id, paths } => self.resources_moved(id, &paths, now),
            WorkerEvent::LaunchRefused { id, diagnostics } => {
                self.launch_refused(id, diagnostics, now);
            }
            WorkerEvent::OfferAnswered { from, id, answer } => {
                self.offer_answered(&from, id, answer, now);
            }
            WorkerEvent::Launch(event) => self.handle_launch(event, now, now_us),
            WorkerEvent::Isolation(event) => self.handle_isolation(event, now),
            WorkerEvent::MemoryExceeded(exceeded) => self.memory_exceeded(exceeded, now),
            WorkerEvent::LogsUploaded(outcome) => self.logs_uploaded(&outcome, now),
            WorkerEvent::Health(event) => {
                let shown = self.condition.looked_at(event, now);
                self.show(shown);
            }
            WorkerEvent::RecordAnew => self.scheduler.begin_anew(),
            WorkerEvent::Signalled { id, diagnostics } => {
                self.must_feed(Event::Annotate { id, diagnostics }, now);
            }
        }
    }

    fn launch_refused(&mut self, id: ContainerId, diagnostics: String, now: Now) {
        let event = Event::LaunchFailed {
            id,
            status: ContainerExitStatus::LAUNCH_FAILED,
            diagnostics,
        };
        self.must_feed(event, now);
    }

    /// Has the later launches of a container find resources where they are now, and so the next
    /// agent.
    fn resources_moved(&mut self, id: ContainerId, paths: &BTreeMap<PathBuf, PathBuf>, now: Now) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.setups.moved(paths);
            self.remember([id], now);
        }
    }

    fn handle_launch(&mut self, event: LaunchEvent, now: Now, now_us: u64) {
        let event = match event {
            LaunchEvent::Launched {
                id,
                pid,
                start_time,
                timings,
                signals,
            } => {
                let process = ProcessIdentity { pid, start_time };
                self.launched(id, process, timings, now, now_us);
                for diagnostics in signals {
                    self.must_feed(Event::Annotate { id, diagnostics }, now);
                }
                return;
            }
            LaunchEvent::LaunchFailed {
                id,
                status,
                diagnostics,
                is_of_node,
            } => {
                self.observe(Observed::LaunchFailed);
                if is_of_node {
                    let shown = self.condition.launch_outcome(Err(&diagnostics), now);
                    self.show(shown);
                }
                Event::LaunchFailed {
                    id,
                    status,
                    diagnostics,
                }
            }
            LaunchEvent::ProcessesStay(id) => {
                // Before the container gives its allocation back, so that nobody gets it.
                if let Some(container) = self.scheduler.container(&id) {
                    let size = container.spec.resource;
                    self.scheduler.withhold(id.name(), size, now);
                }
                return;
            }
            LaunchEvent::ProcessesGone(id) => Event::ProcessesGone(id),
            LaunchEvent::LeftoversGone(name) => {
                let mut actions = Vec::new();
                self.scheduler.give_back(&name, now, &mut actions);
                self.perform(actions, now);
                return;
            }
            LaunchEvent::Exited {
                id,
                status,
                cause,
                diagnostics,
            } => {
                let annotation = Event::Annotate {
                    id,
                    diagnostics: cause,
                };
                self.must_feed(annotation, now);
                Event::Exited {
                    id,
                    status,
                    diagnostics,
                }
            }
        };
        self.must_feed(event, now);
    }

    fn handle_isolation(&mut self, event: IsolationEvent, now: Now) {
        let event = match event {
            IsolationEvent::Paused { id, held_mb } => Event::Paused { id, held_mb },
            IsolationEvent::FrozenMemory { id, held_mb } => Event::FrozenMemory { id, held_mb },
            IsolationEvent::Resumed(id) => Event::Resumed(id),
            IsolationEvent::PauseFailed(id) => Event::PauseFailed(id),
        };
        self.must_feed(event, now);
    }

    /// Kills a container that used too much memory; its diagnostics say how much. A container that
    /// has ended meanwhile keeps its own exit status.
    fn memory_exceeded(&mut self, exceeded: MemoryExceeded, now: Now) {
        let MemoryExceeded {
            id,
            kind,
            diagnostics,
        } = exceeded;
        let is_alive = |state: ContainerState| {
            !state.has_ended() && !matches!(state, ContainerState::Killing { .. })
        };
        let state = self.scheduler.summary(&id).map(|summary| summary.state);
        if !state.is_some_and(is_alive) {
            return;
        }
        tracing::warn!(container = %id, ?kind, "killed for its use of memory");
        self.must_feed(Event::Annotate { id, diagnostics }, now);
        let reason = match kind {
            MemoryKind::Virtual => KillReason::ExceededVmem,
            MemoryKind::Physical => KillReason::ExceededPmem,
        };
        self.must_feed(Event::Kill { id, reason }, now);
    }

    fn localized(
        &mut self,
        id: ContainerId,
        resources: Vec<LocalizedResource>,
        took: Duration,
        now: Now,
    ) {
        let sizes = resources.iter().map(|resource| {
            let cache = if resource.was_cached {
                CacheUse::Hit
            } else {
                CacheUse::Miss
            };
            (cache, resource.bytes)
        });
        self.observe(Observed::Localized {
            id,
            outcome: CallOutcome::Ok,
            took,
            resources: sizes.collect(),
        });
        if let Some(container) = self.containers.get_mut(&id) {
            container.localized_in = took;
            if container.setups.is_fetching() {
                self.localized_again(id, Ok(resources), now);
                return;
            }
            container.setups.set_localized(resources);
        }
        self.stories.add(id, Happening::Localized, now.wall);
        self.must_feed(Event::Localized(id), now);
    }

    fn launched(
        &mut self,
        id: ContainerId,
        process: ProcessIdentity,
        timings: LaunchTimings,
        now: Now,
        now_us: u64,
    ) {
        let shown = self.condition.launch_outcome(Ok(()), now);
        self.show(shown);
        self.recorder.launched(id, process);
        if let Some(container) = self.containers.get_mut(&id)
            // A later launch did not begin when the container was accepted.
            && !std::mem::replace(&mut container.had_process, true)
        {
            let total_us = now_us.saturating_sub(container.accepted_us);
            tracing::debug!(container = %id, pid = process.pid, total_us, ?timings, "launched");
            self.observe(Observed::Launched {
                id,
                timings,
                total: Duration::from_micros(total_us),
            });
        }
        self.stories.add(id, Happening::Launched, now.wall);
        self.logs_of_started(id);
        self.must_feed(Event::Launched(id), now);
    }
}
