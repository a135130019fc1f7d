//! A value for each execution type.

use crate::ExecutionType;

/// One number, or more than that, for each execution type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerExecutionType<T = u32> {
    /// Guaranteed containers.
    pub guaranteed: T,
    /// Opportunistic containers.
    pub opportunistic: T,
}

impl<T> PerExecutionType<T> {
    /// The value of a type.
    pub fn of(&mut self, execution_type: ExecutionType) -> &mut T {
        match execution_type {
            ExecutionType::Guaranteed => &mut self.guaranteed,
            ExecutionType::Opportunistic => &mut self.opportunistic,
        }
    }
}
