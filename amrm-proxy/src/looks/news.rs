//! Results of looks, and known nodes, as an attempt's scheduler gets them.

use std::sync::Arc;
use std::time::Duration;

use sched::{BoundNodes, KnownNodes, LookAnswer};

/// Nodes that this node knows.
#[derive(Clone, Debug, Default)]
pub struct KnownView {
    /// Nodes to place on.
    pub nodes: Arc<KnownNodes>,
    /// Whether nodes are expected to answer looks.
    pub answers_looks: bool,
    /// Whether containers are bound late, by reservations.
    pub binds_late: bool,
}

/// Result of looks at nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Loads of nodes that have answered in time, with their positions in the order.
    pub answers: Vec<(usize, LookAnswer)>,
    /// Positions of nodes that have not answered in time, but have answered before.
    pub late: Vec<usize>,
    /// Number of nodes that were asked.
    pub asked: usize,
    /// Most containers that may wait on a node; `None`: no limit.
    pub max_queue_length: Option<usize>,
    /// Time that the call has waited for the looks.
    pub took: Duration,
}

/// Nodes for the containers of a call under late binding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Nodes to which tasks are bound.
    pub nodes: Vec<BoundNodes>,
    /// Looks at nodes that take no reservations; `None`: there were none.
    pub looks: Option<Looks>,
    /// Whether the call has reserved, and so waited for offers.
    pub reserved: bool,
    /// Time that the call has waited.
    pub took: Duration,
}
