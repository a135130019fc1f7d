//! An attempt at running an application's AM, and its life cycle. The application decides what
//! follows from its end.

use records::{ApplicationAttemptId, ContainerId, EpochMillis, MonoMillis, Now};
use wire::proto::hadoop_yarn::YarnApplicationAttemptStateProto;

/// States of an attempt (Hadoop: `RMAppAttemptState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// Waits for a node with capacity for the AM.
    Scheduled,
    /// The AM's container is being started.
    Allocated,
    /// The node has accepted the container; the AM has not registered.
    Launched,
    /// The AM has registered.
    Running,
    /// The AM has unregistered; its container has not completed.
    Finishing,
    /// Ended after the AM unregistered.
    Finished,
    /// The AM ended without unregistering.
    Failed,
    /// Killed by a client.
    Killed,
}

impl AttemptState {
    /// Returns whether the state never changes again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }

    /// Returns Hadoop's name of the state, as in REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "SCHEDULED",
            Self::Allocated => "ALLOCATED",
            Self::Launched => "LAUNCHED",
            Self::Running => "RUNNING",
            Self::Finishing => "FINISHING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
        }
    }
}

impl From<AttemptState> for YarnApplicationAttemptStateProto {
    fn from(state: AttemptState) -> Self {
        match state {
            AttemptState::Scheduled => Self::AppAttemptScheduled,
            AttemptState::Allocated => Self::AppAttemptAllocated,
            AttemptState::Launched => Self::AppAttemptLaunched,
            AttemptState::Running => Self::AppAttemptRunning,
            AttemptState::Finishing => Self::AppAttemptFinishing,
            AttemptState::Finished => Self::AppAttemptFinished,
            AttemptState::Failed => Self::AppAttemptFailed,
            AttemptState::Killed => Self::AppAttemptKilled,
        }
    }
}

/// An attempt at running an application's AM.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Id of the attempt.
    pub id: ApplicationAttemptId,
    /// State in the life cycle.
    pub state: AttemptState,
    /// Container of the AM, once allocated.
    pub master: Option<ContainerId>,
    /// Host at which the AM serves clients; Hadoop's `N/A` until it registers.
    pub host: String,
    /// Port at which the AM serves clients; -1 until it registers.
    pub rpc_port: i32,
    /// Tracking URL from the AM.
    pub tracking_url: String,
    /// Progress from the AM, from 0 to 1.
    pub progress: f32,
    /// Time of creation.
    pub started: EpochMillis,
    /// Time of the end.
    pub finished: Option<EpochMillis>,
    /// Time of the AM's last call or of the last change of state.
    pub last_contact: MonoMillis,
    /// Reason for the end.
    pub diagnostics: String,
}

impl Attempt {
    pub(super) fn new(id: ApplicationAttemptId, now: Now) -> Self {
        Self {
            id,
            state: AttemptState::Scheduled,
            master: None,
            host: "N/A".to_owned(),
            rpc_port: -1,
            tracking_url: String::new(),
            progress: 0.0,
            started: now.wall,
            finished: None,
            last_contact: now.mono,
            diagnostics: String::new(),
        }
    }
}
