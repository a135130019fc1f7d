//! Something that was decided about a container, or that happened to the node, and its words.

use records::{ContainerExitStatus, ContainerId, Resource};
use sched::{
    Completion, ContainerQueuingLimit, Note, PassReason, PauseEnd, RejectReason, ShedReason,
};

use super::words::{duration, number};
use crate::snapshot::DrainNotice;

/// A decision as the live page lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A decision of the container scheduler.
    Note(Note),
    /// A container has ended.
    Completed {
        /// Exit status and execution type of the container.
        completion: Completion,
        /// Words of the container or its launcher about a failure: output of the container. May be
        /// empty.
        said: String,
    },
    /// The ResourceManager has published another limit of the queue.
    QueuingLimit(ContainerQueuingLimit),
    /// The ResourceManager has accepted the node.
    Registered,
    /// The ResourceManager wants the node to register again; nothing starts until then.
    Resync,
    /// A heartbeat was not answered, after one that was.
    RmSilent,
    /// A heartbeat was answered again.
    RmBack,
    /// An operator drains the node.
    Drain(Box<DrainNotice>),
    /// The time that containers had in a drain is over: they are ended.
    DrainEnds,
    /// An operator has cancelled the drain.
    DrainCancelled {
        /// Name of the operator.
        by: String,
    },
}

/// Kind of a decision, which readers distinguish at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// The container waits in the queue.
    Queued,
    /// The container got resources.
    Started,
    /// The container was refused a place in the queue.
    Rejected,
    /// The container lost its place in the queue.
    Shed,
    /// The container gave its resources to another.
    Evicted,
    /// The container became guaranteed.
    Promoted,
    /// The container became opportunistic.
    Demoted,
    /// The container ended with 0.
    Succeeded,
    /// The container ended by itself with another status.
    Failed,
    /// The container was killed.
    Killed,
    /// About the node.
    Node,
}

impl DecisionKind {
    /// Returns the word for JSON and the style sheet.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Rejected => "rejected",
            Self::Shed => "shed",
            Self::Evicted => "evicted",
            Self::Promoted => "promoted",
            Self::Demoted => "demoted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Node => "node",
        }
    }
}

impl Decision {
    /// The container that it is about.
    #[must_use]
    pub fn container(&self) -> Option<ContainerId> {
        match self {
            Self::Note(
                Note::Queued { id, .. }
                | Note::Started { id, .. }
                | Note::Passed { id, .. }
                | Note::LargerThanNode { id, .. }
                | Note::Rejected { id, .. }
                | Note::Shed { id, .. }
                | Note::Evicted { id, .. }
                | Note::Drained { id, .. }
                | Note::PausedKilled { id, .. }
                | Note::Retried { id, .. }
                | Note::Promoted(id)
                | Note::Demoted(id),
            ) => Some(*id),
            Self::Completed { completion, .. } => Some(completion.id),
            Self::QueuingLimit(_)
            | Self::Registered
            | Self::Resync
            | Self::RmSilent
            | Self::RmBack
            | Self::Drain(_)
            | Self::DrainEnds
            | Self::DrainCancelled { .. } => None,
        }
    }

    /// Returns the kind of the decision.
    #[must_use]
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Note(Note::Queued { .. }) => DecisionKind::Queued,
            Self::Note(
                Note::Started { .. } | Note::Passed { .. } | Note::LargerThanNode { .. },
            ) => DecisionKind::Started,
            Self::Note(Note::Rejected { .. }) => DecisionKind::Rejected,
            Self::Note(Note::Shed { .. }) => DecisionKind::Shed,
            Self::Note(Note::Evicted { .. } | Note::PausedKilled { .. }) => DecisionKind::Evicted,
            Self::Note(Note::Drained { .. }) => DecisionKind::Killed,
            Self::Note(Note::Retried { .. }) => DecisionKind::Failed,
            Self::Note(Note::Promoted(_)) => DecisionKind::Promoted,
            Self::Note(Note::Demoted(_)) => DecisionKind::Demoted,
            Self::Completed { completion, .. } => match completion.exit_status {
                ContainerExitStatus::SUCCESS => DecisionKind::Succeeded,
                status if killed_by(status).is_some() => DecisionKind::Killed,
                ContainerExitStatus(_) => DecisionKind::Failed,
            },
            Self::QueuingLimit(_)
            | Self::Registered
            | Self::Resync
            | Self::RmSilent
            | Self::RmBack
            | Self::Drain(_)
            | Self::DrainEnds
            | Self::DrainCancelled { .. } => DecisionKind::Node,
        }
    }
}

