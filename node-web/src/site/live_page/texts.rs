//! Sentences of the live page and of its JSON. Pure.

mod attempt;

use node_view::overview::words::{duration, number};
use node_view::snapshot::{DrainNotice, RmContact};
use serde::Serialize;

pub(super) use attempt::{AttemptTexts, mean_us};

use crate::overview::Overview;

/// Text in a place without a number.
const NONE: &str = "–";

/// Texts of the page by the names of their places.
#[derive(Debug, Serialize)]
pub(super) struct Texts {
    pub(super) node_id: String,
    /// Sentence in which `{}` stands for a duration that goes on.
    pub(super) rm: &'static str,
    pub(super) unhealthy: String,
    pub(super) running_guaranteed: String,
    pub(super) running_opportunistic: String,
    pub(super) guaranteed_note: &'static str,
    pub(super) opportunistic_note: &'static str,
    pub(super) waiting: String,
    pub(super) waiting_note: String,
    pub(super) longest_wait: String,
    pub(super) wait_note: String,
    pub(super) limit: String,
    pub(super) limit_note: String,
    pub(super) memory: String,
    pub(super) memory_note: String,
    pub(super) used: String,
    pub(super) used_note: String,
    pub(super) queue_more: String,
    pub(super) running_more: String,
    pub(super) masters_more: String,
    pub(super) decisions_more: &'static str,
}

impl Texts {
    pub(super) fn of(overview: &Overview) -> Self {
        let counts = overview.node.numbers.counts;
        let count = |value: u32| number(u64::from(value));
        let longest_wait = overview.longest_wait_ms();
        Self {
            node_id: overview.node.about.node_id.to_string(),
            rm: rm(overview.node.rm.0),
            unhealthy: unhealthy(overview),
            running_guaranteed: count(counts.running_guaranteed),
            running_opportunistic: count(counts.running_opportunistic),
            guaranteed_note: "never evicted",
            opportunistic_note: "may be evicted",
            waiting: count(counts.waiting),
            waiting_note: waiting_note(overview),
            longest_wait: longest_wait.map_or_else(|| NONE.to_owned(), duration),
            wait_note: wait_note(overview),
            limit: limit(overview),
            limit_note: limit_note(overview),
            memory: memory(overview),
            memory_note: memory_note(overview),
            used: used(overview),
            used_note: used_note(overview),
            queue_more: queue_more(overview),
            running_more: running_more(overview),
            masters_more: attempt::more(overview),
            decisions_more: decisions_more(overview),
        }
    }
}

/// Returns the contact to the ResourceManager, and what to do when there is none.
fn rm(contact: RmContact) -> &'static str {
    match contact {
        RmContact::Registered => "Registered with the ResourceManager for {}.",
        RmContact::Silent => {
            "The ResourceManager has not answered for {}. Containers go on; new ones come when it is back."
        }
        RmContact::Registering => {
            "Not registered; trying for {}. If this lasts, look at the agent's log and yarn.resourcemanager.resource-tracker.address."
        }
    }
}

fn unhealthy(overview: &Overview) -> String {
    let health = &overview.node.about.health;
    if health.healthy {
        let about = &overview.node.about;
        let drain = about.drain.as_ref().map(DrainNotice::words);
        return drain.unwrap_or_else(|| about.recovery.words());
    }
    format!("This node is unhealthy: {}", health.report)
}

fn waiting_note(overview: &Overview) -> String {
    let numbers = &overview.node.numbers;
    match (numbers.counts.waiting, numbers.paused) {
        (0, _) => "nothing waits".to_owned(),
        (_, 0) => "none has started yet".to_owned(),
        (_, paused) => format!("{} of them paused", number(u64::from(paused))),
    }
}

/// Returns the wait that heartbeats report to the ResourceManager, in words.
fn wait_note(overview: &Overview) -> String {
    match overview.node.numbers.opportunistic.estimated_queue_wait_ms {
        None => "no more would be taken".to_owned(),
        Some(0) => "one more starts at once".to_owned(),
        Some(estimate) => format!("one more: about {}", duration(u64::from(estimate))),
    }
}

fn limit(overview: &Overview) -> String {
    let numbers = &overview.node.numbers;
    match (numbers.limit_length(), numbers.limit_wait_ms()) {
        (None, None) => "none".to_owned(),
        (Some(length), _) => number(length as u64),
        (None, Some(wait)) => duration(wait),
    }
}

fn limit_note(overview: &Overview) -> String {
    let numbers = &overview.node.numbers;
    let capacity = numbers.opportunistic.opport_queue_capacity;
    let own = format!("node's: {}", number(u64::from(capacity)));
    match (numbers.limit_length(), numbers.limit_wait_ms()) {
        (None | Some(_), None) => format!("of the RM; {own}"),
        (Some(_), Some(wait)) => format!("or {} of wait; {own}", duration(wait)),
        (None, Some(_)) => format!("of wait; {own}"),
    }
}

fn used(overview: &Overview) -> String {
    match overview.uses.of_all() {
        Some(used) => format!("{} MiB", number(used.memory_mb)),
        None => NONE.to_owned(),
    }
}

fn used_note(overview: &Overview) -> String {
    match overview.uses.of_all() {
        Some(used) => format!(
            "of {} MiB asked; {} CPUs busy",
            number(used.memory_asked_mb),
            used.cpus()
        ),
        None => "not measured".to_owned(),
    }
}

/// Returns the part of the node's memory that containers were promised, whatever they use.
fn memory(overview: &Overview) -> String {
    let numbers = &overview.node.numbers;
    let allocated = numbers.allocated.memory_mb.saturating_mul(100);
    match allocated.checked_div(numbers.total.memory_mb) {
        Some(percent) => format!("{percent} %"),
        None => NONE.to_owned(),
    }
}

fn memory_note(overview: &Overview) -> String {
    let numbers = &overview.node.numbers;
    format!(
        "{} of {} MiB; {} of {} vcores",
        number(numbers.allocated.memory_mb),
        number(numbers.total.memory_mb),
        numbers.allocated.vcores,
        numbers.total.vcores
    )
}

fn queue_more(overview: &Overview) -> String {
    let (numbers, more) = (&overview.node.numbers, overview.node.waiting.more());
    if more > 0 {
        return format!("And {} more behind these.", number(more as u64));
    }
    match (
        numbers.counts.waiting,
        numbers.opportunistic.opport_queue_capacity,
    ) {
        (1.., _) => "",
        (0, 0) => {
            "Nothing waits, and nothing may: this node starts opportunistic containers once \
                   yarn.nodemanager.opportunistic-containers-max-queue-length is above 0."
        }
        (0, _) => "Nothing waits. Containers line up here when the node is full.",
    }
    .to_owned()
}

fn running_more(overview: &Overview) -> String {
    let (counts, more) = (overview.node.numbers.counts, overview.node.running.more());
    if more > 0 {
        return format!("And {} more.", number(more as u64));
    }
    match (counts.running_guaranteed, counts.running_opportunistic) {
        (0, 0) => "Nothing runs. Submit a job to the ResourceManager, and containers that it places here show up.",
        (_, _) => "",
    }
    .to_owned()
}

fn decisions_more(overview: &Overview) -> &'static str {
    match overview.node.decisions.last() {
        None => "No decisions yet. The first comes when the ResourceManager accepts this node.",
        Some(oldest) if oldest.sequence > 1 => "Older ones are in the agent's log.",
        Some(_) => "",
    }
}
