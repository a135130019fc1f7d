//! The configuration of localization, as plain values: the node manager reads them from Hadoop's properties.

use std::path::PathBuf;

/// Folders of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirsConfig {
    /// Work folders and caches, absolute, at least one (`yarn.nodemanager.local-dirs`).
    pub local_dirs: Vec<PathBuf>,
    /// Container logs, absolute, at least one (`yarn.nodemanager.log-dirs`).
    pub log_dirs: Vec<PathBuf>,
    /// Mode of a container's log folder, at most `0o777`.
    pub log_dir_permissions: u32,
}

/// Localization and its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalizerConfig {
    /// Unused public and private files are removed while the cache is larger.
    pub cache_target_size_mb: u64,
    /// How often that is looked at.
    pub cache_cleanup_interval_ms: u64,
    /// Public files fetched at once.
    pub fetch_thread_count: u32,
    /// Entries of one cache folder before it gets subfolders; at least 37.
    pub max_files_per_directory: u32,
}

/// Removing files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionConfig {
    /// Removals at once.
    pub thread_count: u32,
    /// Wait this long before removing, for people who debug; `None`: never remove (-1).
    pub debug_delay_sec: Option<u64>,
}
