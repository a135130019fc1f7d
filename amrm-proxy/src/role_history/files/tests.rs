//! Tests of names, bounds and broken files.

use std::fs;
use std::path::PathBuf;

use records::{EpochMillis, MonoMillis, Now};
use role_history::opt_in::SERVICE_BYTES_MAX;
use role_history::{AllocatedContainer, AskedBy, Role, RoleHistory, RoleHistoryConfig, RoleId};

use super::*;
use crate::testing::ATTEMPT;

/// Directory of a test, and the thread with it.
struct Node {
    files: HistoryFiles,
    directory: tempfile::TempDir,
}

impl Node {
    fn new(user_bytes_max: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = config(&directory, user_bytes_max);
        let files =
            HistoryFiles::start_with(config, FileAccess::default(), Duration::from_millis(5));
        Self { files, directory }
    }

    fn open(&self, service: &str) -> HistoryFile {
        self.files.open(ATTEMPT, "alice", service)
    }

    fn service_directory(&self, service: &str) -> PathBuf {
        self.directory.path().join("alice").join(service)
    }
}

fn config(directory: &tempfile::TempDir, user_bytes_max: u64) -> FilesConfig {
    FilesConfig {
        directory: Uri::file(directory.path().display().to_string()),
        user_bytes_max,
    }
}

async fn next(file: &mut HistoryFile) -> HistoryNews {
    file.news.recv().await.unwrap()
}

fn snapshot(hosts: usize) -> Snapshot {
    let role = RoleId::new(1).unwrap();
    let size = records::Resource::new(1, 1);
    let now = Now {
        mono: MonoMillis(0),
        wall: EpochMillis(1_700_000_000_000),
    };
    let roles = [Role::new(role, "priority-1", size)];
    let mut history = RoleHistory::new(RoleHistoryConfig::default(), roles, now).unwrap();
    let mut actions = Vec::new();
    let count = u32::try_from(hosts).unwrap();
    history.set_desired(role, count, now, &mut actions).unwrap();
    let allocated = (1..).take(hosts).map(|number| AllocatedContainer {
        container: ATTEMPT.container(number),
        host: format!("n{number}"),
        asked_by: AskedBy::Role(role),
        resource: size,
    });
    let allocated: Vec<_> = allocated.collect();
    let ids: Vec<_> = allocated.iter().map(|each| each.container).collect();
    history.on_containers_allocated(allocated, now, &mut actions);
    for id in ids {
        history.on_container_started(id, now, &mut actions).unwrap();
    }
    history.snapshot(now)
}

#[tokio::test]
async fn what_was_saved_is_loaded_by_the_next_attempt() {
    let node = Node::new(1 << 20);
    let mut file = node.open("store");
    assert!(matches!(
        next(&mut file).await,
        HistoryNews::Loaded {
            history: None,
            skipped: 0
        }
    ));
    let saved = snapshot(3);
    file.save(saved.clone());
    assert!(matches!(next(&mut file).await, HistoryNews::Saved(_)));
    drop(file);
    let mut file = node.files.open(
        ATTEMPT.application_id.attempt(ATTEMPT.attempt_id + 1),
        "alice",
        "store",
    );
    let HistoryNews::Loaded { history, .. } = next(&mut file).await else {
        panic!("a file was saved");
    };
    assert_eq!(history, Some(saved.history));
}

#[tokio::test]
async fn an_attempt_that_was_replaced_saves_nothing() {
    let node = Node::new(1 << 20);
    let mut old = node.open("store");
    next(&mut old).await;
    let second = ATTEMPT.application_id.attempt(ATTEMPT.attempt_id + 1);
    let mut new = node.files.open(second, "alice", "store");
    next(&mut new).await;
    old.save(snapshot(1));
    assert!(matches!(next(&mut old).await, HistoryNews::SaveFailed));
    new.save(snapshot(2));
    assert!(matches!(next(&mut new).await, HistoryNews::Saved(_)));
}

#[tokio::test]
async fn an_attempt_that_is_opened_again_outlives_its_first_opening() {
    let node = Node::new(1 << 20);
    let mut first = node.open("store");
    next(&mut first).await;
    let mut second = node.open("store");
    next(&mut second).await;
    drop(first);
    second.save(snapshot(1));
    assert!(matches!(next(&mut second).await, HistoryNews::Saved(_)));
}

