//! Sentences of the live page, by the names of their places. Pure.

use std::collections::BTreeMap;

use super::document::Document;
use super::masters;
use crate::overview::words::{duration, number};

/// Text in a place without a number.
const NONE: &str = "–";

/// Returns the texts of a document. Durations that go on are `{}` in them.
pub(super) fn all(document: &Document) -> BTreeMap<&'static str, String> {
    let count = |value: u32| number(u64::from(value));
    let queue = &document.queue;
    BTreeMap::from([
        ("node_id", document.node.id.clone()),
        ("rm", rm(document).to_owned()),
        ("unhealthy", unhealthy(document)),
        ("running_guaranteed", count(document.running.guaranteed)),
        (
            "running_opportunistic",
            count(document.running.opportunistic),
        ),
        ("guaranteed_note", "never evicted".to_owned()),
        ("opportunistic_note", "may be evicted".to_owned()),
        ("waiting", count(queue.length)),
        ("waiting_note", waiting_note(document)),
        (
            "longest_wait",
            queue
                .longest_wait_ms
                .map_or_else(|| NONE.to_owned(), duration),
        ),
        ("wait_note", wait_note(document)),
        ("limit", limit(document)),
        ("limit_note", limit_note(document)),
        ("memory", memory(document)),
        ("memory_note", memory_note(document)),
        ("queue_more", queue_more(document)),
        ("running_more", running_more(document)),
        ("masters_more", masters::more(document.masters.as_ref())),
        ("decisions_more", decisions_more(document)),
    ])
}

/// How it stands with the ResourceManager, and what to do when it does not stand well.
fn rm(document: &Document) -> &'static str {
    match document.resource_manager.state {
        "registered" => "Registered with the ResourceManager for {}.",
        "silent" => {
            "The ResourceManager has not answered for {}. Containers go on; new ones come when it is back."
        }
        _ => {
            "Not registered; trying for {}. If this lasts, look at the agent's log and yarn.resourcemanager.resource-tracker.address."
        }
    }
}

fn unhealthy(document: &Document) -> String {
    if document.node.healthy {
        return String::new();
    }
    format!("This node is unhealthy: {}", document.node.health_report)
}

fn waiting_note(document: &Document) -> String {
    let (length, paused) = (document.queue.length, document.queue.paused);
    match (length, paused) {
        (0, _) => "nothing waits".to_owned(),
        (_, 0) => "none has started yet".to_owned(),
        (_, paused) => format!("{} of them paused", number(u64::from(paused))),
    }
}

/// Returns the wait that heartbeats report to the ResourceManager, in words.
fn wait_note(document: &Document) -> String {
    match document.queue.estimated_wait_ms {
        None => "no more would be taken".to_owned(),
        Some(0) => "one more starts at once".to_owned(),
        Some(estimate) => format!("one more: about {}", duration(estimate)),
    }
}

fn limit(document: &Document) -> String {
    match (document.queue.limit_length, document.queue.limit_wait_ms) {
        (None, None) => "none".to_owned(),
        (Some(length), _) => number(length as u64),
        (None, Some(wait)) => duration(wait),
    }
}

fn limit_note(document: &Document) -> String {
    let own = format!("node's: {}", number(u64::from(document.queue.capacity)));
    match (document.queue.limit_length, document.queue.limit_wait_ms) {
        (None, None) => format!("of the RM; {own}"),
        (Some(_), None) => format!("of the RM; {own}"),
        (Some(_), Some(wait)) => {
            format!("or {} of wait; {own}", duration(wait))
        }
        (None, Some(_)) => format!("of wait; {own}"),
    }
}

fn memory(document: &Document) -> String {
    let total = document.resources.memory_total_mb;
    let allocated = document.resources.memory_allocated_mb;
    match allocated.saturating_mul(100).checked_div(total) {
        Some(percent) => format!("{percent} %"),
        None => NONE.to_owned(),
    }
}

fn memory_note(document: &Document) -> String {
    let resources = &document.resources;
    format!(
        "{} of {} MB; {} of {} vcores",
        number(resources.memory_allocated_mb),
        number(resources.memory_total_mb),
        resources.vcores_allocated,
        resources.vcores_total
    )
}

fn queue_more(document: &Document) -> String {
    let queue = &document.queue;
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

fn running_more(document: &Document) -> String {
    let running = &document.running;
    if running.more > 0 {
        return format!("And {} more.", number(running.more as u64));
    }
    match (running.guaranteed, running.opportunistic) {
        (0, 0) => "Nothing runs. Submit a job to the ResourceManager, and containers that it places here show up.",
        (_, _) => "",
    }
    .to_owned()
}

fn decisions_more(document: &Document) -> String {
    match document.decisions.last() {
        None => "No decisions yet. The first comes when the ResourceManager accepts this node."
            .to_owned(),
        Some(oldest) if oldest.sequence > 1 => "Older ones are in the agent's log.".to_owned(),
        Some(_) => String::new(),
    }
}
