//! Values shared by the tests of several modules.

use records::{ApplicationId, ContainerId};

/// Returns the id of a container in the first attempt of one application.
pub(crate) fn container(id: i64) -> ContainerId {
    ApplicationId::new(1, 1).attempt(1).container(id)
}
