//! Whose fault the end of a container is. Pure.

use records::{ContainerExitStatus, ExecutionType};

/// Why a container was taken away from a task that is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It ran, and made way for a guaranteed container.
    Evicted,
    /// Its node took it out of its queue, or had no place in it.
    Shed,
    /// The ResourceManager wanted the room.
    Preempted,
    /// Its node is gone or broken, it was refused, or it never started.
    Lost,
}

impl Taken {
    /// As a sentence's end.
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

/// What the end of a container means for its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The command ended with 0.
    Succeeded,
    /// The command, or what it needs, is at fault: another try would be no better.
    Failed,
    /// The cluster is at fault: another container is asked for.
    Again(Taken),
}

/// What a node says when it takes a container out of its queue (Hadoop: `ContainerScheduler`).
const DEQUEUED: &str = "De-queued";

/// What a node says when its queue has no place (Hadoop: `ContainerScheduler`).
const QUEUE_FULL: &str = "queue is full";

/// What a node says when a container must make way (Hadoop: `ContainerScheduler`).
const MAKE_ROOM: &str = "make room";

/// Judges an end. `was_running`: the master has seen it run, or the node has.
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
            Verdict::Again(taken_by_scheduler(was_running, diagnostics))
        }
        ContainerExitStatus::PREEMPTED => Verdict::Again(Taken::Preempted),
        ContainerExitStatus::ABORTED
        | ContainerExitStatus::DISKS_FAILED
        | ContainerExitStatus::KILLED_BY_RESOURCEMANAGER => Verdict::Again(Taken::Lost),
        // A node of Hadoop's that kills an opportunistic container before it has a process may report the signal.
        ContainerExitStatus::FORCE_KILLED | ContainerExitStatus::TERMINATED
            if execution_type == ExecutionType::Opportunistic
                && (diagnostics.contains(MAKE_ROOM) || diagnostics.contains(DEQUEUED)) =>
        {
            Verdict::Again(taken_by_scheduler(was_running, diagnostics))
        }
        _ => Verdict::Failed,
    }
}

/// By what the node says, else by whether it ran.
fn taken_by_scheduler(was_running: bool, diagnostics: &str) -> Taken {
    let left_queue = diagnostics.contains(DEQUEUED) || diagnostics.contains(QUEUE_FULL);
    if diagnostics.contains(MAKE_ROOM) || (was_running && !left_queue) {
        Taken::Evicted
    } else {
        Taken::Shed
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
        assert_eq!(judged(-100, true, ""), Verdict::Again(Taken::Lost));
        assert_eq!(judged(-101, true, ""), Verdict::Again(Taken::Lost));
        assert_eq!(judged(-102, true, ""), Verdict::Again(Taken::Preempted));
        assert_eq!(judged(-106, true, ""), Verdict::Again(Taken::Lost));
        assert_eq!(judged(-108, true, ""), Verdict::Again(Taken::Evicted));
        assert_eq!(judged(-108, false, ""), Verdict::Again(Taken::Shed));
    }

    #[test]
    fn the_nodes_words_say_more_than_what_was_seen() {
        let dequeued = "Container De-queued to meet NM queuing limits.";
        assert_eq!(judged(-108, true, dequeued), Verdict::Again(Taken::Shed));
        let evicted = "Container Killed to make room for Guaranteed Container.";
        assert_eq!(judged(-108, false, evicted), Verdict::Again(Taken::Evicted));
        assert_eq!(judged(143, true, evicted), Verdict::Again(Taken::Evicted));
    }

    #[test]
    fn what_the_command_did_is_not_tried_again() {
        for status in [1, 127, 137, 143, 255, -1, -103, -104, -105, -109, -1000] {
            assert_eq!(judged(status, true, ""), Verdict::Failed, "{status}");
        }
        assert_eq!(judged(0, false, ""), Verdict::Succeeded);
    }
}
