//! Fair turns of users: queues of work, one for each user, and the order in which users start
//! their next. Pure: events in, the next work out.
//!
//! ```text
//!  queue(joe, a) ─►  joe: a b c   2 under way ┐
//!  queue(ann, d) ─►  ann: d       0 under way ┼─► next(): ann's d, since ann has the fewest under
//!  queue(sue, e) ─►  sue: e       1 under way ┘   way; among equals, the one that waits longest
//! ```
//! A user with nothing under way therefore waits for at most one turn of each other user, however
//! much the others have queued and however long their work takes.

use std::collections::{BTreeMap, BTreeSet};

use super::user_name::UserName;

/// Queues of work by user. A user's own work starts in the order of `W`.
#[derive(Debug)]
pub struct Turns<W> {
    /// Users with work that is queued or under way.
    users: BTreeMap<UserName, UserTurns<W>>,
    /// Users with queued work by [`UserTurns::rank`]; the first has the next turn.
    order: BTreeMap<Rank, UserName>,
    /// Counter that dates the arrival of users and their turns.
    tick: u64,
}

/// Number of works under way, and the tick of the last turn or else of the arrival. The tick makes
/// ranks unique.
type Rank = (usize, u64);

#[derive(Debug)]
struct UserTurns<W> {
    queued: BTreeSet<W>,
    under_way: usize,
    last_turn: u64,
}

impl<W> UserTurns<W> {
    fn rank(&self) -> Rank {
        (self.under_way, self.last_turn)
    }
}

impl<W> Default for Turns<W> {
    fn default() -> Self {
        Self {
            users: BTreeMap::new(),
            order: BTreeMap::new(),
            tick: 0,
        }
    }
}

impl<W: Ord + Clone> Turns<W> {
    /// Returns whether no work is queued.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Queues a user's work, once however often it is queued.
    pub fn queue(&mut self, user: &UserName, work: W) {
        self.change(user, |turns, _| turns.queued.insert(work));
    }

    /// Removes a user's work from the queue, if it is there.
    pub fn withdraw(&mut self, user: &UserName, work: &W) {
        self.change(user, |turns, _| turns.queued.remove(work));
    }

    /// Starts the next work, if its user may start another beside the number under way.
    pub fn next(&mut self, may_start: impl FnOnce(usize) -> bool) -> Option<(UserName, W)> {
        let ((under_way, _), user) = self.order.first_key_value()?;
        // Everyone else has as many under way or more.
        if !may_start(*under_way) {
            return None;
        }
        let user = user.clone();
        let work = self.change(&user, |turns, tick| {
            turns.under_way += 1;
            turns.last_turn = tick;
            turns.queued.pop_first()
        });
        work.map(|work| (user, work))
    }

    /// Records the end of a user's work.
    pub fn ended(&mut self, user: &UserName) {
        self.change(user, |turns, _| {
            turns.under_way = turns.under_way.saturating_sub(1);
        });
    }

