//! Allocation of the node's resources: starts, evictions, sheds.

use records::{ContainerId, ExecutionType, MonoMillis};

use super::backfill::Backfill;
use super::{ContainerScheduler, Turn};
use crate::action::{
    Action, ContainerQueuingLimit, Note, PassReason, PauseEnd, RejectReason, ShedReason,
};
use crate::container::Estimate;
use crate::container_state::{ContainerState as S, Step};
use crate::kill_cause::{KillCause, PAUSED_TO_MAKE_ROOM};
use crate::queue::Waiting;
use crate::timers::Timer;
use crate::utilization::Amount;
use crate::victims::{self, Candidate, VictimsOrder};

/// Effect of an event on the demand for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The container joined the end of a queue.
    Joined(ContainerId),
    /// A waiting container asks for more.
    GrewWaiting(ContainerId),
    /// A container that holds an allocation takes more.
    GrewRunning(ContainerId),
    /// No container joined or grew.
    Other,
}

/// Opportunistic container whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Container that fits.
    Start(ContainerId),
    /// Container that is larger than the whole node.
    NeverFits(ContainerId),
    /// Container that fits and may pass the one whose turn it is.
    Pass(Backfill),
}

impl ContainerScheduler {
    /// Schedules after a change: starts the containers that fit, evicts opportunistic containers
    /// for guaranteed ones that still wait, and kills frozen ones if they hold too much memory.
    pub(super) fn settle(&mut self, change: Change, turn: &mut Turn<'_>) {
        self.shed_drained(turn);
        self.start_queued(turn);
        if let Change::Joined(id) = change {
            self.note_queued(id, turn);
        }
        self.reclaim(change, turn);
        // A victim that waited for its retry has no process: its resources are free already.
        self.start_queued(turn);
        while self.reclaim_frozen_memory(turn) {
            // The frozen container that was killed may have held up others that fit.
            self.start_queued(turn);
        }
    }

    /// Kills frozen containers until memory suffices; returns whether any was killed.
    ///
    /// Kills the container that was frozen last first: it is thawed last, so it is the least likely
    /// to be thawed in time. Containers that hold no memory are spared.
    fn reclaim_frozen_memory(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut any = false;
        while let Some(id) = self.next_frozen_to_kill() {
            self.end_pause(id, PauseEnd::MemoryNeeded, turn);
            any = true;
        }
        any
    }

    /// Returns the next frozen container to kill, if running and frozen containers together hold
    /// too much memory.
    pub(super) fn next_frozen_to_kill(&self) -> Option<ContainerId> {
        let ceiling = u128::from(self.config.memory_ceiling_mb).max(self.node_amount().memory_mb());
        let held = self.index.allocated().memory_mb() + self.index.frozen_mb();
        if held <= ceiling {
            return None;
        }
        self.index.opportunistic().newest_frozen_with_memory()
    }

    /// Starts guaranteed containers first, then opportunistic ones, each in the order of their
    /// queue. The first container that does not fit blocks all behind it: otherwise small
    /// containers could keep a large one waiting for ever. Only frozen containers may be passed,
    /// and those that are not expected to start later for it ([`Self::backfill`]).
    fn start_queued(&mut self, turn: &mut Turn<'_>) {
        while let Some(head) = self.index.guaranteed().head() {
            if !self.may_start_guaranteed(head.amount) {
                return;
            }
            self.note_if_larger_than_node(head, turn);
            self.start_or_resume(head.id, turn);
        }
        while let Some(next) = self.next_opportunistic(turn.now.mono) {
            match next {
                Next::Start(id) => self.start_in_order(id, turn),
                // The node shrank or the container grew: it would block the queue for ever.
                Next::NeverFits(id) => self.reject(id, RejectReason::NeverFits, turn),
                Next::Pass(backfill) => self.start_backfill(backfill, turn),
            }
        }
    }

    /// Returns the opportunistic container to start or to reject next. Frozen containers come
    /// first. One that does not fit lets others pass unless [`Self::keeps_room`]; the first
    /// container that has not started and does not fit blocks all behind it.
    fn next_opportunistic(&self, now: MonoMillis) -> Option<Next> {
        for (waiting, is_frozen) in self.index.opportunistic().iter() {
            if !waiting.amount.fits_in(self.node_amount()) {
                return Some(Next::NeverFits(waiting.id));
            }
            if self.has_room(waiting.amount) {
                return Some(Next::Start(waiting.id));
            }
            if !is_frozen {
                let place = self.containers.get(&waiting.id)?.state.waits_at()?;
                return self.backfill(waiting, place, now).map(Next::Pass);
            }
            if self.keeps_room(waiting, now) {
                return None;
            }
        }
        None
    }

