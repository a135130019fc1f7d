//! Values for tests of the decisions.

use records::{ApplicationAttemptId, ContainerId, NodeId};
use test_support::ids;

pub(super) const ATTEMPT: ApplicationAttemptId = ids::attempt(7);

pub(super) const fn container(id: i64) -> ContainerId {
    ATTEMPT.container(id)
}

pub(super) fn node(number: u16) -> NodeId {
    ids::node(&format!("n{number}"))
}
