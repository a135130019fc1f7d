//! What a checker finds.

use std::fmt;

use records::ContainerId;

/// Claim that a checker has found false.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Claim.
    pub what: String,
    /// Containers that it is about.
    pub containers: Vec<ContainerId>,
    /// Node that it is about.
    pub node: Option<usize>,
}

impl Finding {
    /// Returns a finding about a container.
    #[must_use]
    pub fn of(id: ContainerId, what: impl fmt::Display) -> Self {
        Self {
            what: format!("{id}: {what}"),
            containers: vec![id],
            node: None,
        }
    }

    /// Adds another container that the finding is about.
    #[must_use]
    pub fn and(mut self, id: ContainerId) -> Self {
        self.containers.push(id);
        self
    }
}

/// Outcome of a check: `Err` is a claim that is false.
pub type Checked = Result<(), Finding>;
