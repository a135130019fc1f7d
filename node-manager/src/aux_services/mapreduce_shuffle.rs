//! The service of `org.apache.hadoop.mapred.ShuffleHandler`: which jobs the shuffle serves.
//!
//! Service data is a job token in Hadoop's `Writable` form, of which the password alone counts:
//! the key of the hashes. It need not be the password of the job's own token. The job's id follows
//! from the application's, so that no application speaks for another. Metadata is the port.

use std::io;
use std::sync::Arc;

use launch_context::ServiceData;
use localize::{ApplicationFolder, NodeDirs, UserName};
use node_web::metrics::{Port, ShuffleReading};
use records::ApplicationId;
use shuffle::{
    Counts, JobSecret, Jobs, OutputFolder, ShuffleConfig, ShuffleServer, StartShuffleError,
};
use thiserror::Error;
use wire::token::Token;
use wire::writable::{WritableError, WritableReader};

use super::{AuxService, DataRefused, KeptSocket, Listening, ServiceFailed, StartParts, Started};

/// Folder of map outputs below an application's (Hadoop: `ShuffleHandler.getBaseLocation`).
const OUTPUT: &str = "output";

/// Service data that is no job token.
#[derive(Debug, Error)]
#[error("the service data is no job token")]
pub struct JobDataError(#[from] WritableError);

/// The shuffle's port.
pub(super) struct ListeningMapReduce {
    server: ShuffleServer,
    has_tls: bool,
}

impl ListeningMapReduce {
    pub(super) fn listen(config: ShuffleConfig, kept: &KeptSocket<'_>) -> io::Result<Self> {
        let has_tls = config.tls.is_some();
        let server = match kept.take(config.port) {
            Some(socket) => ShuffleServer::listening(socket, config),
            None => ShuffleServer::bind(config),
        }?;
        kept.keep(&server);
        Ok(Self { server, has_tls })
    }

    pub(super) const fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) const fn has_tls(&self) -> bool {
        self.has_tls
    }
}

impl Listening for ListeningMapReduce {
    fn metadata(&self) -> Vec<u8> {
        u32::from(self.server.port()).to_be_bytes().to_vec()
    }

    fn start(self: Box<Self>, parts: &mut StartParts<'_>) -> Result<Started, ServiceFailed> {
        let service = MapReduceShuffle::new(parts.dirs.clone());
        let refusals = parts.metrics.refusals(Port::Shuffle);
        let running = self.server.start(service.jobs(), refusals);
        let running = running.map_err(|source| ServiceFailed {
            service: parts.name.to_owned(),
            what: match source {
                StartShuffleError::System(_) => {
                    "starting its threads (mapreduce.shuffle.max.threads)".to_owned()
                }
                StartShuffleError::Tls(_) => {
                    "opening its key stores (mapreduce.shuffle.ssl.enabled)".to_owned()
                }
            },
            source,
        })?;
        let counts = running.counts();
        parts.metrics.watch_shuffle(move || reading(counts()));
        Ok((Box::new(service), Box::new(|| running.stop())))
    }
}

fn reading(counts: Counts) -> ShuffleReading {
    ShuffleReading {
        output_bytes: counts.output_bytes,
        outputs_failed: counts.outputs_failed,
        outputs_ok: counts.outputs_ok,
        connections: counts.connections,
    }
}

/// Jobs of the shuffle.
struct MapReduceShuffle {
    jobs: Arc<Jobs>,
    dirs: NodeDirs,
}

impl MapReduceShuffle {
    fn new(dirs: NodeDirs) -> Self {
        let jobs = Arc::default();
        Self { jobs, dirs }
    }

    fn jobs(&self) -> Arc<Jobs> {
        Arc::clone(&self.jobs)
    }
}

impl AuxService for MapReduceShuffle {
    fn initialize_application(
        &self,
        application: ApplicationId,
        user: &UserName,
        data: &ServiceData,
    ) -> Result<(), DataRefused> {
        let token = Token::read_writable(&mut WritableReader::new(&data.0));
        let token = token.map_err(JobDataError)?;
        let folders = self.dirs.application_folders(application, user);
        let output = |folder: ApplicationFolder| OutputFolder {
            root: folder.root,
            below: folder.below.join(OUTPUT),
        };
        let folders = folders.into_iter().map(output).collect();
        let secret = JobSecret(token.password.to_vec());
        self.jobs
            .register(&job_id(application), user.as_str().into(), &secret, folders);
        Ok(())
    }

    fn stop_application(&self, application: ApplicationId) {
        self.jobs.remove(&job_id(application));
    }
}

/// Returns the MapReduce job of an application (Hadoop: `TypeConverter.fromYarn`).
fn job_id(application: ApplicationId) -> String {
    let id = application.to_string();
    id.replacen("application_", "job_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Hadoop 3.4.2.
    const SERVICE_DATA: &[u8] = b"\x16job_1700000000000_0007\
        \x14\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\
        \x0dmapreduce.job\x16job_1700000000000_0007";

    fn service() -> (tempfile::TempDir, MapReduceShuffle) {
        let base = tempfile::tempdir().unwrap();
        let config = localize::config::DirsConfig {
            local_dirs: vec![base.path().join("local")],
            log_dirs: vec![base.path().join("logs")],
            log_dir_permissions: 0o710,
            log_retain_sec: 0,
        };
        let dirs = NodeDirs::start(&config, None, records::EpochMillis(1)).unwrap();
        (base, MapReduceShuffle::new(dirs.dirs))
    }

    #[test]
    fn a_job_is_served_from_its_first_data_until_its_application_stops() {
        let (_base, service) = service();
        let application = "application_1700000000000_0007".parse().unwrap();
        assert_eq!(job_id(application), "job_1700000000000_0007");
        let user = "joe".parse().unwrap();
        let data = ServiceData(SERVICE_DATA.to_vec());
        for _ in 0..2 {
            let initialized = service.initialize_application(application, &user, &data);
            initialized.unwrap();
        }
        assert_eq!(service.jobs.len(), 1);
        service.stop_application("application_1700000000000_0008".parse().unwrap());
        assert_eq!(service.jobs.len(), 1);
        service.stop_application(application);
        assert!(service.jobs.is_empty());
    }

    #[test]
    fn data_that_is_cut_short_registers_nothing() {
        let (_base, service) = service();
        let application = "application_1700000000000_0007".parse().unwrap();
        for length in 0..SERVICE_DATA.len() {
            let data = ServiceData(SERVICE_DATA[..length].to_vec());
            let user = "joe".parse().unwrap();
            let initialized = service.initialize_application(application, &user, &data);
            assert!(initialized.is_err(), "{length}");
        }
        assert!(service.jobs.is_empty());
    }
}
