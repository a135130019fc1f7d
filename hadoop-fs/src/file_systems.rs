//! Choice of the file system of a URI.

use std::sync::Arc;
use std::time::Duration;

use crate::error::FsError;
use crate::file_system::FileSystem;
#[cfg(feature = "hdfs")]
use crate::hdfs::Cluster;
use crate::local::Local;
use crate::opener::{Caller, Opener};
use crate::secure::SecureAccess;
use crate::uri::Uri;

/// Configuration of the file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsConfig {
    /// File system of URIs without a scheme (`fs.defaultFS`).
    pub default_fs: Uri,
    /// Properties of the HDFS client by name, as in `core-site.xml` and `hdfs-site.xml`: name
    /// services, time limits, `dfs.client.*`. Others are ignored.
    pub client_properties: Vec<(String, String)>,
    /// Limit on the time of one step: a call, or some of a file's content.
    pub step_limit: Duration,
}

impl Default for FsConfig {
    /// Returns Hadoop's defaults: the local file system, and a minute as in `ipc.client.timeout`.
    fn default() -> Self {
        Self {
            default_fs: Uri::file("/"),
            client_properties: Vec::new(),
            step_limit: Duration::from_secs(60),
        }
    }
}

/// The file systems that a program can use. Cheap to share behind an [`Arc`].
#[derive(Clone, Debug)]
pub struct FileSystems {
    default_fs: Uri,
    /// Way to `hdfs:`; `None`: there is none in this program.
    hdfs: Option<Arc<dyn Opener>>,
}

impl FileSystems {
    /// Returns the file systems of a configuration, with HDFS clients in this process. Connects to
    /// nothing.
    ///
    /// A client trusts the lengths that its peers state: one that lies ends the process for want
    /// of memory. So a program with the rights of others uses [`Self::opened_by`].
    #[must_use]
    pub fn new(config: FsConfig) -> Self {
        Self::with_access(config, None)
    }

    /// Returns the file systems of [`Self::new`], with a way to the NameNodes of a secure cluster;
    /// `None`: such a cluster is refused.
    #[must_use]
    pub fn with_access(config: FsConfig, secure: Option<Arc<dyn SecureAccess>>) -> Self {
        #[cfg(not(feature = "hdfs"))]
        let _unused = secure;
        #[cfg(feature = "hdfs")]
        let hdfs = {
            let cluster = Cluster::new(config.client_properties, config.step_limit, secure);
            let cluster: Arc<dyn Opener> = Arc::new(cluster);
            Some(cluster)
        };
        #[cfg(not(feature = "hdfs"))]
        let hdfs = None;
        Self {
            default_fs: config.default_fs,
            hdfs,
        }
    }

    /// Returns the file systems with this default, of which `hdfs:` is opened by others.
    #[must_use]
    pub fn opened_by(default_fs: Uri, hdfs: Arc<dyn Opener>) -> Self {
        Self {
            default_fs,
            hdfs: cfg!(feature = "hdfs").then_some(hdfs),
        }
    }

    /// Returns the URI with what it takes from the default file system; see [`Uri::resolved`].
    #[must_use]
    pub fn resolve(&self, uri: &Uri) -> Uri {
        uri.resolved(&self.default_fs)
    }

    /// Opens the file system of a URI with the identity of a caller. For `file:` the identity is
    /// the process's own: the kernel knows no other. Connections end with the returned value.
    ///
    /// # Errors
    /// The scheme is not supported, or [`Opener::open`] fails.
    pub fn open(&self, uri: &Uri, caller: Caller<'_>) -> Result<Box<dyn FileSystem>, FsError> {
        let uri = self.resolve(uri);
        if uri.has_scheme("file") {
            return Ok(Box::new(Local));
        }
        if uri.has_scheme("hdfs") {
            let Some(hdfs) = &self.hdfs else {
                let uri = uri.to_string();
                return Err(FsError::WithoutHdfs { uri });
            };
            return hdfs.open(&uri, caller);
        }
        Err(FsError::UnsupportedScheme {
            scheme: uri.scheme.clone().unwrap_or_default(),
            uri: uri.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn systems(default_fs: &str) -> FileSystems {
        FileSystems::new(FsConfig {
            default_fs: default_fs.parse().unwrap(),
            ..FsConfig::default()
        })
    }

    fn resolved(default_fs: &str, uri: &str) -> String {
        let uri = uri.parse().unwrap();
        systems(default_fs).resolve(&uri).to_string()
    }

    #[test]
    fn missing_parts_come_from_the_default_file_system() {
        for (default_fs, uri, expected) in [
            ("hdfs://nn:9000", "/a", "hdfs://nn:9000/a"),
            ("hdfs://nn:9000", "hdfs:/a", "hdfs://nn:9000/a"),
            ("hdfs://nn:9000", "hdfs://other/a", "hdfs://other/a"),
            ("hdfs://nn:9000", "file:/a", "file:/a"),
            ("file:///", "/a", "file:/a"),
            ("file:///", "hdfs:/a", "hdfs:/a"),
        ] {
            assert_eq!(resolved(default_fs, uri), expected);
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_hadoops_text() {
        let uri = "s3a://bucket/a".parse().unwrap();
        let error = systems("file:///")
            .open(&uri, Caller::user("joe", "test"))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "No FileSystem for scheme \"s3a\"");
    }

    #[cfg(not(feature = "hdfs"))]
    #[test]
    fn hdfs_is_refused_with_the_name_of_the_feature() {
        let uri = "hdfs://nn/a".parse().unwrap();
        let error = systems("file:///")
            .open(&uri, Caller::user("joe", "test"))
            .err()
            .unwrap();
        assert!(error.to_string().contains("feature `hdfs`"), "{error}");
    }
}
