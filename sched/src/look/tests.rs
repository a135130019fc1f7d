use std::collections::BTreeSet;

use proptest::prelude::*;

use super::LookAnswer::Seen;
use super::*;

const SIZE: Resource = Resource::new(1_024, 1);
const NOW: MonoMillis = MonoMillis(10_000);
const UNKNOWN: LookAnswer = LookAnswer::Unknown {
    free: Resource::new(4_096, 9),
};

fn terms(limit: usize) -> LookTerms {
    LookTerms {
        size: SIZE,
        max_queue_length: Some(limit),
        wanted: 1,
        ends_per_thousand: 0,
    }
}

/// Returns the sight of a node of eight places.
fn sight(running: u32, queued: u32) -> Sight {
    let free = 8 - running;
    Sight {
        running,
        queued,
        free: Resource::new(u64::from(free) * SIZE.memory_mb, free),
        seen_at: NOW,
    }
}

/// Draws for `wanted` containers from nodes that all answer with their number's sight.
fn round_of(placer: &mut LookPlacer<usize>, sights: &[Sight], wanted: u32) -> LookRound<usize> {
    let nodes: Vec<usize> = (0..sights.len()).collect();
    let mut round = placer.draw(&nodes, wanted);
    let wants: Vec<usize> = round.wants().copied().collect();
    for (position, node) in wants.into_iter().enumerate() {
        round.hears(position, Seen(sights[node]));
    }
    round
}

#[test]
fn containers_go_where_they_start_at_once_then_where_the_wait_is_shortest() {
    let mut placer = LookPlacer::new(1);
    for (sights, better) in [
        ([sight(8, 0), sight(7, 0)], 1),
        ([sight(3, 0), sight(7, 0)], 0),
        ([sight(8, 2), sight(8, 1)], 1),
        // Four places and a queue of two wait longer than eight places and a queue of three.
        (
            [
                Sight {
                    running: 4,
                    ..sight(8, 2)
                },
                sight(8, 3),
            ],
            1,
        ),
    ] {
        let round = round_of(&mut placer, &sights, 1);
        let placed = placer.place(round, &terms(5), |_, _| true, NOW);
        assert_eq!(placed.nodes, [better], "{sights:?}");
        placer.promised.clear();
    }
}

#[test]
fn what_exceeds_free_places_and_the_limit_is_held_back_and_without_a_limit_nothing() {
    let sights = [sight(6, 0), sight(8, 4)];
    let mut placer = LookPlacer::new(1);
    let round = round_of(&mut placer, &sights, 20);
    let placed = placer.place(round, &terms(5), |_, _| true, NOW);
    let count_on = |node| placed.nodes.iter().filter(|on| **on == node).count();
    // Two places and a queue of five; one place in the queue.
    assert_eq!((count_on(0), count_on(1)), (7, 1));
    assert_eq!((placed.held_back, placed.unseen.len()), (12, 0));

    let mut placer = LookPlacer::new(1);
    let round = round_of(&mut placer, &sights, 20);
    let all = LookTerms {
        max_queue_length: None,
        ..terms(5)
    };
    let placed = placer.place(round, &all, |_, _| true, NOW);
    assert_eq!((placed.nodes.len(), placed.held_back), (20, 0));
}

#[test]
fn a_closed_node_gets_nothing_without_a_limit_either() {
    let closed = Sight {
        queued: Sight::CLOSED,
        ..sight(0, 0)
    };
    for max_queue_length in [Some(5), None] {
        let mut placer = LookPlacer::new(1);
        let round = round_of(&mut placer, &[closed; 2], 4);
        let terms = LookTerms {
            max_queue_length,
            ..terms(5)
        };
        let placed = placer.place(round, &terms, |_, _| true, NOW);
        assert_eq!((placed.nodes.len(), placed.held_back), (0, 4));
    }
}

