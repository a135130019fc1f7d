//! Values for tests of the decisions.

use records::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId};

pub(super) const ATTEMPT: ApplicationAttemptId =
    ApplicationId::new(1_700_000_000_000, 7).attempt(1);

pub(super) const fn container(id: i64) -> ContainerId {
    ATTEMPT.container(id)
}

pub(super) fn node(number: u16) -> NodeId {
    NodeId {
        host: format!("n{number}"),
        port: 8041,
    }
}