    /// Changes the queue of a user, gives `act` a new tick, and keeps the order up to date.
    fn change<T>(&mut self, user: &UserName, act: impl FnOnce(&mut UserTurns<W>, u64) -> T) -> T {
        self.tick += 1;
        let tick = self.tick;
        let known = self.users.remove(user);
        let mut turns = known.unwrap_or_else(|| UserTurns {
            queued: BTreeSet::new(),
            under_way: 0,
            last_turn: tick,
        });
        self.order.remove(&turns.rank());
        let result = act(&mut turns, tick);
        if !turns.queued.is_empty() {
            self.order.insert(turns.rank(), user.clone());
        }
        if !turns.queued.is_empty() || turns.under_way > 0 {
            self.users.insert(user.clone(), turns);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USERS: usize = 5;

    fn user(n: usize) -> UserName {
        ["ann", "bob", "joe", "sue", "tom"][n].parse().unwrap()
    }

    /// Starts work until none may start, and returns it in order.
    fn starts(turns: &mut Turns<u32>, works: usize) -> Vec<u32> {
        let next = || Some(turns.next(|_| true)?.1);
        std::iter::from_fn(next).take(works).collect()
    }

    #[test]
    fn users_alternate_whatever_the_length_of_their_queues() {
        let mut turns = Turns::default();
        (0..100).for_each(|work| turns.queue(&user(0), work));
        (100..103).for_each(|work| turns.queue(&user(1), work));
        assert_eq!(starts(&mut turns, 7), [0, 100, 1, 101, 2, 102, 3]);
    }

    #[test]
    fn a_user_whose_work_is_long_does_not_collect_the_threads() {
        let mut turns = Turns::default();
        (0..9).for_each(|work| turns.queue(&user(0), work));
        (10..19).for_each(|work| turns.queue(&user(1), work));
        assert_eq!(starts(&mut turns, 4), [0, 10, 1, 11]);
        // All that ends is the second user's: each time it is that user's turn again.
        for work in 12..16 {
            turns.ended(&user(1));
            assert_eq!(starts(&mut turns, 1), [work]);
        }
    }

    #[test]
    fn a_user_that_may_start_no_more_holds_back_nobody_with_less() {
        let mut turns = Turns::default();
        (0..3).for_each(|work| turns.queue(&user(0), work));
        assert!(turns.next(|under_way| under_way < 1).is_some());
        assert!(turns.next(|under_way| under_way < 1).is_none());
        turns.queue(&user(1), 9);
        assert_eq!(turns.next(|under_way| under_way < 1), Some((user(1), 9)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Queue(usize),
        Withdraw(usize),
        Start(usize),
        End(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..USERS).prop_map(Step::Queue),
            1 => any::<usize>().prop_map(Step::Withdraw),
            // At most so many works under way.
            4 => (1..5_usize).prop_map(Step::Start),
            3 => any::<usize>().prop_map(Step::End),
        ]
    }

    proptest! {
        /// Asserts that each work starts once or is withdrawn, in its user's order, that nobody
        /// with fewer works under way is passed over, and that a user with none waits for at most
        /// one turn of each other.
        #[test]
        fn nobody_waits_for_more_than_a_turn_of_each_other_and_nothing_is_lost(
            steps in prop::collection::vec(step(), 0..400)
        ) {
            let mut turns = Turns::default();
            let mut queued: Vec<(usize, u32)> = Vec::new();
            let mut running: Vec<usize> = Vec::new();
            let mut passed_over = [0; USERS];
            let count = |users: &[usize], n: usize| users.iter().filter(|user| **user == n).count();
            for (work, step) in (0..).zip(steps) {
                match step {
                    Step::Queue(n) => {
                        turns.queue(&user(n), work);
                        queued.push((n, work));
                    }
                    Step::Withdraw(at) if !queued.is_empty() => {
                        let (n, work) = queued.remove(at % queued.len());
                        turns.withdraw(&user(n), &work);
                    }
                    Step::End(at) if !running.is_empty() => {
                        let n = running.remove(at % running.len());
                        turns.ended(&user(n));
                    }
                    Step::Withdraw(_) | Step::End(_) => {}
                    Step::Start(max) => {
                        let may_start = running.len() < max;
                        let next = turns.next(|_| may_start);
                        prop_assert_eq!(next.is_some(), may_start && !queued.is_empty());
                        let Some((name, work)) = next else { continue };
                        let n = (0..USERS).find(|n| user(*n) == name).unwrap();
                        let first = queued.iter().position(|(user, _)| *user == n).unwrap();
                        prop_assert_eq!(queued.remove(first), (n, work));
                        for (other, _) in &queued {
                            prop_assert!(count(&running, n) <= count(&running, *other));
                        }
                        running.push(n);
                        passed_over.iter_mut().for_each(|turns| *turns += 1);
                    }
                }
                for (n, turns) in passed_over.iter_mut().enumerate() {
                    if count(&running, n) > 0 || queued.iter().all(|(user, _)| *user != n) {
                        *turns = 0;
                    }
                    prop_assert!(*turns < USERS);
                }
                prop_assert_eq!(turns.is_empty(), queued.is_empty());
                prop_assert_eq!(turns.order.len(), (0..USERS).filter(|n| queued.iter().any(|(user, _)| user == n)).count());
            }
        }
    }
}
