//! Applications and their attempts: states, and the consequences of a completion. No I/O, no clock.

mod attempt;

use std::collections::BTreeSet;

use records::{
    ApplicationAttemptId, ApplicationId, ContainerExitStatus, EpochMillis, NodeId, Now, Resource,
};
use wire::proto::hadoop_yarn::{
    ApplicationSubmissionContextProto, FinalApplicationStatusProto, YarnApplicationStateProto,
};

pub use attempt::{Attempt, AttemptState};

/// Limit on attempts of one application, including those that are not its own failures. Nodes that
/// lose AMs this often have a fault that another attempt does not cure.
const ATTEMPTS_MAX: usize = 100;

/// Length, in characters, to which a peer's text is cut, diagnostics above all. A peer may send any
/// amount.
const TEXT_CHARS_MAX: usize = 64 * 1024;

/// States of an application, as clients see them from its submission on (Hadoop: `RMAppState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// The AM has not registered.
    Accepted,
    /// The AM has registered.
    Running,
    /// The AM has unregistered with a final status.
    Finished,
    /// The last attempt ended before its AM unregistered.
    Failed,
    /// Killed by a client.
    Killed,
}

impl ApplicationState {
    /// Returns Hadoop's name of the state, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
        }
    }

    /// Returns whether the state never changes again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::Accepted | Self::Running => false,
            Self::Finished | Self::Failed | Self::Killed => true,
        }
    }
}

impl From<ApplicationState> for YarnApplicationStateProto {
    fn from(state: ApplicationState) -> Self {
        match state {
            ApplicationState::Accepted => Self::Accepted,
            ApplicationState::Running => Self::Running,
            ApplicationState::Finished => Self::Finished,
            ApplicationState::Failed => Self::Failed,
            ApplicationState::Killed => Self::Killed,
        }
    }
}

/// Consequence of an attempt's end for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// Another attempt exists and waits for a node.
    Retry,
    /// The application has ended.
    Over,
}

/// An application from its submission on.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Id of the application.
    pub id: ApplicationId,
    /// User who submitted the application.
    pub user: String,
    /// Submission as the client sent it; the launch context is dropped at the end.
    pub submission: ApplicationSubmissionContextProto,
    /// Size of the AM's container.
    pub master_size: Resource,
    /// Nodes that ran a container of the application and are notified of its end.
    pub nodes: BTreeSet<NodeId>,
    /// State in the life cycle.
    pub state: ApplicationState,
    /// Final status from the AM.
    pub final_status: FinalApplicationStatusProto,
    /// Reason for the end.
    pub diagnostics: String,
    /// Time of submission.
    pub submitted: EpochMillis,
    /// Time at which the first AM started.
    pub launched: Option<EpochMillis>,
    /// Time of the end.
    pub finished: Option<EpochMillis>,
    /// Attempts, the current one last; at least one.
    attempts: Vec<Attempt>,
    /// Number of attempts that count towards `attempts_max`.
    failures: u32,
    attempts_max: u32,
}

impl Application {
    /// Returns an application that has just been submitted, with its first attempt. It gets at most
    /// `attempts_max` attempts, fewer if the submission says so.
    #[must_use]
    pub fn new(
        id: ApplicationId,
        user: String,
        submission: ApplicationSubmissionContextProto,
        master_size: Resource,
        attempts_max: u32,
        now: Now,
    ) -> Self {
        let asked = u32::try_from(submission.max_app_attempts()).unwrap_or(0);
        let attempts_max = if asked == 0 {
            attempts_max
        } else {
            attempts_max.min(asked)
        };
        let first = id.attempt(1);
        Self {
            id,
            user,
            submission,
            master_size,
            nodes: BTreeSet::new(),
            state: ApplicationState::Accepted,
            final_status: FinalApplicationStatusProto::AppUndefined,
            diagnostics: String::new(),
            submitted: now.wall,
            launched: None,
            finished: None,
            attempts: vec![Attempt::new(first, now)],
            failures: 0,
            attempts_max,
        }
    }

    /// Returns all attempts, the first one first.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// Returns the current attempt.
    #[must_use]
    pub fn attempt(&self) -> &Attempt {
        self.attempts
            .last()
            .expect("an application has an attempt from the beginning")
    }

    /// Returns the current attempt.
    pub fn attempt_mut(&mut self) -> &mut Attempt {
        self.attempts
            .last_mut()
            .expect("an application has an attempt from the beginning")
    }

    /// Returns the attempt of this id if it is the current one and has not ended.
    pub fn live_mut(&mut self, id: ApplicationAttemptId) -> Option<&mut Attempt> {
        let attempt = self.attempt_mut();
        (attempt.id == id && !attempt.state.is_final()).then_some(attempt)
    }

    /// Records the AM's registration.
    pub fn register(&mut self, host: String, rpc_port: i32, tracking_url: String) {
        self.state = ApplicationState::Running;
        let attempt = self.attempt_mut();
        attempt.state = AttemptState::Running;
        attempt.host = host;
        attempt.rpc_port = rpc_port;
        attempt.tracking_url = tracking_url;
    }

    /// Records the final status from the AM, whose container may still run.
    pub fn finish(
        &mut self,
        status: FinalApplicationStatusProto,
        diagnostics: &str,
        tracking_url: &str,
        wall: EpochMillis,
    ) {
        self.state = ApplicationState::Finished;
        self.final_status = status;
        self.diagnostics = cut(diagnostics);
        self.finished = Some(wall);
        let attempt = self.attempt_mut();
        attempt.state = AttemptState::Finishing;
        attempt.progress = 1.0;
        if !tracking_url.is_empty() {
            attempt.tracking_url = cut(tracking_url);
        }
    }

