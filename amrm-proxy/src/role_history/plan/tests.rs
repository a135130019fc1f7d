use proptest::prelude::*;

use super::*;

const NOW: MonoMillis = MonoMillis(0);

fn host(number: u8) -> Arc<str> {
    format!("n{number}").into()
}

/// Change of a plan.
#[derive(Clone, Debug)]
enum Change {
    Add(Option<u8>),
    Remove(usize),
    Share(u32),
    Take,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        proptest::option::of(0..6u8).prop_map(Change::Add),
        (0..20usize).prop_map(Change::Remove),
        (0..8u32).prop_map(Change::Share),
        Just(Change::Take),
    ]
}

/// Returns the counts of the first hosts, as a walk over all asks finds them.
fn walked(asks: &BTreeMap<u64, Option<Arc<str>>>, share: u32) -> BTreeMap<Arc<str>, u32> {
    let mut counts = BTreeMap::new();
    let hosts = asks.values().flatten();
    for host in hosts.take(usize::try_from(share).unwrap()) {
        *counts.entry(Arc::clone(host)).or_default() += 1;
    }
    counts
}

proptest! {
    /// Whoever applies what was touched, whenever, has the counts of a walk over all asks.
    #[test]
    fn touched_hosts_are_all_that_a_walk_over_all_asks_would_find(
        changes in proptest::collection::vec(change(), 0..60),
    ) {
        let mut plan = RolePlan::default();
        let (mut asks, mut share, mut last) = (BTreeMap::new(), 0, 0);
        let mut followed: BTreeMap<Arc<str>, u32> = BTreeMap::new();
        for change in changes.into_iter().chain([Change::Take]) {
            match change {
                Change::Add(on) => {
                    last += 1;
                    let on = on.map(host);
                    plan.add(RequestId(last), on.clone(), NOW);
                    asks.insert(last, on);
                }
                Change::Remove(place) => {
                    let known = asks.keys().nth(place).copied();
                    if let Some(ask) = known {
                        plan.remove(RequestId(ask));
                        asks.remove(&ask);
                    }
                }
                Change::Share(count) => {
                    plan.set_share(count);
                    share = count;
                }
                Change::Take => {
                    for (host, count) in plan.take_touched() {
                        followed.insert(host, count);
                    }
                    followed.retain(|_, count| *count > 0);
                    prop_assert_eq!(&followed, &walked(&asks, share));
                }
            }
            let hosts: Vec<_> = asks.values().flatten().cloned().collect();
            let rest = hosts.into_iter().skip(usize::try_from(share).unwrap());
            prop_assert_eq!(plan.rest().cloned().collect::<Vec<_>>(), rest.collect::<Vec<_>>());
        }
    }
}

#[test]
fn an_ask_that_is_relaxed_relaxes_all_until_it_ends() {
    let mut plan = RolePlan::default();
    plan.add(RequestId(1), Some(host(1)), NOW);
    plan.add(RequestId(2), None, MonoMillis(5));
    plan.add(RequestId(3), None, MonoMillis(7));
    assert_eq!(
        (plan.is_relaxed(), plan.first_open()),
        (false, Some(MonoMillis(5)))
    );
    plan.relax(RequestId(1));
    assert!(plan.is_relaxed());
    plan.remove(RequestId(1));
    plan.remove(RequestId(2));
    assert_eq!(
        (plan.is_relaxed(), plan.first_open()),
        (false, Some(MonoMillis(7)))
    );
}
