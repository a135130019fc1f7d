//! Starts, evictions and sheds of the toy scheduler.

use std::cmp::Reverse;

use records::{ContainerId, ExecutionType};
use sched::{PauseEnd, RejectReason, VictimsOrder};

use super::ordering::Turn;
use super::{Decision, Phase, Sum, Toy, ToyContainer};

impl Toy {
    pub(super) fn shed(&mut self, limit: Option<usize>, now_ms: u64) {
        let keep = limit.unwrap_or(usize::MAX);
        loop {
            let queue = self.queue(ExecutionType::Opportunistic);
            let mut unstarted = queue.iter().filter(|c| !c.is_frozen());
            let count = unstarted.clone().count();
            let last = unstarted.next_back();
            let Some(last) = last.filter(|_| count > keep) else {
                return;
            };
            self.decide(Decision::Shed(last.spec.id));
            self.kill(last.spec.id, -108, now_ms);
        }
    }

    pub(super) fn start_queued(&mut self, now_ms: u64) {
        while let Some(head) = self.queue(ExecutionType::Guaranteed).first().copied() {
            let alone = self.sum(ToyContainer::holds_room) == Sum::default();
            if !(self.forces() || alone || self.has_room(&head)) {
                return;
            }
            self.start_or_resume(head.spec.id);
        }
        while let Some(turn) = self.next_opportunistic(now_ms) {
            let head = *self.get(turn.id).unwrap();
            if !Sum::of(head.spec.resource).fits(self.node) {
                let reason = RejectReason::NeverFits;
                self.decide(Decision::Reject(turn.id, reason));
                self.kill(turn.id, -108, now_ms);
                continue;
            }
            if let Some((passed, room_in_ms)) = turn.passed {
                self.decide(Decision::Pass(turn.id, passed));
                let passed = self.at(passed).unwrap();
                passed.passed_until.get_or_insert(now_ms + room_in_ms);
            } else if let Some(passed) = self.longest_waiting_before(&head) {
                self.decide(Decision::Pass(turn.id, passed));
            }
            self.start_or_resume(turn.id);
        }
    }

    fn has_room(&self, container: &ToyContainer) -> bool {
        let asked = Sum::of(container.spec.resource);
        self.sum(ToyContainer::holds_room)
            .plus(asked)
            .fits(self.node)
    }

    fn next_opportunistic(&self, now_ms: u64) -> Option<Turn> {
        for head in self.queue(ExecutionType::Opportunistic) {
            if !Sum::of(head.spec.resource).fits(self.node) || self.has_room(&head) {
                return Some(Turn {
                    id: head.spec.id,
                    passed: None,
                });
            }
            if !head.is_frozen() {
                return self.backfill(&head, now_ms);
            }
            if !self.may_be_passed(&head, now_ms) {
                return None;
            }
        }
        None
    }

    /// Returns the unstarted container that waits longest, if it came before this unstarted one.
    fn longest_waiting_before(&self, starts: &ToyContainer) -> Option<ContainerId> {
        let queue = self.queue(ExecutionType::Opportunistic);
        let unstarted = queue.iter().filter(|c| !c.is_frozen());
        let oldest = unstarted.min_by_key(|c| c.place())?;
        (!starts.is_frozen() && oldest.place() < starts.place()).then_some(oldest.spec.id)
    }

    fn start_or_resume(&mut self, id: ContainerId) {
        let order = self.tick_clock();
        let container = self.at(id).unwrap();
        container.basis = None;
        container.passed_until = None;
        let decision = if container.is_frozen() {
            container.phase = Phase::Resuming { order };
            Decision::Resume(id)
        } else {
            container.phase = Phase::Launching { order };
            Decision::Launch(id)
        };
        self.decide(decision);
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
        let going = match self.config.victims_order {
            VictimsOrder::Newest => self.newest(),
            VictimsOrder::LeastWaste => self.least_waste(now_ms),
        };
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

    /// Returns the set that loses the least run × size of those that free as much as all together:
    /// every set is tried, those of containers that lose little first.
    fn least_waste(&self, now_ms: u64) -> Vec<ContainerId> {
        let (memory_mb, vcores) = self.short_without(&[]);
        let mut helpers: Vec<&ToyContainer> = self
            .containers
            .iter()
            .filter(|c| c.is(ExecutionType::Opportunistic) && c.order().is_some())
            .filter(|c| {
                let has = Sum::of(c.spec.resource);
                memory_mb > 0 && has.memory_mb > 0 || vcores > 0 && has.vcores > 0
            })
            .collect();
        let node = Sum::of(self.node);
        let waste = |c: &ToyContainer| {
            let has = Sum::of(c.spec.resource);
            let share =
                has.memory_mb * 1_000_000 / node.memory_mb + has.vcores * 1_000_000 / node.vcores;
            u64::try_from(share).unwrap() * Self::ran_ms(c, now_ms)
        };
        assert!(helpers.len() <= 16, "the toy tries every set");
        helpers.sort_by_key(|c| (waste(c), Reverse(c.order())));
        let ids = |set: u32| {
            let first = helpers.len();
            let chosen = (0..first).filter(move |at| set & 1 << (first - 1 - at) != 0);
            chosen.map(|at| helpers[at].spec.id).collect::<Vec<_>>()
        };
        let all = ids((1 << helpers.len()) - 1);
        let short = self.short_without(&all);
        let mut best: Option<(u64, Vec<ContainerId>)> = None;
        for set in (0..1 << helpers.len()).rev() {
            let ids = ids(set);
            let lost = ids.iter().map(|id| waste(self.get(*id).unwrap())).sum();
            let is_better = best.as_ref().is_none_or(|(least, _)| lost < *least);
            if is_better && self.short_without(&ids) == short && self.is_tight(&ids, short) {
                best = Some((lost, ids));
            }
        }
        let mut going = best.unwrap_or_default().1;
        going.sort_by_key(|id| Reverse(self.get(*id).unwrap().order()));
        going
    }

    /// Returns whether the first containers of a set are not enough without the last.
    fn is_tight(&self, ids: &[ContainerId], short: (i64, i64)) -> bool {
        ids.is_empty() || self.short_without(&ids[..ids.len() - 1]) != short
    }

    fn newest(&self) -> Vec<ContainerId> {
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
        going
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
