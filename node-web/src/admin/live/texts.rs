//! Sentences of the live page, by the names of their places. Pure.

use std::collections::BTreeMap;

use super::document::Live;
use super::masters;
use crate::live::words::{duration, number};

/// Text in a place without a number.
const NONE: &str = "–";

/// Returns the texts of a document. Durations that go on are `{}` in them.
pub(super) fn all(live: &Live) -> BTreeMap<&'static str, String> {
    let count = |value: u32| number(u64::from(value));
    let queue = &live.queue;
    BTreeMap::from([
        ("node_id", live.node.id.clone()),
        ("rm", rm(live).to_owned()),
        ("unhealthy", unhealthy(live)),
        ("running_guaranteed", count(live.running.guaranteed)),
        ("running_opportunistic", count(live.running.opportunistic)),
        ("guaranteed_note", "never evicted".to_owned()),
        ("opportunistic_note", "may be evicted".to_owned()),
        ("waiting", count(queue.length)),
        ("waiting_note", waiting_note(live)),
        (
            "longest_wait",
            queue
                .longest_wait_ms
                .map_or_else(|| NONE.to_owned(), duration),
        ),
        ("wait_note", wait_note(live)),
        ("limit", limit(live)),
        ("limit_note", limit_note(live)),
        ("memory", memory(live)),
        ("memory_note", memory_note(live)),
        ("queue_more", queue_more(live)),
        ("running_more", running_more(live)),
        ("masters_more", masters::more(live.masters.as_ref())),
        ("decisions_more", decisions_more(live)),
    ])
}

/// How it stands with the ResourceManager, and what to do when it does not stand well.
fn rm(live: &Live) -> &'static str {
    match live.resource_manager.state {
        "registered" => "Registered with the ResourceManager for {}.",
        "silent" => {
            "The ResourceManager has not answered for {}. Containers go on; new ones come when it is back."
        }
        _ => {
            "Not registered; trying for {}. If this lasts, look at the agent's log and yarn.resourcemanager.resource-tracker.address."
        }
    }
}

fn unhealthy(live: &Live) -> String {
    if live.node.healthy {
        return String::new();
    }
    format!("This node is unhealthy: {}", live.node.health_report)
}

fn waiting_note(live: &Live) -> String {
    let (length, paused) = (live.queue.length, live.queue.paused);
    match (length, paused) {
        (0, _) => "nothing waits".to_owned(),
        (_, 0) => "none has started yet".to_owned(),
        (_, paused) => format!("{} of them paused", number(u64::from(paused))),
    }
}

/// Returns the wait that heartbeats report to the ResourceManager, in words.
fn wait_note(live: &Live) -> String {
    match live.queue.estimated_wait_ms {
        None => "no more would be taken".to_owned(),
        Some(0) => "one more starts at once".to_owned(),
        Some(estimate) => format!("one more: about {}", duration(estimate)),
    }
}

fn limit(live: &Live) -> String {
    match (live.queue.limit_length, live.queue.limit_wait_ms) {
        (None, None) => "none".to_owned(),
        (Some(length), _) => number(length as u64),
        (None, Some(wait)) => duration(wait),
    }
}

fn limit_note(live: &Live) -> String {
    let own = format!("node's: {}", number(u64::from(live.queue.capacity)));
    match (live.queue.limit_length, live.queue.limit_wait_ms) {
        (None, None) => format!("of the RM; {own}"),
        (Some(_), None) => format!("of the RM; {own}"),
        (Some(_), Some(wait)) => {
            format!("or {} of wait; {own}", duration(wait))
        }
        (None, Some(_)) => format!("of wait; {own}"),
    }
}

fn memory(live: &Live) -> String {
    let total = live.resources.memory_total_mb;
    let allocated = live.resources.memory_allocated_mb;
    match allocated.saturating_mul(100).checked_div(total) {
        Some(percent) => format!("{percent} %"),
        None => NONE.to_owned(),
    }
}

fn memory_note(live: &Live) -> String {
    let resources = &live.resources;
    format!(
        "{} of {} MB; {} of {} vcores",
        number(resources.memory_allocated_mb),
        number(resources.memory_total_mb),
        resources.vcores_allocated,
        resources.vcores_total
    )
}

fn queue_more(live: &Live) -> String {
    let queue = &live.queue;
    if queue.more > 0 {
        return format!("And {} more behind these.", number(queue.more as u64));
    }
    match (queue.length, queue.capacity) {
        (1.., _) => String::new(),
        (0, 0) => "Nothing waits, and nothing may: this node starts opportunistic containers once \
                   yarn.nodemanager.opportunistic-containers-max-queue-length is above 0."
            .to_owned(),
        (0, _) => "Nothing waits. Containers line up here when the node is full.".to_owned(),
    }
}

fn running_more(live: &Live) -> String {
    let running = &live.running;
    if running.more > 0 {
        return format!("And {} more.", number(running.more as u64));
    }
    match (running.guaranteed, running.opportunistic) {
        (0, 0) => "Nothing runs. Submit a job to the ResourceManager, and containers that it places here show up.",
        (_, _) => "",
    }
    .to_owned()
}

fn decisions_more(live: &Live) -> String {
    match live.decisions.last() {
        None => "No decisions yet. The first comes when the ResourceManager accepts this node."
            .to_owned(),
        Some(oldest) if oldest.sequence > 1 => "Older ones are in the agent's log.".to_owned(),
        Some(_) => String::new(),
    }
}
