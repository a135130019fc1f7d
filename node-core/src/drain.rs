//! The drain of the node, by order of an operator: who is refused, who is ended and when, and what
//! the ResourceManager and people are told.
//!
//! `sched` refuses and ends containers, by the extent in force. This module decides the extent:
//! from the order on only the queue is drained; when the time given to containers is over, the
//! extent is that of the ordered mode. Where records
//! are kept, a drain outlives the agent: the node comes back drained, and the containers' time goes
//! on.

use std::sync::Arc;

use node_view::operator::{DrainMode, DrainState};
use node_view::overview::Decision;
use node_view::snapshot::{DrainNotice, NodeHealth};
use records::{EpochMillis, ExecutionType, MonoMillis, Now};
use sched::{DrainExtent, Event};

use super::effect::Effect;
use super::{Core, StoreOrder};
use crate::recovery::{DrainRecord, RecordClock, past};

/// Characters of the reason, which every heartbeat carries.
pub const DRAIN_REASON_CHARS_MAX: usize = 200;

/// Order of an operator to drain the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainOrder {
    /// Mode: the containers that are ended.
    pub mode: DrainMode,
    /// Time that these containers have to end by themselves, in milliseconds.
    pub within_ms: u64,
    /// Reason for people, at most [`DRAIN_REASON_CHARS_MAX`] characters.
    pub reason: String,
    /// Name of the operator.
    pub by: String,
}

/// Drain under way.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    order: DrainOrder,
    since: EpochMillis,
    /// Clock of that time.
    clock: Option<RecordClock>,
    /// Time at which the mode's containers are ended, until then; `None`: it ends none, or has.
    deadline: Option<MonoMillis>,
    /// The extent of the mode is in force.
    is_ending: bool,
}

/// Returns the containers that a mode ends.
const fn extent(mode: DrainMode) -> DrainExtent {
    match mode {
        DrainMode::Graceful => DrainExtent::Queue,
        DrainMode::Quick => DrainExtent::Opportunistic,
        DrainMode::Fast => DrainExtent::All,
    }
}

impl Drain {
    fn new(order: DrainOrder, boot: u64, now: Now) -> Self {
        let ends = extent(order.mode) > DrainExtent::Queue;
        let waits = ends && order.within_ms > 0;
        Self {
            deadline: waits.then(|| now.mono + order.within_ms),
            is_ending: ends && !waits,
            order,
            since: now.wall,
            clock: Some(RecordClock::of_record(None, boot, now)),
        }
    }

    /// Returns the drain of an earlier agent; `None` if its mode is unknown.
    fn restored(record: DrainRecord, boot: u64, now: Now) -> Option<Self> {
        let modes = [DrainMode::Graceful, DrainMode::Quick, DrainMode::Fast];
        let mode = modes
            .into_iter()
            .find(|mode| mode.as_str() == record.mode)?;
        let since = EpochMillis(record.since);
        let passed_ms = now.mono.since(past(since, record.clock, boot, now));
        let order = DrainOrder {
            mode,
            within_ms: record.within_ms.saturating_sub(passed_ms),
            reason: record.reason,
            by: record.by,
        };
        let mut drain = Self::new(order, boot, now);
        drain.order.within_ms = record.within_ms;
        (drain.since, drain.clock) = (since, record.clock);
        Some(drain)
    }

    fn record(&self) -> DrainRecord {
        DrainRecord {
            mode: self.order.mode.as_str().to_owned(),
            within_ms: self.order.within_ms,
            reason: self.order.reason.clone(),
            by: self.order.by.clone(),
            since: self.since.0,
            clock: self.clock,
        }
    }

    /// Returns the time at which the containers' own time is over.
    pub(super) fn deadline(&self) -> Option<MonoMillis> {
        self.deadline
    }

    /// Returns the extent in force.
    fn extent(&self) -> DrainExtent {
        if self.is_ending {
            extent(self.order.mode)
        } else {
            DrainExtent::Queue
        }
    }

    /// Adds the drain to what heartbeats say about the node's health.
    ///
    /// The node stays healthy as long as a container may go on: of an unhealthy node the
    /// ResourceManager ends them all. When all are ended it is unhealthy, the only state of a
    /// node's own in which the ResourceManager places no guaranteed container on it.
    pub(super) fn add_to(&self, health: &mut NodeHealth) {
        if self.extent() == DrainExtent::All {
            health.healthy = false;
        }
        if !health.report.is_empty() {
            health.report.push(';');
        }
        health.report.push_str(&self.notice().words());
        health.updated_at = health.updated_at.max(self.since);
    }

    fn notice(&self) -> DrainNotice {
        let DrainOrder {
            mode,
            within_ms,
            reason,
            by,
        } = &self.order;
        let ends = extent(*mode) > DrainExtent::Queue;
        let within_ms = i64::try_from(*within_ms).unwrap_or(i64::MAX);
        DrainNotice {
            mode: mode.as_str(),
            reason: reason.clone(),
            by: by.clone(),
            since: self.since,
            ends_at: ends.then(|| EpochMillis(self.since.0.saturating_add(within_ms))),
            is_ending: self.is_ending,
        }
    }
}

impl Core {
    /// Drains the node, in place of an earlier order.
    pub fn drain(&mut self, order: DrainOrder, now: Now) {
        let drain = Drain::new(order, self.recorder.boot(), now);
        self.decided(Decision::Drain(Box::new(drain.notice())), now);
        self.set_drain(Some(drain), now);
    }

    /// Puts the node back into service. Returns whether it was drained.
    pub fn cancel_drain(&mut self, by: &str, now: Now) -> bool {
        let was_drained = self.drain.is_some();
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
                tracing::info!(order = ?drain.order, "the node stays drained");
                self.set_drain(Some(drain), now);
            }
            None => {
                tracing::warn!("a drain of an unknown mode is left out: the node is in service")
            }
        }
    }

    /// Ends the containers of the drain's mode when their time is over.
    pub(super) fn end_drain_in_time(&mut self, now: Now) {
        let is_due = |drain: &Drain| drain.deadline.is_some_and(|at| at <= now.mono);
        let Some(mut drain) = self.drain.clone().filter(is_due) else {
            return;
        };
        drain.deadline = None;
        drain.is_ending = true;
        self.decided(Decision::DrainEnds, now);
        self.set_drain(Some(drain), now);
    }

    fn set_drain(&mut self, drain: Option<Drain>, now: Now) {
        let extent = drain.as_ref().map(Drain::extent);
        let notice = drain.as_ref().map(Drain::notice);
        if self.recorder.are_kept() {
            let record = drain.as_ref().map(|drain| Box::new(drain.record()));
            self.effects.push(Effect::Store(StoreOrder::Drain(record)));
        }
        self.drain = drain;
        Arc::make_mut(&mut self.config.about).drain = notice;
        self.add_up_health();
        self.must_feed(Event::Drain(extent), now);
        // The ResourceManager should place nothing here from now on.
        self.effects.push(Effect::HeartbeatNow);
    }

    /// Returns the drain for operators, with the containers that are still to end.
    pub(super) fn drain_state(&self) -> Option<DrainState> {
        let drain = self.drain.as_ref()?;
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
            mode: drain.order.mode,
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
