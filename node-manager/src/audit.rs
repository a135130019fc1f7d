//! The audit log: starts and stops of containers with their users, in the tab-separated form of
//! Hadoop's `NMAuditLogger`, on the log target `audit`, so that sites that search their NodeManager
//! logs find the same lines.

use records::{ContainerExitStatus, ContainerId};
use sched::{Completion, Note, PauseEnd, RejectReason, ShedReason};

use crate::core::{Asker, Record, ReinitStage};

/// Writes the line of a record, if it has one.
pub(crate) fn record(record: &Record) {
    match record {
        Record::Accepted { id, asker } => called("Start Container Request", asker, id),
        Record::StopRequested { id, asker } => called("Stop Container Request", asker, id),
        Record::Reinit { id, user, stage } => reinitialized(id, user, *stage),
        Record::Completed { completion, user } => {
            if let Some(user) = user {
                completed(completion, user);
            }
        }
        Record::Note(decision) => note(decision),
        Record::Localized { .. }
        | Record::Launched { .. }
        | Record::LogsUploaded { .. }
        | Record::LaunchFailed => {}
    }
}

/// Writes a call of an ApplicationMaster, whose user is its attempt. The target is spelt as in
/// Hadoop (`ContainerManagerImpl`).
fn called(operation: &str, asker: &Asker, id: &ContainerId) {
    let (attempt, address, application) = (asker.attempt, asker.address, id.application_id());
    tracing::info!(
        target: "audit",
        "USER={attempt}\tIP={address}\tOPERATION={operation}\tTARGET=ContainerManageImpl\tRESULT=SUCCESS\tAPPID={application}\tCONTAINERID={id}"
    );
}

/// Writes that a container is launched again.
fn reinitialized(id: &ContainerId, user: &str, stage: ReinitStage) {
    let application = id.application_id();
    let stage = match stage {
        ReinitStage::Started => "Started",
        ReinitStage::Finished => "Finished",
    };
    tracing::info!(
        target: "audit",
        "USER={user}\tOPERATION=Container ReInitialization - {stage}\tTARGET=ContainerImpl\tRESULT=SUCCESS\tAPPID={application}\tCONTAINERID={id}"
    );
}

/// Writes the end of a container.
fn completed(completion: &Completion, user: &str) {
    let (id, application) = (completion.id, completion.id.application_id());
    let operation = match completion.exit_status {
        ContainerExitStatus::SUCCESS => "Container Finished - Succeeded",
        ContainerExitStatus::INVALID => return failed(completion, user, "LOCALIZATION_FAILED"),
        // Statuses that the node gave for kills of its own.
        killed if killed <= ContainerExitStatus::ABORTED => "Container Finished - Killed",
        _ => return failed(completion, user, "EXITED_WITH_FAILURE"),
    };
    tracing::info!(
        target: "audit",
        "USER={user}\tOPERATION={operation}\tTARGET=ContainerImpl\tRESULT=SUCCESS\tAPPID={application}\tCONTAINERID={id}"
    );
}

fn failed(completion: &Completion, user: &str, state: &str) {
    let (id, application) = (completion.id, completion.id.application_id());
    tracing::warn!(
        target: "audit",
        "USER={user}\tOPERATION=Container Finished - Failed\tTARGET=ContainerImpl\tRESULT=FAILURE\tDESCRIPTION=Container failed with state: {state}\tAPPID={application}\tCONTAINERID={id}"
    );
}

/// Logs a decision of the scheduler with its reason.
fn note(note: &Note) {
    match note {
        Note::Queued {
            id,
            execution_type,
            position,
            missing,
        } => {
            tracing::info!(container = %id, %execution_type, position, %missing, "queued");
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
                RejectReason::Draining => "the node is drained",
            };
            tracing::info!(container = %id, why, "rejected");
        }
        Note::Shed { id, reason } => shed(*id, *reason),
        Note::Evicted {
            id,
            for_container,
            paused,
            ran_ms,
        } => {
            tracing::info!(container = %id, %for_container, paused, ran_ms, "evicted to make room");
        }
        Note::Drained { id, ran_ms } => {
            tracing::info!(container = %id, ran_ms, "ended because the node is drained");
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
        Note::Retried {
            id,
            status,
            after_ms,
            remaining,
        } => {
            tracing::info!(container = %id, %status, after_ms, ?remaining, "failed; launched again as its retry policy says");
        }
        Note::Promoted(id) => tracing::info!(container = %id, "promoted to GUARANTEED"),
        Note::Demoted(id) => tracing::info!(container = %id, "demoted to OPPORTUNISTIC"),
    }
}

fn shed(id: ContainerId, reason: ShedReason) {
    match reason {
        ShedReason::QueueLength { limit } => {
            tracing::info!(container = %id, limit, "shed: the ResourceManager allows a shorter queue");
        }
        ShedReason::WaitTime {
            limit_ms,
            estimated_ms,
        } => {
            tracing::info!(container = %id, limit_ms, estimated_ms, "shed: the ResourceManager allows a shorter wait");
        }
        ShedReason::Draining => tracing::info!(container = %id, "shed: the node is drained"),
    }
}
