//! Sets of resources: what a container has, and what is released.

use super::super::super::resource::ResourceStatus;
use super::*;

const KEPT: &str = "link to /kept";

/// Localizes resources of a container's set. The link of each is named after its path.
fn localize(cache: &mut Cache, set: u64, paths: &[&str]) -> RequestId {
    let all = paths.iter().map(|path| wanted(&private(), path)).collect();
    let request = cache.register(container(1), SetNumber(set), joe(), all);
    for download in begin_all(cache, request).downloads {
        succeed(cache, download.entry, 1);
    }
    request
}

/// Localizes another resource for a link.
fn relink(cache: &mut Cache, set: u64, path: &str, link: &str) {
    let mut other = wanted(&private(), path);
    link.clone_into(&mut other.link);
    let request = cache.register(container(1), SetNumber(set), joe(), vec![other]);
    for download in begin_all(cache, request).downloads {
        succeed(cache, download.entry, 1);
    }
}

fn fail_one(cache: &mut Cache, set: u64, path: &str) {
    let all = vec![wanted(&private(), path)];
    let request = cache.register(container(1), SetNumber(set), joe(), all);
    for download in begin_all(cache, request).downloads {
        finish(cache, download.entry, Err(failure()));
    }
}

fn status(cache: &Cache, set: u64) -> Vec<String> {
    let statuses = cache.status(container(1), SetNumber(set));
    let text = |status: ResourceStatus| format!("{} {:?}", status.link, status.state);
    statuses.into_iter().map(text).collect()
}

fn use_up_to(cache: &mut Cache, set: u64, back_to: Option<u64>) {
    let last = SetNumber(set);
    let back_to = back_to.map(SetNumber);
    let used = UsedSets {
        last,
        back_to,
        next: None,
    };
    let open = cache.use_sets(container(1), used);
    assert!(open.is_empty(), "{open:?}");
    cache.assert_invariants();
}

/// Returns the resources that nobody uses.
fn unused(cache: &mut Cache) -> Vec<String> {
    let evicted = cache.evict(0);
    let mut names: Vec<_> = evicted.into_iter().map(|(_, place)| place.name).collect();
    names.sort();
    names
}

#[test]
fn a_link_of_two_sets_is_told_once_and_what_was_not_localized_with_its_set() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    localize(&mut cache, 0, &["/kept", "/old"]);
    fail_one(&mut cache, 0, "/missing");
    localize(&mut cache, 1, &["/new"]);
    relink(&mut cache, 1, "/other", KEPT);
    let before = [KEPT, "link to /old"].map(|link| format!("{link} Completed"));
    let failed = "link to /missing Failed".to_owned();
    assert_eq!(status(&cache, 0), [&before[..], &[failed]].concat());
    let after = [&before[..], &["link to /new Completed".to_owned()]].concat();
    assert_eq!(status(&cache, 1), after);
    use_up_to(&mut cache, 1, Some(0));
    assert_eq!(status(&cache, 1), after);
}

#[test]
fn replaced_resources_are_released_once_the_container_cannot_go_back() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    localize(&mut cache, 0, &["/kept", "/old"]);
    fail_one(&mut cache, 0, "/missing");
    relink(&mut cache, 1, "/other", KEPT);
    use_up_to(&mut cache, 1, Some(0));
    assert_eq!(unused(&mut cache), [""; 0]);
    use_up_to(&mut cache, 1, None);
    assert_eq!(unused(&mut cache), ["kept"]);
    let mut left = status(&cache, 1);
    left.sort();
    assert_eq!(left, ["link to /kept Completed", "link to /old Completed"]);
    assert_eq!(cache.requests.len(), 2, "that of the failure is gone");
}

#[test]
fn a_container_that_goes_back_releases_what_only_the_later_set_had() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    localize(&mut cache, 0, &["/a", "/b"]);
    localize(&mut cache, 1, &["/b", "/c"]);
    use_up_to(&mut cache, 0, None);
    assert_eq!(unused(&mut cache), ["c"]);
    let both = ["link to /a Completed", "link to /b Completed"];
    assert_eq!(status(&cache, 0), both);
    assert_eq!(status(&cache, 1), both, "nothing is left of the later set");
}

#[test]
fn an_open_request_of_a_later_set_is_cancelled_unless_it_is_the_next() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    localize(&mut cache, 1, &["/left"]);
    let all = vec![wanted(&private(), "/a")];
    let request = cache.register(container(1), SetNumber(2), joe(), all);
    let plan = begin_all(&mut cache, request);
    let used = |next: Option<u64>| UsedSets {
        last: SetNumber(0),
        back_to: None,
        next: next.map(SetNumber),
    };
    assert_eq!(cache.use_sets(container(1), used(Some(2))), []);
    assert_eq!(
        unused(&mut cache),
        ["left"],
        "only that of the set in between"
    );
    assert!(!plan.downloads[0].progress.is_given_up());
    cache.assert_invariants();
    assert_eq!(cache.use_sets(container(1), used(None)), [request]);
    assert!(plan.downloads[0].progress.is_given_up());
    assert!(cache.requests.is_empty() && cache.by_container.is_empty());
}

#[test]
fn what_is_replaced_again_and_again_takes_no_more_memory() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    let mut replace = |sets: std::ops::Range<u64>, can_go_back: bool| {
        for set in sets {
            relink(&mut cache, set, &format!("/{set}"), KEPT);
            use_up_to(&mut cache, set, can_go_back.then(|| set - 1));
            unused(&mut cache);
        }
        let of_container = cache.by_container[&container(1)].len();
        (of_container, cache.requests.len(), cache.entries.len())
    };
    assert_eq!(replace(1..50, true), (2, 2, 2), "the one to go back to");
    assert_eq!(replace(50..100, false), (1, 1, 1));
}

#[test]
fn what_became_of_resources_is_told_after_the_end_until_it_is_forgotten() {
    let mut cache = Cache::new(8192, 100, FIRST_ID);
    localize(&mut cache, 0, &["/a"]);
    fail_one(&mut cache, 0, "/missing");
    localize(&mut cache, 1, &["/b"]);
    let all = vec![wanted(&private(), "/pending")];
    let request = cache.register(container(1), SetNumber(1), joe(), all);
    begin_all(&mut cache, request);
    let told = |cache: &Cache| [0, 1].map(|set| status(cache, set));
    let before = told(&cache);
    let of_second = ["/a Completed", "/b Completed", "/pending Pending"];
    assert_eq!(before[1], of_second.map(|line| format!("link to {line}")));
    assert_eq!(cache.release(container(1)), [request]);
    cache.assert_invariants();
    assert_eq!(told(&cache), before);
    assert_eq!(unused(&mut cache), ["a", "b"], "the files need not stay");
    assert_eq!(told(&cache), before);
    // A second release has nothing to add.
    cache.release(container(1));
    assert_eq!(told(&cache), before);
    cache.forget_past(container(1));
    assert_eq!(told(&cache), [[""; 0]; 2]);
}