/// A decision and its reason in words, without the name of its own container: `Queued at place 3`.
///
/// The live page, its JSON and reports on an agent use these words.
#[must_use]
pub fn decision_words(decision: &Decision) -> String {
    match decision {
        Decision::Note(note) => note_words(note),
        Decision::Completed { completion, said } => {
            let words = completion_words(completion.exit_status);
            if said.is_empty() {
                words
            } else {
                format!("{words}: {said}")
            }
        }
        Decision::QueuingLimit(limit) => limit_words(limit),
        Decision::Registered => "Registered with the ResourceManager".to_owned(),
        Decision::Resync => {
            "The ResourceManager asks this node to register again; nothing starts until then"
                .to_owned()
        }
        Decision::RmSilent => {
            "The ResourceManager does not answer heartbeats; containers go on".to_owned()
        }
        Decision::RmBack => "The ResourceManager answers heartbeats again".to_owned(),
        Decision::Drain(drain) => drain.words(),
        Decision::DrainEnds => {
            "The time that containers had in the drain is over, so they are ended".to_owned()
        }
        Decision::DrainCancelled { by } => format!("The drain is cancelled, by {by}"),
    }
}

fn note_words(note: &Note) -> String {
    match *note {
        Note::Queued {
            position, missing, ..
        } => match missing_words(missing) {
            Some(missing) => format!("Queued at place {position}, short of {missing}"),
            None => format!("Queued at place {position}"),
        },
        Note::Started {
            queue_wait_ms,
            estimated_wait_ms,
            resumed,
            ..
        } => started_words(queue_wait_ms, estimated_wait_ms, resumed),
        Note::Rejected { reason, .. } => match reason {
            RejectReason::QueueFull => "Rejected because the queue is full",
            RejectReason::NeverFits => "Rejected because it asks for more than this node has",
            RejectReason::Draining => "Rejected because this node is drained",
        }
        .to_owned(),
        Note::Passed { passed, reason, .. } => passed_words(passed, reason),
        Note::LargerThanNode { .. } => "Runs alone because it is larger than the node".to_owned(),
        Note::Shed { reason, .. } => shed_words(reason),
        Note::Evicted {
            for_container,
            paused,
            ran_ms,
            ..
        } => {
            let how = if paused { "Paused" } else { "Evicted" };
            format!("{how} for {for_container} after {}", duration(ran_ms))
        }
        Note::Drained { ran_ms, .. } => {
            format!(
                "Ended after {} because this node is drained",
                duration(ran_ms)
            )
        }
        Note::PausedKilled {
            reason, paused_ms, ..
        } => {
            let why = match reason {
                PauseEnd::TooLong => "no room came for it",
                PauseEnd::MemoryNeeded => "the memory that it holds is needed",
            };
            let paused = duration(paused_ms);
            format!("Killed after a pause of {paused} because {why}")
        }
        Note::Retried {
            status,
            after_ms,
            remaining,
            ..
        } => {
            let after = duration(after_ms);
            let left = remaining.map_or_else(String::new, |left| format!(", {left} retries left"));
            format!("Failed with exit status {status}, starts again in {after}{left}")
        }
        Note::Promoted(_) => "Promoted to guaranteed".to_owned(),
        Note::Demoted(_) => "Demoted to opportunistic".to_owned(),
    }
}

fn started_words(queue_wait_ms: u64, estimated_wait_ms: Option<u64>, resumed: bool) -> String {
    let waited = duration(queue_wait_ms);
    match (resumed, queue_wait_ms, estimated_wait_ms) {
        (true, _, _) => format!("Resumed after a pause of {waited}"),
        (false, 0, _) => "Started at once".to_owned(),
        (false, _, None) => format!("Started after waiting {waited}"),
        (false, _, Some(estimated)) => {
            let estimated = duration(estimated);
            format!("Started after waiting {waited}, estimated {estimated}")
        }
    }
}

