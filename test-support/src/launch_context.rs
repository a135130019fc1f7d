//! The launch context that an ApplicationMaster sends to a node.

use std::path::Path;
use std::time::UNIX_EPOCH;

use wire::proto::hadoop_yarn::{
    ContainerLaunchContextProto, ContainerRetryContextProto, ContainerRetryPolicyProto,
    LocalResourceProto, LocalResourceTypeProto, LocalResourceVisibilityProto, StringBytesMapProto,
    StringLocalResourceMapProto, UrlProto,
};

/// A launch context under construction: each method adds one part.
#[derive(Debug, Clone, Default)]
pub struct LaunchContext(ContainerLaunchContextProto);

impl LaunchContext {
    /// Returns a context that runs one command. The node puts it between double quotes in a bash
    /// script: a `$` for the command's own shell is written `\$`. `<LOG_DIR>` stands for the
    /// container's log folder.
    #[must_use]
    pub fn command(command: &str) -> Self {
        Self(ContainerLaunchContextProto {
            command: vec![command.to_owned()],
            ..ContainerLaunchContextProto::default()
        })
    }

    /// Gives the container credentials, in Hadoop's form for token files.
    #[must_use]
    pub fn tokens(mut self, tokens: bytes::Bytes) -> Self {
        self.0.tokens = Some(tokens);
        self
    }

    /// Sets a variable of the container's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.0.environment.push((name, value).into());
        self
    }

    /// Gives an auxiliary service of the node its data.
    #[must_use]
    pub fn service_data(mut self, service: &str, data: bytes::Bytes) -> Self {
        self.0.service_data.push(StringBytesMapProto {
            key: Some(service.to_owned()),
            value: Some(data),
        });
        self
    }

    /// Localizes the file at `path` as `link` in the container's folder, with its present
    /// modification time.
    ///
    /// # Panics
    /// When the file's metadata cannot be read.
    #[must_use]
    pub fn file(self, link: &str, path: &Path) -> Self {
        self.resource(link, path, LocalResourceTypeProto::File, modified_ms(path))
    }

    /// Localizes the archive at `path`, unpacked, as `link` in the container's folder.
    ///
    /// # Panics
    /// When the file's metadata cannot be read.
    #[must_use]
    pub fn archive(self, link: &str, path: &Path) -> Self {
        self.resource(
            link,
            path,
            LocalResourceTypeProto::Archive,
            modified_ms(path),
        )
    }

    /// Has the last resource shared by others than the application.
    ///
    /// # Panics
    /// When there is no resource.
    #[must_use]
    pub fn visible_to(mut self, visibility: LocalResourceVisibilityProto) -> Self {
        let last = self.0.local_resources.last_mut();
        let resource = last.and_then(|last| last.value.as_mut());
        resource.expect("a resource").visibility = Some(visibility.into());
        self
    }

    /// Has the last resource unpacked.
    ///
    /// # Panics
    /// When there is no resource.
    #[must_use]
    pub fn unpacked(mut self) -> Self {
        let last = self.0.local_resources.last_mut();
        let resource = last.and_then(|last| last.value.as_mut());
        resource.expect("a resource").r#type = Some(LocalResourceTypeProto::Archive.into());
        self
    }

    /// Localizes a resource of the application. `timestamp`: modification time that the source must
    /// have, in milliseconds since 1970.
    #[must_use]
    pub fn resource(
        mut self,
        link: &str,
        path: &Path,
        r#type: LocalResourceTypeProto,
        timestamp: i64,
    ) -> Self {
        let resource = LocalResourceProto {
            resource: Some(UrlProto {
                scheme: Some("file".to_owned()),
                file: Some(path.display().to_string()),
                ..UrlProto::default()
            }),
            size: Some(0),
            timestamp: Some(timestamp),
            r#type: Some(r#type.into()),
            visibility: Some(LocalResourceVisibilityProto::Application.into()),
            ..LocalResourceProto::default()
        };
        self.0.local_resources.push(StringLocalResourceMapProto {
            key: Some(link.to_owned()),
            value: Some(resource),
        });
        self
    }

    /// Localizes a file of the HDFS whose NameNode is at this port of this machine.
    #[must_use]
    pub fn hdfs_file(
        mut self,
        link: &str,
        (port, path): (u16, &str),
        timestamp: i64,
        visibility: LocalResourceVisibilityProto,
    ) -> Self {
        let resource = LocalResourceProto {
            resource: Some(UrlProto {
                scheme: Some("hdfs".to_owned()),
                host: Some("127.0.0.1".to_owned()),
                port: Some(port.into()),
                file: Some(path.to_owned()),
                ..UrlProto::default()
            }),
            size: Some(0),
            timestamp: Some(timestamp),
            r#type: Some(LocalResourceTypeProto::File.into()),
            visibility: Some(visibility.into()),
            ..LocalResourceProto::default()
        };
        self.0.local_resources.push(StringLocalResourceMapProto {
            key: Some(link.to_owned()),
            value: Some(resource),
        });
        self
    }

    /// Has the node launch the command again after a failure, at most so many times.
    #[must_use]
    pub fn retry_on_all_errors(mut self, max_retries: i32, interval_ms: i32) -> Self {
        self.0.container_retry_context = Some(ContainerRetryContextProto {
            retry_policy: Some(ContainerRetryPolicyProto::RetryOnAllErrors.into()),
            max_retries: Some(max_retries),
            retry_interval: Some(interval_ms),
            ..ContainerRetryContextProto::default()
        });
        self
    }

    /// Returns the protocol's message.
    #[must_use]
    pub fn into_proto(self) -> ContainerLaunchContextProto {
        self.0
    }
}

/// A message of the protocol, for contexts with parts that no method adds.
impl From<ContainerLaunchContextProto> for LaunchContext {
    fn from(context: ContainerLaunchContextProto) -> Self {
        Self(context)
    }
}

/// Modification time as Hadoop's local file system reports it, in milliseconds since 1970.
fn modified_ms(path: &Path) -> i64 {
    let modified = path
        .metadata()
        .and_then(|metadata| metadata.modified())
        .unwrap_or_else(|error| panic!("cannot look at {}: {error}", path.display()));
    let since = modified.duration_since(UNIX_EPOCH);
    let since = since.expect("files of a test are newer than 1970");
    i64::try_from(since.as_millis()).expect("milliseconds fit for millions of years")
}
