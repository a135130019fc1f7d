//! The service of `org.apache.spark.network.yarn.YarnShuffleService`: which applications Spark's
//! shuffle serves.
//!
//! Service data is the application's secret, empty without authentication; or a JSON object with
//! the secret in it, by which the application asks not to be recovered. Metadata is empty, which is
//! something else than none: clients know the port from their own configuration.

use std::io;
use std::sync::Arc;

use launch_context::ServiceData;
use localize::{ApplicationFolder, NodeDirs, UserName};
use node_web::metrics::{Port, SparkShuffleReading};
use records::ApplicationId;
use serde_json::Value;
use spark_shuffle::{
    Application, ApplicationSecret, Applications, Counts, ExecutorStore, Settled,
    SparkShuffleConfig, SparkShuffleServer,
};
use state_store::{Commits, Contents, KeySpace, Urgency};
use thiserror::Error;

use super::{AuxService, DataRefused, KeptSocket, Listening, ServiceFailed, StartParts, Started};

/// Key space of the executors in the node's state: `<service>/<application>/<executor>`.
pub const KEY_SPACE: &str = "spark-shuffle";

/// Longest service data: a secret, or an object with one.
const DATA_BYTES_MAX: usize = 64 * 1024;

/// Service data that is not taken. Its content is secret.
#[derive(Debug, Error)]
pub enum SparkDataError {
    /// More than a secret has.
    #[error("the service data has {0} bytes, more than a secret has")]
    Long(usize),
    /// The service authenticates, and the application has no secret.
    #[error(
        "the application brings no secret, and the node has spark.authenticate: set it for the \
         application, too"
    )]
    NoSecret,
}

/// Executors of all services that an earlier agent stored, and the store.
#[derive(Debug)]
pub struct StoredExecutors {
    space: KeySpace,
    commits: Commits,
    found: Contents,
}

impl StoredExecutors {
    /// Takes the records of applications that go on here, and removes the others.
    #[must_use]
    pub fn new(
        (space, commits): (KeySpace, Commits),
        mut found: Contents,
        goes_on: impl Fn(ApplicationId) -> bool,
    ) -> Self {
        found.retain(|key, _| {
            let application =
                read_key(key).and_then(|(_, application, _)| application.parse().ok());
            let stays = application.is_some_and(&goes_on);
            if !stays {
                space.remove(key);
            }
            stays
        });
        Self {
            space,
            commits,
            found,
        }
    }

    /// Puts the executors of a service into its table.
    fn restore(&self, service: &str, applications: &Applications) {
        let mut restored = 0;
        for (key, record) in &self.found {
            let Some((of, application, executor)) = read_key(key) else {
                continue;
            };
            if of != service {
                continue;
            }
            if applications.restore(application, executor, record) {
                restored += 1;
            } else {
                tracing::warn!(
                    service,
                    application,
                    executor,
                    "an executor's record is unreadable"
                );
            }
        }
        if restored > 0 {
            tracing::info!(
                service,
                executors = restored,
                "executors are registered again"
            );
        }
    }
}

fn read_key(key: &str) -> Option<(&str, &str, &str)> {
    let (service, rest) = key.split_once('/')?;
    let (application, executor) = rest.split_once('/')?;
    Some((service, application, executor))
}

/// Records of one service's executors.
struct ServiceStore {
    space: KeySpace,
    commits: Commits,
    service: String,
}

impl ExecutorStore for ServiceStore {
    fn put(&self, application: &str, executor: &str, record: Vec<u8>, settled: Settled) {
        let key = format!("{}/{application}/{executor}", self.service);
        self.space.put(&key, record);
        self.commits.when_settled(Urgency::Gathered, move |stored| {
            if stored.is_err() {
                tracing::warn!(
                    "an executor of Spark is not stored: a restarted agent would not know it"
                );
            }
            settled();
        });
    }

    fn remove(&self, application: &str) {
        self.space
            .clear(&format!("{}/{application}/", self.service));
    }
}

/// The service's port.
pub(super) struct ListeningSpark {
    server: SparkShuffleServer,
    authenticates: bool,
}

impl ListeningSpark {
    pub(super) fn listen(config: SparkShuffleConfig, kept: &KeptSocket<'_>) -> io::Result<Self> {
        let authenticates = config.authenticates;
        let server = match kept.take(config.port) {
            Some(socket) => SparkShuffleServer::listening(socket, config),
            None => SparkShuffleServer::bind(config),
        }?;
        kept.keep(&server);
        Ok(Self {
            server,
            authenticates,
        })
    }

    pub(super) const fn port(&self) -> u16 {
        self.server.port()
    }
}

impl Listening for ListeningSpark {
    fn metadata(&self) -> Vec<u8> {
        Vec::new()
    }

