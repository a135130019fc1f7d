//! A job with map outputs in a folder, and requests for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dir_handle::DirHandle;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use tempfile::TempDir;

use crate::spill::{Partition, testing::encode};
use crate::{JobSecret, Jobs, OutputFolder};

pub(crate) const JOB: &str = "job_1700000000000_0007";

/// Path of the job's outputs below a local directory.
const BELOW: &str = "usercache/joe/appcache/application_1700000000000_0007/output";

/// Secret of the job: the one of the recorded vectors.
pub(crate) fn secret() -> JobSecret {
    JobSecret((0..20).collect())
}

/// Returns the id of the job's map of this number.
pub(crate) fn attempt(map: u32) -> String {
    format!("attempt_1700000000000_0007_m_{map:06}_0")
}

/// Two local directories, and a job that is registered with its outputs on them.
pub(crate) struct Job {
    pub(crate) base: TempDir,
    pub(crate) jobs: Arc<Jobs>,
}

impl Job {
    pub(crate) fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let jobs = Arc::new(Jobs::default());
        let job = Self { base, jobs };
        job.register_as("joe");
        job
    }

    /// Registers the job, with its outputs, as this user's.
    pub(crate) fn register_as(&self, user: &str) {
        let folders = ["l0", "l1"].map(|local| {
            let local = self.base.path().join(local);
            fs::create_dir_all(local.join(BELOW)).unwrap();
            OutputFolder {
                root: Arc::new(DirHandle::open_ambient(&local).unwrap()),
                below: BELOW.into(),
            }
        });
        self.jobs
            .register(JOB, user.into(), &secret(), folders.into());
    }

    /// Returns the folder of the outputs on one of the local directories.
    pub(crate) fn outputs(&self, local: &str) -> PathBuf {
        self.base.path().join(local).join(BELOW)
    }

    /// Writes an output: these bytes for each reducer.
    pub(crate) fn write(&self, local: &str, attempt: &str, partitions: &[&[u8]]) {
        write_output(&self.outputs(local).join(attempt), partitions);
    }
}

/// Writes an output and its index into a folder.
pub(crate) fn write_output(folder: &Path, partitions: &[&[u8]]) {
    let mut start = 0;
    let entries = partitions.iter().map(|bytes| {
        let entry = Partition {
            start,
            raw_length: bytes.len().saturating_sub(4) as u64,
            part_length: bytes.len() as u64,
        };
        start += entry.part_length;
        entry
    });
    let entries: Vec<_> = entries.collect();
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("file.out"), partitions.concat()).unwrap();
    fs::write(folder.join("file.out.index"), encode(&entries)).unwrap();
}

/// Returns the base64 hash of a text with the job's secret.
pub(crate) fn hash(text: &str) -> String {
    let mut mac = Hmac::<Sha1>::new_from_slice(&secret().0).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Returns path and query for some maps of the job.
pub(crate) fn target(reduce: &str, maps: &str) -> String {
    format!("/mapOutput?job={JOB}&reduce={reduce}&map={maps}")
}

/// Returns a whole request with the right hash.
pub(crate) fn request(port: u16, target: &str) -> String {
    let url_hash = hash(&format!("{port}{target}"));
    format!(
        "GET {target} HTTP/1.1\r\nUrlHash: {url_hash}\r\nname: mapreduce\r\nversion: 1.0.0\r\n\
         Host: h:{port}\r\n\r\n"
    )
}
