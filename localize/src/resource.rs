//! Resources that a container asks for and gets: plain values, filled in from the launch context by
//! the caller.

use std::fmt;
use std::path::PathBuf;

use records::ContainerId;

/// Location of a resource, in the parts of Hadoop's `URLProto`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceUrl {
    /// Scheme, such as `hdfs` or `file`; absent means `file`.
    pub scheme: Option<String>,
    /// Name (and password) before the host; not used by any scheme supported here.
    pub user_info: Option<String>,
    /// Host or logical name of the file system; absent for `file`.
    pub host: Option<String>,
    /// Port; absent when the scheme's own port or a logical name is meant.
    pub port: Option<u16>,
    /// Absolute path inside the file system.
    pub path: String,
}

impl ResourceUrl {
    /// Returns the URL as the URI of a file, without user information.
    #[must_use]
    pub fn to_uri(&self) -> hadoop_fs::Uri {
        hadoop_fs::Uri {
            scheme: self.scheme.clone(),
            host: self.host.clone(),
            port: self.port,
            path: self.path.clone(),
        }
    }

    /// Returns the last part of the path, which names the file in the cache. `None` if the path
    /// does not end in a file name (`/`, `..`).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        let name = self.path.trim_end_matches('/').rsplit('/').next()?;
        let usable = !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
        usable.then_some(name)
    }
}

impl fmt::Display for ResourceUrl {
    /// Formats the URL as Hadoop's `Path` does: `file:/a/b`, `hdfs://host:8020/a/b`. Omits user
    /// information, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_uri().fmt(f)
    }
}

/// Treatment of the resource after the download (`LocalResourceTypeProto`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceKind {
    /// Kept unchanged.
    File,
    /// Unpacked into a folder that has the archive's name.
    Archive,
    /// For a jar: unpacks the entries that match the regular expression, and keeps the jar itself.
    /// Any other file is treated as an archive. No expression matches every entry.
    Pattern(Option<String>),
}

/// Containers that share a resource (`LocalResourceVisibilityProto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Visibility {
    /// Shared by all users of the node; all users must be able to read the source.
    Public,
    /// Shared by all applications of the user.
    Private,
    /// Shared by the containers of the application.
    Application,
}

/// A resource of a launch context (`LocalResourceProto`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    /// Location of the source.
    pub url: ResourceUrl,
    /// Size of the source in bytes, or -1. Only guides the choice of a disk and is never checked,
    /// as in Hadoop.
    pub size: i64,
    /// Modification time of the source in milliseconds since the epoch. The download fails unless
    /// it is exactly this.
    pub timestamp_ms: i64,
    /// Treatment after the download.
    pub kind: ResourceKind,
    /// Containers that share the resource.
    pub visibility: Visibility,
}

/// Resources that a container needs, or needs in addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalizeRequest {
    /// Id of the container.
    pub container: ContainerId,
    /// Submitter of the application, as named by the container token; checked before it becomes
    /// part of a path.
    pub user: String,
    /// Link names in the work directory, each with its resource. Two names may stand for one
    /// resource.
    pub resources: Vec<(String, ResourceSpec)>,
    /// Set that the resources belong to.
    pub set: SetNumber,
}

/// Number of a set of a container's resources, from 0 on. A set of another launch context has a
/// higher number than those before it. A container has the resources of all sets up to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetNumber(pub u64);

/// Sets of resources that a container uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedSets {
    /// The last set whose resources the container has.
    pub last: SetNumber,
    /// Set that the container may go back to, lower than `last`; `None`: to no other.
    pub back_to: Option<SetNumber>,
    /// Set of a re-initialization that is under way; `None`: there is none.
    pub next: Option<SetNumber>,
}

/// A resource on the local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalizedResource {
    /// Link name as in the request.
    pub link: String,
    /// The file, or for an archive the folder, that the link is to point to. Absolute.
    pub path: PathBuf,
    /// Set of the container's resources that it is of.
    pub set: SetNumber,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Whether the resource was in the cache; otherwise it was downloaded, for this container or
    /// for an earlier one.
    pub was_cached: bool,
}

/// Progress of a resource (`LocalizationStateProto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalizationState {
    /// Not yet on the disk.
    Pending,
    /// Complete on the disk.
    Completed,
    /// Not localized, for the reason in the diagnostics.
    Failed,
}

/// A line of `getLocalizationStatuses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceStatus {
    /// Link name as in the request.
    pub link: String,
    /// Progress of the resource.
    pub state: LocalizationState,
    /// Reason for the failure; empty unless [`LocalizationState::Failed`].
    pub diagnostics: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(scheme: Option<&str>, host: Option<&str>, port: Option<u16>, path: &str) -> ResourceUrl {
        ResourceUrl {
            scheme: scheme.map(str::to_owned),
            user_info: Some("joe:secret".to_owned()),
            host: host.map(str::to_owned),
            port,
            path: path.to_owned(),
        }
    }

    #[test]
    fn urls_print_as_hadoop_paths_without_user_information() {
        assert_eq!(
            url(Some("file"), None, None, "/a/b").to_string(),
            "file:/a/b"
        );
        assert_eq!(url(None, None, None, "/a/b").to_string(), "/a/b");
        let hdfs = url(Some("hdfs"), Some("nn"), Some(8020), "/a");
        assert_eq!(hdfs.to_string(), "hdfs://nn:8020/a");
    }

    #[test]
    fn only_a_last_part_that_can_be_a_file_name_is_a_name() {
        let name = |path: &str| url(None, None, None, path).name().map(str::to_owned);
        assert_eq!(name("/a/job.jar").as_deref(), Some("job.jar"));
        assert_eq!(name("/a/folder/").as_deref(), Some("folder"));
        for path in ["", "/", "/a/..", "/a/.", "/a/b\0c"] {
            assert_eq!(name(path), None, "{path:?}");
        }
    }
}
