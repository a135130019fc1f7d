//! Small values that several sections of the configuration share.

/// Lowest acceptable version of the ResourceManager
/// (`yarn.nodemanager.resourcemanager.minimum.version`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MinimumVersion {
    /// Any version is accepted.
    #[default]
    None,
    /// At least the version that the agent itself reports.
    EqualToNm,
    /// At least this one, like `3.3.0`.
    AtLeast(String),
}
