//! Room for attempts that bind their tasks late: the reservations at this node, and the offers to
//! the proxies that made them.
//!
//! Who gets the room is decided by [`sched::ReservationTable`]. Here it learns how much there is:
//! what no container holds, while nothing waits on the node. After each change of the scheduler,
//! and when something is over, what is free is offered.

use records::{ContainerId, ExecutionType, MonoMillis, NodeId, Now, Resource};
use sched::{OfferAnswer, OfferId, Reservation, ReserveError, Sight};
use thiserror::Error;

use super::Core;
use super::effect::{Effect, Observed};

/// Refusal of a reservation at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReservationRefusal {
    /// The node takes no opportunistic containers at present.
    #[error("the node takes no opportunistic containers")]
    Closed,
    /// The reservation is none, or one too many.
    #[error(transparent)]
    Table(#[from] ReserveError),
}

impl Core {
    /// Takes a reservation of the proxy on another node, or on this one, or news of one.
    ///
    /// # Errors
    /// [`ReservationRefusal`]: there is no such reservation.
    pub fn reserve(
        &mut self,
        from: NodeId,
        reservation: &Reservation,
        now: Now,
    ) -> Result<(), ReservationRefusal> {
        if !self.scheduler.takes_opportunistic() && reservation.waiting > 0 {
            return Err(ReservationRefusal::Closed);
        }
        let (scheduler, reservations) = (&self.scheduler, &mut self.reservations);
        reservations.set_unknown_run_ms(scheduler.unknown_run_ms());
        reservations.set_bound_factor(scheduler.queue_bound_factor());
        let taken = self.reservations.reserve(from, reservation, now.mono);
        self.offer_room(now.mono);
        Ok(taken?)
    }

    /// Takes the answer of a proxy to an offer. One that comes too late changes nothing: its tasks
    /// start here when they come, or wait.
    pub(super) fn offer_answered(
        &mut self,
        from: &NodeId,
        id: OfferId,
        answer: OfferAnswer,
        now: Now,
    ) {
        let taken = self.reservations.answered(from, id, answer, now.mono);
        if let Err(late) = taken {
            tracing::debug!(%from, %late, "an answer to no offer");
        }
        self.observe(Observed::OfferAnswered {
            bound: answer.bound,
        });
        self.offer_room(now.mono);
    }

    /// Notes that a container has come, for which room may be held.
    pub(super) fn reserved_container_came(
        &mut self,
        id: ContainerId,
        execution_type: ExecutionType,
        size: Resource,
    ) {
        if execution_type == ExecutionType::Opportunistic {
            self.reservations.arrived(id.attempt, size);
        }
    }

    /// Offers what is free, while nothing waits here.
    pub(super) fn offer_room(&mut self, now: MonoMillis) {
        // In most clusters nobody reserves.
        if self.reservations.is_empty() {
            return;
        }
        let Sight { queued, free, .. } = self.scheduler.sight(now);
        if queued > 0 {
            return;
        }
        while let Some(offer) = self.reservations.offer(free, now) {
            self.effects.push(Effect::Offer(Box::new(offer)));
        }
    }

    /// Returns the room that is offered, or held for containers on their way.
    pub(super) const fn held_room(&self) -> Resource {
        self.reservations.held()
    }

    /// Offers again what offers without an answer and containers that have not come have held.
    pub(super) fn expire_reservations(&mut self, now: MonoMillis) {
        self.reservations.expire(now);
        self.offer_room(now);
    }
}
