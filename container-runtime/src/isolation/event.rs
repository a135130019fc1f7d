//! Answers of the state machine to the scheduler.

use records::ContainerId;

/// Result of freezing or thawing a container.
#[derive(Debug)]
pub enum IsolationEvent {
    /// Processes have stopped, every one.
    Paused {
        /// Id of the frozen container.
        id: ContainerId,
        /// Memory that the processes hold, in mebibytes; `None`: unknown.
        held_mb: Option<u64>,
    },
    /// Memory of a frozen container was reclaimed.
    FrozenMemory {
        /// Id of the frozen container.
        id: ContainerId,
        /// Memory that the processes still hold, in mebibytes.
        held_mb: u64,
    },
    /// The processes go on.
    Resumed(ContainerId),
    /// The container cannot be frozen, or not thawed.
    PauseFailed(ContainerId),
}
