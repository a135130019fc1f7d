use std::collections::BTreeSet;

use super::*;

const MEAN: ExpectedRun = ExpectedRun::Mean(6_000);

fn binder() -> Binder<u32> {
    Binder::new(attempt(1), user(1), 7)
}

fn nodes(count: u32) -> Vec<u32> {
    (0..count).collect()
}

/// Tells the tasks that are wanted. Returns the nodes that are told, each with its news.
fn wants(
    binder: &mut Binder<u32>,
    wanted: u32,
    of_nodes: u32,
    now_ms: u64,
) -> Vec<(u32, Reservation)> {
    binder.wants(SIZE, wanted, MEAN, &nodes(of_nodes), MonoMillis(now_ms))
}

fn bound(binder: &mut Binder<u32>, node: u32, rooms: u32, now_ms: u64) -> u32 {
    let answer = binder.offered(&node, (SIZE, rooms), 1_000, MonoMillis(now_ms));
    answer.bound
}

#[test]
fn two_nodes_are_told_for_each_task_as_far_as_there_are_nodes_and_each_once() {
    for (wanted, of_nodes, told) in [(1, 100, 2), (30, 100, 60), (80, 100, 100), (9, 1, 1)] {
        let news = wants(&mut binder(), wanted, of_nodes, 0);
        let different: BTreeSet<u32> = news.iter().map(|(node, _)| *node).collect();
        assert_eq!((news.len(), different.len()), (told, told));
        for (_, reservation) in news {
            let expected = Reservation {
                waiting: wanted,
                ..wish(1, 0, 6_000)
            };
            assert_eq!(reservation, expected);
        }
    }
    let most = u32::try_from(RESERVED_NODES_MAX).unwrap();
    let news = wants(&mut binder(), 20_000, 2 * most, 0);
    assert_eq!(news.len(), RESERVED_NODES_MAX);
}

#[test]
fn other_attempts_draw_other_nodes_and_each_node_gets_its_share() {
    let mut counts = [0; 10];
    for seed in 0..1_000 {
        let mut binder = Binder::new(attempt(1), user(1), seed);
        for (node, _) in wants(&mut binder, 1, 10, 0) {
            counts[usize::try_from(node).unwrap()] += 1;
        }
    }
    let is_even = counts.iter().all(|count| (150..=250).contains(count));
    assert!(is_even, "{counts:?}");
}

#[test]
fn an_attempt_stays_where_it_has_reserved_and_tells_what_has_changed_much_or_long_ago() {
    let mut binder = binder();
    let first: BTreeSet<u32> = wants(&mut binder, 10, 100, 0)
        .into_iter()
        .map(|(node, _)| node)
        .collect();
    assert!(wants(&mut binder, 9, 100, 1_000).is_empty());
    assert!(wants(&mut binder, 6, 100, 2_000).is_empty());
    let told = |news: Vec<(u32, Reservation)>| {
        let told = news.into_iter().map(|(node, _)| node);
        told.collect::<BTreeSet<u32>>()
    };
    assert_eq!(told(wants(&mut binder, 5, 100, 3_000)), first);
    let renewed = 3_000 + RESERVATION_RENEWAL_MS;
    assert!(wants(&mut binder, 5, 100, renewed - 1).is_empty());
    assert_eq!(told(wants(&mut binder, 5, 100, renewed)), first);
    let more = told(wants(&mut binder, 11, 100, renewed + 1));
    assert!(more.is_superset(&first) && more.len() == 22, "{more:?}");
}

#[test]
fn nodes_are_told_once_a_length_is_learnt() {
    let mut binder = binder();
    let now = MonoMillis(0);
    let news = binder.wants(SIZE, 2, ExpectedRun::AtLeast(0), &nodes(9), now);
    assert_eq!(news.len(), 4);
    let news = binder.wants(SIZE, 2, ExpectedRun::AtLeast(900), &nodes(9), now);
    assert_eq!(news.len(), 0);
    let news = binder.wants(SIZE, 2, MEAN, &nodes(9), now);
    assert_eq!(news.len(), 4);
}

#[test]
fn no_more_is_bound_than_waits_whoever_offers_and_the_first_comes_first() {
    let mut binder = binder();
    wants(&mut binder, 3, 100, 0);
    assert_eq!(bound(&mut binder, 5, 2, 1), 2);
    assert_eq!(bound(&mut binder, 3, 2, 1), 1);
    assert_eq!(bound(&mut binder, 5, 2, 1), 0);
    assert_eq!(binder.waiting(SIZE), 0);
    let other = binder.offered(&5, (Resource::new(9, 9), 1), 0, MonoMillis(1));
    assert_eq!((other.bound, other.waiting), (0, 0));
    assert_eq!(binder.take_bound(SIZE), [5, 5, 3]);
    assert!(binder.take_bound(SIZE).is_empty());
}

#[test]
fn what_is_bound_is_wanted_until_the_master_has_it_and_is_not_bound_again() {
    let mut binder = binder();
    wants(&mut binder, 3, 100, 0);
    assert_eq!(bound(&mut binder, 5, 2, 1), 2);
    // The master asks for all three, because it has got none.
    wants(&mut binder, 3, 100, 1_000);
    assert_eq!(binder.waiting(SIZE), 1);
    let mut taken = binder.take_bound(SIZE);
    let left = taken.split_off(1);
    binder.keep_bound(SIZE, left);
    assert_eq!((taken, binder.take_bound(SIZE)), ([5].into(), [5].into()));
}

#[test]
fn with_nothing_left_every_node_is_told_so_and_room_that_is_not_wanted_is_given_back() {
    let mut binder = binder();
    let told = wants(&mut binder, 3, 100, 0).len();
    assert_eq!(
        bound(&mut binder, 5, 1, 1) + bound(&mut binder, 200, 1, 1),
        2
    );
    let news = wants(&mut binder, 1, 100, 1_000);
    let given_back: Vec<_> = news
        .iter()
        .filter(|(_, news)| news.given_back > 0)
        .collect();
    let [(200, news)] = given_back[..] else {
        panic!("{given_back:?}");
    };
    assert_eq!((news.given_back, news.waiting), (1, 0));
    let void = wants(&mut binder, 0, 100, 2_000);
    assert_eq!((void.len(), binder.take_bound(SIZE).len()), (1, 0));
    assert!(told >= 6);
}

#[test]
fn tasks_that_were_bound_to_a_node_that_is_lost_wait_again() {
    let mut binder = binder();
    wants(&mut binder, 3, 2, 0);
    assert_eq!(bound(&mut binder, 0, 2, 1) + bound(&mut binder, 1, 1, 1), 3);
    binder.retain_nodes(|node| *node != 0);
    assert_eq!(
        (binder.waiting(SIZE), binder.take_bound(SIZE)),
        (2, [1].into())
    );
}