    /// Returns whether resources that become free are kept for a frozen container: it has been
    /// frozen for half of the longest pause, and ends of opportunistic containers are enough for
    /// it.
    ///
    /// Before that others may pass, so that the node is not idle. Afterwards they would make it
    /// lose its work. If guaranteed containers are in its way, keeping resources free helps nobody.
    fn keeps_room(&self, frozen: Waiting, now: MonoMillis) -> bool {
        let Some(container) = self.containers.get(&frozen.id) else {
            return false;
        };
        self.fits_beside_guaranteed(frozen.amount)
            && now.since(container.since) >= self.config.pause_max_ms / 2
    }

    /// Returns whether a container would fit if no opportunistic one held an allocation.
    pub(super) fn fits_beside_guaranteed(&self, amount: Amount) -> bool {
        let utilization = self.index.utilization();
        let guaranteed = utilization.allocated - utilization.opportunistic;
        (guaranteed + amount).fits_in(self.node_amount())
    }

    /// Returns whether a guaranteed container of this size may start now.
    ///
    /// A container that is larger than the node, for example because the node shrank after the
    /// ResourceManager had placed it, starts once it has the node to itself: it is promised to its
    /// application, and waiting would block the node for ever.
    pub(super) fn may_start_guaranteed(&self, amount: Amount) -> bool {
        self.config.forces_guaranteed() || self.has_room(amount) || self.index.allocated().is_zero()
    }

    fn note_if_larger_than_node(&self, head: Waiting, turn: &mut Turn<'_>) {
        if self.config.forces_guaranteed() || head.amount.fits_in(self.node_amount()) {
            return;
        }
        if let Some(container) = self.containers.get(&head.id) {
            turn.note(Note::LargerThanNode {
                id: head.id,
                asked: container.spec.resource,
                node: self.node,
            });
        }
    }

    pub(super) fn has_room(&self, amount: Amount) -> bool {
        (self.index.allocated() + amount).fits_in(self.node_amount())
    }

    /// Starts the opportunistic container whose turn it is.
    fn start_in_order(&mut self, id: ContainerId, turn: &mut Turn<'_>) {
        let state = self.state(id);
        if let Some(S::Queued { place }) = state
            && let Some((oldest, passed)) = self.index.opportunistic().oldest_unstarted()
            && oldest.arrival() < place.arrival()
        {
            let reason = PassReason::Order {
                order: self.config.queue_order,
                expected_ms: place.expected_ms(),
                passed_expected_ms: oldest.expected_ms(),
            };
            let passed = passed.id;
            turn.note(Note::Passed { id, passed, reason });
        }
        self.start_or_resume(id, turn);
    }

    pub(super) fn start_or_resume(&mut self, id: ContainerId, turn: &mut Turn<'_>) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        let resumed = matches!(container.state, S::Paused { .. });
        let estimated_wait_ms = match container.estimate {
            Estimate::Wait(wait_ms) => Some(wait_ms),
            Estimate::Open | Estimate::Unknown => None,
        };
        turn.note(Note::Started {
            id,
            execution_type: container.spec.execution_type,
            queue_wait_ms: turn.now.mono.since(container.joined),
            reported_wait_ms: container.reported_wait_ms.filter(|_| !resumed),
            estimated_wait_ms: estimated_wait_ms.filter(|_| !resumed),
            resumed,
        });
        turn.order(if resumed {
            Action::Resume(id)
        } else {
            Action::Launch(id)
        });
        let order = self.allocate_number();
        self.timers.cancel(Timer::PauseEnd(id));
        self.step(id, Step::Start { order }, turn.now);
    }

