//! Tests of the store over real files.

use std::cell::Cell;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use test_support::mounts;

use super::*;

fn contents(path: &Path, space: &str) -> Contents {
    StateStore::open(path).unwrap().take_found(space)
}

/// Waits for all changes so far; returns whether they are told to be committed.
fn settled(store: &StateStore) -> Result<(), NotStored> {
    let (tell, told) = std::sync::mpsc::channel();
    store.commits().when_settled(Urgency::Now, move |outcome| {
        tell.send(outcome).unwrap();
    });
    told.recv().unwrap()
}

fn records(items: &[(&str, u8)]) -> Contents {
    items
        .iter()
        .map(|(key, value)| ((*key).to_owned(), vec![*value]))
        .collect()
}

#[test]
fn what_was_put_last_is_found_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    {
        let store = StateStore::open(&path).unwrap();
        let space = store.key_space("one");
        for value in 0..100 {
            space.put("asks", vec![value]);
        }
        space.put("keys", vec![7]);
        space.put("gone/limits", vec![8]);
        settled(&store).unwrap();
        space.clear("gone/");
        store.key_space("two").put("asks", vec![1]);
    }
    assert_eq!(
        contents(&path, "one"),
        records(&[("asks", 99), ("keys", 7)])
    );
    assert_eq!(contents(&path, "two"), records(&[("asks", 1)]));
    assert_eq!(contents(&path, "three"), Contents::new());
}

#[test]
fn a_group_that_has_ended_writes_nothing_into_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    {
        let store = StateStore::open(&path).unwrap();
        let space = store.key_space("one");
        let first = space.records("a/".to_owned());
        first.put("x", Some(vec![1]));
        settled(&store).unwrap();
        first.end();
        first.put("x", Some(vec![2]));
        let second = space.records("a/".to_owned());
        second.put("y", Some(vec![3]));
        first.put("y", Some(vec![4]));
        first.end();
    }
    assert_eq!(contents(&path, "one"), records(&[("a/y", 3)]));
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    std::fs::write(&path, b"something else entirely").unwrap();
    let error = StateStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("state.redb"), "{error}");
}

#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("state.redb");
    let _store = StateStore::open(&path).unwrap();
    for path in [path.as_path(), path.parent().unwrap()] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a_store_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let _first = StateStore::open(&path).unwrap();
    assert!(StateStore::open(&path).is_err());
}

#[test]
fn who_waits_is_told_once_the_changes_before_are_committed() {
    let folder = tempfile::tempdir().unwrap();
    let store = StateStore::open(&folder.path().join("state.redb")).unwrap();
    let (told, outcomes) = std::sync::mpsc::channel();
    for value in 0..10 {
        store.key_space("one").put("asks", vec![value]);
        let told = told.clone();
        let urgency = [Urgency::Now, Urgency::Gathered][usize::from(value % 2)];
        store.commits().when_settled(urgency, move |outcome| {
            told.send(outcome).unwrap();
        });
    }
    drop(told);
    assert_eq!(outcomes.iter().collect::<Vec<_>>(), [Ok(()); 10]);
}

