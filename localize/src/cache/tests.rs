//! The cache index against single claims, and against random sequences with its invariants checked
//! after every step.

use proptest::prelude::*;

use super::super::resource::{
    LocalizationState, ResourceKind, ResourceSpec, ResourceUrl, Visibility,
};
use super::places::FIRST_ID;
use super::*;

fn container(n: i64) -> ContainerId {
    format!("container_1700000000000_0007_01_{n:06}")
        .parse()
        .unwrap()
}

fn application() -> Scope {
    Scope::Application("joe".parse().unwrap(), container(1).application_id())
}

fn private() -> Scope {
    Scope::Private("joe".parse().unwrap())
}

fn wanted(scope: &Scope, path: &str) -> Wanted {
    Wanted {
        link: format!("link to {path}"),
        scope: scope.clone(),
        name: path.trim_start_matches('/').to_owned(),
        spec: Arc::new(ResourceSpec {
            url: ResourceUrl {
                scheme: None,
                user_info: None,
                host: None,
                port: None,
                path: path.to_owned(),
            },
            size: 0,
            timestamp_ms: 1,
            kind: ResourceKind::File,
            visibility: Visibility::Public,
        }),
    }
}

fn failure() -> Arc<FetchError> {
    Arc::new(FetchError::QueueFull)
}

/// Registers and begins a request; nothing is missing on the disk.
fn begin(cache: &mut Cache, n: i64, scope: &Scope, paths: &[&str]) -> (RequestId, RequestPlan) {
    let all = paths.iter().map(|path| wanted(scope, path)).collect();
    let request = cache.register(container(n), all).unwrap();
    let plan = cache.begin(request, &[]);
    cache.assert_invariants();
    (request, plan)
}

fn succeed(cache: &mut Cache, entry: EntryId, bytes: u64) -> Finished {
    let place = cache.take_place(entry, 0).unwrap();
    let finished = cache.finish(entry, Ok((place, bytes)));
    cache.assert_invariants();
    finished
}

impl Cache {
    fn assert_invariants(&self) {
        let states = || self.requests.values().flat_map(|request| &request.items);
        let waiting = states()
            .filter(|item| matches!(item.state, ItemState::New | ItemState::Waiting(_)))
            .count();
        assert_eq!(waiting, self.waiting);
        for (scope, index) in &self.scopes {
            for (key, id) in &index.entries {
                let entry = &self.entries[id];
                assert_eq!((&entry.scope, &entry.key), (scope, key));
            }
        }
        for (id, entry) in &self.entries {
            let listed = self
                .scopes
                .get(&entry.scope)
                .is_some_and(|index| index.entries.get(&entry.key) == Some(id));
            match &entry.state {
                EntryState::Downloading(waiters) => {
                    assert!(listed && !waiters.is_empty() && entry.users.is_empty());
                }
                EntryState::Ready { .. } => assert!(listed || !entry.users.is_empty()),
            }
        }
        for (id, request) in &self.requests {
            assert!(self.by_container[&request.container].contains(id));
            for item in &request.items {
                if let ItemState::Waiting(entry) = item.state {
                    let EntryState::Downloading(waiters) = &self.entries[&entry].state else {
                        panic!("waits for what is there");
                    };
                    assert!(waiters.contains(id));
                }
            }
        }
    }
}

