//! What the threads answer.

use records::ContainerId;

/// What has become of a container's freezing.
#[derive(Debug)]
pub enum IsolationEvent {
    /// Its processes stand still.
    Paused {
        /// Which container.
        id: ContainerId,
        /// Mebibytes that they hold; `None`: not known.
        held_mb: Option<u64>,
    },
    /// Memory of a frozen container was pressed back.
    FrozenMemory {
        /// Which container.
        id: ContainerId,
        /// Mebibytes that its processes still hold.
        held_mb: u64,
    },
    /// Its processes go on.
    Resumed(ContainerId),
    /// It cannot be frozen, or not thawed.
    PauseFailed(ContainerId),
}
