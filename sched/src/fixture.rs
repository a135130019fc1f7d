//! Values that the tests of several modules start from.

use records::{ApplicationId, ContainerId};

/// A container of the first attempt of one application.
pub(crate) fn container(id: i64) -> ContainerId {
    ApplicationId::new(1, 1).attempt(1).container(id)
}
