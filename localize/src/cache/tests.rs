//! The cache index against single claims.

mod sequences;
mod sets;

use super::super::resource::{
    LocalizationState, ResourceKind, ResourceSpec, ResourceUrl, UsedSets, Visibility,
};
use super::*;

const FIRST_ID: u64 = 10;

fn container(n: i64) -> ContainerId {
    records::ApplicationId::new(1_700_000_000_000, 7)
        .attempt(1)
        .container(n)
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
    Arc::new(FetchError::GivenUp)
}

fn joe() -> UserName {
    "joe".parse().unwrap()
}

/// A request's downloads, all started, or its answer.
struct Plan {
    downloads: Vec<Download>,
    complete: Option<Complete>,
}

/// Begins all of a request; nothing is missing on the disk.
fn begin_all(cache: &mut Cache, request: RequestId) -> Plan {
    let begun = cache.begin(request, &[]);
    cache.assert_invariants();
    assert!(!begun.is_partial);
    Plan {
        downloads: std::iter::from_fn(|| cache.next_download()).collect(),
        complete: begun.complete,
    }
}

/// Registers and begins a request of joe's and starts its downloads.
fn begin(cache: &mut Cache, n: i64, scope: &Scope, paths: &[&str]) -> (RequestId, Plan) {
    let all = paths.iter().map(|path| wanted(scope, path)).collect();
    let request = cache.register(container(n), SetNumber(0), joe(), all);
    (request, begin_all(cache, request))
}

fn finish(
    cache: &mut Cache,
    entry: EntryId,
    result: Result<(Place, u64), Arc<FetchError>>,
) -> Finished {
    let finished = cache.finish(entry, result);
    cache.thread_ended(entry);
    cache.assert_invariants();
    finished
}

fn succeed(cache: &mut Cache, entry: EntryId, bytes: u64) -> Finished {
    let place = cache.take_place(entry, 0).unwrap();
    finish(cache, entry, Ok((place, bytes)))
}

impl Cache {
    fn assert_invariants(&self) {
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
                EntryState::Downloading { waiters, .. } => {
                    assert!(listed && !waiters.is_empty() && entry.users.is_empty());
                    assert!(self.downloads.is_known(*id), "nobody downloads it");
                }
                EntryState::Ready { .. } => assert!(listed || !entry.users.is_empty()),
            }
        }
        for (id, request) in &self.requests {
            assert!(self.by_container[&request.container].contains(id));
            let pending = request.items.iter();
            let pending = pending
                .filter(|item| matches!(item.state, ItemState::New | ItemState::Waiting(_)))
                .count();
            assert_eq!(pending, request.pending);
            for (position, item) in request.items.iter().enumerate() {
                if let ItemState::Waiting(entry) = item.state {
                    let EntryState::Downloading { waiters, .. } = &self.entries[&entry].state
                    else {
                        panic!("waits for what is there");
                    };
                    assert!(waiters[id].contains(&position));
                }
            }
        }
    }
}

#[test]
fn two_containers_share_one_download() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let mut all = vec![wanted(&Scope::Public, "/a"); 4];
    Arc::make_mut(&mut all[1].spec).timestamp_ms = 2;
    Arc::make_mut(&mut all[2].spec).kind = ResourceKind::Pattern(None);
    // The size is not.
    Arc::make_mut(&mut all[3].spec).size = 7;
    let request = cache.register(container(1), SetNumber(0), joe(), all);
    assert_eq!(begin_all(&mut cache, request).downloads.len(), 3);
}

#[test]
fn two_links_to_one_resource_are_both_completed() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/a"]);
    assert_eq!(plan.downloads.len(), 1);
    let finished = succeed(&mut cache, plan.downloads[0].entry, 5);
    assert_eq!(finished.complete[0].1.len(), 2);
}

