//! Files of HDFS, by the client library `hdfs-native`.
//!
//! The library performs each call as a task of one shared runtime; the calling thread waits. With
//! simple authentication it takes the user's name by its builder. Delegation tokens come to it only
//! through the environment of the process, which all users share, so a cluster that wants proofs is
//! refused without a [`SecureAccess`], which prepares the way to its NameNodes.

mod content;
mod runtime;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hdfs_native::client::FileStatus;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};

use crate::error::FsError;
use crate::file_system::{FileSystem, Kind, ReadFile, Status, WriteFile};
use crate::opener::{Caller, Opener};
use crate::secure::{NameService, SecureAccess};
use crate::uri::Uri;
use content::{Reader, Writer};
use runtime::{Broken, Runtime, Runtimes};

/// Port of a NameNode (`dfs.namenode.rpc-address`).
const NAMENODE_PORT: u16 = 8020;

/// Pause before a call is repeated whose connection failed, and number of repetitions (Hadoop:
/// `ipc.client.connect.retry.interval`, `ipc.client.connect.max.retries`).
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRIES_MAX: u32 = 10;

/// Longest text of a NameNode that an error keeps, in characters.
const MESSAGE_MAX: usize = 1000;

/// Property that makes a cluster secure.
const AUTHENTICATION: &str = "hadoop.security.authentication";

/// Properties of the NameNodes of a logical name, to which the name is added.
const HA_NAMENODES: &str = "dfs.ha.namenodes";
const RPC_ADDRESS: &str = "dfs.namenode.rpc-address";

/// Cache of the tickets of a login, which all clients of the process share.
const TICKETS: &str = "MEMORY:hadoop-fs";

/// Folder without configuration files. Without a folder the library reads the environment's.
const NO_FILES: &str = "/dev/null";

/// HDFS as the configuration describes it, before a user and a name service are chosen.
#[derive(Debug)]
pub(crate) struct Cluster {
    properties: Vec<(String, String)>,
    step_limit: Duration,
    runtimes: Arc<Runtimes>,
    /// Way to NameNodes that want proofs; `None`: such are refused.
    secure: Option<Arc<dyn SecureAccess>>,
}

impl Cluster {
    pub(crate) fn new(
        properties: Vec<(String, String)>,
        step_limit: Duration,
        secure: Option<Arc<dyn SecureAccess>>,
    ) -> Self {
        Self {
            properties,
            step_limit,
            runtimes: Arc::default(),
            secure,
        }
    }

    /// Opens the file system of a URI with this identity. Connects at the first call.
    fn client(&self, uri: &Uri, user: &str) -> Result<Hdfs, FsError> {
        let method = self.property(AUTHENTICATION);
        let method = method.filter(|method| !method.eq_ignore_ascii_case("simple"));
        if let (Some(method), None) = (method, &self.secure) {
            return Err(FsError::Authentication {
                uri: uri.to_string(),
                method: method.to_owned(),
            });
        }
        let Some(host) = &uri.host else {
            let uri = uri.to_string();
            return Err(FsError::NoHost { uri });
        };
        let builder = match (&self.secure, method) {
            (Some(secure), Some(_)) => self.proving(uri, host, &**secure)?,
            (Some(_) | None, _) => self.named(uri, host).with_user(user),
        };
        self.connect(uri, builder)
    }

    /// Returns the client of NameNodes that believe a name.
    fn named(&self, uri: &Uri, host: &str) -> ClientBuilder {
        let authority = match uri.port {
            Some(port) => format!("{host}:{port}"),
            None if self.ids_of(host).is_some() => host.to_owned(),
            None => format!("{host}:{NAMENODE_PORT}"),
        };
        ClientBuilder::new()
            .with_url(format!("hdfs://{authority}"))
            .with_config_dir(NO_FILES)
            .with_config(self.properties.iter().cloned())
    }

    /// Returns the client of NameNodes that want proofs, with the way to them.
    fn proving(
        &self,
        uri: &Uri,
        host: &str,
        secure: &dyn SecureAccess,
    ) -> Result<ClientBuilder, FsError> {
        let ids = self.ids_of(host).filter(|_| uri.port.is_none());
        let service = match ids {
            Some(ids) => NameService {
                name: Some(host.to_owned()),
                addresses: self.addresses_of(host, ids),
            },
            None => NameService {
                name: None,
                addresses: vec![format!("{host}:{}", uri.port.unwrap_or(NAMENODE_PORT))],
            },
        };
        let way = secure.way(&service).map_err(|source| FsError::Io {
            step: "open",
            uri: uri.to_string(),
            source,
        })?;
        let name = &way.name;
        let ids: Vec<String> = (0..way.addresses.len()).map(|id| id.to_string()).collect();
        let mut properties = self.properties.clone();
        // The library takes each word but "simple", in this case, for a secure cluster.
        properties.push((AUTHENTICATION.to_owned(), "kerberos".to_owned()));
        properties.push((format!("{HA_NAMENODES}.{name}"), ids.join(",")));
        for (id, address) in ids.iter().zip(&way.addresses) {
            properties.push((format!("{RPC_ADDRESS}.{name}.{id}"), address.to_string()));
        }
        let resolved = format!("dfs.client.failover.resolve-needed.{name}");
        properties.push((resolved, "false".to_owned()));
        let builder = ClientBuilder::new()
            .with_url(format!("hdfs://{name}"))
            .with_config_dir(NO_FILES)
            .with_config(properties);
        Ok(match way.login {
            None => builder,
            Some(login) => builder
                .with_kerberos_principal(login.principal)
                .with_kerberos_keytab(login.keytab)
                .with_kerberos_cache(TICKETS),
        })
    }

