//! The drain of the node, by order of an operator: who is refused, who is ended and when, and what
//! the ResourceManager and people are told.
//!
//! `sched` refuses and ends containers, by the extent in force. This module decides the extent:
//! from the order on only the queue is drained; when the time given to containers is over, the
//! extent is that of the ordered mode. Where records are kept, a drain outlives the agent: the node
//! comes back drained, and the containers' time goes on.

use node_view::operator::DrainMode;
use node_view::snapshot::{DrainNotice, NodeHealth};
use records::{EpochMillis, MonoMillis, Now};
use sched::DrainExtent;

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
pub(crate) struct Drain {
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
    /// Returns the drain that begins with an order.
    pub(crate) fn new(order: DrainOrder, boot: u64, now: Now) -> Self {
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
    pub(crate) fn restored(record: DrainRecord, boot: u64, now: Now) -> Option<Self> {
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

    /// Returns the drain for the next agent.
    pub(crate) fn record(&self) -> DrainRecord {
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
    pub(crate) fn deadline(&self) -> Option<MonoMillis> {
        self.deadline
    }

    /// Returns the order in force.
    pub(crate) const fn order(&self) -> &DrainOrder {
        &self.order
    }

    /// Returns the drain that goes on when the containers' own time is over; `None`: it is not.
    pub(crate) fn after_deadline(&self, now: MonoMillis) -> Option<Self> {
        let is_over = self.deadline.is_some_and(|at| at <= now);
        is_over.then(|| Self {
            deadline: None,
            is_ending: true,
            ..self.clone()
        })
    }

    /// Returns the extent in force.
    pub(crate) fn extent(&self) -> DrainExtent {
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
    pub(crate) fn add_to(&self, health: &mut NodeHealth) {
        if self.extent() == DrainExtent::All {
            health.healthy = false;
        }
        if !health.report.is_empty() {
            health.report.push(';');
        }
        health.report.push_str(&self.notice().words());
        health.updated_at = health.updated_at.max(self.since);
    }

    /// Returns the drain for people.
    pub(crate) fn notice(&self) -> DrainNotice {
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