#[test]
fn a_failure_wakes_all_waiters_and_the_next_one_tries_again() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (first, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    let (second, _) = begin(&mut cache, 2, &Scope::Public, &["/a"]);
    let finished = finish(&mut cache, plan.downloads[0].entry, Err(failure()));
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    finish(&mut cache, plan.downloads[0].entry, Err(failure()));
    assert!(plan.downloads[1].progress.is_given_up());
    let unwanted = finish(&mut cache, plan.downloads[1].entry, Err(failure()));
    assert!(unwanted.unwanted && unwanted.failed.is_empty());
    let states: Vec<_> = cache
        .status(container(1), SetNumber(0))
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    succeed(&mut cache, plan.downloads[1].entry, 5);
    finish(&mut cache, plan.downloads[0].entry, Err(failure()));
    let status = cache.status(container(1), SetNumber(0));
    assert_eq!(status[0].state, LocalizationState::Failed);
    assert_eq!(status[0].diagnostics, "the download was given up");
    assert_eq!(status[1].state, LocalizationState::Completed);
    assert!(cache.status(container(2), SetNumber(0)).is_empty());
}

#[test]
fn a_cancelled_download_is_given_up_unless_another_waits() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (first, plan) = begin(&mut cache, 1, &Scope::Public, &["/a", "/b"]);
    begin(&mut cache, 2, &Scope::Public, &["/b"]);
    assert_eq!(cache.release(container(1)), [first]);
    assert_eq!(cache.release(container(1)), []);
    cache.assert_invariants();
    let given_up = |n: usize| plan.downloads[n].progress.is_given_up();
    assert_eq!([given_up(0), given_up(1)], [true, false]);
    assert!(cache.take_place(plan.downloads[0].entry, 0).is_none());
}

#[test]
fn a_request_cancelled_before_it_began_begins_nothing() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let all = vec![wanted(&Scope::Public, "/a")];
    let request = cache.register(container(1), SetNumber(0), joe(), all);
    assert_eq!(cache.release(container(1)), [request]);
    let plan = begin_all(&mut cache, request);
    assert!(plan.downloads.is_empty() && plan.complete.is_none());
}

#[test]
fn what_is_missing_on_the_disk_is_downloaded_again() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    succeed(&mut cache, plan.downloads[0].entry, 5);
    let all = vec![wanted(&Scope::Public, "/a")];
    let request = cache.register(container(2), SetNumber(0), joe(), all);
    let cached = cache.places_to_check(request);
    assert_eq!(cached.len(), 1);
    cache.begin(request, &[cached[0].0]);
    cache.assert_invariants();
    let download = cache.next_download().unwrap();
    let finished = succeed(&mut cache, download.entry, 5);
    assert_eq!(finished.complete[0].1[0].place.id, FIRST_ID + 1);
    // The first container still holds the old entry, which is removed with it.
    cache.release(container(1));
    cache.assert_invariants();
    assert_eq!(cache.entries.len(), 1);
}

#[test]
fn a_resource_is_checked_on_the_disk_once_for_all_requests_that_wait_for_the_check() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &Scope::Public, &["/a"]);
    let register = |cache: &mut Cache, n| {
        let all = vec![wanted(&Scope::Public, "/a"), wanted(&Scope::Public, "/a")];
        cache.register(container(n), SetNumber(0), joe(), all)
    };
    let during_download = register(&mut cache, 2);
    succeed(&mut cache, plan.downloads[0].entry, 5);
    assert_eq!(cache.places_to_check(during_download).len(), 0);

    let [first, second] = [3, 4].map(|n| register(&mut cache, n));
    assert_eq!(cache.places_to_check(first).len(), 1);
    assert_eq!(cache.places_to_check(second).len(), 0);
    let later = register(&mut cache, 5);
    assert_eq!(cache.places_to_check(later).len(), 1);
    for request in [first, second, later] {
        assert_eq!(begin_all(&mut cache, request).complete.unwrap().len(), 2);
    }
}

#[test]
fn the_least_recently_used_of_what_nobody_uses_is_evicted_down_to_the_target() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
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
    let mut cache = Cache::new(8192, 100, FIRST_ID);
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
fn a_large_request_is_begun_in_parts_and_completed_once() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let many = (0..BEGIN_MAX + 1).map(|n| wanted(&Scope::Public, &format!("/{n}")));
    let request = cache.register(container(1), SetNumber(0), joe(), many.collect());
    assert!(cache.begin(request, &[]).is_partial);
    let first: Vec<_> = std::iter::from_fn(|| cache.next_download()).collect();
    for download in &first {
        assert!(succeed(&mut cache, download.entry, 1).complete.is_empty());
    }
    let rest = begin_all(&mut cache, request).downloads;
    assert!(rest.iter().chain(&first).all(|d| !d.progress.is_given_up()));
    let mut complete = Vec::new();
    let mut next = rest;
    while let Some(download) = next.pop() {
        complete.append(&mut succeed(&mut cache, download.entry, 1).complete);
        next.extend(cache.next_download());
    }
    assert_eq!(complete.len(), 1);
    assert_eq!(complete[0].1.len(), BEGIN_MAX + 1);
}

