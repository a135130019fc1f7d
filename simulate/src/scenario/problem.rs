//! A value of a scenario that cannot be simulated.

use std::fmt;

/// Value that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioProblem {
    /// Key of the value, as `table.key`.
    pub key: String,
    /// Reason, with the values that are accepted.
    pub reason: String,
}

impl fmt::Display for ScenarioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)
    }
}