#[test]
fn two_containers_share_one_download() {
    let mut cache = Cache::new(8192);
    let (first, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    let entry = plan.downloads[0].entry;
    let (second, plan) = begin(&mut cache, 2, &Scope::Public, &["/a"]);
    assert!(plan.downloads.is_empty() && plan.complete.is_none());
    let finished = succeed(&mut cache, entry, 5);
    let done: Vec<_> = finished
        .complete
        .iter()
        .map(|(request, _)| *request)
        .collect();
    assert_eq!(done, [first, second]);
    assert_eq!(finished.complete[0].1[0].place.id, FIRST_ID);
    let (_, plan) = begin(&mut cache, 3, &Scope::Public, &["/a"]);
    let resources = plan.complete.unwrap();
    assert_eq!(
        (resources.len(), resources[0].bytes, resources[0].was_cached),
        (1, 5, true)
    );
    let waited = finished
        .complete
        .iter()
        .flat_map(|(_, resources)| resources);
    assert!(
        waited
            .into_iter()
            .all(|resource| resource.bytes == 5 && !resource.was_cached)
    );
}

#[test]
fn caches_of_users_and_applications_are_apart() {
    let mut cache = Cache::new(8192);
    let other = Scope::Private("ann".parse().unwrap());
    for scope in [Scope::Public, private(), other, application()] {
        let (_, plan) = begin(&mut cache, 1, &scope, &["/a"]);
        assert_eq!(plan.downloads.len(), 1, "{scope:?}");
        let place = cache.take_place(plan.downloads[0].entry, 0).unwrap();
        assert_eq!(place.id, FIRST_ID);
    }
}

#[test]
fn time_and_type_are_part_of_what_a_resource_is() {
    let mut cache = Cache::new(8192);
    let mut all = vec![wanted(&Scope::Public, "/a"); 4];
    Arc::make_mut(&mut all[1].spec).timestamp_ms = 2;
    Arc::make_mut(&mut all[2].spec).kind = ResourceKind::Pattern(None);
    // The size is not.
    Arc::make_mut(&mut all[3].spec).size = 7;
    let request = cache.register(container(1), all).unwrap();
    assert_eq!(cache.begin(request, &[]).downloads.len(), 3);
}

#[test]
fn two_links_to_one_resource_are_both_completed() {
    let mut cache = Cache::new(8192);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/a"]);
    assert_eq!(plan.downloads.len(), 1);
    let finished = succeed(&mut cache, plan.downloads[0].entry, 5);
    assert_eq!(finished.complete[0].1.len(), 2);
}

#[test]
fn a_failure_wakes_all_waiters_and_the_next_one_tries_again() {
    let mut cache = Cache::new(8192);
    let (first, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    let (second, _) = begin(&mut cache, 2, &Scope::Public, &["/a"]);
    let finished = cache.finish(plan.downloads[0].entry, Err(failure()));
    cache.assert_invariants();
    let failed: Vec<_> = finished
        .failed
        .iter()
        .map(|(request, _)| *request)
        .collect();
    assert_eq!(failed, [first, second]);
    assert_eq!(finished.failed[0].1.link, "link to /a");
    let (_, plan) = begin(&mut cache, 3, &Scope::Public, &["/a"]);
    assert_eq!(plan.downloads.len(), 1);
}

#[test]
fn after_a_failure_the_container_waits_for_nothing_else() {
    let mut cache = Cache::new(8192);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    cache.finish(plan.downloads[0].entry, Err(failure()));
    assert!(!cache.is_waited_for(plan.downloads[1].entry));
    let unwanted = cache.finish(plan.downloads[1].entry, Err(failure()));
    assert!(unwanted.unwanted && unwanted.failed.is_empty());
    let states: Vec<_> = cache
        .status(container(1))
        .into_iter()
        .map(|s| s.state)
        .collect();
    assert_eq!(
        states,
        [LocalizationState::Failed, LocalizationState::Pending]
    );
}

#[test]
fn status_tells_what_is_there_and_why_something_is_not() {
    let mut cache = Cache::new(8192);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    succeed(&mut cache, plan.downloads[1].entry, 5);
    cache.finish(plan.downloads[0].entry, Err(failure()));
    let status = cache.status(container(1));
    assert_eq!(status[0].state, LocalizationState::Failed);
    assert_eq!(status[0].diagnostics, "too many downloads are waiting");
    assert_eq!(status[1].state, LocalizationState::Completed);
    assert!(cache.status(container(2)).is_empty());
    cache.release(container(1));
    assert!(cache.status(container(1)).is_empty());
}

#[test]
fn a_cancelled_download_is_given_up_unless_another_waits() {
    let mut cache = Cache::new(8192);
    let (first, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    begin(&mut cache, 2, &Scope::Public, &["/b"]);
    assert_eq!(cache.cancel(container(1)), [first]);
    assert_eq!(cache.cancel(container(1)), []);
    cache.assert_invariants();
    assert!(!cache.is_waited_for(plan.downloads[0].entry));
    assert!(cache.is_waited_for(plan.downloads[1].entry));
    assert!(cache.take_place(plan.downloads[0].entry, 0).is_none());
}

#[test]
fn a_request_cancelled_before_it_began_begins_nothing() {
    let mut cache = Cache::new(8192);
    let all = vec![wanted(&Scope::Public, "/a")];
    let request = cache.register(container(1), all).unwrap();
    assert_eq!(cache.cancel(container(1)), [request]);
    let plan = cache.begin(request, &[]);
    assert!(plan.downloads.is_empty() && plan.complete.is_none());
}

#[test]
fn what_is_missing_on_the_disk_is_downloaded_again() {
    let mut cache = Cache::new(8192);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    succeed(&mut cache, plan.downloads[0].entry, 5);
    let all = vec![wanted(&Scope::Public, "/a")];
    let request = cache.register(container(2), all).unwrap();
    let cached = cache.cached_places(request);
    assert_eq!(cached.len(), 1);
    let plan = cache.begin(request, &[cached[0].0]);
    cache.assert_invariants();
    assert_eq!(plan.downloads.len(), 1);
    let finished = succeed(&mut cache, plan.downloads[0].entry, 5);
    assert_eq!(finished.complete[0].1[0].place.id, FIRST_ID + 1);
    // The first container still holds the old entry, which is removed with it.
    cache.release(container(1));
    cache.assert_invariants();
    assert_eq!(cache.entries.len(), 1);
}

#[test]
fn the_least_recently_used_of_what_nobody_uses_is_evicted_down_to_the_target() {
    let mut cache = Cache::new(8192);
    for (n, path) in [(1, "/a"), (2, "/b"), (3, "/c"), (4, "/d")] {
        let (_, plan) = begin(&mut cache, n, &private(), &[path]);
        succeed(&mut cache, plan.downloads[0].entry, 10);
    }
    for n in [3, 1, 2] {
        cache.release(container(n));
    }
    let names = |evicted: Vec<(Scope, Place)>| -> Vec<_> {
        evicted.into_iter().map(|(_, place)| place.name).collect()
    };
    assert_eq!(names(cache.evict(40)), [""; 0]);
    assert_eq!(names(cache.evict(25)), ["c", "a"]);
    cache.assert_invariants();
    // `d` is in use, however full the cache is.
    assert_eq!(names(cache.evict(0)), ["b"]);
    assert_eq!(names(cache.evict(0)), [""; 0]);
}

#[test]
fn resources_of_applications_neither_count_nor_go() {
    let mut cache = Cache::new(8192);
    let (_, plan) = begin(&mut cache, 1, &application(), &["/a"]);
    succeed(&mut cache, plan.downloads[0].entry, 1 << 40);
    cache.release(container(1));
    assert!(cache.evict(0).is_empty());
    let id = container(1).application_id();
    assert!(cache.remove_application(&application(), id).is_empty());
    cache.assert_invariants();
    assert!(cache.entries.is_empty() && !cache.has_scope(&application()));
}

#[test]
fn the_end_of_an_application_cancels_its_containers() {
    let mut cache = Cache::new(8192);
    let (request, plan) = begin(&mut cache, 1, &application(), &["/a"]);
    let id = container(1).application_id();
    assert_eq!(cache.remove_application(&application(), id), [request]);
    assert!(cache.take_place(plan.downloads[0].entry, 0).is_none());
    let late = Place {
        disk: 0,
        shard: None,
        id: 10,
        name: "a".to_owned(),
    };
    assert!(
        cache
            .finish(plan.downloads[0].entry, Ok((late, 1)))
            .unwanted
    );
    assert!(!cache.has_scope(&application()));
}

#[test]
fn only_so_many_resources_may_be_waited_for() {
    let mut cache = Cache::new(8192);
    let many = |n: usize| vec![wanted(&Scope::Public, "/a"); n];
    cache.register(container(1), many(WAITING_MAX - 1)).unwrap();
    assert_eq!(cache.register(container(2), many(2)), Err(TooManyWaiting));
    cache.register(container(2), many(1)).unwrap();
    cache.release(container(1));
    cache.register(container(3), many(WAITING_MAX - 1)).unwrap();
}

#[test]
fn folders_are_shared_out_by_disk_and_only_in_caches_of_many_applications() {
    let mut cache = Cache::new(37);
    let paths = ["/a", "/b", "/c", "/d"];
    let (_, plan) = begin(&mut cache, 1, &private(), &paths);
    let shard = |cache: &mut Cache, n: usize, disk| {
        let place = cache.take_place(plan.downloads[n].entry, disk).unwrap();
        place.shard_names()
    };
    assert_eq!(shard(&mut cache, 0, 0), [""; 0]);
    assert_eq!(shard(&mut cache, 1, 0), ["0"]);
    assert_eq!(shard(&mut cache, 2, 1), [""; 0]);
    let (_, plan) = begin(&mut cache, 1, &application(), &paths);
    for download in plan.downloads {
        assert_eq!(cache.take_place(download.entry, 0).unwrap().shard, None);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register(i64, Vec<usize>),
    RequestPlan(usize),
    Finish(usize, bool),
    Cancel(i64),
    Release(i64),
    Evict(u64),
    EndApplication,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..4_i64, prop::collection::vec(0..9_usize, 1..4)).prop_map(|(n, r)| Step::Register(n, r)),
        (0..9_usize).prop_map(Step::RequestPlan),
        (0..9_usize, any::<bool>()).prop_map(|(n, ok)| Step::Finish(n, ok)),
        (1..4_i64).prop_map(Step::Cancel),
        (1..4_i64).prop_map(Step::Release),
        (0..30_u64).prop_map(Step::Evict),
        Just(Step::EndApplication),
    ]
}

proptest! {
    /// Asserts that each request is answered exactly once: complete, failed or cancelled.
    #[test]
    fn every_request_ends_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut cache = Cache::new(37);
        let mut registered = Vec::new();
        let mut downloads: Vec<Download> = Vec::new();
        let mut ended = BTreeSet::new();
        let mut end = |request: RequestId| assert!(ended.insert(request), "{request:?} ended twice");
        let scopes = [Scope::Public, private(), application()];
        for step in steps.into_iter().chain((1..4).map(Step::Release)) {
            match step {
                Step::Register(n, resources) => {
                    let all = resources.iter().map(|r| wanted(&scopes[r % 3], ["/a", "/b", "/c"][r / 3]));
                    registered.push(cache.register(container(n), all.collect()).unwrap());
                }
                Step::RequestPlan(n) => {
                    if let Some(request) = registered.get(n).copied() {
                        let missing: Vec<_> = cache.cached_places(request).into_iter().map(|(id, ..)| id).take(n % 2).collect();
                        let fresh = cache.requests.get(&request).is_some_and(|r| r.items.iter().any(|i| matches!(i.state, ItemState::New)));
                        let plan = cache.begin(request, &missing);
                        downloads.extend(plan.downloads);
                        if plan.complete.is_some() && fresh { end(request); }
                    }
                }
                Step::Finish(n, ok) => {
                    if n < downloads.len() {
                        let entry = downloads.remove(n).entry;
                        let result = cache.take_place(entry, 0).filter(|_| ok).map(|place| (place, 10)).ok_or_else(failure);
                        let finished = cache.finish(entry, result);
                        finished.complete.into_iter().for_each(|(request, _)| end(request));
                        finished.failed.into_iter().for_each(|(request, _)| end(request));
                    }
                }
                Step::Cancel(n) => cache.cancel(container(n)).into_iter().for_each(&mut end),
                Step::Release(n) => cache.release(container(n)).into_iter().for_each(&mut end),
                Step::Evict(target) => drop(cache.evict(target)),
                Step::EndApplication => cache.remove_application(&application(), container(1).application_id()).into_iter().for_each(&mut end),
            }
            cache.assert_invariants();
        }
        prop_assert_eq!(ended.len(), registered.len());
        prop_assert_eq!(cache.waiting, 0);
        prop_assert!(cache.requests.is_empty() && cache.by_container.is_empty());
    }
}
