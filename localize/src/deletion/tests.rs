use std::fs;
use std::os::unix::fs::symlink;

use super::*;

fn service(debug_delay_sec: Option<u64>) -> DeletionService {
    let config = DeletionConfig {
        thread_count: 2,
        debug_delay_sec,
    };
    DeletionService::start(&config).unwrap()
}

fn deletion(base: &Path, names: &[&str]) -> Deletion {
    let disk = Disk {
        path: base.to_owned(),
        root: Arc::new(DirHandle::open_ambient(base).unwrap()),
        _lock: None,
    };
    Deletion::new(
        Arc::new(disk),
        names.iter().map(|&name| name.to_owned()).collect(),
    )
}

const NOW: Option<u64> = Some(0);
/// Deadline far above a deletion's duration, so that a test that waits for it hangs visibly.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn folders_go_and_missing_ones_are_no_error() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("a/b/c")).unwrap();
    let service = service(NOW);
    service.delete([
        deletion(base.path(), &["a", "b"]),
        deletion(base.path(), &["x", "y"]),
    ]);
    service.wait_until_idle();
    assert!(base.path().join("a").exists());
    assert!(!base.path().join("a/b").exists());
    service.stop(LONG);
}

#[test]
fn a_link_planted_on_the_way_is_not_followed() {
    let base = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("b")).unwrap();
    symlink(outside.path(), base.path().join("a")).unwrap();
    let service = service(NOW);
    service.delete([deletion(base.path(), &["a", "b"])]);
    service.wait_until_idle();
    assert!(outside.path().join("b").exists());
    service.stop(LONG);
}

#[test]
fn what_is_delayed_stays_and_does_not_hold_up_the_rest() {
    let base = tempfile::tempdir().unwrap();
    for name in ["later", "now"] {
        fs::create_dir(base.path().join(name)).unwrap();
    }
    let service = service(NOW);
    let hour = Duration::from_secs(3600);
    service.delete_after([deletion(base.path(), &["later"])], hour);
    let now = deletion(base.path(), &["now"]);
    service.delete([now.clone()]);
    let is_due =
        |queue: &mut Queue| queue.active > 0 || !queue.due.is_empty() || queue.heap.len() > 1;
    service.pool.wait_while(LONG, is_due);
    assert!(!now.path().exists());
    assert!(base.path().join("later").exists());
    service.stop(LONG);
    assert!(base.path().join("later").exists());
}

#[test]
fn a_user_with_many_deletions_leaves_a_thread_to_others() {
    let base = tempfile::tempdir().unwrap();
    let mut queue = Queue {
        each_user_max: 3,
        ..Queue::default()
    };
    let now = Instant::now();
    let of = |user: &str| deletion(base.path(), &[layout::USER_CACHE, user, "appcache"]);
    for _ in 0..100 {
        queue.push(now, of("many"));
    }
    let taken: Vec<_> = std::iter::from_fn(|| queue.next(now).ok()).collect();
    assert_eq!(taken.len(), 3);
    queue.push(now, of("few"));
    let next = queue.next(now).unwrap();
    assert_eq!(next.turn().as_str(), "few");
    assert!(queue.next(now).is_err());
    queue.turns.ended(&"many".parse().unwrap());
    assert!(queue.next(now).is_ok());
}

#[test]
fn memory_of_many_deletions_is_given_back() {
    let base = tempfile::tempdir().unwrap();
    let mut queue = Queue::default();
    let now = Instant::now();
    for _ in 0..10_000 {
        queue.push(now, deletion(base.path(), &["a"]));
    }
    queue.each_user_max = usize::MAX;
    while queue.next(now).is_ok() {}
    assert!(queue.heap.capacity() <= CAPACITY_KEPT);
    assert!(queue.due.is_empty() && queue.turns.is_empty());
}

#[test]
fn without_a_debug_delay_everything_is_kept() {
    let service = service(None);
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("a")).unwrap();
    service.delete([deletion(base.path(), &["a"])]);
    service.wait_until_idle();
    assert!(base.path().join("a").exists());
    service.stop(LONG);
}

#[test]
fn an_endless_delay_is_not_an_overflow() {
    let service = service(Some(u64::MAX));
    let base = tempfile::tempdir().unwrap();
    service.delete_after([deletion(base.path(), &["a"])], Duration::MAX);
    service.stop(LONG);
}

#[test]
fn a_stop_finishes_what_is_due() {
    let base = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..50).map(|index| format!("folder-{index}")).collect();
    for name in &names {
        fs::create_dir_all(base.path().join(name).join("a/b")).unwrap();
    }
    let service = service(NOW);
    service.delete(names.iter().map(|name| deletion(base.path(), &[name])));
    service.stop(LONG);
    assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
}
