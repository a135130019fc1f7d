//! The record of one container.

use records::{ContainerExitStatus, MonoMillis};

use crate::action::{ContainerSpec, ContainerView};
use crate::container_state::ContainerState;
use crate::diagnostics::Diagnostics;

/// What the scheduler knows of one container.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) spec: ContainerSpec,
    pub(crate) state: ContainerState,
    /// When the state was entered. A new place in a queue is not a new state.
    pub(crate) since: MonoMillis,
    pub(crate) exit_status: ContainerExitStatus,
    pub(crate) diagnostics: Diagnostics,
    /// Nobody will ask for it once it is done.
    pub(crate) forget_when_done: bool,
}

impl Container {
    /// One that has just been accepted.
    pub(crate) fn new(spec: ContainerSpec, now: MonoMillis) -> Self {
        Self {
            spec,
            state: ContainerState::Localizing,
            since: now,
            exit_status: ContainerExitStatus::INVALID,
            diagnostics: Diagnostics::default(),
            forget_when_done: false,
        }
    }

    /// As others may see it.
    pub(crate) fn view(&self) -> ContainerView {
        ContainerView {
            spec: self.spec,
            state: self.state,
            exit_status: self.exit_status,
            diagnostics: self.diagnostics.as_str().to_owned(),
            since: self.since,
        }
    }
}
