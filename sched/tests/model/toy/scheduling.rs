//! Starts, evictions and sheds of the toy scheduler.

use records::{ContainerId, ExecutionType};
use sched::{PauseEnd, RejectReason};

use super::{Decision, Phase, Sum, Toy, ToyContainer};

impl Toy {
    pub(super) fn shed(&mut self, limit: Option<usize>, now_ms: u64) {
        let queue = self.queue(ExecutionType::Opportunistic);
        let unstarted: Vec<_> = queue
            .iter()
            .filter(|container| !container.is_frozen())
            .collect();
        let keep = limit.unwrap_or(usize::MAX).min(unstarted.len());
        for container in unstarted[keep..].iter().rev() {
            self.decide(Decision::Shed(container.spec.id));
            self.kill(container.spec.id, -108, now_ms);
        }
    }

    pub(super) fn start_queued(&mut self, now_ms: u64) {
        for kind in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            for head in self.queue(kind) {
                let (id, asked) = (head.spec.id, Sum::of(head.spec.resource));
                let alone = self.sum(ToyContainer::holds_room) == Sum::default();
                let forced = kind == ExecutionType::Guaranteed && (self.forces() || alone);
                if kind == ExecutionType::Opportunistic && !asked.fits(self.node) {
                    self.decide(Decision::Reject(id, RejectReason::NeverFits));
                    self.kill(id, -108, now_ms);
                } else if forced
                    || self
                        .sum(ToyContainer::holds_room)
                        .plus(asked)
                        .fits(self.node)
                {
                    let order = self.tick_clock();
                    let frozen = head.is_frozen();
                    let started = if frozen {
                        Decision::Resume(id)
                    } else {
                        Decision::Launch(id)
                    };
                    self.decide(started);
                    let container = self.at(id).unwrap();
                    container.phase = if frozen {
                        Phase::Resuming { order }
                    } else {
                        Phase::Launching { order }
                    };
                } else if kind == ExecutionType::Guaranteed || !self.may_be_passed(&head, now_ms) {
                    return;
                }
            }
        }
    }

    /// Returns whether others may start before this opportunistic container that does not fit.
    fn may_be_passed(&self, head: &ToyContainer, now_ms: u64) -> bool {
        let guaranteed = self.sum(|c| c.holds_room() && c.is(ExecutionType::Guaranteed));
        let fits_beside = guaranteed.plus(Sum::of(head.spec.resource)).fits(self.node);
        head.frozen()
            .is_some_and(|frozen| !fits_beside || now_ms - frozen.since < self.pause_max_ms() / 2)
    }

    pub(super) fn reclaim(&mut self, grew_running: bool, now_ms: u64) {
        if self.queue(ExecutionType::Guaranteed).is_empty() && !grew_running {
            return;
        }
        let mut going = Vec::new();
        loop {
            let (memory_mb, vcores) = self.short_without(&going);
            let (more_memory, more_cores) = (memory_mb > 0, vcores > 0);
            let newest_that_helps = self
                .containers
                .iter()
                .filter(|c| c.is(ExecutionType::Opportunistic) && !going.contains(&c.spec.id))
                .filter(|c| {
                    let has = c.spec.resource;
                    more_memory && has.memory_mb > 0 || more_cores && has.vcores > 0
                })
                .filter(|c| c.order().is_some())
                .max_by_key(|c| c.order());
            let Some(victim) = newest_that_helps else {
                break;
            };
            going.push(victim.spec.id);
        }
        let short = |going: &[ContainerId]| self.short_without(going);
        for at in (0..going.len()).rev() {
            let fewer = [&going[..at], &going[at + 1..]].concat();
            if short(&fewer) == short(&going) {
                going = fewer;
            }
        }
        for id in going {
            self.decide(Decision::Evict(id));
            let pause = self.config.use_pause_for_preemption;
            let container = self.at(id).unwrap();
            let works = matches!(
                container.phase,
                Phase::Running { .. } | Phase::Resuming { .. }
            );
            if pause && works {
                container.phase = Phase::Freezing;
                self.decide(Decision::Pause(id));
            } else {
                self.kill(id, -108, now_ms);
            }
        }
    }

    /// Returns the memory and cores that guaranteed containers lack if these leave.
    fn short_without(&self, going: &[ContainerId]) -> (i64, i64) {
        let needed = self.sum(|c| {
            let leaving = !c.holds_room() || c.order().is_none() || going.contains(&c.spec.id);
            !leaving || c.is(ExecutionType::Guaranteed) && c.place().is_some()
        });
        let node = Sum::of(self.node);
        let above = |needed: i64, node: i64| (needed - node).max(0);
        (
            above(needed.memory_mb, node.memory_mb),
            above(needed.vcores, node.vcores),
        )
    }

    pub(super) fn reclaim_frozen_memory(&mut self, now_ms: u64) -> bool {
        let mut any = false;
        while self.frozen_excess() > 0 {
            let frozen = self.queue(ExecutionType::Opportunistic);
            let newest = frozen.iter().rev().find(|c| c.frozen_mb().unwrap_or(0) > 0);
            let Some(newest) = newest else { break };
            self.decide(Decision::EndPause(newest.spec.id, PauseEnd::MemoryNeeded));
            self.kill_with_delay(newest.spec.id, -108, now_ms, 0);
            any = true;
        }
        any
    }
}