#[test]
fn old_news_counts_for_less_and_too_old_news_for_nothing() {
    let taken_at = |age_ms| {
        let old = Sight {
            seen_at: MonoMillis(NOW.0 - age_ms),
            ..sight(0, 0)
        };
        let mut placer = LookPlacer::new(1);
        let round = round_of(&mut placer, &[old; 2], 100);
        let placed = placer.place(round, &terms(2), |_, _| true, NOW);
        (placed.nodes.len(), placed.unseen.len())
    };
    assert_eq!(taken_at(0), (20, 0));
    assert_eq!(taken_at(20), (20, 0));
    assert_eq!(taken_at(SIGHT_AGE_MAX_MS / 2), (10, 0));
    assert_eq!(taken_at(SIGHT_AGE_MAX_MS - 1), (2, 0));
    assert_eq!(taken_at(SIGHT_AGE_MAX_MS), (0, 100));
    assert_eq!(taken_at(SIGHT_AGE_MAX_MS * 9), (0, 100));
}

#[test]
fn only_containers_without_any_sight_are_left_to_the_caller() {
    let mut placer = LookPlacer::new(1);
    let mut round = placer.draw(&[0, 1, 2, 3], 400);
    let position = round.wants().position(|node| *node == 0);
    round.hears(position.unwrap(), Seen(sight(0, 0)));
    let placed = placer.place(round, &terms(5), |_, _| true, NOW);
    assert_eq!(placed.nodes, [0; 13]);
    // One of two pairs of nodes is without the node seen.
    assert_eq!((placed.unseen.len(), placed.held_back), (200, 187));
    assert!(placed.unseen.iter().flatten().all(|node| *node != 0));
}

#[test]
fn a_draw_has_as_many_different_nodes_as_there_are_and_no_pair_of_one() {
    let mut placer = LookPlacer::new(1);
    for (nodes, wanted, drawn) in [(0, 3, 0), (1, 3, 1), (7, 3, 6), (7, 7, 7), (7, 20, 7)] {
        let nodes: Vec<usize> = (0..nodes).collect();
        for unseen in [false, true] {
            let round = match unseen {
                true => placer.draw_unseen(&nodes, wanted),
                false => placer.draw(&nodes, wanted),
            };
            let different: BTreeSet<usize> = round.wants().copied().collect();
            assert_eq!((round.wants().len(), different.len()), (drawn, drawn));
            let pairs = if drawn == 0 { 0 } else { wanted as usize };
            assert_eq!(round.pairs.len(), pairs);
            assert!(drawn < 2 || round.pairs.iter().all(|[one, other]| one != other));
        }
    }
    // Each node has the same chance.
    let mut times = [0_u32; 10];
    for _ in 0..1_000 {
        let round = placer.draw(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 2);
        for node in round.wants() {
            times[*node] += 1;
        }
    }
    assert!(
        times.iter().all(|times| (330..470).contains(times)),
        "{times:?}"
    );
}

#[test]
fn who_wants_much_leaves_the_queues_to_others_but_keeps_the_places_filled() {
    let queued = |wanted, ends_per_thousand| {
        let terms = LookTerms {
            wanted,
            ends_per_thousand,
            ..terms(10)
        };
        let mut placer = LookPlacer::new(1);
        let round = round_of(&mut placer, &[sight(6, 0)], 100);
        placer.place(round, &terms, |_, _| true, NOW).nodes.len() - 2
    };
    assert_eq!(
        [1, 30, 60, 300, 20_000].map(|wanted| queued(wanted, 0)),
        [10, 10, 5, 1, 1]
    );
    // Eight run; two, four or eight end until the next call, and twice as many at most.
    assert_eq!(
        [250, 500, 1_000].map(|ends| queued(20_000, ends)),
        [4, 8, 10]
    );
    assert_eq!((queued(60, 250), queued(60, u64::MAX)), (5, 10));
}

