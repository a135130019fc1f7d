//! Values for tests of the decisions.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};

pub(super) const ATTEMPT: ApplicationAttemptId = ApplicationAttemptId {
    application_id: ApplicationId {
        cluster_timestamp: 1_700_000_000_000,
        id: 7,
    },
    attempt_id: 1,
};

pub(super) const fn container(id: i64) -> ContainerId {
    ContainerId {
        attempt: ATTEMPT,
        id,
    }
}

pub(super) fn node(number: u16) -> NodeId {
    NodeId {
        host: format!("n{number}"),
        port: 8041,
    }
}
