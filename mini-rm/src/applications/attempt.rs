//! One try at running an application's master, and its life. What an end leads to is the application's.

use records::{ApplicationAttemptId, ContainerId, EpochMillis, MonoMillis, Now};
use wire::proto::hadoop_yarn::YarnApplicationAttemptStateProto;

/// The life of an attempt (Hadoop: `RMAppAttemptState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptState {
    /// Waits for a node with room for its master.
    Scheduled,
    /// Its master's container is being started.
    Allocated,
    /// The node has accepted the container; the master has not registered.
    Launched,
    /// The master has registered.
    Running,
    /// The master has said that it is done; its container has not ended.
    Finishing,
    /// Ended as its master said.
    Finished,
    /// Its master ended without saying so.
    Failed,
    /// Somebody ended it.
    Killed,
}

impl AttemptState {
    /// Whether nothing more comes.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Killed)
    }

    /// Hadoop's name, as in REST.
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

/// One try at running an application's master.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its id.
    pub id: ApplicationAttemptId,
    /// Where it is in its life.
    pub state: AttemptState,
    /// The container of its master, once there is one.
    pub master: Option<ContainerId>,
    /// Where its master answers clients; as Hadoop says it before the master registered.
    pub host: String,
    /// The port there; -1 before.
    pub rpc_port: i32,
    /// The page that its master names.
    pub tracking_url: String,
    /// From 0 to 1.
    pub progress: f32,
    /// When it began.
    pub started: EpochMillis,
    /// When it ended.
    pub finished: Option<EpochMillis>,
    /// When its master was last heard of, or its state last changed.
    pub heard: MonoMillis,
    /// Why it ended.
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
            heard: now.mono,
            diagnostics: String::new(),
        }
    }
}