/// A step that looked at all resources of the request would make this test take hours.
#[test]
fn the_steps_of_a_large_request_cost_as_much_as_their_resources() {
    const RESOURCES: usize = 100_000;
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let many = (0..RESOURCES).map(|n| wanted(&Scope::Public, &format!("/{n}")));
    let request = cache.register(container(1), SetNumber(0), joe(), many.collect());
    while cache.begin(request, &[]).is_partial {}
    let mut complete = Vec::new();
    while let Some(Download { entry, .. }) = cache.next_download() {
        let place = cache.take_place(entry, 0).unwrap();
        complete.append(&mut cache.finish(entry, Ok((place, 1))).complete);
        cache.thread_ended(entry);
    }
    assert_eq!(complete[0].1.len(), RESOURCES);
}

#[test]
fn a_download_without_progress_fails_with_its_source_and_its_thread_counts_until_it_ends() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (request, plan) = begin(&mut cache, 1, &private(), &["/slow", "/hangs"]);
    let check = |cache: &mut Cache, now_ms| {
        plan.downloads[0].progress.count_step();
        let failed = cache.fail_stalled(now_ms, 100).failed;
        cache.assert_invariants();
        failed
    };
    for now_ms in [1000, 1050, 1099] {
        assert!(check(&mut cache, now_ms).is_empty());
    }
    let failed = check(&mut cache, 1100);
    assert_eq!(failed[0].0, request);
    let reason = failed[0].1.error.to_string();
    assert_eq!(reason, "/hangs made no progress for 100 ms");
    assert!(plan.downloads.iter().all(|d| d.progress.is_given_up()));
    assert!(check(&mut cache, 2000).is_empty());
    assert_eq!(cache.threads(), 2);
    for download in &plan.downloads {
        assert!(finish(&mut cache, download.entry, Err(failure())).unwanted);
    }
    assert_eq!(cache.threads(), 0);
}

#[test]
fn folders_are_shared_out_by_disk_and_only_in_caches_of_many_applications() {
    let mut cache = Cache::new(37, 100, FIRST_ID);
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

#[test]
fn all_are_had_only_if_each_is_in_a_usable_place_by_a_look_that_counts() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let (_, plan) = begin(&mut cache, 1, &private(), &["/a", "/b"]);
    let [a, b] = [&plan.downloads[0], &plan.downloads[1]].map(|download| download.entry);
    let all = [wanted(&private(), "/a"), wanted(&private(), "/b")];
    let at = |now_ms, age_ms| Belief { now_ms, age_ms };
    succeed(&mut cache, a, 1);
    cache.seen(a, 100);
    assert!(cache.has_all(&all[..1], at(100, 10), |_| true));
    assert!(
        !cache.has_all(&all, at(100, 10), |_| true),
        "/b is downloading"
    );
    succeed(&mut cache, b, 1);
    assert!(
        !cache.has_all(&all, at(100, 10), |_| true),
        "/b was never seen"
    );
    cache.seen(b, 105);
    assert!(cache.has_all(&all, at(109, 10), |_| true));
    assert!(
        !cache.has_all(&all, at(110, 10), |_| true),
        "/a was seen too long ago"
    );
    assert!(!cache.has_all(&all, at(105, 0), |_| true), "no look counts");
    assert!(!cache.has_all(&all, at(109, 10), |place| place.id != FIRST_ID));
    let others = [wanted(&application(), "/a")];
    assert!(
        !cache.has_all(&others, at(109, 10), |_| true),
        "another cache"
    );
    let missing = cache.register(container(2), SetNumber(0), joe(), all.to_vec());
    cache.begin(missing, &[a]);
    assert!(
        !cache.has_all(&all[..1], at(109, 10), |_| true),
        "found missing"
    );
    assert!(cache.has_all(&all[1..], at(109, 10), |_| true));
}

impl Cache {
    /// Returns the numbers of requests and of entries.
    pub(in super::super) fn sizes(&self) -> (usize, usize) {
        (self.requests.len(), self.entries.len())
    }
}