    /// Returns the names of a logical name's NameNodes.
    fn ids_of(&self, host: &str) -> Option<&str> {
        self.property(&format!("{HA_NAMENODES}.{host}"))
    }

    fn addresses_of(&self, host: &str, ids: &str) -> Vec<String> {
        let ids = ids.split(',').map(str::trim);
        let addresses = ids.filter_map(|id| self.property(&format!("{RPC_ADDRESS}.{host}.{id}")));
        addresses.map(str::to_owned).collect()
    }

    fn connect(&self, uri: &Uri, builder: ClientBuilder) -> Result<Hdfs, FsError> {
        let runtime = self.runtimes.get().map_err(|source| FsError::Io {
            step: "start a thread for",
            uri: uri.to_string(),
            source,
        })?;
        let builder = match runtime.handle() {
            Some(handle) => builder.with_io_runtime(handle),
            None => builder,
        };
        let connection = Connection {
            runtime,
            runtimes: self.runtimes.clone(),
            base: uri.clone(),
            limit: self.step_limit,
        };
        // A logical name may be resolved by DNS here, which blocks.
        let client = connection.run("open", &uri.path, async move {
            let built = tokio::task::spawn_blocking(move || builder.build()).await;
            built.unwrap_or_else(|error| Err(HdfsError::InternalError(error.to_string())))
        })?;
        let connection = Arc::new(connection);
        Ok(Hdfs { connection, client })
    }