fn passed_words(passed: ContainerId, reason: PassReason) -> String {
    match reason {
        PassReason::Order {
            order,
            expected_ms,
            passed_expected_ms,
        } => {
            let (run, other) = (duration(expected_ms), duration(passed_expected_ms));
            format!(
                "Passes {passed}, which waits longer: expected to run {run}, the other {other} \
                 (order {order})"
            )
        }
        PassReason::Backfill { room_in_ms } => {
            let room = duration(room_in_ms);
            format!(
                "Passes {passed}, which does not fit and is not expected to start later for it: \
                 its room is expected in {room}"
            )
        }
    }
}

/// Returns what the node lacks for a container; `None`: nothing.
fn missing_words(missing: Resource) -> Option<String> {
    let memory = format!("{} MiB", number(missing.memory_mb));
    let vcores = match missing.vcores {
        1 => "1 vcore".to_owned(),
        more => format!("{more} vcores"),
    };
    match (missing.memory_mb, missing.vcores) {
        (0, 0) => None,
        (_, 0) => Some(memory),
        (0, _) => Some(vcores),
        (_, _) => Some(format!("{memory} and {vcores}")),
    }
}

fn shed_words(reason: ShedReason) -> String {
    match reason {
        ShedReason::QueueLength { limit } => {
            format!("Shed over the ResourceManager's limit of {limit} waiting")
        }
        ShedReason::Draining => "Shed because this node is drained".to_owned(),
    }
}

fn completion_words(status: ContainerExitStatus) -> String {
    if status == ContainerExitStatus::SUCCESS {
        return "Completed with exit status 0".to_owned();
    }
    if let Some(who) = killed_by(status) {
        return format!("Killed by {who} (exit status {status})");
    }
    match status {
        ContainerExitStatus::LAUNCH_FAILED => "Could not be launched (exit status -1)".to_owned(),
        ContainerExitStatus::INVALID => "Could not be localized (exit status -1000)".to_owned(),
        signalled if signalled.is_signalled() => {
            let signal = signalled.0 - 128;
            format!("Ended by signal {signal} from outside (exit status {signalled})")
        }
        ContainerExitStatus(_) => format!("Completed with exit status {status}"),
    }
}

/// Returns the cause of a kill, by the exit status that the order gave.
fn killed_by(status: ContainerExitStatus) -> Option<&'static str> {
    match status {
        ContainerExitStatus::KILLED_BY_APPMASTER => Some("its ApplicationMaster"),
        ContainerExitStatus::KILLED_BY_RESOURCEMANAGER => Some("the ResourceManager"),
        ContainerExitStatus::KILLED_AFTER_APP_COMPLETION => Some("the end of its application"),
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER => Some("this node's scheduler"),
        ContainerExitStatus::PREEMPTED => Some("this node, which could not pause it"),
        ContainerExitStatus::KILLED_EXCEEDED_PMEM => Some("its limit of memory"),
        ContainerExitStatus::KILLED_EXCEEDED_VMEM => Some("its limit of virtual memory"),
        ContainerExitStatus::KILLED_FOR_EXCESS_LOGS => Some("its limit of logs"),
        ContainerExitStatus(_) => None,
    }
}

fn limit_words(limit: &ContainerQueuingLimit) -> String {
    let length = limit
        .max_queue_length
        .map(|length| format!("{} waiting", number(length as u64)));
    let wait = limit
        .max_queue_wait_time_ms
        .map(|wait| format!("a wait of {}", duration(wait)));
    match (length, wait) {
        (None, None) => "The ResourceManager no longer limits the queue".to_owned(),
        (Some(one), None) | (None, Some(one)) => {
            format!("The ResourceManager limits the queue to {one}")
        }
        (Some(length), Some(wait)) => {
            format!("The ResourceManager limits the queue to {length} and {wait}")
        }
    }
}

#[cfg(test)]
mod tests;
