//! What can fail in the simulated world.

/// A fault. Nodes are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An agent ends without warning, and starts again after some milliseconds.
    AgentCrash(usize, u64),
    /// A machine ends without warning, and starts again after some milliseconds.
    MachineCrash(usize, u64),
    /// Messages between a node and another, or the ResourceManager (`None`), are lost.
    Cut {
        /// The node.
        node: usize,
        /// The other end.
        other: Option<usize>,
        /// Whether those from the node are lost.
        from_node: bool,
        /// Whether those to the node are lost.
        to_node: bool,
        /// Milliseconds until it is over.
        for_ms: u64,
    },
    /// A cut is over.
    Heal(usize, Option<usize>),
    /// A node's wall clock is set so many milliseconds ahead.
    SetClock(usize, i64),
    /// A node's disk becomes slow for some milliseconds.
    SlowDisk(usize, u64),
    /// A node's disk is as fast as before.
    NormalDisk(usize),
    /// A container of a node uses too much memory.
    Memory(usize),
    /// The ResourceManager ends and forgets everything.
    RmRestart,
    /// Faults are over: the network is whole and loses nothing any more.
    Over,
}
