//! Launches that end before there is a process.

use records::{ContainerExitStatus, ContainerId};

use crate::launch::context::LaunchEvent;
use crate::launch::error::LaunchError;

/// Reason that no process was started.
pub(super) enum NotLaunched {
    /// The container's end was ordered before its process was started.
    Terminated,
    Failed(LaunchError),
}

impl<E: Into<LaunchError>> From<E> for NotLaunched {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl NotLaunched {
    /// Returns the event that ends the launch.
    pub(super) fn event(&self, id: ContainerId) -> LaunchEvent {
        let (status, diagnostics, is_of_node) = match self {
            Self::Terminated => (
                ContainerExitStatus::TERMINATED,
                "Container terminated before launch.".to_owned(),
                false,
            ),
            Self::Failed(error) => (
                error.exit_status(),
                crate::error_chain(error),
                error.is_of_node(),
            ),
        };
        LaunchEvent::LaunchFailed {
            id,
            status,
            diagnostics,
            is_of_node,
        }
    }
}
