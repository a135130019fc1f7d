//! Orders of operators to drain the node, and what follows from a drain.

use node_view::operator::DrainState;
use node_view::overview::Decision;
use node_view::snapshot::DrainNotice;
use records::{ExecutionType, Now};
use sched::Event;

use super::{Core, Effect, StoreOrder};
use crate::drain::{Drain, DrainOrder};
use crate::recovery::DrainRecord;

impl Core {
    /// Drains the node, in place of an earlier order.
    pub fn drain(&mut self, order: DrainOrder, now: Now) {
        let drain = Drain::new(order, self.recorder.boot(), now);
        self.decided(Decision::Drain(Box::new(drain.notice())), now);
        self.set_drain(Some(drain), now);
    }

    /// Puts the node back into service. Returns whether it was drained.
    pub fn cancel_drain(&mut self, by: &str, now: Now) -> bool {
        let was_drained = self.condition.drain().is_some();
        if was_drained {
            let by = by.to_owned();
            self.decided(Decision::DrainCancelled { by }, now);
            self.set_drain(None, now);
        }
        was_drained
    }

    /// Drains the node again as an earlier agent was ordered to.
    pub(super) fn restore_drain(&mut self, record: DrainRecord, now: Now) {
        match Drain::restored(record, self.recorder.boot(), now) {
            Some(drain) => {
                tracing::info!(order = ?drain.order(), "the node stays drained");
                self.set_drain(Some(drain), now);
            }
            None => {
                tracing::warn!("a drain of an unknown mode is left out: the node is in service")
            }
        }
    }

    /// Ends the containers of the drain's mode when their time is over.
    pub(super) fn end_drain_in_time(&mut self, now: Now) {
        let drain = self.condition.drain();
        let Some(drain) = drain.and_then(|drain| drain.after_deadline(now.mono)) else {
            return;
        };
        self.decided(Decision::DrainEnds, now);
        self.set_drain(Some(drain), now);
    }

    fn set_drain(&mut self, drain: Option<Drain>, now: Now) {
        let extent = drain.as_ref().map(Drain::extent);
        if self.recorder.are_kept() {
            let record = drain.as_ref().map(|drain| Box::new(drain.record()));
            self.effects.push(Effect::Store(StoreOrder::Drain(record)));
        }
        let shown = self.condition.set_drain(drain);
        self.show(shown);
        self.must_feed(Event::Drain(extent), now);
        // The ResourceManager should place nothing here from now on.
        self.effects.push(Effect::HeartbeatNow);
    }

    /// Returns the drain for operators, with the containers that are still to end.
    pub(super) fn drain_state(&self) -> Option<DrainState> {
        let drain = self.condition.drain()?;
        let DrainNotice {
            reason,
            by,
            since,
            ends_at,
            is_ending,
            ..
        } = drain.notice();
        let living = |kind| {
            let views = self.scheduler.summaries();
            let living = views.filter(|each| each.spec.execution_type == kind);
            living.filter(|each| !each.state.has_ended()).count()
        };
        Some(DrainState {
            mode: drain.order().mode,
            reason,
            by,
            since_ms: since.0,
            ends_at_ms: ends_at.map(|at| at.0),
            is_ending,
            guaranteed_left: living(ExecutionType::Guaranteed),
            opportunistic_left: living(ExecutionType::Opportunistic),
        })
    }
}
