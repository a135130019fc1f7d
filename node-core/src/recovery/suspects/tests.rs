use std::collections::BTreeSet;

use proptest::prelude::*;
use test_support::ids::{application, container};

use super::*;

fn start(n: i64) -> Work {
    Work::Start(container(n).name())
}

fn adoption(n: i64) -> Work {
    Work::Adoption(container(n).name())
}

fn upload(n: i32) -> Work {
    Work::Upload(application(n))
}

fn set(works: &[Work]) -> BTreeSet<Work> {
    works.iter().copied().collect()
}

/// Works as an agent leaves them. Adoptions are on no record of their own.
fn pending(works: &BTreeSet<Work>) -> Pending {
    let (renewed, recorded) = works.iter().partition(|work| work.is_adoption());
    Pending { recorded, renewed }
}

/// Judges so many crashes in a row, with these works left at each.
fn crash_with(at_each: &[&[Work]]) -> Vec<Judgement> {
    let mut suspects = Suspects {
        begun: set(at_each[0]),
        ..Suspects::default()
    };
    let judge_one = |works: &&[Work]| {
        let judgement = judge(true, &suspects, &pending(&set(works)));
        suspects = judgement.suspects.clone();
        judgement
    };
    at_each.iter().map(judge_one).collect()
}

#[test]
fn a_work_that_was_alone_at_two_crashes_in_a_row_fails_instead_of_a_third_try() {
    for work in [start(1), upload(1), adoption(1)] {
        let judged = crash_with(&[&[work], &[work]]);
        let failed: Vec<Option<Work>> = judged.iter().map(|judged| judged.failed).collect();
        assert_eq!(failed, [None, Some(work)]);
        assert_eq!(judged[1].suspects, Suspects::default());
    }
}

#[test]
fn after_a_crash_adoptions_go_on_first_so_that_the_next_one_tells_which_it_was() {
    let works = [start(1), adoption(2), adoption(3)];
    let first = &crash_with(&[&works])[0];
    assert_eq!(first.suspects.held, set(&[start(1)]));
    assert_eq!(first.suspects.begun, set(&[adoption(2), adoption(3)]));
    // They went well, and the start followed.
    let gone_on = Suspects {
        begun: BTreeSet::new(),
        held: BTreeSet::new(),
        ..first.suspects.clone()
    };
    let second = judge(true, &gone_on, &pending(&set(&works)));
    assert_eq!(second.failed, Some(start(1)));
    // They did not.
    let second = judge(true, &first.suspects, &pending(&set(&works)));
    assert_eq!(second.failed, None);
    assert_eq!(second.suspects.tried, Some(adoption(2)));
    assert_eq!(second.suspects.held, set(&[start(1), adoption(3)]));
}

#[test]
fn of_several_one_is_tried_and_all_others_wait() {
    let works = [start(1), start(2), upload(3)];
    let new = [start(2), upload(3), start(4)];
    let judged = crash_with(&[&works, &new, &new]);
    assert_eq!(judged[1].failed, None);
    assert_eq!(judged[1].suspects.tried, Some(start(2)));
    assert_eq!(judged[1].suspects.held, set(&[upload(3), start(4)]));
    assert_eq!(judged[2].failed, Some(start(2)));
    // What has come meanwhile was not there before, and excuses nobody.
    let newer = [start(2), upload(3), start(4), start(5)];
    let judged = crash_with(&[&works, &new, &newer]);
    assert_eq!(judged[2].failed, Some(start(2)));
}

#[test]
fn one_that_was_there_twice_is_not_blamed_while_another_may_be() {
    let judged = crash_with(&[&[start(1), start(2)], &[start(1), start(3)]]);
    assert_eq!(judged[1].failed, None);
    assert_eq!(judged[1].suspects.tried, Some(start(1)));
    assert_eq!(judged[1].suspects.held, set(&[start(3)]));
}

