//! The audit log: starts and stops of containers with their users, in the tab-separated form of
//! Hadoop's `NMAuditLogger`, on the log target `audit`, so that sites that search their NodeManager
//! logs find the same lines.

use records::{ContainerExitStatus, ContainerId};
use sched::{Completion, Note, PauseEnd, RejectReason, ShedReason};

use crate::core::Record;

/// Writes the lines of a record, if it has any.
pub(crate) fn record(record: &Record) {
    match record {
        Record::Accepted { id, user } => log(user, "Start Container Request", true, id, ""),
        Record::StopRequested { id, user } => log(user, "Stop Container Request", true, id, ""),
        Record::Completed { completion, user } => {
            if let Some(user) = user {
                completed(completion, user);
            }
        }
        Record::Note(decision) => note(decision),
        Record::Localized { .. } | Record::Launched { .. } | Record::LaunchFailed => {}
    }
}

/// Writes the end of a container.
fn completed(completion: &Completion, user: &str) {
    let status = completion.exit_status;
    let (operation, success) = if status == ContainerExitStatus::SUCCESS {
        ("Container Finished - Succeeded", true)
    } else if status.is_signalled()
        || status.0 <= ContainerExitStatus::ABORTED.0 && status != ContainerExitStatus::INVALID
    {
        ("Container Finished - Killed", true)
    } else {
        ("Container Finished - Failed", false)
    };
    log(
        user,
        operation,
        success,
        &completion.id,
        &format!("exit status {status}"),
    );
}

/// Logs a decision of the scheduler with its reason.
fn note(note: &Note) {
    match note {
        Note::Queued {
            id,
            execution_type,
            position,
        } => {
            tracing::info!(container = %id, %execution_type, position, "queued");
        }
        Note::Started {
            id,
            execution_type,
            queue_wait_ms,
            reported_wait_ms,
            estimated_wait_ms,
            resumed,
        } => {
            tracing::info!(container = %id, %execution_type, queue_wait_ms, reported_wait_ms, estimated_wait_ms, resumed, "started");
        }
        Note::LargerThanNode { id, asked, node } => tracing::warn!(
            container = %id,
            %asked,
            %node,
            "a guaranteed container larger than the node runs alone"
        ),
        Note::Rejected { id, reason } => {
            let why = match reason {
                RejectReason::QueueFull => "the opportunistic queue is full",
                RejectReason::NeverFits => "it asks for more than this node has",
            };
            tracing::info!(container = %id, why, "rejected");
        }
        Note::Shed { id, reason } => match reason {
            ShedReason::QueueLength { limit } => {
                tracing::info!(container = %id, limit, "shed: the ResourceManager allows a shorter queue");
            }
            ShedReason::WaitTime {
                limit_ms,
                estimated_ms,
            } => {
                tracing::info!(container = %id, limit_ms, estimated_ms, "shed: the ResourceManager allows a shorter wait");
            }
        },
        Note::Evicted {
            id,
            for_container,
            paused,
            ran_ms,
        } => {
            tracing::info!(container = %id, %for_container, paused, ran_ms, "evicted to make room");
        }
        Note::PausedKilled {
            id,
            reason,
            paused_ms,
            ran_ms,
        } => {
            let why = match reason {
                PauseEnd::TooLong => "no room came for too long",
                PauseEnd::MemoryNeeded => "the memory that it holds is needed",
            };
            tracing::info!(container = %id, why, paused_ms, ran_ms, "killed while paused");
        }
        Note::Promoted(id) => tracing::info!(container = %id, "promoted to GUARANTEED"),
        Note::Demoted(id) => tracing::info!(container = %id, "demoted to OPPORTUNISTIC"),
    }
}

fn log(user: &str, operation: &str, success: bool, id: &ContainerId, description: &str) {
    let result = if success { "SUCCESS" } else { "FAILURE" };
    let application = id.application_id();
    tracing::info!(
        target: "audit",
        "USER={user}\tOPERATION={operation}\tTARGET=ContainerImpl\tRESULT={result}\tDESCRIPTION={description}\tAPPID={application}\tCONTAINERID={id}"
    );
}
