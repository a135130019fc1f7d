//! What the story says, from what was seen.

use std::collections::BTreeMap;

use super::super::plan;
use super::super::tally::{Loss, Losses, Start, Why};
use super::{NodeSight, Sight, Step};

pub(super) fn gathered(nodes: u32) -> String {
    format!(
        "{nodes} nodes have registered, each with room for {} containers of {} GiB. A job of {} opportunistic containers \
         is submitted; each is a real process that lives for a few seconds.",
        plan::PLACES_PER_NODE,
        plan::TASK.memory_mb / 1024,
        plan::tasks(nodes),
    )
}

pub(super) fn filled(nodes: &[NodeSight]) -> String {
    let running: u32 = nodes.iter().map(|node| node.running_opportunistic).sum();
    let waiting: u32 = nodes.iter().map(|node| node.waiting).sum();
    let queues: Vec<String> = nodes.iter().map(|node| node.waiting.to_string()).collect();
    format!(
        "{running} of them run, as many as there is room for. {waiting} wait in the queues of their nodes ({}), first come \
         first served.",
        queues.join(", ")
    )
}

pub(super) fn moved(start: Start) -> String {
    format!(
        "The first have ended, and the next in the queue took their place at once: on node {} after {} in the queue.",
        start.node + 1,
        seconds(start.waited_ms)
    )
}

pub(super) fn urgent_arrives() -> String {
    format!(
        "A guaranteed job is submitted: one container of {} GiB. No node has that much free, and it is not to wait.",
        plan::URGENT.memory_mb / 1024
    )
}

pub(super) fn evicted(losses: &[Loss], newest_first: bool, start: Start) -> String {
    let ran: Vec<u64> = losses
        .iter()
        .filter_map(|loss| match loss.why {
            Why::Evicted { ran_ms, .. } => Some(ran_ms),
            Why::Shed { .. } | Why::Rejected => None,
        })
        .collect();
    let order = if newest_first {
        ", the newest first"
    } else {
        ""
    };
    let ran: Vec<String> = ran.into_iter().map(seconds).collect();
    let node = losses.first().map_or(start.node, |loss| loss.node) + 1;
    let decided = losses.first().map_or(start.at, |loss| loss.at);
    let after = u64::try_from(start.at.0 - decided.0).unwrap_or(0);
    format!(
        "Node {node} evicted {} for it{order} (they had run {}), and started it {after} ms later.",
        opportunistic(losses.len()),
        listed(&ran),
    )
}

pub(super) fn shed(losses: &[Loss]) -> String {
    let limit = losses.iter().find_map(|loss| match loss.why {
        Why::Shed { limit } => limit,
        Why::Evicted { .. } | Why::Rejected => None,
    });
    let by_node: Vec<String> = counted(losses.iter().map(|loss| loss.node))
        .map(|(node, count)| format!("node {} shed the newest {count}", node + 1))
        .collect();
    let now = limit.map_or_else(String::new, |limit| format!(", {limit} now"));
    format!(
        "Queues grow uneven: one node is taken, the others go on. From all of them the ResourceManager computes how many may \
         wait{now}: {}.",
        listed(&by_node)
    )
}

pub(super) fn placed_again(losses: Losses, nodes: &[usize]) -> String {
    let by_node: Vec<String> = counted(nodes.iter().copied())
        .map(|(node, count)| format!("{count} on node {}", node + 1))
        .collect();
    let why: Vec<String> = [
        (losses.evicted, "evicted"),
        (losses.shed, "shed"),
        (losses.rejected, "turned away"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, why)| format!("{count} {why}"))
    .collect();
    format!(
        "Their master asks again for what it lost ({} so far), and got new places: {}.",
        listed(&why),
        listed(&by_node)
    )
}

pub(super) fn urgent_ended() -> String {
    "The guaranteed job has ended; its node takes opportunistic containers again.".to_owned()
}

pub(super) fn batch_ended(tasks: u32) -> String {
    format!("All {tasks} opportunistic containers have ended well.")
}

/// Returns the description of the event that a step waits for.
pub(super) fn awaited(step: Step) -> &'static str {
    match step {
        Step::Gathering => "every node has registered and is offered for opportunistic containers",
        Step::Filling => "every place is taken and containers wait on every node",
        Step::Moving => "containers have ended and others from the queue have started",
        Step::Evicting => "the guaranteed container has evicted others and started",
        Step::Shedding { .. } => "a queue has been shortened to the ResourceManager's limit",
        Step::PlacingAgain { .. } => {
            "every container that had to go has been placed again, and others have ended meanwhile"
        }
        Step::Ending { urgent_told: false } => "the guaranteed job has ended",
        Step::Ending { urgent_told: true } => "the opportunistic job has ended",
        Step::Over => "nothing",
    }
}

/// How it looks now, for a step that takes too long.
pub(super) fn state(sight: &Sight) -> String {
    let nodes: Vec<String> = sight
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            format!(
                "node {}: {} opportunistic running, {} waiting",
                index + 1,
                node.running_opportunistic,
                node.waiting
            )
        })
        .collect();
    format!(
        "Seen last: {} of {} nodes offered; {}",
        sight.nodes_offered,
        sight.nodes.len(),
        nodes.join("; ")
    )
}

fn counted(values: impl Iterator<Item = usize>) -> impl Iterator<Item = (usize, usize)> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter()
}

fn opportunistic(count: usize) -> String {
    match count {
        1 => "1 opportunistic container".to_owned(),
        count => format!("{count} opportunistic containers"),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Milliseconds as seconds with one digit after the point, rounded down.
fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}
