//! Requests and answers of the admin socket, as JSON has them.
//!
//! Fields may be added; readers ignore those that they do not know. Times are milliseconds since
//! 1970-01-01 UTC, durations milliseconds, amounts of memory mebibytes.

use node_view::operator::{
    ApplicationExplanation, DrainMode, DrainState, Explanation, Queue, Running, Status,
};
use serde::{Deserialize, Serialize};

/// Request of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Request {
    /// Returns the state of the node.
    Status,
    /// The waiting containers, in the order in which they would start.
    Queue {
        /// Containers to list from the head of the queue.
        first: usize,
    },
    /// The containers that hold resources, in the order of their ids.
    Running {
        /// Containers to list.
        first: usize,
    },
    /// Returns the story of a container: what happened to it, and why.
    Explain {
        /// Id of the container.
        container: String,
    },
    /// Returns the story of an application's containers on this node.
    ExplainApplication {
        /// Id of the application.
        application: String,
        /// Steps to list, the last ones.
        last: usize,
    },
    /// Takes the node out of service, in place of an earlier order.
    Drain {
        /// Mode: the containers that are ended.
        mode: DrainMode,
        /// Time that these containers have to end by themselves.
        within_ms: u64,
        /// Reason, for people.
        reason: String,
    },
    /// Puts the node back into service.
    CancelDrain,
    /// Reads the configuration again.
    Reload,
}

/// Permission that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// To see what the node does.
    Look,
    /// To change what the node does.
    Change,
}

impl Request {
    /// Returns the permission that the request takes.
    #[must_use]
    pub const fn permission(&self) -> Permission {
        match self {
            Self::Status
            | Self::Queue { .. }
            | Self::Running { .. }
            | Self::Explain { .. }
            | Self::ExplainApplication { .. } => Permission::Look,
            Self::Drain { .. } | Self::CancelDrain | Self::Reload => Permission::Change,
        }
    }

    /// Returns the name of the command.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Queue { .. } => "queue",
            Self::Running { .. } => "top",
            Self::Explain { .. } | Self::ExplainApplication { .. } => "explain",
            Self::Drain { .. } => "drain",
            Self::CancelDrain => "drain --cancel",
            Self::Reload => "reload",
        }
    }
}

/// Reply to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Answer to the request.
    Ok(Answer),
    /// Reason for having no answer.
    Refused(Refusal),
}

/// Answer to a request, of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Answer to [`Request::Status`].
    Status(Box<Status>),
    /// Answer to [`Request::Queue`].
    Queue(Queue),
    /// Answer to [`Request::Running`].
    Running(Running),
    /// Answer to [`Request::Explain`].
    Explain(Box<Explanation>),
    /// Answer to [`Request::ExplainApplication`].
    ExplainApplication(Box<ApplicationExplanation>),
    /// Answer to [`Request::Drain`].
    Drain(DrainState),
    /// Answer to [`Request::CancelDrain`].
    CancelDrain {
        /// Whether the node was drained.
        was_drained: bool,
    },
    /// Answer to [`Request::Reload`].
    Reload(Reload),
}

/// Request that was not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Kind, for programs.
    pub kind: RefusalKind,
    /// Reason, for people.
    pub message: String,
}

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The request cannot be read, or is of another version.
    BadRequest,
    /// The caller may not ask for this.
    NotAllowed,
    /// The container or the application is not known.
    NoSuchContainer,
    /// The node's configuration cannot be used; the node keeps the one that it has.
    BadConfiguration,
    /// The node is stopping, or too slow.
    Unavailable,
}

/// Changes of the configuration since it was read last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reload {
    /// Settings that have taken effect.
    pub applied: Vec<ChangedSetting>,
    /// Settings that take effect at the next start of the agent. Each is named again as long as
    /// it differs from the value in force.
    pub refused: Vec<ChangedSetting>,
}

/// Setting of the configuration that has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedSetting {
    /// Name of the property.
    pub property: String,
    /// Value before, without secrets; none: unset.
    pub old: Option<String>,
    /// Value in the files, without secrets; none: unset.
    pub new: Option<String>,
    /// Reason for a setting that has not taken effect.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_back_and_another_version_may_add_fields() {
        let request = Request::Queue { first: 7 };
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text, r#"{"command":"queue","first":7}"#);
        let longer = r#"{"command":"queue","first":7,"colour":true}"#;
        assert_eq!(serde_json::from_str::<Request>(longer).unwrap(), request);
        assert!(serde_json::from_str::<Request>(r#"{"command":"reboot"}"#).is_err());
    }
}
