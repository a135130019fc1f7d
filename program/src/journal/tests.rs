use tempfile::TempDir;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

/// A journal that keeps nothing.
struct Fake {
    folder: TempDir,
    socket: UnixDatagram,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { folder, socket }
    }

    /// Returns the entries of what `log` logs.
    fn entries(&self, log: impl FnOnce()) -> Vec<String> {
        let path = self.folder.path().join("socket");
        let journal = Journal::open(&path, "program").unwrap();
        let subscriber = tracing_subscriber::registry().with(journal);
        tracing::subscriber::with_default(subscriber, log);
        let mut bytes = vec![0; 256 * 1024];
        let mut entries = Vec::new();
        while let Ok(length) = self.socket.recv(&mut bytes) {
            entries.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        assert_eq!(
            entries.remove(0),
            "",
            "of the look whether anything is there"
        );
        entries
    }
}

#[test]
fn a_line_has_its_text_and_the_ids_that_it_names() {
    let entries = Fake::new().entries(|| {
        let id = "container_e17_1700000000000_0001_01_000002";
        tracing::warn!(target: "t", container = %id, place = 3, "queued");
        tracing::info!(target: "t", application = %"application_1_0002", "finished");
        tracing::debug!(target: "t", "nothing");
    });
    assert_eq!(
        entries,
        [
            "MESSAGE=queued container=container_e17_1700000000000_0001_01_000002 place=3\n\
             PRIORITY=4\nSYSLOG_IDENTIFIER=program\nTARGET=t\n\
             CONTAINER_ID=container_e17_1700000000000_0001_01_000002\n\
             APPLICATION_ID=application_1700000000000_0001\n",
            "MESSAGE=finished application=application_1_0002\n\
             PRIORITY=6\nSYSLOG_IDENTIFIER=program\nTARGET=t\nAPPLICATION_ID=application_1_0002\n",
            "MESSAGE=nothing\nPRIORITY=7\nSYSLOG_IDENTIFIER=program\nTARGET=t\n",
        ]
    );
}

#[test]
fn an_audit_line_has_its_ids_in_the_text() {
    let entries = Fake::new().entries(|| {
        tracing::info!(
            target: "audit",
            "USER=alice\tRESULT=SUCCESS\tAPPID=application_1_0002\tCONTAINERID=container_1_0002_01_000001"
        );
    });
    let end = "\nCONTAINER_ID=container_1_0002_01_000001\nAPPLICATION_ID=application_1_0002\n";
    assert!(entries[0].ends_with(end), "{entries:?}");
}

#[test]
fn a_line_feed_of_a_peer_begins_no_field_and_a_long_text_is_cut() {
    let entries = Fake::new().entries(|| {
        tracing::info!(target: "t", x = "\n", "a\nCONTAINER_ID=forged");
        tracing::info!(target: "t", "{}", "é".repeat(MESSAGE_BYTES_MAX));
        tracing::info!(target: "t", container = %"c\nPRIO", "odd");
    });
    let expected = "MESSAGE=a\\nCONTAINER_ID=forged x=\"\\n\"\nPRIORITY=6\n";
    assert!(entries[0].starts_with(expected), "{entries:?}");
    let length = "\u{6}\0\0\0\0\0\0\0";
    let container = format!("\nCONTAINER_ID\n{length}c\nPRIO\n");
    assert!(entries[2].contains(&container), "{entries:?}");
    assert!(
        entries[1].len() < MESSAGE_BYTES_MAX + 200,
        "{}",
        entries[1].len()
    );
}

#[test]
fn a_stream_is_the_journals_if_the_variable_names_that_very_one() {
    let file = tempfile::tempfile().unwrap();
    let metadata = file.metadata().unwrap();
    let named = format!("{}:{}", metadata.dev(), metadata.ino());
    assert!(is_stream_to_journal(Some(&named), &file));
    let other = tempfile::tempfile().unwrap();
    assert!(!is_stream_to_journal(Some(&named), &other));
    for wrong in [None, Some(""), Some("1"), Some("a:b")] {
        assert!(!is_stream_to_journal(wrong, &file), "{wrong:?}");
    }
}

#[test]
fn where_no_journal_is_there_is_no_way_to_it() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Journal::open(&folder.path().join("socket"), "program").is_err());
}
