//! Small values that several sections of the configuration share.

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
