//! Logs that this node has uploaded, for readers of its own list of logs.

use std::io::{self, BufReader, Read};

use log_aggregation::aggregated_log::find;
use log_aggregation::destination::Destination;
use log_aggregation::remote;
use log_aggregation::tfile::Compression;
use node_web::site::{OpenRemoteLog, RemoteLog, RemoteLogs};
use tokio_util::sync::CancellationToken;

/// Bytes of a remote file read at once.
const READ_BYTES: usize = 64 * 1024;

/// Remote files as the uploads of this node make them.
pub(crate) struct UploadedLogs {
    /// File system of the uploads.
    pub(crate) destination: Box<dyn Destination>,
    /// Suffix in the folders' names, such as `logs-tfile`.
    pub(crate) suffix: String,
    /// Compression of the files.
    pub(crate) compression: Compression,
}

impl RemoteLogs for UploadedLogs {
    fn open(&self, log: &RemoteLog, unwanted: &CancellationToken) -> io::Result<OpenRemoteLog> {
        let folder = remote::folder(&log.user, &self.suffix, log.application);
        let file = WhileWanted {
            file: self.destination.open(&folder, &log.remote)?,
            unwanted: unwanted.clone(),
        };
        let file = BufReader::with_capacity(READ_BYTES, file);
        let content = find(file, self.compression, log.container, &log.name)?;
        Ok(OpenRemoteLog {
            length: content.length(),
            content: Box::new(content),
        })
    }
}

/// A remote file until its reader has gone: what lies before a log file in it may be long.
struct WhileWanted {
    file: Box<dyn Read + Send>,
    unwanted: CancellationToken,
}

impl Read for WhileWanted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unwanted.is_cancelled() {
            // Not `Interrupted`, after which readers go on.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use log_aggregation::destination::RemoteFile;
    use records::ApplicationId;
    use test_support::ids::container;

    use super::*;

    /// A destination whose files never end; the reader goes away after some reads.
    struct Endless {
        reads: Arc<AtomicUsize>,
        unwanted: CancellationToken,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.reads.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    // A TFile with a key of one byte and a value without end.
                    let mut begin = log_begin();
                    begin.extend_from_slice(&[1, b'k', 0x80 | 7, 0x80, 0, 0, 0, 0, 0, 0, 1]);
                    buffer[..begin.len()].copy_from_slice(&begin);
                    return Ok(begin.len());
                }
                9 => self.unwanted.cancel(),
                _ => {}
            }
            Ok(buffer.len())
        }
    }

    fn log_begin() -> Vec<u8> {
        let acls = vec![];
        let log = log_aggregation::aggregated_log::AggregatedLog::new(
            Vec::new(),
            Compression::None,
            "joe",
            &acls,
        );
        let mut bytes = log.unwrap().finish().unwrap();
        bytes.truncate(16);
        bytes
    }

    struct One(Mutex<Option<Endless>>);

    impl Destination for One {
        fn create(&self, _: &[String], _: &str) -> io::Result<Box<dyn RemoteFile>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn open(&self, folder: &[String], name: &str) -> io::Result<Box<dyn Read + Send>> {
            assert_eq!(folder[..2], ["joe", "bucket-logs-tfile"]);
            assert_eq!(name, "node_1");
            let file = self.0.lock().unwrap().take();
            Ok(Box::new(file.unwrap()))
        }

        fn names(&self, _: &[String]) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn rename(&self, _: &[String], _: &str, _: &str) -> io::Result<()> {
            Ok(())
        }

        fn remove(&self, _: &[String], _: &str) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_search_in_a_file_without_end_stops_when_its_reader_has_gone() {
        let (reads, unwanted) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let endless = Endless {
            reads: Arc::clone(&reads),
            unwanted: unwanted.clone(),
        };
        let logs = UploadedLogs {
            destination: Box::new(One(Mutex::new(Some(endless)))),
            suffix: "logs-tfile".to_owned(),
            compression: Compression::None,
        };
        let log = RemoteLog {
            user: "joe".to_owned(),
            application: ApplicationId::new(1_700_000_000_000, 7),
            remote: "node_1".to_owned(),
            container: container(2).name(),
            name: "stdout".to_owned(),
        };
        let refusal = logs.open(&log, &unwanted).err().unwrap();
        assert_eq!(refusal.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(reads.load(Ordering::Relaxed), 10);
    }
}