#[test]
fn a_failed_transaction_is_told_and_its_changes_are_written_with_the_next() {
    let pending = Pending::default();
    let (told, outcomes) = std::sync::mpsc::channel();
    let wait = |name: &'static str| {
        let told = told.clone();
        let settled = move |outcome| told.send((name, outcome)).unwrap();
        pending.when_settled(Urgency::Now, Box::new(settled));
    };
    wait("nothing to wait for");
    pending.put("one", "a".to_owned(), Some(vec![1]));
    wait("its own change");
    pending.put("one", "replaced".to_owned(), Some(vec![1]));
    pending.put("two", "cleared".to_owned(), Some(vec![1]));
    let batch = pending.take().unwrap();
    wait("the transaction under way");
    pending.put("one", "b".to_owned(), Some(vec![1]));
    pending.put("one", "replaced".to_owned(), Some(vec![2]));
    pending.clear("two", "c");
    wait("both");
    pending.written(Err((NotStored, batch)));
    let batch = pending.take().unwrap();
    let value = |key: &str| {
        batch
            .values
            .get(&("one", key.to_owned()))
            .cloned()
            .flatten()
    };
    let values = ["a", "b", "replaced"].map(value);
    assert_eq!(values, [Some(vec![1]), Some(vec![1]), Some(vec![2])]);
    assert_eq!(batch.values.len(), 3);
    // Nothing new came meanwhile: it is tried again all the same.
    pending.written(Err((NotStored, batch)));
    let batch = pending.take().unwrap();
    assert_eq!(batch.values.len(), 3);
    pending.put("one", "c".to_owned(), Some(vec![1]));
    wait("only a later change");
    pending.written(Ok(()));
    assert!(pending.take().is_some());
    pending.written(Ok(()));
    let lost = Err(NotStored);
    let expected = [
        ("nothing to wait for", Ok(())),
        ("its own change", lost),
        ("the transaction under way", lost),
        ("both", lost),
        ("only a later change", Ok(())),
    ];
    assert_eq!(outcomes.try_iter().collect::<Vec<_>>(), expected);
}

/// Stores a record; returns whether that is told to have worked.
fn store_one(store: &StateStore, key: &str, value: Vec<u8>) -> Result<(), NotStored> {
    store.key_space("one").put(key, value);
    settled(store)
}

#[test]
fn a_disk_that_was_full_gets_everything_once_it_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path();
    mounts::with_own_mounts("a store on a full disk", || {
        mounts::small_disk(base, 16 << 20);
        let path = base.join("state.redb");
        let store = StateStore::open(&path).unwrap();
        store_one(&store, "before", vec![1]).unwrap();
        let mut filler = std::fs::File::create(base.join("filler")).unwrap();
        let full = std::io::copy(&mut std::io::repeat(0), &mut filler).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let large = vec![2; 4 << 20];
        for _ in 0..2 {
            let told = store_one(&store, "during", large.clone());
            assert_eq!(told, Err(NotStored));
        }
        drop(filler);
        std::fs::remove_file(base.join("filler")).unwrap();
        // A transaction that began on the full disk may still fail.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while store_one(&store, "after", vec![3]).is_err() {
            assert!(std::time::Instant::now() < deadline, "it never recovers");
        }
        drop(store);
        let mut store = StateStore::open(&path).unwrap();
        let found = store.take_found("one");
        let expected = [
            ("before".to_owned(), vec![1]),
            ("during".to_owned(), large),
            ("after".to_owned(), vec![3]),
        ];
        assert_eq!(found, expected.into());
    });
}

#[test]
fn a_damaged_file_is_set_aside_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    std::fs::write(&path, b"something else entirely").unwrap();
    let (store, damage) = StateStore::open_or_set_aside(&path, 17).unwrap();
    assert!(damage.is_some_and(|damage| damage.is_damage()));
    store.key_space("one").put("a", vec![1]);
    let aside = folder.path().join("state.redb.damaged-17");
    assert_eq!(std::fs::read(aside).unwrap(), b"something else entirely");
    // In use.
    assert!(StateStore::open_or_set_aside(&path, 18).is_err());
    drop(store);
    let (store, damage) = StateStore::open_or_set_aside(&path, 19).unwrap();
    assert!(damage.is_none());
    store
        .key_space(OWN_SPACE)
        .put(VERSION_KEY, vec![VERSION + 1]);
    drop(store);
    let error = StateStore::open_or_set_aside(&path, 20).unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found: 2, .. }),
        "{error}"
    );
    assert!(!folder.path().join("state.redb.damaged-20").exists());
}

