use proptest::prelude::*;

use super::*;

/// Step of an ask's life.
#[derive(Clone, Debug)]
enum Step {
    Want { host: u8, count: u32 },
    MoveHost { host: u8, rack: u8 },
    Strict(bool),
    Withdraw,
    Recount { host: u8 },
    Begin,
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5u8, 0..3u32).prop_map(|(host, count)| Step::Want { host, count }),
        1 => (0..5u8, 0..2u8).prop_map(|(host, rack)| Step::MoveHost { host, rack }),
        1 => any::<bool>().prop_map(Step::Strict),
        1 => Just(Step::Withdraw),
        2 => (0..5u8).prop_map(|host| Step::Recount { host }),
        3 => Just(Step::Begin),
        3 => Just(Step::Commit),
    ]
}

fn host(number: u8) -> Arc<str> {
    format!("n{number}").into()
}

fn rack(number: u8) -> Arc<str> {
    format!("/r{number}").into()
}

/// Returns the lines for these counts by host, as a walk over all hosts finds them.
fn walked(counts: &[u32; 5], racks: &[u8; 5]) -> BTreeMap<Arc<str>, u32> {
    let mut places = BTreeMap::new();
    for (number, (&count, &of)) in (0..).zip(counts.iter().zip(racks)) {
        if count > 0 {
            *places.entry(host(number)).or_default() += count;
            *places.entry(rack(of)).or_default() += count;
        }
    }
    places
}

proptest! {
    /// A call that is answered leaves the ResourceManager with what a walk over all hosts wants,
    /// whatever happened to earlier calls.
    #[test]
    fn an_answered_call_leaves_nothing_to_change(
        steps in proptest::collection::vec(step(), 0..80),
    ) {
        let mut lines = NamedLines::default();
        let (mut counts, mut racks, mut is_strict) = ([0; 5], [0; 5], false);
        // As the ResourceManager has them: lines by place, with the flag of racks.
        let mut manager: BTreeMap<Arc<str>, (u32, bool)> = BTreeMap::new();
        for step in steps.into_iter().chain([Step::Begin, Step::Commit, Step::Begin, Step::Commit]) {
            match step {
                Step::Want { host: number, count } => {
                    let at = usize::from(number);
                    counts[at] = count;
                    lines.want(host(number), count, rack(racks[at]));
                }
                Step::MoveHost { host: number, rack: to } => {
                    let from = std::mem::replace(&mut racks[usize::from(number)], to);
                    lines.move_host(&host(number), &rack(from), &rack(to));
                }
                Step::Strict(strict) => is_strict = strict,
                Step::Withdraw => {
                    counts = [0; 5];
                    lines.withdraw();
                }
                // An allocation comes with an answer, so no call is under way.
                Step::Recount { host: number } if lines.in_flight.is_none() => {
                    let places = [host(number), rack(racks[usize::from(number)])];
                    for place in places {
                        lines.recount(&place, |count| count.saturating_sub(1));
                        if let Some((count, _)) = manager.get_mut(&place) {
                            *count = count.saturating_sub(1);
                        }
                    }
                }
                Step::Recount { .. } => {}
                Step::Begin => {
                    lines.set_strict(is_strict);
                    lines.begin_call();
                }
                Step::Commit => {
                    let Some(changes) = lines.in_flight.clone() else { continue };
                    for (place, count) in changes.places {
                        let flag = is_rack(&place) && changes.is_strict;
                        match count {
                            Some(count) => manager.insert(place, (count, flag)),
                            None => manager.remove(&place),
                        };
                    }
                    lines.commit();
                    prop_assert_eq!(lines.is_strict(), changes.is_strict);
                }
            }
        }
        let wanted = walked(&counts, &racks);
        let flag = is_strict && !wanted.is_empty();
        let expected = wanted.into_iter().map(|(place, count)| {
            let flag = is_rack(&place) && flag;
            (place, (count, flag))
        });
        prop_assert_eq!(manager, expected.collect());
        prop_assert!(lines.begin_call().places.is_empty());
    }
}

#[test]
fn a_call_looks_at_nothing_but_what_was_touched() {
    let mut lines = NamedLines::default();
    for number in 0..100 {
        lines.want(host(number), 1, rack(0));
    }
    assert_eq!(lines.begin_call().places.len(), 101);
    lines.commit();
    assert!(lines.touched.is_empty());
    lines.want(host(7), 0, rack(0));
    assert_eq!(lines.touched.len(), 2);
    let changes = [(rack(0), Some(99)), (host(7), None)];
    assert_eq!(lines.begin_call().places, changes);
}
