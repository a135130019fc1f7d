//! Pair of values, for guaranteed and for opportunistic containers.

use crate::ExecutionType;

/// A value for each execution type, by default a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerExecutionType<T = u32> {
    /// Value for guaranteed containers.
    pub guaranteed: T,
    /// Value for opportunistic containers.
    pub opportunistic: T,
}

impl<T> PerExecutionType<T> {
    /// Returns the value of a type, to be changed.
    pub fn of(&mut self, execution_type: ExecutionType) -> &mut T {
        match execution_type {
            ExecutionType::Guaranteed => &mut self.guaranteed,
            ExecutionType::Opportunistic => &mut self.opportunistic,
        }
    }
}
