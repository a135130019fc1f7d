//! Tests of the shares alone, without messages.

use proptest::prelude::*;

use super::*;

fn key() -> AskKey {
    AskKey::of(&ResourceRequestProto::default())
}

fn container(kind: ExecutionTypeProto) -> ContainerProto {
    ContainerProto {
        execution_type: Some(kind.into()),
        ..ContainerProto::default()
    }
}

fn opportunistic(shares: &mut Shares, percent: u8, total: u32) -> u32 {
    match shares.decide(key(), percent, Some(total), false) {
        Verdict::Untouched => 0,
        Verdict::Whole => total,
        Verdict::Shared(part) => part.opportunistic,
    }
}

#[test]
fn the_share_holds_however_fast_the_parts_are_served() {
    let mut shares = Shares::default();
    let mut left = 100;
    let mut got = 0;
    while left > 0 {
        // Opportunistic containers arrive at once, guaranteed ones one at a time.
        let now = opportunistic(&mut shares, 40, left);
        for _ in 0..now {
            assert!(shares.count_arrival(&container(ExecutionTypeProto::Opportunistic)));
        }
        got += now;
        left -= now;
        if left > 0 {
            assert!(!shares.count_arrival(&container(ExecutionTypeProto::Guaranteed)));
            left -= 1;
        }
    }
    assert_eq!(got, 40);
}

#[test]
fn a_container_that_was_lost_and_is_asked_for_again_is_shared_out_like_the_others() {
    let mut shares = Shares::default();
    assert_eq!(opportunistic(&mut shares, 50, 10), 5);
    for _ in 0..5 {
        shares.count_arrival(&container(ExecutionTypeProto::Opportunistic));
        shares.count_arrival(&container(ExecutionTypeProto::Guaranteed));
    }
    assert_eq!(opportunistic(&mut shares, 50, 0), 0);
    assert_eq!(opportunistic(&mut shares, 50, 4), 2);
}

#[test]
fn containers_are_counted_for_the_ask_whose_size_was_rounded_up() {
    let ask = |memory| ResourceRequestProto {
        capability: Some(ResourceProto {
            memory: Some(memory),
            virtual_cores: Some(1),
            ..ResourceProto::default()
        }),
        ..ResourceRequestProto::default()
    };
    let mut shares = Shares::default();
    for memory in [1_000, 3_000] {
        shares.decide(AskKey::of(&ask(memory)), 50, Some(2), false);
    }
    let got = ContainerProto {
        resource: ask(1_024).capability,
        ..container(ExecutionTypeProto::Opportunistic)
    };
    shares.count_arrival(&got);
    let small = shares.decide(AskKey::of(&ask(1_000)), 50, Some(1), false);
    let large = shares.decide(AskKey::of(&ask(3_000)), 50, Some(2), false);
    let part = |opportunistic, whole| {
        Verdict::Shared(Part {
            opportunistic,
            whole,
        })
    };
    assert_eq!((small, large), (part(0, 1), part(1, 2)));
}

#[test]
fn what_the_master_asks_for_itself_and_what_must_be_somewhere_is_not_shared_out() {
    let mut shares = Shares::default();
    assert_eq!(shares.decide(key(), 50, Some(10), true), Verdict::Untouched);
    assert_eq!(opportunistic(&mut shares, 50, 10), 5);
    let none = Part {
        opportunistic: 0,
        whole: 10,
    };
    // Containers requested as opportunistic are withdrawn.
    assert_eq!(
        shares.decide(key(), 50, Some(10), true),
        Verdict::Shared(none)
    );
    shares.leave_to_am(key());
    assert_eq!(
        shares.decide(key(), 100, Some(10), false),
        Verdict::Untouched
    );
    assert!(!shares.count_arrival(&container(ExecutionTypeProto::Opportunistic)));
}

#[test]
fn a_container_is_counted_for_the_largest_ask_that_fits_into_it() {
    let ask = |memory, vcores| ResourceRequestProto {
        capability: Some(ResourceProto {
            memory: Some(memory),
            virtual_cores: Some(vcores),
            ..ResourceProto::default()
        }),
        ..ResourceRequestProto::default()
    };
    let mut shares = Shares::default();
    for (memory, vcores) in [(1_000, 1), (2_000, 1), (2_000, 8)] {
        shares.decide(AskKey::of(&ask(memory, vcores)), 50, Some(2), false);
    }
    let got = ContainerProto {
        resource: ask(2_048, 1).capability,
        ..container(ExecutionTypeProto::Opportunistic)
    };
    shares.count_arrival(&got);
    let counted = shares.asks[&AskKey::of(&ask(2_000, 1))];
    assert_eq!(counted.got_opportunistic, 1, "{shares:?}");
}

