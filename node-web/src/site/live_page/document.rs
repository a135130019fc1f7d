//! JSON of the live page: the answer to `/live.json` and the content of each event of `/live`.
//!
//! Field names carry their units; times are milliseconds since 1970 (`_epoch_ms`) or durations up
//! to the moment of the document (`_ms`), which a reader may let grow by itself. Names and texts
//! that peers chose stand in it as they are: to be escaped by readers that show them. `null` stands
//! for what there is not: no limit, no wait, no proxy.

use amrm_proxy::attempts::{AttemptActivity, ProxiedAttempts};
use node_view::overview::{ListedContainer, Listing, RecentDecision, Step};
use node_view::snapshot::Counts;
use records::EpochMillis;
use serde_json::{Value, json};
use time::{OffsetDateTime, UtcOffset, format_description::BorrowedFormatItem, macros};

use super::chart::WINDOWS_S;
use super::texts::{AttemptTexts, Texts, mean_us};
use crate::overview::Overview;

/// A time of day.
const CLOCK: &[BorrowedFormatItem<'_>] = macros::format_description!("[hour]:[minute]:[second]");

/// A moment in UTC.
const ISO: &[BorrowedFormatItem<'_>] =
    macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");

/// Returns an overview as one line of JSON.
pub(super) fn text(overview: &Overview, offset: UtcOffset) -> String {
    document(overview, offset).to_string()
}

/// Returns the node at one moment.
fn document(overview: &Overview, offset: UtcOffset) -> Value {
    let (node, about) = (&overview.node, &overview.node.about);
    let decisions = node.decisions.iter();
    let decisions: Vec<_> = decisions.map(|recent| decision(recent, offset)).collect();
    let used = overview.uses.of_all();
    json!({
        "at_epoch_ms": overview.now.wall.0,
        "at_local": clock(overview.now.wall, offset),
        "node": {
            "id": about.node_id.to_string(),
            "version": about.versions.node_manager_build,
            "started_epoch_ms": about.started_at.0,
            "uptime_ms": overview.uptime_ms(),
            "healthy": about.health.healthy,
            "health_report": about.health.report,
            "drain": about.drain.as_ref().map(|drain| json!({
                "mode": drain.mode,
                "reason": drain.reason,
                "by": drain.by,
                "since_epoch_ms": drain.since.0,
                "ends_epoch_ms": drain.ends_at.map(|at| at.0),
                "is_ending": drain.is_ending,
            })),
        },
        "resource_manager": {
            "state": node.rm.0.as_str(),
            "since_ms": overview.ms_since(node.rm.1),
        },
        "resources": {
            "memory_total_mb": node.numbers.total.memory_mb,
            "memory_allocated_mb": node.numbers.allocated.memory_mb,
            "memory_opportunistic_mb": node.numbers.opportunistic.opport_memory_used_mb,
            "memory_used_mb": used.as_ref().map(|used| used.memory_mb),
            "memory_asked_mb": used.as_ref().map(|used| used.memory_asked_mb),
            "cpu_millis": used.as_ref().map(|used| used.cpu_millis),
            "machine_memory_used_mb": overview.uses.machine_memory_mb,
            "vcores_total": node.numbers.total.vcores,
            "vcores_allocated": node.numbers.allocated.vcores,
            "vcores_opportunistic": node.numbers.opportunistic.opport_cores_used,
        },
        "running": {
            "guaranteed": node.numbers.counts.running_guaranteed,
            "opportunistic": node.numbers.counts.running_opportunistic,
            "containers": containers(&node.running, |each| json!({
                "progress": each.progress(),
                "since_ms": overview.ms_since(each.summary.since),
                "used": overview.uses.of(&each.summary.spec.id),
            })),
            "more": node.running.more(),
        },
        "queue": queue(overview),
        "masters": overview.masters.as_ref().map(|masters| attempts(masters, overview)),
        "history": history(overview),
        "decisions": decisions,
        "texts": Texts::of(overview),
    })
}

fn queue(overview: &Overview) -> Value {
    let (numbers, waiting) = (&overview.node.numbers, &overview.node.waiting);
    json!({
        "length": numbers.counts.waiting,
        "paused": numbers.paused,
        // By the node's own configuration.
        "capacity": numbers.opportunistic.opport_queue_capacity,
        // The ResourceManager's limits.
        "limit_length": numbers.limit_length(),
        "limit_wait_ms": numbers.limit_wait_ms(),
        // The wait of one more opportunistic container, as reported to the ResourceManager; null
        // if the node would not take it.
        "estimated_wait_ms": numbers.opportunistic.estimated_queue_wait_ms,
        "longest_wait_ms": overview.longest_wait_ms(),
        "containers": containers(waiting, |each| json!({
            "paused": each.is_paused(),
            "waited_ms": overview.ms_since(each.summary.since),
        })),
        "more": waiting.more(),
    })
}

/// Returns the containers of a list, each with what `more` knows of it.
fn containers(list: &Listing<ListedContainer>, more: impl Fn(&ListedContainer) -> Value) -> Value {
    let container = |each: &ListedContainer| {
        let spec = each.summary.spec;
        let mut value = more(each);
        value["container"] = spec.id.to_string().into();
        value["execution_type"] = spec.execution_type.as_str().into();
        value["user"] = each.user.as_str().into();
        value["memory_mb"] = spec.resource.memory_mb.into();
        value["vcores"] = spec.resource.vcores.into();
        value
    };
    list.first.iter().map(container).collect()
}

fn attempts(masters: &ProxiedAttempts, overview: &Overview) -> Value {
    let attempts = masters.most_active.iter();
    let attempts: Vec<_> = attempts.map(|master| attempt(master, overview)).collect();
    let more = masters.total.saturating_sub(attempts.len());
    json!({"attempts": attempts, "more": more})
}

fn attempt(master: &AttemptActivity, overview: &Overview) -> Value {
    let numbers = &master.numbers;
    let mean = mean_us(numbers);
    json!({
        "application": master.attempt.application_id.to_string(),
        "attempt": master.attempt.to_string(),
        "user": master.user,
        "calls": numbers.calls,
        "last_call_ms": numbers.last_call_at.map(|at| overview.ms_since(at)),
        "own_mean_us": mean.map(|mean| mean.own),
        "rm_mean_us": mean.map(|mean| mean.rm),
        "containers_asked": numbers.containers_asked(),
        "containers_outstanding": numbers.gauges.containers_outstanding,
        "given_node_local": numbers.given.node_local,
        "given_rack_local": numbers.given.rack_local,
        "given_off_switch": numbers.given.off_switch,
        "containers_live": numbers.gauges.containers_live,
        "nodes_age_ms": numbers.gauges.nodes_at.map(|at| overview.ms_since(at)),
        "throttled_calls": numbers.throttled,
        "relabelled_containers": numbers.relabelled,
        "promotions_asked": numbers.promotions_asked,
        "nodes_looked_at": numbers.looks.asked,
        "nodes_seen": numbers.looks.answered,
        "containers_held_back": numbers.looks.held_back,
        "containers_placed_unseen": numbers.looks.unseen,
        "words": AttemptTexts::of(master),
    })
}

/// Returns the counts over the last minutes. A step stands until the next one.
fn history(overview: &Overview) -> Value {
    let now = Step {
        second: overview.now.mono.0 / 1000,
        counts: overview.node.numbers.counts,
    };
    let steps = overview.node.history.steps(overview.now.mono);
    json!({
        "windows_s": WINDOWS_S,
        "now": step(now),
        "steps": steps.into_iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(Step { second, counts }: Step) -> Value {
    let Counts {
        running_guaranteed,
        running_opportunistic,
        waiting,
    } = counts;
    json!({
        "second": second,
        "running_guaranteed": running_guaranteed,
        "running_opportunistic": running_opportunistic,
        "waiting": waiting,
    })
}

fn decision(recent: &RecentDecision, offset: UtcOffset) -> Value {
    json!({
        "sequence": recent.sequence,
        "at_epoch_ms": recent.at.0,
        "at_iso": iso(recent.at),
        "at_local": clock(recent.at, offset),
        "container": recent.decision.container().map(|id| id.to_string()),
        "kind": recent.decision.kind().as_str(),
        "folded": recent.folded,
        "words": recent.words(),
    })
}

/// Returns the time of day at this distance from UTC.
pub(in crate::site) fn clock(time: EpochMillis, offset: UtcOffset) -> String {
    formatted(time, offset, CLOCK)
}

/// Returns the time in the form of ISO 8601, UTC.
pub(in crate::site) fn iso(time: EpochMillis) -> String {
    formatted(time, UtcOffset::UTC, ISO)
}

/// Returns an empty text for a time that no calendar holds.
fn formatted(time: EpochMillis, offset: UtcOffset, form: &[BorrowedFormatItem<'_>]) -> String {
    OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1000))
        .ok()
        .and_then(|utc| utc.checked_to_offset(offset))
        .and_then(|local| local.format(form).ok())
        .unwrap_or_default()
}
