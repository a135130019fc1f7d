//! Applications and their attempts: what state they are in and what follows from an end. No I/O, no clock.

mod attempt;

use std::collections::BTreeSet;

use records::{
    ApplicationAttemptId, ApplicationId, ContainerExitStatus, EpochMillis, NodeId, Now, Resource,
};
use wire::proto::hadoop_yarn::{
    ApplicationSubmissionContextProto, FinalApplicationStatusProto, YarnApplicationStateProto,
};

pub use attempt::{Attempt, AttemptState};

/// Attempts of one application, those included that do not count as its fault. Nodes that lose masters this often have
/// an illness that another attempt does not cure.
const ATTEMPTS_MAX: usize = 100;

/// Characters of a text of a peer that are kept: diagnostics above all. A peer may send any amount.
const TEXT_CHARS_MAX: usize = 64 * 1024;

/// The life of an application, as clients see it from its submission on (Hadoop: `RMAppState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// Its master is not there yet.
    Accepted,
    /// Its master has registered.
    Running,
    /// Its master has said how it went.
    Finished,
    /// It ended without that.
    Failed,
    /// Somebody ended it.
    Killed,
}

impl ApplicationState {
    /// Hadoop's name, as in REST.
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

    /// Whether it stays so.
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

/// What an attempt's end means for its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// Another attempt has been made; it waits for a node.
    Retry,
    /// The application is over.
    Over,
}

/// An application from its submission on.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its id.
    pub id: ApplicationId,
    /// Who submitted it.
    pub user: String,
    /// As submitted.
    pub submission: ApplicationSubmissionContextProto,
    /// What its master's container gets.
    pub master_size: Resource,
    /// Where its containers have been: these nodes are told of its end.
    pub nodes: BTreeSet<NodeId>,
    /// Where it is in its life.
    pub state: ApplicationState,
    /// How it says it ended.
    pub final_status: FinalApplicationStatusProto,
    /// Why it ended.
    pub diagnostics: String,
    /// When it was submitted.
    pub submitted: EpochMillis,
    /// When its first master started.
    pub launched: Option<EpochMillis>,
    /// When it ended.
    pub finished: Option<EpochMillis>,
    /// Its attempts, the running one last; at least one.
    attempts: Vec<Attempt>,
    /// Attempts that failed by the application's own fault.
    failures: u32,
    attempts_max: u32,
}

impl Application {
    /// An application that has just been submitted, with its first attempt. It gets at most `attempts_max` attempts, fewer if the
    /// submission says so.
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

    /// All attempts, first one first.
    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }

    /// The attempt that counts.
    #[must_use]
    pub fn attempt(&self) -> &Attempt {
        self.attempts
            .last()
            .expect("an application has an attempt from the beginning")
    }

    /// The attempt that counts.
    pub fn attempt_mut(&mut self) -> &mut Attempt {
        self.attempts
            .last_mut()
            .expect("an application has an attempt from the beginning")
    }

    /// The attempt of this id, if it is the one that counts and has not ended.
    pub fn live_mut(&mut self, id: ApplicationAttemptId) -> Option<&mut Attempt> {
        let attempt = self.attempt_mut();
        (attempt.id == id && !attempt.state.is_final()).then_some(attempt)
    }

    /// The master has registered.
    pub fn register(&mut self, host: String, rpc_port: i32, tracking_url: String) {
        self.state = ApplicationState::Running;
        let attempt = self.attempt_mut();
        attempt.state = AttemptState::Running;
        attempt.host = host;
        attempt.rpc_port = rpc_port;
        attempt.tracking_url = tracking_url;
    }

    /// The master has said how it went; its container may still run.
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

    /// The master's container has ended, or could not be started, or its node is lost.
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

    /// Somebody ends it. Nothing happens when it has ended already.
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

/// Whether a master that ended so did it itself (Hadoop: `shouldCountTowardsMaxAttemptRetry`).
fn counts_as_failure(exit_status: ContainerExitStatus) -> bool {
    ![
        ContainerExitStatus::PREEMPTED,
        ContainerExitStatus::ABORTED,
        ContainerExitStatus::DISKS_FAILED,
        ContainerExitStatus::KILLED_BY_RESOURCEMANAGER,
    ]
    .contains(&exit_status)
}

/// As much of a text as is kept.
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
        let id = ApplicationId::new(1, 1);
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
