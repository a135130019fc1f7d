//! Small values that several sections of the configuration share.

/// What decides whether an opportunistic container may wait or start (Hadoop: `OpportunisticContainersQueuePolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpportunisticContainersQueuePolicy {
    /// The length of the queue bounds it.
    #[default]
    ByQueueLen,
    /// Containers are admitted by what the node has room for, whatever the queue's length.
    ByResources,
}

/// What version of the ResourceManager is good enough (`yarn.nodemanager.resourcemanager.minimum.version`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MinimumVersion {
    /// Any.
    #[default]
    None,
    /// At least the version that the agent itself reports.
    EqualToNm,
    /// At least this one, like `3.3.0`.
    AtLeast(String),
}
