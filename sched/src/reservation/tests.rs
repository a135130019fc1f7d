mod binding;

use test_support::ids::application;

use super::*;
use crate::queue_order::QUEUE_BOUND_FACTOR_DEFAULT;
use records::MonoMillis;

type Table = ReservationTable<&'static str>;

const SIZE: Resource = Resource::new(1_024, 1);
const PROXY: &str = "n1";

fn table() -> Table {
    ReservationTable::new(QUEUE_BOUND_FACTOR_DEFAULT)
}

fn attempt(number: i32) -> ApplicationAttemptId {
    application(number).attempt(1)
}

fn user(number: u32) -> Digest {
    Digest([number, 0, 0, 0])
}

/// Returns a reservation of an attempt with so many tasks of a mean run, each of its own user.
fn wish(number: i32, waiting: u32, mean_ms: u64) -> Reservation {
    Reservation {
        attempt: attempt(number),
        user: user(number.cast_unsigned()),
        size: SIZE,
        waiting,
        run: ExpectedRun::Mean(mean_ms),
        given_back: 0,
    }
}

/// Returns a table to which these reservations came, in milliseconds, from proxies of one name.
fn table_of(wishes: &[(u64, Reservation)]) -> Table {
    let mut table = table();
    for (came_ms, wish) in wishes {
        let came = table.reserve(PROXY, wish, MonoMillis(*came_ms));
        assert_eq!(came, Ok(()));
    }
    table
}

/// Returns room for so many containers.
fn room(places: u32) -> Resource {
    Resource::new(SIZE.memory_mb * u64::from(places), SIZE.vcores * places)
}

fn offer(table: &mut Table, places: u32, now_ms: u64) -> Option<Offer<&'static str>> {
    table.offer(room(places), MonoMillis(now_ms))
}

/// Returns the attempt and the containers of the next offer.
fn next(table: &mut Table, places: u32, now_ms: u64) -> Option<(ApplicationAttemptId, u32)> {
    offer(table, places, now_ms).map(|offer| (offer.attempt, offer.rooms))
}

fn answer(bound: u32, waiting: u32) -> OfferAnswer {
    OfferAnswer {
        bound,
        waiting,
        run: ExpectedRun::Mean(6_000),
        within_ms: 1_000,
    }
}

#[test]
fn the_attempt_with_the_least_left_gets_as_much_room_as_it_can_use_and_the_next_one_the_rest() {
    let mut table = table_of(&[
        (0, wish(1, 100, 6_000)),
        (1, wish(2, 2, 26_000)),
        (2, wish(3, 3, 26_000)),
    ]);
    assert_eq!(next(&mut table, 4, 3), Some((attempt(2), 2)));
    assert_eq!(next(&mut table, 4, 3), Some((attempt(3), 2)));
    assert_eq!(next(&mut table, 4, 3), None);
    assert_eq!(table.held(), room(4));
}

#[test]
fn of_two_with_as_much_left_the_one_that_waits_longer_goes_first() {
    let mut table = table_of(&[(5, wish(1, 4, 6_000)), (0, wish(2, 4, 6_000))]);
    assert_eq!(next(&mut table, 1, 6), Some((attempt(2), 1)));
}

#[test]
fn who_has_waited_beyond_the_bound_gets_the_next_room_for_one_and_waits_again() {
    let mut table = table_of(&[(0, wish(1, 1_000, 600)), (0, wish(2, 1, 600))]);
    assert_eq!(next(&mut table, 1, 0), Some((attempt(2), 1)));
    // The proxy tells again and again that one task more waits.
    let mut large = 0;
    for turn in 1..=120_u64 {
        let now = MonoMillis(100 * turn);
        for wish in [wish(1, 1_000, 600), wish(2, 10, 600)] {
            assert_eq!(table.reserve(PROXY, &wish, now), Ok(()));
        }
        let Some(offer) = table.offer(room(4), now) else {
            continue;
        };
        if offer.attempt == attempt(1) {
            assert_eq!(offer.rooms, 1);
            large += 1;
        }
        let taken = answer(offer.rooms, 10);
        assert_eq!(table.answered(&PROXY, offer.id, taken, now), Ok(()));
        for _ in 0..offer.rooms {
            assert!(table.arrived(offer.attempt, SIZE));
        }
    }
    // Twelve seconds, of which it waits six, ten of its runs, each time.
    assert_eq!(large, 2);
}

