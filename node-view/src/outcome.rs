//! How works ended that the node counts.

/// Outcome of a call, a heartbeat or a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// Answered without an error.
    Ok,
    /// Answered with an exception, or not at all.
    Error,
}

/// Whether a local resource was there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// Found in the cache.
    Hit,
    /// Fetched from its source.
    Miss,
}