#[test]
fn an_opportunistic_container_of_an_ask_left_as_it_was_is_not_of_a_rule() {
    let mut shares = Shares::default();
    assert_eq!(shares.decide(key(), 50, Some(10), true), Verdict::Untouched);
    assert!(!shares.count_arrival(&container(ExecutionTypeProto::Opportunistic)));
}

#[test]
fn locations_with_the_largest_remainder_get_one_more() {
    let part = Part {
        opportunistic: 1,
        whole: 4,
    };
    assert_eq!(apportion(&[1, 3], part), [0, 1]);
}

/// Makes one of many keys.
fn numbered(id: usize) -> AskKey {
    AskKey {
        allocation_request_id: i64::try_from(id).unwrap(),
        ..key()
    }
}

#[test]
fn split_asks_that_are_over_make_room_for_others() {
    let mut shares = Shares::default();
    for id in 0..ASKS_MAX {
        shares.decide(numbered(id), 50, Some(1), false);
    }
    let further = numbered(ASKS_MAX);
    assert_eq!(
        shares.decide(further, 50, Some(1), false),
        Verdict::Untouched
    );
    shares.decide(numbered(7), 50, Some(0), false);
    let part = Part {
        opportunistic: 1,
        whole: 1,
    };
    assert_eq!(
        shares.decide(further, 50, Some(1), false),
        Verdict::Shared(part)
    );
}

#[test]
fn an_ask_that_is_live_again_makes_no_room() {
    let mut shares = Shares::default();
    for id in 0..ASKS_MAX {
        shares.decide(numbered(id), 100, Some(1), false);
    }
    shares.decide(numbered(7), 100, Some(0), false);
    shares.decide(numbered(7), 100, Some(1), false);
    assert_eq!(
        shares.decide(numbered(ASKS_MAX), 100, Some(1), false),
        Verdict::Untouched
    );
    assert_eq!(shares.asks.len(), ASKS_MAX);
}

#[test]
fn asks_never_split_make_room_and_asks_left_to_the_master_stay() {
    let mut shares = Shares::default();
    shares.leave_to_am(numbered(0));
    for id in 1..ASKS_MAX {
        shares.decide(numbered(id), 50, Some(1), true);
    }
    shares.decide(numbered(7), 100, Some(0), false);
    for id in [ASKS_MAX, ASKS_MAX + 1] {
        assert_eq!(
            shares.decide(numbered(id), 100, Some(1), false),
            Verdict::Whole
        );
    }
    assert_eq!(
        shares.decide(numbered(0), 100, Some(1), false),
        Verdict::Untouched
    );
}

#[test]
fn asks_that_are_over_make_room_for_others_and_live_ones_do_not() {
    let key = |id| AskKey {
        allocation_request_id: id,
        ..key()
    };
    let max = i64::try_from(ASKS_MAX).unwrap();
    let mut shares = Shares::default();
    for id in 0..max {
        shares.decide(key(id), 100, Some(1), false);
    }
    assert_eq!(
        shares.decide(key(max), 100, Some(1), false),
        Verdict::Untouched
    );
    shares.decide(key(7), 100, Some(0), false);
    assert_eq!(shares.decide(key(max), 100, Some(1), false), Verdict::Whole);
    assert_eq!(shares.asks.len(), ASKS_MAX);
}

proptest! {
    #[test]
    fn places_are_shared_out_like_their_sum(
        counts in prop::collection::vec(0_u32..1_000, 0..30),
        whole in 1_u32..1_000,
        part in 0_u32..1_000,
    ) {
        let part = Part { opportunistic: part.min(whole), whole };
        let shares = apportion(&counts, part);
        prop_assert_eq!(shares.len(), counts.len());
        for (share, count) in shares.iter().zip(&counts) {
            prop_assert!(share <= count);
        }
        let sum = |of: &[u32]| of.iter().map(|each| u64::from(*each)).sum::<u64>();
        let exact = sum(&counts) * u64::from(part.opportunistic);
        let whole = u64::from(part.whole);
        prop_assert_eq!(sum(&shares), (exact + whole / 2) / whole);
    }

    #[test]
    fn a_share_of_what_was_got_and_is_wanted_is_met_as_far_as_it_can(
        percent in 1_u8..100,
        steps in prop::collection::vec((0_u32..50, 0_u32..50), 1..20),
        total in 0_u32..2_000,
    ) {
        let mut ask = Ask::default();
        let mut left = total;
        for (opportunistic, guaranteed) in steps {
            let due = ask.opportunistic_due(percent, left);
            prop_assert!(due <= left);
            let opportunistic = opportunistic.min(due);
            let guaranteed = guaranteed.min(left - due);
            ask.got_opportunistic += u64::from(opportunistic);
            ask.got_guaranteed += u64::from(guaranteed);
            left -= opportunistic + guaranteed;
        }
        let all = u64::from(total) * u64::from(percent);
        let planned = ask.got_opportunistic + u64::from(ask.opportunistic_due(percent, left));
        prop_assert_eq!(planned, (all + 50) / 100);
    }
}