    fn property(&self, name: &str) -> Option<&str> {
        let mut properties = self.properties.iter();
        let found = properties.find(|(property, _)| property == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Opener for Cluster {
    fn open(&self, uri: &Uri, caller: Caller<'_>) -> Result<Box<dyn FileSystem>, FsError> {
        Ok(Box::new(self.client(uri, caller.user)?))
    }
}

/// Runtime, limit and name of an open file system.
struct Connection {
    runtime: Arc<Runtime>,
    runtimes: Arc<Runtimes>,
    base: Uri,
    limit: Duration,
}

impl Connection {
    /// Performs a step on a path and waits for its end.
    fn run<T: Send + 'static>(
        &self,
        step: &'static str,
        path: &str,
        call: impl Future<Output = Result<T, HdfsError>> + Send + 'static,
    ) -> Result<T, FsError> {
        let uri = self.base.with_path(path).to_string();
        match self.runtime.run(self.limit, call) {
            Ok(result) => result.map_err(|error| translate(step, uri, error)),
            Err(Broken::TimedOut) => {
                self.runtimes.retire(&self.runtime);
                let limit = self.limit;
                Err(FsError::TimedOut { step, uri, limit })
            }
            Err(Broken::Panicked) => Err(FsError::Client {
                step,
                uri,
                message: "the HDFS client broke off".to_owned(),
            }),
        }
    }

    /// Performs a step that changes nothing, and repeats it while the connection fails.
    fn run_again<T, F>(
        &self,
        step: &'static str,
        path: &str,
        call: impl Fn() -> F + Send + 'static,
    ) -> Result<T, FsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HdfsError>> + Send + 'static,
    {
        self.run(step, path, async move {
            let mut retries = 0;
            loop {
                match call().await {
                    Err(error) if retries < RETRIES_MAX && is_resumable(&error) => {
                        retries += 1;
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    result => return result,
                }
            }
        })
    }
}

/// The `hdfs:` file system of one name service and one user.
pub(crate) struct Hdfs {
    connection: Arc<Connection>,
    client: Client,
}

impl Hdfs {
    /// Performs a call that changes nothing.
    fn ask<T, F>(
        &self,
        step: &'static str,
        path: &str,
        call: impl Fn(Client, String) -> F + Send + 'static,
    ) -> Result<T, FsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HdfsError>> + Send + 'static,
    {
        let (client, at) = (self.client.clone(), path.to_owned());
        self.connection
            .run_again(step, path, move || call(client.clone(), at.clone()))
    }

    /// Performs a call that changes something, once.
    fn change<T, F>(
        &self,
        step: &'static str,
        path: &str,
        call: impl FnOnce(Client, String) -> F,
    ) -> Result<T, FsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HdfsError>> + Send + 'static,
    {
        let call = call(self.client.clone(), path.to_owned());
        self.connection.run(step, path, call)
    }
}

impl FileSystem for Hdfs {
    fn status(&self, path: &str) -> Result<Status, FsError> {
        let status = self.ask("read the status of", path, |client, path| async move {
            client.get_file_info(&path).await
        })?;
        Ok(status_of(status))
    }

    fn list(&self, path: &str, limit: usize) -> Result<Vec<Status>, FsError> {
        let listed = self.ask("list", path, move |client, path| async move {
            let entries = client.list_status_iter(&path, false);
            let mut listed = Vec::new();
            while let Some(entry) = entries.next().await {
                if listed.len() == limit {
                    return Ok(None);
                }
                listed.push(status_of(entry?));
            }
            Ok(Some(listed))
        })?;
        let uri = || self.connection.base.with_path(path).to_string();
        listed.ok_or_else(|| FsError::TooMany { uri: uri(), limit })
    }

    fn open(&self, path: &str) -> Result<Box<dyn ReadFile>, FsError> {
        let reader = Reader::open(self.connection.clone(), self.client.clone(), path)?;
        Ok(Box::new(reader))
    }

    fn create(
        &self,
        path: &str,
        mode: u32,
        overwrite: bool,
    ) -> Result<Box<dyn WriteFile>, FsError> {
        let options = WriteOptions {
            permission: mode,
            overwrite,
            create_parent: false,
            ..WriteOptions::default()
        };
        let created = self.change("create", path, |client, path| async move {
            client.create(&path, options).await
        })?;
        Ok(Box::new(Writer::new(
            self.connection.clone(),
            path,
            created,
        )))
    }

    fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<(), FsError> {
        let to = to.to_owned();
        self.change("rename", from, |client, from| async move {
            client.rename(&from, &to, overwrite).await
        })
    }

    fn make_dirs(&self, path: &str, mode: u32) -> Result<(), FsError> {
        self.change("create", path, |client, path| async move {
            client.mkdirs(&path, mode, true).await
        })
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), FsError> {
        self.change("set the mode of", path, |client, path| async move {
            client.set_permission(&path, mode).await
        })
    }

    fn set_owner(&self, path: &str, owner: &str, group: &str) -> Result<(), FsError> {
        let (owner, group) = (owner.to_owned(), group.to_owned());
        self.change("set the owner of", path, |client, path| async move {
            client.set_owner(&path, Some(&owner), Some(&group)).await
        })
    }

    fn delete(&self, path: &str) -> Result<bool, FsError> {
        self.change("delete", path, |client, path| async move {
            client.delete(&path, true).await
        })
    }
}

fn status_of(status: FileStatus) -> Status {
    let name = status.path.rsplit('/').next().unwrap_or_default();
    Status {
        name: name.to_owned(),
        kind: if status.isdir {
            Kind::Folder
        } else {
            Kind::File
        },
        length: status.length as u64,
        modified_ms: i64::try_from(status.modification_time).unwrap_or(i64::MAX),
        mode: u32::from(status.permission) & 0o7777,
        owner: status.owner,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "few of the library's errors are of a connection"
)]
fn is_resumable(error: &HdfsError) -> bool {
    match error {
        HdfsError::IOError(source) => crate::error::is_broken_connection(source.kind()),
        HdfsError::DataTransferError(_) => true,
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _) => {
            crate::error::RESUMABLE_EXCEPTIONS.contains(&class.as_str())
        }
        _ => false,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most of the library's errors are texts for people"
)]
fn translate(step: &'static str, uri: String, error: HdfsError) -> FsError {
    match error {
        HdfsError::FileNotFound(_) => FsError::NotFound { uri },
        HdfsError::AlreadyExists(_) => FsError::Exists { step, uri },
        HdfsError::IOError(source) => FsError::Io { step, uri, source },
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            translate_exception(step, uri, class, &text)
        }
        other => FsError::Client {
            step,
            uri,
            message: first_line(&other.to_string()),
        },
    }
}

fn translate_exception(step: &'static str, uri: String, class: String, text: &str) -> FsError {
    let message = first_line(text);
    match class.as_str() {
        "java.io.FileNotFoundException" => FsError::NotFound { uri },
        "org.apache.hadoop.security.AccessControlException" => {
            FsError::Denied { step, uri, message }
        }
        _ => FsError::Remote {
            step,
            uri,
            class,
            message,
        },
    }
}

/// Returns the first line of an exception's text, behind which its stack follows.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests;