#[test]
fn room_is_offered_once_held_for_what_is_bound_to_it_and_free_when_that_has_come() {
    let mut table = table_of(&[(0, wish(1, 2, 6_000)), (0, wish(2, 9, 6_000))]);
    let first = offer(&mut table, 3, 0).unwrap();
    assert_eq!((first.attempt, first.rooms), (attempt(1), 2));
    let taken = table.answered(&PROXY, first.id, answer(1, 0), MonoMillis(2));
    assert_eq!((taken, table.held()), (Ok(()), room(1)));
    assert_eq!(next(&mut table, 3, 2), Some((attempt(2), 2)));
    assert_eq!(next(&mut table, 3, 2), None);
    assert!(table.arrived(attempt(1), SIZE));
    // It is one of those that run now, and only one has come.
    assert_eq!(next(&mut table, 2, 2), None);
    assert_eq!(next(&mut table, 3, 2), Some((attempt(2), 1)));
    assert!(!table.arrived(attempt(1), SIZE));
    assert!(
        !table.arrived(attempt(2), SIZE),
        "nothing is bound to an offer"
    );
}

#[test]
fn an_offer_without_an_answer_gives_the_room_to_the_next_and_a_late_answer_counts_for_nothing() {
    let mut table = table_of(&[(0, wish(1, 1, 6_000)), (0, wish(2, 9, 6_000))]);
    let first = offer(&mut table, 1, 0).unwrap();
    assert_eq!(table.next_deadline(), Some(MonoMillis(OFFER_LIFE_MS)));
    assert_eq!(next(&mut table, 1, OFFER_LIFE_MS - 1), None);
    let now = MonoMillis(OFFER_LIFE_MS);
    assert_eq!(next(&mut table, 1, now.0), Some((attempt(2), 1)));
    let late = table.answered(&PROXY, first.id, answer(1, 0), now);
    assert_eq!(late, Err(AnswerError::NotOpen(first.id)));
    // Who does not answer is not asked again.
    assert_eq!(table.len(), 1);
}

#[test]
fn room_is_free_again_when_what_was_bound_does_not_come() {
    let mut table = table_of(&[(0, wish(1, 1, 6_000)), (0, wish(2, 9, 6_000))]);
    let first = offer(&mut table, 1, 0).unwrap();
    let eternal = OfferAnswer {
        within_ms: u64::MAX,
        ..answer(1, 0)
    };
    let taken = table.answered(&PROXY, first.id, eternal, MonoMillis(1));
    assert_eq!(taken, Ok(()));
    assert_eq!(next(&mut table, 1, HELD_MAX_MS), None);
    let over_ms = HELD_MAX_MS + 1;
    assert_eq!(table.next_deadline(), Some(MonoMillis(over_ms)));
    assert_eq!(next(&mut table, 1, over_ms), Some((attempt(2), 1)));
}

#[test]
fn who_lets_room_be_held_in_vain_rests_longer_each_time_unless_a_container_of_it_comes() {
    let mut table = table();
    // Binds a task as soon as it gets an offer, and never starts it. Returns the time of the offer.
    let in_vain = |table: &mut Table, from_ms: u64| {
        for now_ms in (from_ms..).step_by(100) {
            let now = MonoMillis(now_ms);
            assert_eq!(table.reserve(PROXY, &wish(1, 5, 6_000), now), Ok(()));
            if let Some(offer) = offer(table, 1, now_ms) {
                let bound = OfferAnswer {
                    within_ms: 1_000,
                    ..answer(1, 4)
                };
                assert_eq!(table.answered(&PROXY, offer.id, bound, now), Ok(()));
                return now_ms;
            }
        }
        unreachable!("offers never end")
    };
    assert_eq!(in_vain(&mut table, 0), 0);
    // Held for a second, then a rest of five, of ten.
    assert_eq!(in_vain(&mut table, 100), 6_000);
    assert_eq!(in_vain(&mut table, 6_100), 17_000);
    // One of it comes, late or not: it rests as the first time.
    table.arrived(attempt(1), SIZE);
    assert_eq!(in_vain(&mut table, 17_100), 17_100);
    assert_eq!(in_vain(&mut table, 17_200), 23_100);
    // Others get the room meanwhile.
    assert_eq!(
        table.reserve(PROXY, &wish(2, 9, 6_000), MonoMillis(24_200)),
        Ok(())
    );
    assert_eq!(next(&mut table, 1, 24_200), Some((attempt(2), 1)));
}

