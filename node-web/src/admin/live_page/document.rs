//! JSON of the live page: the answer to `/live.json` and the content of each event of `/live`.
//!
//! Field names carry their units; times are milliseconds since 1970 (`_epoch_ms`) or durations up
//! to the moment of the document (`_ms`), which a reader may let grow by itself. Names and texts
//! that peers chose stand in it as they are: to be escaped by readers that show them.

use std::collections::BTreeMap;

use serde::Serialize;
use time::{OffsetDateTime, UtcOffset, format_description::BorrowedFormatItem, macros};

use super::chart::WINDOWS_S;
use super::masters::{self, Masters};
use super::texts;
use crate::overview::{
    Counts, ListedContainer, Overview, RecentDecision, RmContact, Step, WaitingContainer,
    decision_words,
};

/// A time of day.
const CLOCK: &[BorrowedFormatItem<'_>] = macros::format_description!("[hour]:[minute]:[second]");

/// A moment in UTC.
const ISO: &[BorrowedFormatItem<'_>] =
    macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");

/// The node at one moment, as `/live.json` and each event show it.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    /// When it was taken.
    pub(super) at_epoch_ms: i64,
    /// The same as a time of day where the node is.
    pub(super) at_local: String,
    pub(super) node: Node,
    pub(super) resource_manager: ResourceManager,
    pub(super) resources: Resources,
    pub(super) running: Running,
    pub(super) queue: Queue,
    /// Attempts whose calls pass the node's AMRMProxy; `null` without a proxy.
    pub(super) masters: Option<Masters>,
    pub(super) history: History,
    /// Recent decisions, newest first.
    pub(super) decisions: Vec<Decision>,
    /// Sentences of the page, by the names of their places. `{}` stands for a duration that goes
    /// on.
    pub(super) texts: BTreeMap<&'static str, String>,
}

/// The node itself.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) started_epoch_ms: i64,
    pub(super) uptime_ms: u64,
    pub(super) healthy: bool,
    /// Empty while it is healthy.
    pub(super) health_report: String,
}

/// How it stands with the ResourceManager.
#[derive(Debug, Serialize)]
pub(super) struct ResourceManager {
    /// `registering`, `registered` or `silent`.
    pub(super) state: &'static str,
    pub(super) since_ms: u64,
}

/// Resources that the node offers, and what containers hold of them.
#[derive(Debug, Serialize)]
pub(super) struct Resources {
    pub(super) memory_total_mb: u64,
    pub(super) memory_allocated_mb: u64,
    pub(super) memory_opportunistic_mb: u64,
    pub(super) vcores_total: u32,
    pub(super) vcores_allocated: u32,
    pub(super) vcores_opportunistic: u32,
}

