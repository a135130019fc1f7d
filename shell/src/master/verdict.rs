//! Judgement of a container's end: whether the command or the cluster is at fault. Pure.

use records::{ContainerExitStatus, ExecutionType};

/// Way in which the cluster took a container from a task that continues in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Ran, and was killed for a guaranteed container.
    Evicted,
    /// Was shed from its node's queue, or not accepted into it.
    Shed,
    /// Was preempted by the ResourceManager.
    Preempted,
    /// Was lost with its node, refused, or never started.
    Lost,
}

impl Removal {
    /// Returns the words for a reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evicted => "evicted for a guaranteed container",
            Self::Shed => "shed from a node's queue",
            Self::Preempted => "preempted by the ResourceManager",
            Self::Lost => "lost",
        }
    }
}

/// Consequence of a container's end for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The command exited with 0.
    Succeeded,
    /// The command, or something that it needs, is at fault: a retry would fail too.
    Failed,
    /// The cluster is at fault: the AM asks for another container.
    Retry(Removal),
}

/// Words in a node's diagnostics of a container that it shed (Hadoop: `ContainerScheduler`).
const DEQUEUED: &str = "De-queued";

/// Words in a node's diagnostics when its queue is full (Hadoop: `ContainerScheduler`).
const QUEUE_FULL: &str = "queue is full";

/// Words in a node's diagnostics of a container that it evicted (Hadoop: `ContainerScheduler`).
const MAKE_ROOM: &str = "make room";

/// Judges the end of a container. `was_running`: the AM has seen the container run, or its node
/// has.
#[must_use]
pub fn judge(
    exit_status: ContainerExitStatus,
    execution_type: ExecutionType,
    was_running: bool,
    diagnostics: &str,
) -> Verdict {
    match exit_status {
        ContainerExitStatus::SUCCESS => Verdict::Succeeded,
        ContainerExitStatus::KILLED_BY_CONTAINER_SCHEDULER => {
            Verdict::Retry(removal_by_scheduler(was_running, diagnostics))
        }
        ContainerExitStatus::PREEMPTED => Verdict::Retry(Removal::Preempted),
        ContainerExitStatus::ABORTED
        | ContainerExitStatus::DISKS_FAILED
        | ContainerExitStatus::KILLED_BY_RESOURCEMANAGER => Verdict::Retry(Removal::Lost),
        // A node of Hadoop's that kills an opportunistic container before it has a process may
        // report the signal.
        ContainerExitStatus::FORCE_KILLED | ContainerExitStatus::TERMINATED
            if execution_type == ExecutionType::Opportunistic
                && (diagnostics.contains(MAKE_ROOM) || diagnostics.contains(DEQUEUED)) =>
        {
            Verdict::Retry(removal_by_scheduler(was_running, diagnostics))
        }
        _ => Verdict::Failed,
    }
}

/// Decides by the node's diagnostics, else by whether the container ran.
fn removal_by_scheduler(was_running: bool, diagnostics: &str) -> Removal {
    let left_queue = diagnostics.contains(DEQUEUED) || diagnostics.contains(QUEUE_FULL);
    if diagnostics.contains(MAKE_ROOM) || (was_running && !left_queue) {
        Removal::Evicted
    } else {
        Removal::Shed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: i32, was_running: bool, diagnostics: &str) -> Verdict {
        let status = ContainerExitStatus(status);
        judge(
            status,
            ExecutionType::Opportunistic,
            was_running,
            diagnostics,
        )
    }

    #[test]
    fn what_the_cluster_takes_away_is_tried_again() {
        assert_eq!(judged(-100, true, ""), Verdict::Retry(Removal::Lost));
        assert_eq!(judged(-101, true, ""), Verdict::Retry(Removal::Lost));
        assert_eq!(judged(-102, true, ""), Verdict::Retry(Removal::Preempted));
        assert_eq!(judged(-106, true, ""), Verdict::Retry(Removal::Lost));
        assert_eq!(judged(-108, true, ""), Verdict::Retry(Removal::Evicted));
        assert_eq!(judged(-108, false, ""), Verdict::Retry(Removal::Shed));
    }

    #[test]
    fn the_nodes_words_say_more_than_what_was_seen() {
        let dequeued = "Container De-queued to meet NM queuing limits.";
        assert_eq!(judged(-108, true, dequeued), Verdict::Retry(Removal::Shed));
        let evicted = "Container Killed to make room for Guaranteed Container.";
        assert_eq!(
            judged(-108, false, evicted),
            Verdict::Retry(Removal::Evicted)
        );
        assert_eq!(judged(143, true, evicted), Verdict::Retry(Removal::Evicted));
    }

    #[test]
    fn what_the_command_did_is_not_tried_again() {
        for status in [1, 127, 137, 143, 255, -1, -103, -104, -105, -109, -1000] {
            assert_eq!(judged(status, true, ""), Verdict::Failed, "{status}");
        }
        assert_eq!(judged(0, false, ""), Verdict::Succeeded);
    }
}