/// Commits of a store, each with the bytes of the file after it.
fn commits_of_a_store(path: &Path) -> Vec<(Contents, Vec<u8>)> {
    let store = StateStore::open(path).unwrap();
    let space = store.key_space("one");
    let mut model = Contents::new();
    let mut commits = Vec::new();
    for value in 0..24_u8 {
        // Several pages of records, some of which go again.
        let record = vec![value; 1500];
        space.put(&format!("key {}", value % 16), record.clone());
        model.insert(format!("key {}", value % 16), record);
        settled(&store).unwrap();
        commits.push((model.clone(), std::fs::read(path).unwrap()));
        if value % 5 == 4 {
            space.clear("key 1");
            model.retain(|key, _| !key.starts_with("key 1"));
            settled(&store).unwrap();
            commits.push((model.clone(), std::fs::read(path).unwrap()));
        }
    }
    commits
}

/// Contents of a file, and `None` if it is found to be damaged.
fn contents_if_whole(path: &Path) -> Option<Contents> {
    match StateStore::open(path) {
        Ok(mut store) => Some(store.take_found("one")),
        Err(error) => {
            assert!(error.is_damage(), "{error:?}");
            None
        }
    }
}

/// Ranges of the blocks of two files that differ.
fn differing_blocks(one: &[u8], other: &[u8]) -> Vec<Range<usize>> {
    const BLOCK_BYTES: usize = 4096;
    (0..one.len().min(other.len()) / BLOCK_BYTES)
        .map(|block| block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES)
        .filter(|block| one[block.clone()] != other[block.clone()])
        .collect()
}

/// A machine that fails leaves some blocks of the file as earlier commits wrote them.
#[test]
fn what_a_failure_of_the_machine_leaves_is_a_commit_or_found_to_be_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let commits = commits_of_a_store(&folder.path().join("state.redb"));
    // Before the first of them only the version was there.
    let mut whole = vec![Contents::new()];
    whole.extend(commits.iter().map(|(contents, _)| contents.clone()));
    let torn = folder.path().join("torn.redb");
    let (opened, damaged) = (Cell::new(0), Cell::new(0));
    let last = any::<prop::sample::Index>();
    let old_blocks = prop::collection::vec(any::<[prop::sample::Index; 2]>(), 0..4);
    TestRunner::deterministic()
        .run(&(last, old_blocks), |(last, old_blocks)| {
            let last = last.index(commits.len());
            let mut file = commits[last].1.clone();
            for [commit, block] in old_blocks {
                let old = &commits[commit.index(last + 1)].1;
                let differing = differing_blocks(old, &file);
                if !differing.is_empty() {
                    let block = block.get(&differing).clone();
                    file[block.clone()].copy_from_slice(&old[block]);
                }
            }
            std::fs::write(&torn, file).unwrap();
            let contents = contents_if_whole(&torn);
            let counter = if contents.is_some() {
                &opened
            } else {
                &damaged
            };
            counter.update(|count| count + 1);
            prop_assert!(contents.is_none_or(|contents| whole.contains(&contents)));
            Ok(())
        })
        .unwrap();
    let counts = (opened.get(), damaged.get());
    assert!(counts.0 > 20 && counts.1 > 20, "{counts:?}");
}

/// A change to the store and to the model of it.
#[derive(Clone, Debug)]
enum Step {
    Put(String, u8),
    Clear(String),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => ("[ab]{1,3}", any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => "[ab]{1,2}".prop_map(Step::Clear),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Changes in any order, committed in any grouping, leave what a map would contain.
    #[test]
    fn any_grouping_of_changes_ends_like_a_map(steps in prop::collection::vec(step(), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.redb");
        let mut model = Contents::new();
        {
            let store = StateStore::open(&path).unwrap();
            let space = store.key_space("one");
            for step in steps {
                match step {
                    Step::Put(key, value) => {
                        space.put(&key, vec![value]);
                        model.insert(key, vec![value]);
                    }
                    Step::Clear(prefix) => {
                        space.clear(&prefix);
                        model.retain(|key, _| !key.starts_with(&prefix));
                    }
                    Step::Flush => settled(&store).unwrap(),
                }
            }
        }
        prop_assert_eq!(contents(&path, "one"), model);
    }
}
