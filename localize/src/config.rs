//! Configuration of localization, as plain values: the node manager reads them from Hadoop's
//! properties.

use std::path::PathBuf;

/// Directories of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirsConfig {
    /// Directories of work folders and caches, absolute, at least one
    /// (`yarn.nodemanager.local-dirs`).
    pub local_dirs: Vec<PathBuf>,
    /// Directories of container logs, absolute, at least one (`yarn.nodemanager.log-dirs`).
    pub log_dirs: Vec<PathBuf>,
    /// Mode of a container's log folder, at most `0o777`.
    pub log_dir_permissions: u32,
    /// Time for which logs of an earlier run that no record names stay, in seconds
    /// (`yarn.nodemanager.log.retain-seconds`).
    pub log_retain_sec: u64,
}

/// When a directory is good (`yarn.nodemanager.disk-health-checker.*`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskHealthConfig {
    /// Interval between two checks, in milliseconds.
    pub interval_ms: u64,
    /// Least part of good directories of each kind, 0 to 1, for the node to be healthy.
    pub min_healthy_disks: f64,
    /// Use of a disk, 0 to 100, above which it is full; `None`: not looked at.
    pub max_utilization_percent: Option<f64>,
    /// Use up to which a full disk is good again, at most `max_utilization_percent`.
    pub utilization_watermark_low_percent: f64,
    /// Free mebibytes below which a disk is full; `None`: not looked at.
    pub min_free_space_mb: Option<u64>,
    /// Free mebibytes from which a full disk is good again, at least `min_free_space_mb`.
    pub free_space_watermark_high_mb: u64,
}

/// Limits of localization and of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalizerConfig {
    /// Cache size, in MiB, above which unused public and private files are removed.
    pub cache_target_size_mb: u64,
    /// Interval between two checks of the cache size, in milliseconds.
    pub cache_cleanup_interval_ms: u64,
    /// Number of public files that are downloaded at the same time, and of all others. A user
    /// without any download under way gets a thread beyond these.
    pub fetch_thread_count: u32,
    /// Time without progress after which a download fails, in milliseconds.
    pub source_timeout_ms: u64,
    /// Number of entries above which a cache folder gets subfolders; at least 37.
    pub max_files_per_directory: u32,
}

/// Threads and delay of deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionConfig {
    /// Maximum number of deletions at the same time; at least 1.
    pub thread_count: u32,
    /// Delay before each deletion, in seconds, for debugging; `None`: never delete (-1 in the
    /// property).
    pub debug_delay_sec: Option<u64>,
}
