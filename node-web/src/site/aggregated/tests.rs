use std::future::poll_fn;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use test_support::ids::container;

use super::*;

/// Content of a remote file's log file, or its trouble.
enum Remote {
    Content(&'static str, u64),
    Missing,
    /// Hangs until the other end is dropped.
    Hangs(Mutex<Receiver<()>>),
}

struct Remotes(Vec<(&'static str, Remote)>);

impl RemoteLogs for Remotes {
    fn open(&self, log: &RemoteLog, _: &CancellationToken) -> io::Result<OpenRemoteLog> {
        assert_eq!((log.user.as_str(), log.name.as_str()), ("ann", "app.1"));
        let remote = self.0.iter().find(|(name, _)| *name == log.remote);
        match &remote.unwrap().1 {
            Remote::Content(content, length) => Ok(OpenRemoteLog {
                length: *length,
                content: Box::new(content.as_bytes()),
            }),
            Remote::Missing => Err(io::ErrorKind::NotFound.into()),
            Remote::Hangs(until) => {
                let _dropped = until.lock().unwrap().recv();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

fn part(reader: &RemoteReader, remotes: &[&str], size: i64) -> RemotePart {
    let wanted = remotes.iter().map(|remote| Wanted {
        log: RemoteLog {
            user: "ann".to_owned(),
            application: container(2).application_id(),
            remote: (*remote).to_owned(),
            container: container(2).name(),
            name: "app.1".to_owned(),
        },
        uploaded_at: EpochMillis(1_700_000_000_000),
    });
    RemotePart::new(reader.clone(), wanted.collect(), size, UtcOffset::UTC)
}

/// Reads a part to its end.
async fn read(part: &mut RemotePart) -> io::Result<String> {
    let mut text = String::new();
    while let Some(bytes) = poll_fn(|cx| part.poll_bytes(cx)).await? {
        text += str::from_utf8(&bytes).unwrap();
    }
    Ok(text)
}

fn reader(remotes: Vec<(&'static str, Remote)>) -> RemoteReader {
    RemoteReader::new(Arc::new(Remotes(remotes)))
}

/// Returns a log file with `shown` of its content in Hadoop's lines.
fn framed(remote: &str, length: u64, shown: &str) -> String {
    let container = format!("Container: {} on {remote}", container(2));
    format!(
        "{container}\nLogAggregationType: AGGREGATED\n{}\nLogType:app.1\n\
         LogLastModifiedTime:Tue Nov 14 22:13:20 +0000 2023\nLogLength:{length}\nLogContents:\n\
         {shown}\nEnd of LogType:app.1\n{}\n\n",
        "=".repeat(container.len()),
        "*".repeat(70)
    )
}

#[tokio::test]
async fn each_file_is_shown_in_its_frame_and_one_that_cannot_be_opened_is_left_out() {
    let reader = reader(vec![
        ("n_1", Remote::Content("one\n", 4)),
        ("n_2", Remote::Missing),
        ("n_3", Remote::Content("three", 5)),
    ]);
    for (size, shown) in [
        (i64::MAX, ["one\n", "three"]),
        (2, ["on", "th"]),
        (-2, ["e\n", "ee"]),
        (0, ["", ""]),
        (i64::MIN, ["one\n", "three"]),
    ] {
        let text = read(&mut part(&reader, &["n_1", "n_2", "n_3"], size)).await;
        let expected = framed("n_1", 4, shown[0]) + &framed("n_3", 5, shown[1]);
        assert_eq!(text.unwrap(), expected, "{size}");
    }
}

#[tokio::test]
async fn a_content_that_ends_early_breaks_the_answer_off() {
    let reader = reader(vec![("n_1", Remote::Content("one", 4))]);
    let error = read(&mut part(&reader, &["n_1"], 4)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    // Its end cannot be shown, so nothing is.
    let longer = RemoteReader::new(Arc::new(Remotes(vec![("n_1", Remote::Content("one", 9))])));
    let text = read(&mut part(&longer, &["n_1"], -1)).await;
    assert_eq!(text.unwrap(), "");
}

#[tokio::test]
async fn file_systems_that_hang_hold_few_threads_and_answers_end_without_them() {
    let (hold, until) = channel::<()>();
    let reader = reader(vec![
        ("hung", Remote::Hangs(Mutex::new(until))),
        ("n_1", Remote::Content("one", 3)),
    ]);
    tokio::time::pause();
    let mut parts: Vec<_> = (0..THREADS_MAX + 1)
        .map(|_| part(&reader, &["hung", "n_1"], 9))
        .collect();
    for part in &mut parts {
        let begun = poll_fn(|cx| Poll::Ready(part.poll_bytes(cx))).await;
        assert!(begun.is_pending());
    }
    tokio::time::advance(STEP_MAX * 2).await;
    for part in &mut parts {
        assert_eq!(read(part).await.unwrap(), "");
    }
    assert_eq!(reader.threads.available_permits(), 0);
    drop(parts);
    // The threads are free again as soon as the file system answers.
    tokio::time::resume();
    drop(hold);
    let text = read(&mut part(&reader, &["n_1"], 9)).await;
    assert_eq!(text.unwrap(), framed("n_1", 3, "one"));
}

#[tokio::test]
async fn a_reading_is_unwanted_once_its_answer_is_dropped() {
    let part = part(&reader(Vec::new()), &[], 1);
    let unwanted = part.reading.as_ref().unwrap().unwanted.clone();
    assert!(!unwanted.is_cancelled());
    drop(part);
    assert!(unwanted.is_cancelled());
}
