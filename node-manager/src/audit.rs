//! The audit log: starts and stops of containers with their users, in the tab-separated form of
//! Hadoop's `NMAuditLogger`, on the log target `audit`, so that sites that search their NodeManager
//! logs find the same lines.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use node_core::{Asker, Observed, ReinitStage};
use records::{ApplicationAttemptId, ContainerExitStatus, ContainerId};
use refusals::Pace;
use sched::{Completion, Note, PassReason, PauseEnd, RejectReason, ShedReason};

/// Lines a second about refused tokens of one kind. A peer that tries many gets a line that says
/// how many were left out.
const REFUSED_TOKENS_MAX: u32 = 10;

/// Characters of a reason, which may have texts of a peer.
const DESCRIPTION_CHARS_MAX: usize = 300;

/// Lines about the refused tokens of one kind.
#[derive(Debug)]
pub(crate) struct RefusedTokens(Pace);

/// Token that was refused.
#[derive(Debug)]
pub(crate) struct RefusedToken<'a> {
    /// Caller as it has proved to be; `None`: the token was to prove it.
    pub(crate) user: Option<ApplicationAttemptId>,
    /// Address of the caller.
    pub(crate) address: IpAddr,
    /// Use of the token.
    pub(crate) operation: &'static str,
    /// Part of the node that refuses it.
    pub(crate) target: &'static str,
    /// Reason.
    pub(crate) description: &'a str,
    /// Container that the token claims to be for.
    pub(crate) container: Option<ContainerId>,
}

impl Default for RefusedTokens {
    fn default() -> Self {
        Self(Pace::new(REFUSED_TOKENS_MAX))
    }
}

impl RefusedTokens {
    /// Writes the line of a refused token, unless there are too many.
    pub(crate) fn write(&self, refused: &RefusedToken<'_>) {
        if let Some(left_out) = self.0.due(Instant::now()) {
            let line = refused_line(refused, left_out);
            tracing::warn!(target: "audit", "{line}");
        }
    }
}

/// Returns a function that writes the lines of tokens with which connections were to be opened.
pub(crate) fn refused_connections(
    operation: &'static str,
    target: &'static str,
) -> impl Fn(SocketAddr, &str) + Send + Sync + 'static {
    let refused = RefusedTokens::default();
    move |peer, description| {
        refused.write(&RefusedToken {
            user: None,
            address: peer.ip(),
            operation,
            target,
            description,
            container: None,
        });
    }
}

/// Returns a line in the form of Hadoop's `NMAuditLogger.createFailureLog`. A caller without a
/// proved name has the one that Hadoop gives it.
fn refused_line(refused: &RefusedToken<'_>, left_out: u64) -> String {
    let RefusedToken {
        user,
        address,
        operation,
        target,
        description,
        container,
    } = refused;
    let user = user.map_or("UnknownUser".to_owned(), |user| user.to_string());
    let description = field(description);
    let mut line = format!(
        "USER={user}\tIP={address}\tOPERATION={operation}\tTARGET={target}\tRESULT=FAILURE\tDESCRIPTION={description}"
    );
    if left_out > 0 {
        line.push_str(&format!(" (and {left_out} refusals without a line)"));
    }
    if let Some(id) = container {
        let application = id.application_id();
        line.push_str(&format!("\tAPPID={application}\tCONTAINERID={id}"));
    }
    line
}

/// Returns a text that peers have a part in as one field: a tab in it would begin another.
fn field(text: &str) -> String {
    let chars = text.trim().chars().take(DESCRIPTION_CHARS_MAX);
    let chars = chars.map(|char| if char.is_control() { ' ' } else { char });
    chars.collect()
}

/// Writes the line of a record, if it has one.
pub(crate) fn write(observed: &Observed) {
    match observed {
        Observed::Accepted { id, asker } => called("Start Container Request", asker, id),
        Observed::StopRequested { id, asker } => called("Stop Container Request", asker, id),
        Observed::Reinit { id, user, stage } => reinitialized(id, user.as_str(), *stage),
        Observed::Completed { completion, user } => {
            if let Some(user) = user {
                completed(completion, user.as_str());
            }
        }
        Observed::Note(decision) => note(decision),
        Observed::Localized { .. }
        | Observed::Launched { .. }
        | Observed::LogsUploaded { .. }
        | Observed::OfferAnswered { .. }
        | Observed::LaunchFailed => {}
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
        Note::Passed { id, passed, reason } => pass(*id, *passed, *reason),
        Note::LargerThanNode { id, asked, node } => tracing::warn!(
            container = %id,
            %asked,
            %node,
            "a guaranteed container larger than the node runs alone"
        ),
        Note::Rejected { id, reason } => {
            tracing::info!(container = %id, why = why_rejected(*reason), "rejected");
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

const fn why_rejected(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::QueueFull => "the opportunistic queue is full",
        RejectReason::NeverFits => "it asks for more than this node has",
        RejectReason::Draining => "the node is drained",
    }
}

fn pass(id: ContainerId, passed: ContainerId, reason: PassReason) {
    match reason {
        PassReason::Order {
            order,
            expected_ms,
            passed_expected_ms,
        } => {
            tracing::info!(container = %id, %passed, %order, expected_ms, passed_expected_ms, "starts before one that waits longer");
        }
        PassReason::Backfill { room_in_ms } => {
            tracing::info!(container = %id, %passed, room_in_ms, "starts before one that does not fit and is not expected to start later for it");
        }
    }
}

fn shed(id: ContainerId, reason: ShedReason) {
    match reason {
        ShedReason::QueueLength { limit } => {
            tracing::info!(container = %id, limit, "shed: the ResourceManager allows a shorter queue");
        }
        ShedReason::Draining => tracing::info!(container = %id, "shed: the node is drained"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use test_support::ids::container;

    use super::*;

    #[test]
    fn a_refused_token_has_hadoops_line_into_which_a_peer_adds_no_field() {
        let refused = RefusedToken {
            user: None,
            address: Ipv4Addr::LOCALHOST.into(),
            operation: "Start Container Request",
            target: "ContainerManageImpl",
            description: "for node x\tRESULT=SUCCESS\nUSER=root",
            container: Some(container(7)),
        };
        let id = container(7);
        assert_eq!(
            refused_line(&refused, 3),
            format!(
                "USER=UnknownUser\tIP=127.0.0.1\tOPERATION=Start Container Request\t\
                 TARGET=ContainerManageImpl\tRESULT=FAILURE\t\
                 DESCRIPTION=for node x RESULT=SUCCESS USER=root (and 3 refusals without a line)\t\
                 APPID={}\tCONTAINERID={id}",
                id.application_id()
            )
        );
        let long = RefusedToken {
            description: &"é".repeat(10_000),
            container: None,
            ..refused
        };
        assert!(refused_line(&long, 0).chars().count() < 500);
    }
}
