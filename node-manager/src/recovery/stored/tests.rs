//! Records over a restart.

use node_core::recovery::{StartRecord, StateRecord};
use test_support::ids;

use super::*;

fn stored(start: &StartRecord, state: Option<StateRecord>) -> StoredContainer {
    StoredContainer {
        start: start.clone(),
        state,
        contexts: BTreeMap::new(),
    }
}

#[test]
fn what_was_written_is_found_by_the_next_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let start = StartRecord {
        arrival: 3,
        ..StartRecord::default()
    };
    let state = StateRecord {
        pid: 17,
        ..StateRecord::default()
    };
    let application = ApplicationRecord {
        user: "alice".to_owned(),
        ..ApplicationRecord::default()
    };
    let key = KeyRecord {
        id: -4,
        secret: vec![1],
    };
    {
        let store = StateStore::open(&path).unwrap();
        let writer = StateWriter::new(&store);
        let used_until = Some(EpochMillis(9));
        let boxed = || Box::new(start.clone());
        for order in [
            StoreOrder::Start(ids::container(1), boxed()),
            StoreOrder::State(ids::container(1), Box::new(state.clone())),
            StoreOrder::Start(ids::container(2), boxed()),
            StoreOrder::Start(ids::container(3), boxed()),
            StoreOrder::Forget(ids::container(3), used_until),
            StoreOrder::Forget(ids::container(4), used_until),
            StoreOrder::ForgetUses(vec![ids::container(4).name()]),
            StoreOrder::Application(ids::application(1), Some(Box::new(application.clone()))),
            StoreOrder::Application(ids::application(2), Some(Box::new(application.clone()))),
            StoreOrder::LogsSettled(ids::container_of(1, 5).name()),
            StoreOrder::LogsSettled(ids::container_of(2, 5).name()),
            StoreOrder::Application(ids::application(2), None),
        ] {
            writer.write(&order);
        }
        let keys = KeyWriter::new(&store);
        keys.attempt(ids::attempt(1), Some(&key));
        keys.attempt(ids::attempt(2), Some(&key));
        keys.attempt(ids::attempt(2), None);
        // The form is unknown, so the record is left out.
        writer.sink.write(RecordWrite::Put {
            space: CONTAINERS,
            key: format!("{}/start", ids::container(9)),
            value: vec![99],
        });
    }
    let mut store = StateStore::open(&path).unwrap();
    let expected = FoundState {
        containers: [
            (ids::container(1).name(), stored(&start, Some(state))),
            (ids::container(2).name(), stored(&start, None)),
        ]
        .into(),
        applications: [(ids::application(1), application)].into(),
        attempts: [(ids::attempt(1), key)].into(),
        used: [(ids::container(3).name(), EpochMillis(9))].into(),
        settled_logs: [(ids::application(1), [ids::container_of(1, 5).name()].into())].into(),
        ..FoundState::default()
    };
    assert_eq!(FoundState::take_from(&mut store), expected);
    store.key_space(KEPT_FILES).put("file", vec![1]);
    StateWriter::new(&store).clear();
    drop(store);
    let mut store = StateStore::open(&path).unwrap();
    assert!(store.take_found(KEPT_FILES).is_empty());
    assert_eq!(FoundState::take_from(&mut store), FoundState::default());
}

#[test]
fn launch_contexts_of_reinitializations_are_found_until_they_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let context = ContextRecord {
        context: vec![5, 6],
    };
    {
        let store = StateStore::open(&path).unwrap();
        let writer = StateWriter::new(&store);
        let stored = |container, number| {
            StoreOrder::Context(container, number, Some(Box::new(context.clone())))
        };
        let [one, two] = [1, 2].map(ids::container);
        for order in [
            StoreOrder::Start(one, Box::default()),
            stored(one, 1),
            stored(one, 10),
            StoreOrder::Context(one, 1, None),
            StoreOrder::Start(two, Box::default()),
            stored(two, 1),
            StoreOrder::Forget(two, None),
            StoreOrder::Start(two, Box::default()),
        ] {
            writer.write(&order);
        }
    }
    let mut store = StateStore::open(&path).unwrap();
    let found = FoundState::take_from(&mut store).containers;
    let contexts: Vec<_> = found.values().map(|stored| &stored.contexts).collect();
    assert_eq!(contexts, [&[(10, context)].into(), &BTreeMap::new()]);
}

#[test]
fn records_of_the_node_are_found_until_they_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.redb");
    let drain = DrainRecord {
        mode: "quick".to_owned(),
        ..DrainRecord::default()
    };
    let suspects = SuspectsRecord {
        tried: Some("start".to_owned()),
        ..SuspectsRecord::default()
    };
    for (drain, suspects) in [(Some(drain), Some(suspects)), (None, None)] {
        let store = StateStore::open(&path).unwrap();
        let writer = StateWriter::new(&store);
        writer.write(&StoreOrder::Drain(drain.clone().map(Box::new)));
        writer.write(&StoreOrder::Suspects(suspects.clone().map(Box::new)));
        writer.commit_now();
        drop((store, writer));
        let mut store = StateStore::open(&path).unwrap();
        let found = FoundState::take_from(&mut store);
        let expected = FoundState {
            drain,
            suspects,
            ..FoundState::default()
        };
        assert_eq!(found, expected);
    }
}
