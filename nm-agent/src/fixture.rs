//! Values that the tests of several modules start from.

use records::{ApplicationAttemptId, ApplicationId, ContainerId};

/// A container of the first attempt of one application.
pub(crate) fn container(id: i64) -> ContainerId {
    let application_id = ApplicationId {
        cluster_timestamp: 1,
        id: 1,
    };
    let attempt = ApplicationAttemptId {
        application_id,
        attempt_id: 1,
    };
    ContainerId { attempt, id }
}