    /// Records the end of the AM's container: it completed, failed to start, or its node is lost.
    pub fn master_ended(
        &mut self,
        exit_status: ContainerExitStatus,
        diagnostics: &str,
        now: Now,
    ) -> Aftermath {
        let attempt = self.attempt_mut();
        attempt.finished = Some(now.wall);
        if attempt.state == AttemptState::Finishing {
            attempt.state = AttemptState::Finished;
            return Aftermath::Over;
        }
        attempt.state = AttemptState::Failed;
        let why = cut(&format!(
            "{} ended with exit status {exit_status}: {diagnostics}",
            attempt.id
        ));
        attempt.diagnostics.clone_from(&why);
        if counts_as_failure(exit_status) {
            self.failures += 1;
        }
        if self.failures < self.attempts_max && self.attempts.len() < ATTEMPTS_MAX {
            let mut id = self.attempt().id;
            id.attempt_id += 1;
            self.attempts.push(Attempt::new(id, now));
            self.state = ApplicationState::Accepted;
            return Aftermath::Retry;
        }
        self.end(
            ApplicationState::Failed,
            FinalApplicationStatusProto::AppFailed,
            why,
            now.wall,
        );
        Aftermath::Over
    }

    /// Kills the application. No effect on one that has ended.
    pub fn kill(&mut self, diagnostics: &str, wall: EpochMillis) {
        let attempt = self.attempt_mut();
        if !attempt.state.is_final() {
            attempt.finished = Some(wall);
            attempt.state = if attempt.state == AttemptState::Finishing {
                AttemptState::Finished
            } else {
                AttemptState::Killed
            };
        }
        if !self.state.is_final() {
            let why = cut(diagnostics);
            self.end(
                ApplicationState::Killed,
                FinalApplicationStatusProto::AppKilled,
                why,
                wall,
            );
        }
    }

    fn end(
        &mut self,
        state: ApplicationState,
        status: FinalApplicationStatusProto,
        diagnostics: String,
        wall: EpochMillis,
    ) {
        self.state = state;
        self.final_status = status;
        self.diagnostics = diagnostics;
        self.finished = Some(wall);
    }
}

/// Returns whether an AM with this exit status counts towards the attempts (Hadoop:
/// `shouldCountTowardsMaxAttemptRetry`).
fn counts_as_failure(exit_status: ContainerExitStatus) -> bool {
    ![
        ContainerExitStatus::PREEMPTED,
        ContainerExitStatus::ABORTED,
        ContainerExitStatus::DISKS_FAILED,
        ContainerExitStatus::KILLED_BY_RESOURCEMANAGER,
    ]
    .contains(&exit_status)
}

/// Returns the kept part of a text.
#[must_use]
pub fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use records::MonoMillis;

    use super::*;

    const NOW: Now = Now {
        mono: MonoMillis(0),
        wall: WALL,
    };
    const WALL: EpochMillis = EpochMillis(0);

    fn application(attempts_max: u32) -> Application {
        let id = test_support::ids::application(1);
        let submission = ApplicationSubmissionContextProto::default();
        Application::new(
            id,
            "u".to_owned(),
            submission,
            Resource::new(1024, 1),
            attempts_max,
            NOW,
        )
    }

    fn fail(application: &mut Application, exit_status: ContainerExitStatus) -> Aftermath {
        application.master_ended(exit_status, "", NOW)
    }

    #[test]
    fn a_master_that_fails_is_started_again_until_its_attempts_are_used_up() {
        let mut application = application(2);
        assert_eq!(
            fail(&mut application, ContainerExitStatus(1)),
            Aftermath::Retry
        );
        assert_eq!(application.attempt().id.attempt_id, 2);
        assert_eq!(application.state, ApplicationState::Accepted);
        assert_eq!(
            fail(&mut application, ContainerExitStatus(1)),
            Aftermath::Over
        );
        assert_eq!(application.state, ApplicationState::Failed);
    }

    #[test]
    fn a_lost_node_is_not_the_masters_fault_but_does_not_go_on_for_ever() {
        let mut application = application(1);
        for _ in 1..ATTEMPTS_MAX {
            assert_eq!(
                fail(&mut application, ContainerExitStatus::ABORTED),
                Aftermath::Retry
            );
        }
        assert_eq!(
            fail(&mut application, ContainerExitStatus::ABORTED),
            Aftermath::Over
        );
    }

    #[test]
    fn what_the_master_said_stands_however_its_container_ends() {
        let mut application = application(2);
        application.register("h".to_owned(), 1, String::new());
        application.finish(FinalApplicationStatusProto::AppSucceeded, "", "", WALL);
        assert_eq!(application.state, ApplicationState::Finished);
        assert_eq!(
            fail(&mut application, ContainerExitStatus(1)),
            Aftermath::Over
        );
        assert_eq!(application.attempt().state, AttemptState::Finished);
        application.kill("too late", WALL);
        assert_eq!(
            application.final_status,
            FinalApplicationStatusProto::AppSucceeded
        );
    }

    #[test]
    fn a_killed_application_is_not_started_again() {
        let mut application = application(2);
        application.kill("enough", WALL);
        assert_eq!(application.state, ApplicationState::Killed);
        assert_eq!(application.attempt().state, AttemptState::Killed);
    }
}