#[test]
fn an_end_in_order_between_two_crashes_clears_everybody() {
    let works = pending(&set(&[start(1)]));
    let first = judge(true, &Suspects::default(), &works);
    let between = judge(false, &first.suspects, &works);
    assert_eq!(between, Judgement::default());
    assert_eq!(judge(true, &between.suspects, &works).failed, None);
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let suspects = Suspects {
        last: set(&[start(1), upload(2), adoption(3)]),
        begun: set(&[adoption(3)]),
        tried: Some(upload(2)),
        held: set(&[start(1)]),
    };
    assert_eq!(Suspects::of_record(&suspects.record().unwrap()), suspects);
    assert_eq!(Suspects::default().record(), None);
    let strange = SuspectsRecord {
        last: vec![
            String::new(),
            "start of nothing".to_owned(),
            " of ".to_owned(),
        ],
        ..SuspectsRecord::default()
    };
    assert_eq!(Suspects::of_record(&strange), Suspects::default());
}

/// A node with works of which one crashes the agent whenever it is begun.
struct Node {
    unfinished: BTreeSet<Work>,
    fatal: Work,
    suspects: Suspects,
}

impl Node {
    /// Lets the agent start and go on until it crashes or everything is done. Of the works that it
    /// has begun, those that `ends` chooses end before a crash. Returns the work that fails, and
    /// whether there was a crash.
    fn run(&mut self, ends: &mut impl FnMut() -> bool, has_crashed: bool) -> (Option<Work>, bool) {
        let left = pending(&self.unfinished);
        let Judgement { failed, suspects } = judge(has_crashed, &self.suspects, &left);
        self.suspects = suspects;
        self.unfinished.retain(|work| Some(*work) != failed);
        let mut adopted = BTreeSet::new();
        loop {
            let begun = self.unfinished.difference(&self.suspects.held);
            let begun: BTreeSet<Work> = begun.copied().collect();
            let begun: BTreeSet<Work> = begun.difference(&adopted).copied().collect();
            let crashes = begun.contains(&self.fatal);
            for work in begun.iter().filter(|work| **work != self.fatal) {
                if !crashes || ends() {
                    self.suspects.begun.remove(work);
                    // A container stays adopted until the next start.
                    if work.is_adoption() {
                        adopted.insert(*work);
                    } else {
                        self.unfinished.remove(work);
                    }
                }
            }
            if crashes || self.suspects.held.is_empty() {
                return (failed, crashes);
            }
            let next: Vec<Work> = if self.suspects.tried.is_some() {
                self.suspects.held.pop_first().into_iter().collect()
            } else {
                std::mem::take(&mut self.suspects.held)
                    .into_iter()
                    .collect()
            };
            if self.suspects.tried.is_some() {
                self.suspects.tried = next.first().copied();
            }
            self.suspects.begun.extend(next);
        }
    }
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        (1..9_i64).prop_map(start),
        (1..9_i32).prop_map(upload),
        (20..29_i64).prop_map(adoption),
    ]
}

proptest! {
    /// Whatever else is in progress and comes anew between the crashes: the fatal work fails after
    /// four crashes at most, and no other work ever does.
    #[test]
    fn the_fatal_work_fails_and_no_other(
        works in prop::collection::btree_set(work(), 1..12),
        fatal in work(),
        new in prop::collection::vec(work(), 0..6),
        mut ends in prop::collection::vec(any::<bool>(), 100),
    ) {
        let mut unfinished = works;
        unfinished.insert(fatal);
        let mut node = Node { unfinished, fatal, suspects: Suspects::default() };
        let mut new = new.into_iter();
        let mut next_end = || ends.pop().unwrap_or(true);
        let mut has_crashed = false;
        let mut failures = Vec::new();
        for crashes in 0.. {
            let (failed, crashed) = node.run(&mut next_end, has_crashed);
            failures.extend(failed);
            has_crashed = crashed;
            if !crashed {
                break;
            }
            prop_assert!(crashes < 4, "{:?} after {crashes} crashes", node.suspects);
            // Comes while the agent runs.
            node.unfinished.extend(new.next());
        }
        prop_assert_eq!(failures, [fatal]);
        prop_assert!(node.unfinished.iter().all(Work::is_adoption));
    }
}