    fn start(self: Box<Self>, parts: &mut StartParts<'_>) -> Result<Started, ServiceFailed> {
        let store = parts.executors.map(|stored| ServiceStore {
            space: stored.space.clone(),
            commits: stored.commits.clone(),
            service: parts.name.to_owned(),
        });
        let store = store.map(|store| Box::new(store) as Box<dyn ExecutorStore>);
        let applications = Arc::new(Applications::new(store));
        if let Some(stored) = parts.executors {
            stored.restore(parts.name, &applications);
        }
        let refusals = parts.metrics.refusals(Port::SparkShuffle);
        let running = self.server.start(Arc::clone(&applications), refusals);
        let running = running.map_err(|source| ServiceFailed {
            service: parts.name.to_owned(),
            what: "starting its threads (spark.shuffle.io.serverThreads)".to_owned(),
            source: source.into(),
        })?;
        let counts = running.counts();
        let read = move || reading(counts());
        parts.metrics.watch_spark_shuffle(parts.name, read);
        let service = SparkShuffle {
            applications,
            dirs: parts.dirs.clone(),
            authenticates: self.authenticates,
        };
        Ok((Box::new(service), Box::new(|| running.stop())))
    }
}

fn reading(counts: Counts) -> SparkShuffleReading {
    SparkShuffleReading {
        block_bytes: counts.block_bytes,
        blocks_ok: counts.blocks_ok,
        blocks_failed: counts.blocks_failed,
        executors: counts.executors,
        connections: counts.connections,
    }
}

/// Applications of one service.
struct SparkShuffle {
    applications: Arc<Applications>,
    dirs: NodeDirs,
    authenticates: bool,
}

impl AuxService for SparkShuffle {
    fn initialize_application(
        &self,
        application: ApplicationId,
        user: &UserName,
        data: &ServiceData,
    ) -> Result<(), DataRefused> {
        let (secret, is_recovered) = read_data(&data.0)?;
        if self.authenticates && secret.is_none() {
            return Err(SparkDataError::NoSecret.into());
        }
        let folders = self.dirs.application_folders(application, user);
        let folder = |folder: ApplicationFolder| spark_shuffle::ApplicationFolder {
            root: folder.root,
            below: folder.below,
            path: folder.path,
        };
        let brought = Application {
            user: user.as_str().into(),
            secret: secret.filter(|_| self.authenticates),
            is_recovered,
            folders: folders.into_iter().map(folder).collect(),
        };
        self.applications
            .initialize(&application.to_string(), brought);
        Ok(())
    }

    fn stop_application(&self, application: ApplicationId) {
        self.applications.stop(&application.to_string());
    }
}

/// Member by which an application asks not to be recovered (Spark:
/// `YarnShuffleService.initializeApplication`).
const RECOVERY_DISABLED: &str = "spark.yarn.shuffle.server.recovery.disabled";

/// Returns the secret, if there is one, and whether executors are to be stored. What is no object
/// is the secret itself.
fn read_data(data: &[u8]) -> Result<(Option<ApplicationSecret>, bool), SparkDataError> {
    if data.len() > DATA_BYTES_MAX {
        return Err(SparkDataError::Long(data.len()));
    }
    let (secret, is_recovered) = match serde_json::from_slice(data) {
        Ok(Value::Object(members)) => {
            let disabled = members.get(RECOVERY_DISABLED);
            let disabled = disabled.is_some_and(|it| *it == true || *it == "true");
            let secret = members.get("secret").and_then(Value::as_str);
            (secret.unwrap_or_default().as_bytes().to_vec(), !disabled)
        }
        Ok(_) | Err(_) => (data.to_vec(), true),
    };
    let secret = (!secret.is_empty()).then_some(ApplicationSecret(secret));
    Ok((secret, is_recovered))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Option<ApplicationSecret> {
        Some(ApplicationSecret(text.as_bytes().to_vec()))
    }

    #[test]
    fn service_data_is_an_object_or_the_secret_itself() {
        let disabled = "\"spark.yarn.shuffle.server.recovery.disabled\":true";
        for (data, expected) in [
            (String::new(), (None, true)),
            ("abc".to_owned(), (secret("abc"), true)),
            (format!("{{{disabled}}}"), (None, false)),
            (
                format!("{{{disabled},\"secret\":\"s\"}}"),
                (secret("s"), false),
            ),
            // A secret that only looks like an object.
            ("{abc".to_owned(), (secret("{abc"), true)),
        ] {
            assert_eq!(read_data(data.as_bytes()).unwrap(), expected, "{data}");
        }
        assert!(read_data(&vec![b'x'; DATA_BYTES_MAX + 1]).is_err());
        let error = SparkDataError::NoSecret.to_string();
        assert!(error.contains("spark.authenticate"), "{error}");
    }

    #[test]
    fn keys_name_service_application_and_executor() {
        let key = "spark_shuffle_3_4/application_1_0002/a/b";
        let read = Some(("spark_shuffle_3_4", "application_1_0002", "a/b"));
        assert_eq!(read_key(key), read);
        assert_eq!(read_key("spark_shuffle/x"), None);
    }
}