#[test]
fn an_attempt_with_nothing_left_is_void_whoever_tells_it() {
    let mut table = table_of(&[(0, wish(1, 1, 6_000)), (0, wish(2, 2, 6_000))]);
    let first = offer(&mut table, 1, 0).unwrap();
    let nothing = table.answered(&PROXY, first.id, answer(0, 0), MonoMillis(2));
    assert_eq!((nothing, table.len()), (Ok(()), 1));
    assert_eq!(table.reserve(PROXY, &wish(2, 0, 1), MonoMillis(3)), Ok(()));
    assert_eq!((next(&mut table, 1, 3), table.is_empty()), (None, true));
}

#[test]
fn a_reservation_lives_ten_seconds_from_its_last_news_and_keeps_its_turn() {
    let mut table = table_of(&[(0, wish(1, 5, 6_000)), (1, wish(2, 5, 6_000))]);
    let renewed = table.reserve(PROXY, &wish(1, 5, 6_000), MonoMillis(9_000));
    assert_eq!(renewed, Ok(()));
    table.expire(MonoMillis(RESERVATION_LIFE_MS));
    assert_eq!(table.len(), 2);
    table.expire(MonoMillis(RESERVATION_LIFE_MS + 1));
    assert_eq!(table.len(), 1);
    let again = table.reserve(PROXY, &wish(2, 5, 6_000), MonoMillis(10_002));
    assert_eq!(again, Ok(()));
    assert_eq!(next(&mut table, 1, 10_003), Some((attempt(1), 1)));
    table.expire(MonoMillis(9_000 + RESERVATION_LIFE_MS));
    assert_eq!(table.len(), 1);
}

#[test]
fn what_does_not_fit_is_passed_and_offered_when_there_is_room() {
    let large = Reservation {
        size: Resource::new(4_096, 1),
        ..wish(1, 1, 1_000)
    };
    let mut table = table_of(&[(0, large), (0, wish(2, 9, 6_000))]);
    assert_eq!(next(&mut table, 3, 0), Some((attempt(2), 3)));
    assert_eq!(next(&mut table, 7, 0), Some((attempt(1), 1)));
}

#[test]
fn a_run_of_which_nothing_is_known_counts_as_the_mean_of_the_node_or_as_what_it_has_run_already() {
    let unknown = |number, ran_ms| Reservation {
        run: ExpectedRun::AtLeast(ran_ms),
        ..wish(number, 10, 0)
    };
    for (ran_ms, first) in [(0, 1), (9_000, 2)] {
        let mut table = table();
        table.set_unknown_run_ms(5_000);
        for wish in [unknown(1, ran_ms), wish(2, 10, 8_000)] {
            assert_eq!(table.reserve(PROXY, &wish, MonoMillis(0)), Ok(()));
        }
        assert_eq!(next(&mut table, 1, 0), Some((attempt(first), 1)));
    }
}

