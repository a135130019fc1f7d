//! The figures of a result: names, headings, units and meanings.

/// Figure of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Name in CSV files.
    pub name: &'static str,
    /// Heading in tables.
    pub heading: &'static str,
    /// Meaning, with unit.
    pub meaning: &'static str,
    /// Decimal places.
    pub decimals: usize,
}

macro_rules! figures {
    ($($name:ident $heading:literal $decimals:literal $meaning:literal)*) => {
        /// Every figure of a result. None is left out anywhere: a policy that wins in one of them
        /// may pay in another.
        pub const FIGURES: &[Figure] = &[
            $(Figure {
                name: stringify!($name),
                heading: $heading,
                meaning: $meaning,
                decimals: $decimals,
            },)*
        ];
    };
}

figures! {
    jct_p50_s "JCT p50" 2 "job completion time, from arrival until the master knows the last end: median, s"
    jct_mean_s "mean" 1 "the same: mean, s"
    jct_p95_s "p95" 1 "the same: 95th percentile, s"
    jct_p99_s "p99" 1 "the same: 99th percentile, s"
    jct_largest_s "largest tenth" 1 "median over the tenth of the jobs with the most work, s"
    jct_single_s "one task" 2 "median over the jobs of one task, s; 0 if there are none"
    jct_guaranteed_s "guaranteed" 2 "median over the jobs whose tasks all ask for guaranteed containers, s; 0 if there are none"
    unfinished "unfinished" 3 "share of the measured jobs that had not ended; they count with the time so far"
    used "use" 3 "share of the places in which the process of a task runs"
    masters "masters" 3 "share of the places in which a master runs"
    wasted "wasted" 3 "share of the places that are free while a task waits anywhere"
    refused "refused" 3 "containers that a node turned away, per container"
    shed "shed" 3 "containers removed from a queue, per container"
    evicted "evicted" 3 "containers killed for a guaranteed one, per container"
    paused "paused" 3 "containers frozen for a guaranteed one, per container; one that is then killed counts as evicted, too"
    node_lost "lost nodes" 3 "containers lost with their node, or not started because it was down, per container"
    lost_s "lost" 3 "run time that evictions and lost nodes discarded, s per container"
    am_wait_s "wait at AM" 2 "wait of a task at its master, all tries together, s"
    node_wait_s "wait at node" 2 "wait of a task on nodes, all tries together, s"
    queue_mean "queue" 2 "mean length of the queues"
    queue_stdev "stdev" 2 "standard deviation of the queues at one moment"
    rm_calls_s "RM calls/s" 1 "calls of masters and proxies that the ResourceManager answers, 1/s"
    heartbeats_s "beats/s" 1 "heartbeats of nodes at the ResourceManager, 1/s"
    rm_bytes_s "RM bytes/s" 0 "bytes of these calls, heartbeats and lists, as modelled, 1/s"
    list_entries_s "list/s" 0 "entries of lists of nodes in its answers, which proxies read, 1/s"
    looks_node_s "looks/s" 3 "looks that a node answers, or messages about reservations that it gets, 1/s"
    proxy_cpu "proxies' CPU" 3 "processors that the proxies of all nodes take together, as modelled"
}

/// Returns the position of a figure in [`FIGURES`]; `None`: there is none of this name.
#[must_use]
pub fn column(name: &str) -> Option<usize> {
    FIGURES.iter().position(|figure| figure.name == name)
}