#[test]
fn what_would_wait_goes_to_a_node_of_unknown_load_but_not_to_one_that_is_silent() {
    let placed_beside = |other: Option<LookAnswer>, share: u32| {
        let mut placer = LookPlacer::new(1);
        let mut round = placer.draw(&[0, 1], 10);
        let position = |node| round.wants().position(|wanted| *wanted == node).unwrap();
        let [seen, unseen] = [0, 1].map(position);
        round.hears(seen, Seen(sight(7, 0)));
        if let Some(answer) = other {
            round.hears(unseen, answer);
        }
        let mut given = 0;
        let may_get = |node: &usize, max: u32| {
            assert_eq!(*node, 1);
            let gets = given < max.min(share);
            given += u32::from(gets);
            gets
        };
        let placed = placer.place(round, &terms(2), may_get, NOW);
        assert!(placed.nodes.iter().all(|node| *node == 0));
        assert!(placed.perhaps.iter().all(|node| *node == 1));
        assert_eq!(placed.unseen, Vec::<[usize; 2]>::new());
        let places = placed.unknown.get(&1).copied();
        (
            placed.nodes.len(),
            placed.perhaps.len(),
            placed.held_back,
            places,
        )
    };
    // One starts where its node was seen, as many as fit go to the unknown node, two wait.
    assert_eq!(placed_beside(Some(UNKNOWN), 9), (3, 4, 3, Some(4)));
    assert_eq!(placed_beside(Some(UNKNOWN), 1), (3, 1, 6, Some(4)));
    let full = LookAnswer::Unknown {
        free: Resource::new(0, 0),
    };
    assert_eq!(placed_beside(Some(full), 9), (3, 2, 5, Some(0)));
    assert_eq!(placed_beside(None, 9), (3, 0, 7, None));
    assert_eq!(placed_beside(Some(Seen(sight(8, 2))), 9), (3, 0, 7, None));
}

#[test]
fn what_a_doubted_node_has_told_is_not_used() {
    let mut placer = LookPlacer::new(1);
    let mut round = round_of(&mut placer, &[sight(0, 0), sight(8, 0)], 10);
    round.doubt(|node| *node == 0);
    let placed = placer.place(round, &terms(2), |_, max| max > 0, NOW);
    assert_eq!(placed.nodes, [1; 2]);
    assert_eq!((placed.perhaps.len(), placed.held_back), (8, 0));
    assert_eq!(placed.unknown, BTreeMap::from([(0, 0)]));
}

#[test]
fn an_answer_of_a_node_that_was_not_asked_and_a_second_answer_change_nothing() {
    let mut placer = LookPlacer::new(1);
    let mut round = placer.draw(&[0], 4);
    round.hears(7, Seen(sight(0, 0)));
    round.hears(0, Seen(sight(8, 5)));
    round.hears(0, Seen(sight(0, 0)));
    round.hears(0, UNKNOWN);
    let placed = placer.place(round, &terms(5), |_, _| true, NOW);
    assert_eq!((placed.nodes.len(), placed.held_back), (0, 4));
}

#[test]
fn a_promise_counts_until_a_look_shows_it() {
    let mut placer = LookPlacer::new(1);
    let sights = [sight(7, 0)];
    let mut counts = Vec::new();
    for now in [NOW, NOW + 1, NOW + PROMISE_MS] {
        let sights = sights.map(|sight| Sight {
            seen_at: now,
            ..sight
        });
        let round = round_of(&mut placer, &sights, 4);
        counts.push(placer.place(round, &terms(5), |_, _| true, now).nodes.len());
    }
    // One place and a queue of five.
    assert_eq!(counts, [4, 2, 4]);
}

#[test]
fn what_the_caller_misses_in_a_sight_takes_room_and_is_not_counted_twice() {
    let mut placer = LookPlacer::new(1);
    let sights = [sight(4, 0)];
    let mut counts = Vec::new();
    // One place is promised meanwhile; two are missing in all.
    for (missing, wanted) in [(3, 1), (2, 9)] {
        let mut round = round_of(&mut placer, &sights, wanted);
        round.expect(|node, seen| {
            assert_eq!((*node, *seen), (0, sights[0]));
            missing
        });
        counts.push(placer.place(round, &terms(2), |_, _| true, NOW).nodes.len());
    }
    assert_eq!(counts, [1, 4]);
}