#[test]
fn reservations_are_bounded_by_attempt_user_and_node_and_news_of_one_are_always_taken() {
    let mut table = table();
    let mut reserve = |number, of, memory_mb| {
        let wish = Reservation {
            user: user(of),
            size: Resource::new(memory_mb, 1),
            ..wish(number, 1, 1)
        };
        table.reserve(PROXY, &wish, MonoMillis(0))
    };
    let most = u64::try_from(RESERVATIONS_OF_ATTEMPT_MAX).unwrap();
    for memory_mb in 1..=most {
        assert_eq!(reserve(1, 0, memory_mb), Ok(()));
    }
    assert_eq!(reserve(1, 0, most + 1), Err(ReserveError::AttemptFull));
    assert_eq!(reserve(1, 0, most), Ok(()));
    let of_user = i32::try_from(RESERVATIONS_OF_USER_MAX).unwrap();
    for number in 2..=of_user - 7 {
        assert_eq!(reserve(number, 0, 1), Ok(()));
    }
    assert_eq!(reserve(of_user, 0, 1), Err(ReserveError::UserFull));
}

#[test]
fn on_a_full_node_each_user_gets_his_share_and_the_fullest_loses_what_would_come_last() {
    let mut table = table();
    let mut reserve = |number, of, waiting| {
        let wish = Reservation {
            user: user(of),
            ..wish(number, waiting, 1)
        };
        table.reserve(PROXY, &wish, MonoMillis(0))
    };
    // Four users take all places, each with attempts of ever more tasks.
    let of_user = i32::try_from(RESERVATIONS_OF_USER_MAX).unwrap();
    for number in 0..4 * of_user {
        let (of, waiting) = (number / of_user, number % of_user + 1);
        let taken = reserve(number, of.cast_unsigned(), waiting.cast_unsigned());
        assert_eq!(taken, Ok(()));
    }
    let share = i32::try_from(RESERVATIONS_MAX / 5).unwrap();
    for number in 0..share {
        assert_eq!(reserve(4 * of_user + number, 9, 1), Ok(()), "{number}");
    }
    assert_eq!(reserve(5 * of_user, 9, 1), Err(ReserveError::NodeFull));
    assert_eq!(reserve(0, 0, 2), Ok(()), "news of one that is there");
    assert_eq!(table.len(), RESERVATIONS_MAX);
    // The attempts of each with the least left are there.
    let mut had = |number| {
        let before = table.len();
        table.forget(attempt(number));
        before - table.len()
    };
    for first in (0..4).map(|of| of * of_user) {
        let found = [had(first + share - 1), had(first + share + 1)];
        assert_eq!(found, [1, 0], "from {first}");
    }
}

#[test]
fn a_size_of_nothing_is_refused() {
    for size in [Resource::new(0, 1), Resource::new(1, 0)] {
        let wish = Reservation {
            size,
            ..wish(1, 1, 1)
        };
        let refused = table().reserve(PROXY, &wish, MonoMillis(0));
        assert_eq!(refused, Err(ReserveError::NoSize(size)));
    }
}

#[test]
fn only_the_proxy_that_was_asked_answers_and_only_once() {
    let mut table = table_of(&[(0, wish(1, 5, 6_000))]);
    let first = offer(&mut table, 2, 0).unwrap();
    let now = MonoMillis(1);
    let forged = table.answered(&"n2", first.id, answer(2, 0), now);
    assert_eq!(forged, Err(AnswerError::NotYours(first.id)));
    let more = answer(9, 3);
    assert_eq!(table.answered(&PROXY, first.id, more, now), Ok(()));
    assert_eq!(table.held(), room(2));
    let again = table.answered(&PROXY, first.id, more, now);
    assert_eq!(again, Err(AnswerError::NotOpen(first.id)));
}

#[test]
fn what_is_given_back_or_of_an_attempt_that_has_ended_holds_no_room() {
    let mut table = table_of(&[(0, wish(1, 5, 6_000)), (0, wish(2, 9, 6_000))]);
    let first = offer(&mut table, 2, 0).unwrap();
    let now = MonoMillis(1);
    assert_eq!(table.answered(&PROXY, first.id, answer(2, 3), now), Ok(()));
    let less = Reservation {
        given_back: 1,
        ..wish(1, 3, 6_000)
    };
    assert_eq!(table.reserve(PROXY, &less, now), Ok(()));
    assert_eq!(table.held(), room(1));
    table.forget(attempt(1));
    assert_eq!((table.held(), table.len()), (room(0), 1));
}