/// Containers that hold resources.
#[derive(Debug, Serialize)]
pub(super) struct Running {
    pub(super) guaranteed: u32,
    pub(super) opportunistic: u32,
    /// The first of them, in the order of their ids.
    pub(super) containers: Vec<RunningContainer>,
    /// How many `containers` leaves out.
    pub(super) more: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct RunningContainer {
    pub(super) container: String,
    pub(super) execution_type: &'static str,
    pub(super) user: String,
    pub(super) memory_mb: u64,
    pub(super) vcores: u32,
    /// `starting`, `running`, `pausing`, `resuming` or `ending`.
    pub(super) progress: &'static str,
    pub(super) since_ms: u64,
}

/// Containers that wait.
#[derive(Debug, Serialize)]
pub(super) struct Queue {
    pub(super) length: u32,
    /// How many of them are frozen.
    pub(super) paused: u32,
    /// How many opportunistic containers the node's own configuration lets wait.
    pub(super) capacity: u32,
    /// How many the ResourceManager lets wait; `null`: it sets no such limit.
    pub(super) limit_length: Option<usize>,
    /// Longest wait that the ResourceManager allows; `null`: there is no such limit.
    pub(super) limit_wait_ms: Option<u64>,
    /// Time that one more opportunistic container would wait, as reported to the ResourceManager;
    /// `null`: it would not be taken.
    pub(super) estimated_wait_ms: Option<u64>,
    /// The longest wait of those in `containers`; `null` when nothing waits.
    pub(super) longest_wait_ms: Option<u64>,
    /// The first of them, in the order in which they would start.
    pub(super) containers: Vec<QueuedContainer>,
    /// How many `containers` leaves out.
    pub(super) more: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct QueuedContainer {
    pub(super) container: String,
    pub(super) execution_type: &'static str,
    pub(super) user: String,
    pub(super) memory_mb: u64,
    pub(super) vcores: u32,
    pub(super) paused: bool,
    pub(super) waited_ms: u64,
}

/// Counts over the last minutes. A step stands until the next one.
#[derive(Debug, Serialize)]
pub(super) struct History {
    /// The lengths of time, in seconds, of which a chart shows the shortest that reaches back to
    /// the agent's start.
    pub(super) windows_s: [u64; WINDOWS_S.len()],
    pub(super) now: CountsAt,
    pub(super) steps: Vec<CountsAt>,
}

/// Counts from a second on.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct CountsAt {
    /// Since the agent started.
    pub(super) second: u64,
    pub(super) running_guaranteed: u32,
    pub(super) running_opportunistic: u32,
    pub(super) waiting: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Decision {
    /// Rises by one with each decision of this agent.
    pub(super) sequence: u64,
    pub(super) at_epoch_ms: i64,
    /// The same in the form of ISO 8601, UTC.
    pub(super) at_iso: String,
    pub(super) at_local: String,
    /// `null` for one about the node.
    pub(super) container: Option<String>,
    pub(super) kind: &'static str,
    /// The decision and its reason.
    pub(super) words: String,
}

impl Document {
    pub(super) fn of(overview: &Overview, offset: UtcOffset) -> Self {
        let (now, node) = (overview.now, &overview.node);
        let mut document = Self {
            at_epoch_ms: now.wall.0,
            at_local: clock(now.wall.0, offset),
            node: Node {
                id: node.node_id.to_string(),
                version: node.version.clone(),
                started_epoch_ms: node.started_at.0,
                uptime_ms: now.mono.0,
                healthy: node.unhealthy.is_none(),
                health_report: node.unhealthy.clone().unwrap_or_default(),
            },
            resource_manager: ResourceManager {
                state: state(node.rm.0),
                since_ms: now.mono.since(node.rm.1),
            },
            resources: resources(overview),
            running: Running {
                guaranteed: node.counts.running_guaranteed,
                opportunistic: node.counts.running_opportunistic,
                containers: node
                    .running
                    .first
                    .iter()
                    .map(|listed| running(listed, overview))
                    .collect(),
                more: node.running.more(),
            },
            queue: queue(overview),
            masters: masters::of(overview),
            history: history(overview),
            decisions: node
                .decisions
                .iter()
                .map(|recent| decision(recent, offset))
                .collect(),
            texts: BTreeMap::new(),
        };
        document.texts = texts::all(&document);
        document
    }
}

fn state(contact: RmContact) -> &'static str {
    match contact {
        RmContact::Registering => "registering",
        RmContact::Registered => "registered",
        RmContact::Silent => "silent",
    }
}

fn resources(overview: &Overview) -> Resources {
    let node = &overview.node;
    Resources {
        memory_total_mb: node.total.memory_mb,
        memory_allocated_mb: node.allocated.memory_mb,
        memory_opportunistic_mb: node.opportunistic.opport_memory_used_mb,
        vcores_total: node.total.vcores,
        vcores_allocated: node.allocated.vcores,
        vcores_opportunistic: node.opportunistic.opport_cores_used,
    }
}

fn running(listed: &ListedContainer, overview: &Overview) -> RunningContainer {
    RunningContainer {
        container: listed.id.to_string(),
        execution_type: listed.execution_type.as_str(),
        user: listed.user.clone(),
        memory_mb: listed.resource.memory_mb,
        vcores: listed.resource.vcores,
        progress: listed.progress.as_str(),
        since_ms: overview.now.mono.since(listed.since),
    }
}

fn queue(overview: &Overview) -> Queue {
    let node = &overview.node;
    let waited = |waiting: &WaitingContainer| overview.now.mono.since(waiting.since);
    let limit = node.queuing_limit;
    Queue {
        length: node.counts.waiting,
        paused: node.paused,
        capacity: node.opportunistic.opport_queue_capacity,
        limit_length: limit.and_then(|limit| limit.max_queue_length),
        limit_wait_ms: limit.and_then(|limit| limit.max_queue_wait_time_ms),
        estimated_wait_ms: node.opportunistic.estimated_queue_wait_ms.map(u64::from),
        longest_wait_ms: node.waiting.first.iter().map(waited).max(),
        containers: node
            .waiting
            .first
            .iter()
            .map(|waiting| QueuedContainer {
                container: waiting.id.to_string(),
                execution_type: waiting.execution_type.as_str(),
                user: waiting.user.clone(),
                memory_mb: waiting.resource.memory_mb,
                vcores: waiting.resource.vcores,
                paused: waiting.paused,
                waited_ms: waited(waiting),
            })
            .collect(),
        more: node.waiting.more(),
    }
}

fn history(overview: &Overview) -> History {
    let now_s = overview.now.mono.0 / 1000;
    let steps = overview.node.history.steps(overview.now.mono);
    History {
        windows_s: WINDOWS_S,
        now: counts_at(now_s, overview.node.counts),
        steps: steps
            .into_iter()
            .map(|Step { second, counts }| counts_at(second, counts))
            .collect(),
    }
}

fn counts_at(second: u64, counts: Counts) -> CountsAt {
    CountsAt {
        second,
        running_guaranteed: counts.running_guaranteed,
        running_opportunistic: counts.running_opportunistic,
        waiting: counts.waiting,
    }
}

fn decision(recent: &RecentDecision, offset: UtcOffset) -> Decision {
    Decision {
        sequence: recent.sequence,
        at_epoch_ms: recent.at.0,
        at_iso: formatted(recent.at.0, UtcOffset::UTC, ISO),
        at_local: clock(recent.at.0, offset),
        container: recent.decision.container().map(|id| id.to_string()),
        kind: recent.decision.kind().as_str(),
        words: decision_words(&recent.decision),
    }
}

fn clock(epoch_ms: i64, offset: UtcOffset) -> String {
    formatted(epoch_ms, offset, CLOCK)
}

/// Empty for what no calendar holds.
fn formatted(epoch_ms: i64, offset: UtcOffset, form: &[BorrowedFormatItem<'_>]) -> String {
    OffsetDateTime::from_unix_timestamp(epoch_ms.div_euclid(1000))
        .ok()
        .and_then(|utc| utc.checked_to_offset(offset))
        .and_then(|local| local.format(form).ok())
        .unwrap_or_default()
}