#[tokio::test]
async fn broken_files_are_skipped_and_the_next_older_one_is_loaded() {
    let whole = {
        let mut text = Vec::new();
        role_history::avro::write_history(&snapshot(2).history, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let truncated = whole.rsplit_once('\n').unwrap().0.to_owned();
    let foreign = whole.replacen("\"version\":1", "\"version\":7", 1);
    let huge = format!("{whole}{}", " ".repeat(100 << 20));
    for (name, content) in [
        ("broken", "{\"entry\": nothing".to_owned()),
        ("truncated", truncated),
        ("foreign", foreign),
        ("empty", String::new()),
        ("huge", huge),
    ] {
        let node = Node::new(64 << 20);
        let path = node.service_directory(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("rolehistory-0000000000000001.json"), &whole).unwrap();
        fs::write(path.join("rolehistory-0000000000000002.json"), content).unwrap();
        let mut file = node.open(name);
        let HistoryNews::Loaded { history, skipped } = next(&mut file).await else {
            panic!("{name}: the older file is loaded");
        };
        assert_eq!(history.unwrap().len(), 2, "{name}");
        assert_eq!(skipped, 1, "{name}");
        // The service goes on to save.
        file.save(snapshot(1));
        assert!(
            matches!(next(&mut file).await, HistoryNews::Saved(_)),
            "{name}"
        );
    }
}

#[tokio::test]
async fn no_name_leaves_the_directory() {
    let node = Node::new(1 << 20);
    for (name, written) in [
        ("../../etc", "%2e%2e%2f%2e%2e%2fetc"),
        ("..", "%2e%2e"),
        ("/abs", "%2fabs"),
        ("a b\u{0}ü", "a%20b%00%c3%bc"),
    ] {
        let mut file = node.open(name);
        assert!(
            matches!(next(&mut file).await, HistoryNews::Loaded { .. }),
            "{name}"
        );
        assert!(node.service_directory(written).is_dir(), "{name}");
    }
    for name in ["", &"x".repeat(SERVICE_BYTES_MAX + 1)] {
        let mut file = node.open(name);
        assert!(
            matches!(next(&mut file).await, HistoryNews::Unavailable),
            "{name}"
        );
    }
    let outside: Vec<_> = fs::read_dir(node.directory.path()).unwrap().collect();
    assert_eq!(outside.len(), 1);
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_services() {
    let node = Node::new(1 << 20);
    for number in 0..SERVICES_MAX {
        fs::create_dir_all(node.service_directory(&format!("s{number}"))).unwrap();
    }
    let mut file = node.open("one-more");
    assert!(matches!(next(&mut file).await, HistoryNews::Unavailable));
    let mut file = node.open("s7");
    assert!(matches!(next(&mut file).await, HistoryNews::Loaded { .. }));
    let mut file = node.files.open(ATTEMPT, "bob", "one-more");
    assert!(matches!(next(&mut file).await, HistoryNews::Loaded { .. }));
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_bytes() {
    let node = Node::new(30_000);
    let mut file = node.open("store");
    next(&mut file).await;
    file.save(snapshot(50));
    assert!(matches!(next(&mut file).await, HistoryNews::Saved(_)));
    file.save(snapshot(80));
    assert!(matches!(next(&mut file).await, HistoryNews::SaveFailed));
}

#[tokio::test(start_paused = true)]
async fn a_registration_waits_for_a_slow_load_no_longer_than_the_limit() {
    let (jobs, received) = mpsc::channel();
    let files = HistoryFiles::new(ThreadOwner::default(), jobs);
    let mut file = files.open(ATTEMPT, "alice", "store");
    let began = tokio::time::Instant::now();
    assert!(matches!(file.news(true).await[..], [HistoryNews::Late]));
    assert_eq!(began.elapsed(), LOAD_WAIT);
    // The load ends later.
    let Ok(Job::Open(Opening { news, .. })) = received.recv() else {
        panic!("the load was asked for");
    };
    news.send(HistoryNews::Loaded {
        history: None,
        skipped: 0,
    })
    .unwrap();
    assert!(matches!(
        file.news(false).await[..],
        [HistoryNews::Loaded { .. }]
    ));
    assert!(file.news(true).await.is_empty());
}

#[tokio::test]
async fn files_that_cannot_be_used_at_first_are_loaded_later() {
    let node = Node::new(1 << 20);
    let in_the_way = node.directory.path().join("alice");
    fs::write(&in_the_way, "").unwrap();
    let mut file = node.open("store");
    assert!(matches!(next(&mut file).await, HistoryNews::Unavailable));
    file.save(snapshot(1));
    fs::remove_file(in_the_way).unwrap();
    assert!(matches!(next(&mut file).await, HistoryNews::Loaded { .. }));
    file.save(snapshot(2));
    assert!(matches!(next(&mut file).await, HistoryNews::Saved(_)));
}

#[test]
fn nothing_is_tried_again_for_an_attempt_that_has_ended_or_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("alice"), "").unwrap();
    let mut files = Files::new(
        config(&directory, 1 << 20),
        FileAccess::default(),
        RETRY_PAUSE,
    );
    let open = |id: u64, user: &str, attempt: i32| {
        let (news, _) = channel::unbounded_channel();
        Job::Open(Opening {
            id,
            attempt: ATTEMPT.application_id.attempt(attempt),
            user: user.to_owned(),
            service: "store".to_owned(),
            news,
        })
    };
    files.perform(open(1, "alice", 1));
    assert_eq!(files.waiting.len(), 1);
    files.perform(Job::Close(1));
    assert!(files.waiting.is_empty());
    files.perform(open(2, "bob", 2));
    files.perform(open(3, "bob", 1));
    assert!(files.waiting.is_empty());
    assert_eq!(files.open.keys().copied().collect::<Vec<_>>(), [2]);
}
