//! What threads answer to the core: resources localized, processes launched and ended.

use std::time::Duration;

use container_runtime::isolation::IsolationEvent;
use container_runtime::launch::{LaunchEvent, LaunchTimings};
use container_runtime::monitor::{MemoryExceeded, MemoryKind};
use localize::LocalizedResource;
use node_web::metrics::{CacheUse, CallOutcome, LaunchPhase};
use records::{ContainerId, Now};
use sched::{ContainerState, Event, KillReason};

use super::Core;
use crate::hands::Effect;

impl Core {
    /// Takes one answer.
    pub fn effect(&mut self, effect: Effect, now: Now, now_us: u64) {
        match effect {
            Effect::MemoryExceeded(exceeded) => self.memory_exceeded(exceeded, now),
            Effect::Localized { id, resources } => self.localized(id, resources, now, now_us),
            Effect::LocalizationFailed { id, diagnostics } => {
                let took = self.since_accepted(id, now_us);
                self.metrics.observe_localization(CallOutcome::Error, took);
                self.must_feed(Event::LocalizationFailed { id, diagnostics }, now);
            }
            Effect::Launch(LaunchEvent::Launched { id, pid, timings }) => {
                self.launched(id, pid, timings, now, now_us);
            }
            Effect::Launch(LaunchEvent::LaunchFailed {
                id,
                status,
                diagnostics,
            }) => {
                self.metrics.count_launch_failure();
                self.must_feed(
                    Event::LaunchFailed {
                        id,
                        status,
                        diagnostics,
                    },
                    now,
                );
            }
            Effect::Launch(LaunchEvent::ProcessesGone(id)) => {
                self.must_feed(Event::ProcessesGone(id), now);
            }
            Effect::Launch(LaunchEvent::Exited {
                id,
                status,
                diagnostics,
            }) => {
                self.must_feed(
                    Event::Exited {
                        id,
                        status,
                        diagnostics,
                    },
                    now,
                );
            }
            Effect::Isolation(IsolationEvent::Paused { id, held_mb }) => {
                self.must_feed(Event::Paused { id, held_mb }, now);
            }
            Effect::Isolation(IsolationEvent::FrozenMemory { id, held_mb }) => {
                self.must_feed(Event::FrozenMemory { id, held_mb }, now);
            }
            Effect::Isolation(IsolationEvent::Resumed(id)) => {
                self.must_feed(Event::Resumed(id), now);
            }
            Effect::Isolation(IsolationEvent::PauseFailed(id)) => {
                self.must_feed(Event::PauseFailed(id), now);
            }
        }
    }

    /// Its AM reads how much it used, then it ends. One that has ended meanwhile keeps its own end.
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

    /// How long ago `startContainers` accepted a container, which is when its resources were
    /// ordered.
    fn since_accepted(&self, id: ContainerId, now_us: u64) -> Duration {
        let record = self.containers.get(&id);
        let took_us = record.map_or(0, |record| now_us.saturating_sub(record.accepted_us));
        Duration::from_micros(took_us)
    }

    fn localized(
        &mut self,
        id: ContainerId,
        resources: Vec<LocalizedResource>,
        now: Now,
        now_us: u64,
    ) {
        let took = self.since_accepted(id, now_us);
        self.metrics.observe_localization(CallOutcome::Ok, took);
        for resource in &resources {
            let cache = if resource.was_cached {
                CacheUse::Hit
            } else {
                CacheUse::Miss
            };
            self.metrics.observe_resource(cache, resource.bytes);
        }
        if let Some(record) = self.containers.get_mut(&id) {
            record.localized = resources;
            record.localized_in = took;
        }
        self.must_feed(Event::Localized(id), now);
    }

    fn launched(
        &mut self,
        id: ContainerId,
        pid: i32,
        timings: LaunchTimings,
        now: Now,
        now_us: u64,
    ) {
        if let Some(record) = self.containers.get_mut(&id) {
            record.had_process = true;
            let total_us = now_us.saturating_sub(record.accepted_us);
            tracing::debug!(container = %id, pid, total_us, ?timings, "launched");
            self.metrics.observe_launch(
                LaunchPhase::Prepare,
                Duration::from_micros(timings.prepare_us),
            );
            self.metrics
                .observe_launch(LaunchPhase::Spawn, Duration::from_micros(timings.spawn_us));
            self.metrics
                .observe_launch(LaunchPhase::Total, Duration::from_micros(total_us));
        }
        self.must_feed(Event::Launched(id), now);
    }
}
