//! The cache index against random sequences, with its invariants checked after every step.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Register(i64, u64, Vec<usize>),
    Begin(usize),
    Start,
    Finish(usize, bool),
    Use(i64, UsedSets),
    Release(i64),
    Evict(u64),
    EndApplication,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..4_i64, 0..3_u64, prop::collection::vec(0..9_usize, 1..4))
            .prop_map(|(n, set, r)| Step::Register(n, set, r)),
        (0..9_usize).prop_map(Step::Begin),
        Just(Step::Start),
        (0..9_usize, any::<bool>()).prop_map(|(n, ok)| Step::Finish(n, ok)),
        (1..4_i64, 0..3_u64, any::<bool>(), any::<bool>()).prop_map(
            |(n, last, can_go_back, changes)| {
                let back_to = last.checked_sub(1).filter(|_| can_go_back).map(SetNumber);
                let next = changes.then_some(SetNumber(last + 1));
                let last = SetNumber(last);
                Step::Use(
                    n,
                    UsedSets {
                        last,
                        back_to,
                        next,
                    },
                )
            }
        ),
        (1..4_i64).prop_map(Step::Release),
        (0..30_u64).prop_map(Step::Evict),
        Just(Step::EndApplication),
    ]
}

proptest! {
    /// Asserts that each request is answered exactly once: complete, failed or cancelled.
    #[test]
    fn every_request_ends_once(steps in prop::collection::vec(step(), 0..60)) {
        let mut cache = Cache::new(37, 1, FIRST_ID);
        let mut registered = Vec::new();
        let mut downloads: Vec<Download> = Vec::new();
        let mut ended = BTreeSet::new();
        let mut end = |request: RequestId| assert!(ended.insert(request), "{request:?} ended twice");
        let scopes = [Scope::Public, private(), application()];
        for step in steps.into_iter().chain((1..4).map(Step::Release)) {
            match step {
                Step::Register(n, set, resources) => {
                    let all = resources.iter().map(|r| wanted(&scopes[r % 3], ["/a", "/b", "/c"][r / 3]));
                    let user = if n == 1 { joe() } else { "ann".parse().unwrap() };
                    registered.push(cache.register(container(n), SetNumber(set), user, all.collect()));
                }
                Step::Start => downloads.extend(cache.next_download()),
                Step::Begin(n) => {
                    if let Some(request) = registered.get(n).copied() {
                        let missing: Vec<_> = cache.places_to_check(request).into_iter().map(|(id, ..)| id).take(n % 2).collect();
                        let fresh = cache.requests.get(&request).is_some_and(|r| r.items.iter().any(|i| matches!(i.state, ItemState::New)));
                        let plan = cache.begin(request, &missing);
                        if plan.complete.is_some() && fresh { end(request); }
                    }
                }
                Step::Finish(n, ok) => {
                    if n < downloads.len() {
                        let entry = downloads.remove(n).entry;
                        let result = cache.take_place(entry, 0).filter(|_| ok).map(|place| (place, 10)).ok_or_else(failure);
                        let finished = cache.finish(entry, result);
                        cache.thread_ended(entry);
                        finished.complete.into_iter().for_each(|(request, _)| end(request));
                        finished.failed.into_iter().for_each(|(request, _)| end(request));
                    }
                }
                Step::Use(n, sets) => cache.use_sets(container(n), sets).into_iter().for_each(&mut end),
                Step::Release(n) => cache.release(container(n)).into_iter().for_each(&mut end),
                Step::Evict(target) => drop(cache.evict(target)),
                Step::EndApplication => cache.remove_application(&application(), container(1).application_id()).into_iter().for_each(&mut end),
            }
            cache.assert_invariants();
        }
        prop_assert_eq!(ended.len(), registered.len());
        // What is cancelled leaves the queues; what is under way is told to abort.
        prop_assert!(cache.next_download().is_none());
        prop_assert_eq!(cache.threads(), downloads.len());
        prop_assert!(downloads.iter().all(|download| download.progress.is_given_up()));
        downloads.iter().for_each(|download| cache.thread_ended(download.entry));
        prop_assert!(cache.downloads.is_empty());
        prop_assert!(cache.requests.is_empty() && cache.by_container.is_empty());
    }
}