#[test]
fn promises_and_looks_take_bounded_memory() {
    let nodes: Vec<usize> = (0..100_000).collect();
    let mut placer = LookPlacer::new(1);
    for _ in 0..4 {
        let mut round = placer.draw(&nodes, u32::MAX);
        assert_eq!(round.wants().len(), LOOKS_PER_CALL_MAX);
        for position in 0..LOOKS_PER_CALL_MAX {
            round.hears(position, Seen(sight(0, 0)));
        }
        let all = LookTerms {
            max_queue_length: None,
            ..terms(0)
        };
        let placed = placer.place(round, &all, |_, _| true, NOW);
        assert_eq!(placed.nodes.len(), ALLOCATIONS_PER_CALL_MAX as usize);
    }
    assert_eq!(placer.promised.len(), PROMISED_MAX);
}

fn any_answer() -> impl Strategy<Value = Option<LookAnswer>> {
    let load = (
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<u32>(),
        0..2_000_u64,
    );
    let small = (0..20_u32, 0..20_u32, 0..20_480_u64, 0..20_u32, 0..2_000_u64);
    let numbers = prop_oneof![load.boxed(), small.boxed()];
    let sight = numbers.prop_map(|(running, queued, memory_mb, vcores, age_ms)| Sight {
        running,
        queued,
        free: Resource::new(memory_mb, vcores),
        seen_at: MonoMillis(NOW.0 - age_ms),
    });
    proptest::option::of(prop_oneof![4 => sight.prop_map(Seen), 1 => Just(UNKNOWN)])
}

proptest! {
    #[test]
    fn every_container_is_placed_within_room_or_held_back_or_left(
        answers in proptest::collection::vec(any_answer(), 0..40),
        wanted in 0..300_u32,
        limit in 0..20_usize,
        seed: u64,
    ) {
        let nodes: Vec<usize> = (0..answers.len()).collect();
        let place = || {
            let mut placer = LookPlacer::new(seed);
            let mut round = placer.draw(&nodes, wanted);
            let wants: Vec<usize> = round.wants().copied().collect();
            for (position, node) in wants.into_iter().enumerate() {
                if let Some(answer) = answers[node] {
                    round.hears(position, answer);
                }
            }
            placer.place(round, &terms(limit), |_, _| true, NOW)
        };
        let placed = place();
        prop_assert_eq!(&placed, &place());
        let left = placed.unseen.len() + placed.perhaps.len();
        let all = placed.nodes.len() + placed.held_back as usize + left;
        prop_assert_eq!(all, if nodes.is_empty() { 0 } else { wanted as usize });
        let is_seen = |node: &usize| match answers[*node] {
            Some(Seen(sight)) => NOW.since(sight.seen_at) < SIGHT_AGE_MAX_MS,
            Some(LookAnswer::Unknown { .. }) | None => false,
        };
        prop_assert!(!placed.unseen.iter().flatten().any(is_seen));
        prop_assert!(placed.perhaps.iter().all(|node| answers[*node] == Some(UNKNOWN)));
        for (node, answer) in answers.iter().enumerate() {
            let sight = match answer {
                Some(Seen(sight)) => Some(*sight),
                Some(LookAnswer::Unknown { .. }) | None => None,
            };
            let given = placed.nodes.iter().filter(|on| **on == node).count() as u64;
            let room = sight.map_or(0, |sight| {
                let places = sight.free.memory_mb.div_euclid(SIZE.memory_mb);
                let places = places.min(sight.free.vcores.into());
                places + (limit as u64).saturating_sub(sight.queued.into())
            });
            prop_assert!(given <= room, "{} {} {:?}", given, room, sight);
        }
    }
}

#[test]
fn a_promise_that_is_taken_back_leaves_its_room() {
    let mut placer = LookPlacer::new(1);
    let sights = [sight(4, 0)];
    let round = round_of(&mut placer, &sights, 4);
    let placed = placer.place(round, &terms(0), |_, _| true, NOW);
    assert_eq!(placed.nodes, [0; 4]);
    placer.take_back(&placed.nodes[..3]);
    let round = round_of(&mut placer, &sights, 4);
    assert_eq!(
        placer.place(round, &terms(0), |_, _| true, NOW).nodes,
        [0; 3]
    );
    placer.take_back(&[7]);
    assert_eq!(placer.promised.len(), 4);
}