    fn note_queued(&self, id: ContainerId, turn: &mut Turn<'_>) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        if let Some(place) = container.state.waits_at() {
            let execution_type = container.spec.execution_type;
            let position = self.index.queue(execution_type).position(place);
            let free = self.node.saturating_sub(self.allocated());
            turn.note(Note::Queued {
                id,
                execution_type,
                position,
                missing: container.spec.resource.saturating_sub(free),
            });
        }
    }

    /// Evicts opportunistic containers for guaranteed ones that wait, no more than are needed once
    /// those already being killed or frozen are gone.
    fn reclaim(&mut self, change: Change, turn: &mut Turn<'_>) {
        let claimant = self.claimant(change);
        if claimant.is_none() && self.index.guaranteed().head().is_none() {
            return;
        }
        let needed = self.index.kept() + self.index.guaranteed().total();
        let short = needed.saturating_sub(self.node_amount());
        let victims = self.victims(short, turn.now.mono);
        if victims.is_empty() {
            return;
        }
        let Some(for_container) = claimant.or_else(|| self.first_short_of_resources()) else {
            return;
        };
        for victim in victims {
            self.evict(victim, for_container, turn);
        }
    }

    /// Returns the opportunistic containers to evict for what is short, in the order in force.
    fn victims(&self, short: Amount, now: MonoMillis) -> Vec<ContainerId> {
        let newest_first = self.index.evictable_newest_first();
        match self.config.victims_order {
            VictimsOrder::Newest => victims::newest(short, newest_first),
            VictimsOrder::LeastWaste => {
                let ran_ms = |id| self.containers.get(&id).map_or(0, |of| of.ran_ms(now));
                let candidate = |(id, amount)| Candidate {
                    id,
                    amount,
                    ran_ms: ran_ms(id),
                };
                let candidates: Vec<Candidate> = newest_first.map(candidate).collect();
                victims::least_waste(short, self.node_amount(), &candidates)
            }
        }
    }

    /// Returns the guaranteed container that this change left without resources.
    ///
    /// Containers that waited before need no more victims: after each event either enough resources
    /// are being freed for all that wait, or no victim is left.
    fn claimant(&self, change: Change) -> Option<ContainerId> {
        let guaranteed = |id: &ContainerId| {
            self.containers
                .get(id)
                .filter(|container| container.spec.execution_type == ExecutionType::Guaranteed)
        };
        match change {
            Change::Joined(id) | Change::GrewWaiting(id) => {
                guaranteed(&id).filter(|container| container.state.waits_at().is_some())?;
                Some(id)
            }
            // Its processes use the memory already, or are about to.
            Change::GrewRunning(id) => guaranteed(&id).map(|container| container.spec.id),
            Change::Other => None,
        }
    }

    /// Returns the first waiting guaranteed container for which no resources are being freed. Walks
    /// over the waiting containers, but only when a demotion or a smaller node created victims
    /// without a particular claimant.
    fn first_short_of_resources(&self) -> Option<ContainerId> {
        let node = self.node_amount();
        let mut needed = self.index.kept();
        let mut waiting = self.index.guaranteed().iter();
        waiting
            .find(|(Waiting { amount, .. }, _)| {
                needed += *amount;
                !needed.fits_in(node)
            })
            .map(|(waiting, _)| waiting.id)
    }

    fn evict(&mut self, id: ContainerId, for_container: ContainerId, turn: &mut Turn<'_>) {
        let Some(container) = self.containers.get(&id) else {
            return;
        };
        // A container whose launch is unanswered has no work to preserve, and may have no process
        // to freeze.
        let paused = self.config.use_pause_for_preemption && container.state.can_pause();
        let ran_ms = container.ran_ms(turn.now.mono);
        turn.note(Note::Evicted {
            id,
            for_container,
            paused,
            ran_ms,
        });
        if paused {
            self.add_diagnostics(id, PAUSED_TO_MAKE_ROOM, turn.now);
            self.step(id, Step::Pause, turn.now);
            turn.order(Action::Pause(id));
        } else {
            self.kill(id, KillCause::Evicted, turn);
        }
    }

    /// Removes the opportunistic containers whose turn comes last from the queue until its length
    /// meets the ResourceManager's limit. Frozen containers stay because they have work to lose.
    /// Waits are not limited, as in Hadoop: whoever is shed for a long wait waits elsewhere, at the
    /// end of another queue.
    pub(super) fn shed(&mut self, limit: ContainerQueuingLimit, turn: &mut Turn<'_>) {
        if let Some(length) = limit.max_queue_length {
            for _ in 0..limit.excess(self.index.opportunistic().unstarted_len()) {
                self.shed_last(ShedReason::QueueLength { limit: length }, turn);
            }
        }
    }

    /// Returns whether there was a container to remove.
    pub(super) fn shed_last(&mut self, reason: ShedReason, turn: &mut Turn<'_>) -> bool {
        let Some(id) = self.index.opportunistic().last_unstarted() else {
            return false;
        };
        turn.note(Note::Shed { id, reason });
        self.kill(id, KillCause::Shed, turn);
        true
    }
}
