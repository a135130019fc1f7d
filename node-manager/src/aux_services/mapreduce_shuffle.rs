//! The service of `org.apache.hadoop.mapred.ShuffleHandler`: which jobs the shuffle serves.
//!
//! Service data is a job token in Hadoop's `Writable` form, of which the password alone counts:
//! the key of the hashes. It need not be the password of the job's own token. The job's id follows
//! from the application's, so that no application speaks for another. Metadata is the port.

use std::sync::Arc;

use launch_context::ServiceData;
use localize::{NodeDirs, UserName};
use records::ApplicationId;
use shuffle::{JobSecret, Jobs, OutputFolder};
use thiserror::Error;
use wire::token::Token;
use wire::writable::{WritableError, WritableReader};

/// Folder of map outputs below an application's (Hadoop: `ShuffleHandler.getBaseLocation`).
const OUTPUT: &str = "output";

/// Service data that is no job token.
#[derive(Debug, Error)]
#[error("the service data is no job token")]
pub struct JobDataError(#[from] WritableError);

/// Jobs of the shuffle.
pub(super) struct MapReduceShuffle {
    jobs: Arc<Jobs>,
    dirs: NodeDirs,
}

impl MapReduceShuffle {
    pub(super) fn new(dirs: NodeDirs) -> Self {
        let jobs = Arc::default();
        Self { jobs, dirs }
    }

    pub(super) fn jobs(&self) -> Arc<Jobs> {
        Arc::clone(&self.jobs)
    }

    pub(super) fn initialize_application(
        &self,
        application: ApplicationId,
        user: &UserName,
        data: &ServiceData,
    ) -> Result<(), JobDataError> {
        let token = Token::read_writable(&mut WritableReader::new(&data.0))?;
        let folders = self.dirs.application_folders(application, user);
        let output = |(root, below): (_, std::path::PathBuf)| OutputFolder {
            root,
            below: below.join(OUTPUT),
        };
        let folders = folders.into_iter().map(output).collect();
        let secret = JobSecret(token.password.to_vec());
        self.jobs
            .register(&job_id(application), user.as_str().into(), &secret, folders);
        Ok(())
    }

    pub(super) fn stop_application(&self, application: ApplicationId) {
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
