//! Queues of promotions: one for each attempt and node. Pure.
//!
//! A promotion waits until its node has it, has refused it [`REFUSALS_MAX`] times, or the container
//! has ended. While a queue pauses after a failure, it occupies nothing; each queue has at most one
//! call. Promotions that arrive meanwhile join the queue and travel with its next call.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use records::{ApplicationAttemptId, ContainerId, NodeId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wire::proto::hadoop_common::TokenProto;

use super::Order;

/// Most containers in one call, at some 300 bytes each.
const PER_CALL_MAX: usize = 1_000;

/// Pause after the first failure; each later one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause. A node that is lost costs one connection attempt a minute until the
/// ResourceManager reports its containers as completed.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Most refusals of one promotion by its node. With the pauses between them four minutes: a node
/// that registers again refuses tokens for some seconds, and a token that is still refused then
/// expires soon.
const REFUSALS_MAX: u32 = 8;

/// Attempt and node of a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) attempt: ApplicationAttemptId,
    pub(super) node: NodeId,
}

/// A promotion that its node does not have yet.
#[derive(Debug)]
struct Waiting {
    token: TokenProto,
    refusals: u32,
}

#[derive(Debug)]
struct Queue {
    user: String,
    ended: CancellationToken,
    waiting: BTreeMap<ContainerId, Waiting>,
    /// Time of the next call; `None` during a call.
    due: Option<Instant>,
    /// Pause after the next failure.
    pause: Duration,
}

/// A call of a node, to be answered by [`Queues::answered`].
#[derive(Debug)]
pub(super) struct Call {
    pub(super) key: Key,
    pub(super) user: String,
    /// Cancelled when the attempt ends.
    pub(super) ended: CancellationToken,
    /// Containers, each with its new token.
    pub(super) containers: Vec<(ContainerId, TokenProto)>,
}

/// Containers of a call by the node's answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Containers that the node treats as promoted, or as ended.
    pub(super) reached: Vec<ContainerId>,
    /// Containers that the node goes on treating as opportunistic.
    pub(super) refused: Vec<ContainerId>,
}

/// Promotions that have left their queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// Promotions that their nodes have.
    pub(super) reached: u64,
    /// Promotions that their nodes refuse for good.
    pub(super) failed: u64,
}

/// Queues of all attempts and nodes. An empty one is removed.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: BTreeMap<Key, Queue>,
    /// Queues without a call, by the time of their next one.
    due: BTreeSet<(Instant, Key)>,
}

impl Queues {
    /// Adds the containers of an order, of which there is at least one. A newer token replaces one
    /// that waits. An attempt that has started again has a new queue.
    pub(super) fn add(&mut self, order: Order, now: Instant) {
        let key = Key {
            attempt: order.attempt,
            node: order.update.node,
        };
        self.remove_ended(&key);
        let queue = self.queues.entry(key.clone()).or_insert_with(|| {
            self.due.insert((now, key));
            Queue {
                user: order.user,
                ended: order.ended,
                waiting: BTreeMap::new(),
                due: Some(now),
                pause: FIRST_PAUSE,
            }
        });
        for (id, token) in order.update.containers {
            let refusals = 0;
            queue.waiting.insert(id, Waiting { token, refusals });
        }
    }

    /// Removes containers of an attempt, which have ended.
    pub(super) fn withdraw(&mut self, attempt: ApplicationAttemptId, ids: &[ContainerId]) {
        let node = NodeId {
            host: String::new(),
            port: 0,
        };
        let first = Bound::Included(Key { attempt, node });
        let of_attempt = self.queues.range_mut((first, Bound::Unbounded));
        let of_attempt = of_attempt.take_while(|(key, _)| key.attempt == attempt);
        let mut empty = Vec::new();
        for (key, queue) in of_attempt {
            for id in ids {
                queue.waiting.remove(id);
            }
            if queue.waiting.is_empty() && queue.due.is_some() {
                empty.push(key.clone());
            }
        }
        for key in empty {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(queue) = self.queues.remove(key)
            && let Some(due) = queue.due
        {
            self.due.remove(&(due, key.clone()));
        }
    }

    /// Removes a queue whose attempt has ended.
    fn remove_ended(&mut self, key: &Key) {
        let queue = self.queues.get(key);
        if queue.is_some_and(|queue| queue.ended.is_cancelled()) {
            self.remove(key);
        }
    }

    /// Returns the time of the next call.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns a call that is due. Queues of attempts that have ended are dropped on the way.
    pub(super) fn next(&mut self, now: Instant) -> Option<Call> {
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.remove_ended(&key);
            let Some(queue) = self.queues.get_mut(&key) else {
                continue;
            };
            queue.due = None;
            self.due.pop_first();
            let containers = queue.waiting.iter().take(PER_CALL_MAX);
            return Some(Call {
                user: queue.user.clone(),
                ended: queue.ended.clone(),
                containers: containers
                    .map(|(id, waiting)| (*id, waiting.token.clone()))
                    .collect(),
                key,
            });
        }
        None
    }

    /// Handles the answer to a call; `None`: the node was not reached, or the attempt has ended. An
    /// answer to an ended attempt changes nothing, not even if the attempt has started again.
    pub(super) fn answered(&mut self, call: &Call, answer: Option<Answer>, now: Instant) -> Ended {
        if call.ended.is_cancelled() {
            self.remove_ended(&call.key);
            return Ended::default();
        }
        let Some(queue) = self.queues.get_mut(&call.key) else {
            return Ended::default();
        };
        let mut ended = Ended::default();
        let has_failed = answer
            .as_ref()
            .is_none_or(|answer| !answer.refused.is_empty());
        let answer = answer.unwrap_or_default();
        let sent: BTreeMap<_, _> = call
            .containers
            .iter()
            .map(|(id, token)| (id, token))
            .collect();
        for id in &answer.reached {
            ended.reached += 1;
            // A newer token may have come meanwhile.
            let waiting = queue.waiting.get(id);
            if waiting.map(|waiting| &waiting.token) == sent.get(id).copied() {
                queue.waiting.remove(id);
            }
        }
        for id in answer.refused {
            if let Some(waiting) = queue.waiting.get_mut(&id) {
                waiting.refusals += 1;
                if waiting.refusals >= REFUSALS_MAX {
                    queue.waiting.remove(&id);
                    ended.failed += 1;
                }
            }
        }
        let due = if has_failed {
            let due = now + queue.pause;
            queue.pause = (queue.pause * 2).min(PAUSE_MAX);
            due
        } else {
            queue.pause = FIRST_PAUSE;
            now
        };
        queue.due = Some(due);
        self.due.insert((due, call.key.clone()));
        if queue.waiting.is_empty() {
            self.remove(&call.key);
        }
        ended
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use test_support::ids::attempt;

    use super::*;
    use crate::node_updates::NodeUpdate;

    fn id(number: i64) -> ContainerId {
        attempt(1).container(number)
    }

    fn token(version: u8) -> TokenProto {
        TokenProto {
            identifier: Bytes::copy_from_slice(&[version]),
            ..TokenProto::default()
        }
    }

    fn order(host: &str, numbers: impl Iterator<Item = i64>, version: u8) -> Order {
        Order {
            attempt: attempt(1),
            user: "alice".to_owned(),
            update: NodeUpdate {
                node: NodeId {
                    host: host.to_owned(),
                    port: 1,
                },
                containers: numbers.map(|number| (id(number), token(version))).collect(),
            },
            ended: CancellationToken::new(),
        }
    }

    fn reached(call: &Call) -> Option<Answer> {
        Some(Answer {
            reached: call.containers.iter().map(|(id, _)| *id).collect(),
            refused: Vec::new(),
        })
    }

    fn refused(call: &Call) -> Option<Answer> {
        Some(Answer {
            reached: Vec::new(),
            refused: call.containers.iter().map(|(id, _)| *id).collect(),
        })
    }

    #[test]
    fn a_node_that_is_not_reached_is_retried_as_long_as_its_containers_live() {
        let (mut queues, mut now) = (Queues::default(), Instant::now());
        queues.add(order("down", [1, 2].into_iter(), 1), now);
        let mut pauses = Vec::new();
        for _ in 0..100 {
            let call = queues.next(now).unwrap();
            assert_eq!(queues.answered(&call, None, now), Ended::default());
            assert!(queues.next(now).is_none());
            let due = queues.next_due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        queues.withdraw(attempt(1), &[id(1)]);
        let call = queues.next(now).unwrap();
        assert_eq!(call.containers, [(id(2), token(1))]);
        queues.withdraw(attempt(1), &[id(2)]);
        assert_eq!(queues.answered(&call, None, now), Ended::default());
        assert!(queues.is_empty());
    }

    #[test]
    fn any_number_of_promotions_waits_for_a_node_and_no_other_node_waits_for_them() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        queues.add(order("down", 0..5_000, 1), now);
        let down = queues.next(now).unwrap();
        queues.add(order("down", 5_000..10_000, 1), now);
        queues.add(order("up", [7].into_iter(), 1), now);
        let up = queues.next(now).unwrap();
        assert_eq!(up.containers, [(id(7), token(1))]);
        assert!(queues.next(now).is_none(), "one call of a node at a time");
        let (first, none_failed) = (1, 0);
        let ended = queues.answered(&up, reached(&up), now);
        assert_eq!(
            ended,
            Ended {
                reached: first,
                failed: none_failed
            }
        );
        queues.answered(&down, None, now);
        let mut total = 0;
        let later = now + PAUSE_MAX;
        while let Some(call) = queues.next(later) {
            total += queues.answered(&call, reached(&call), later).reached;
        }
        assert_eq!(total, 10_000);
        assert!(queues.is_empty());
    }

    #[test]
    fn a_call_has_at_most_a_thousand_promotions_and_the_rest_follows() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        let total = 2 * i64::try_from(PER_CALL_MAX).unwrap() + 1;
        queues.add(order("node", 0..total, 1), now);
        let (mut sizes, mut sent) = (Vec::new(), BTreeSet::new());
        while let Some(call) = queues.next(now) {
            sizes.push(call.containers.len());
            sent.extend(call.containers.iter().map(|(id, _)| *id));
            queues.answered(&call, reached(&call), now);
        }
        assert_eq!(sizes, [1_000, 1_000, 1]);
        assert_eq!(sent, (0..total).map(id).collect());
    }

    #[test]
    fn a_refusal_is_retried_until_the_token_is_of_no_use() {
        let (mut queues, mut now) = (Queues::default(), Instant::now());
        queues.add(order("node", [1].into_iter(), 1), now);
        let mut calls = 0;
        let ended = loop {
            let call = queues.next(now).unwrap();
            calls += 1;
            let ended = queues.answered(&call, refused(&call), now);
            match queues.next_due() {
                Some(due) => now = due,
                None => break ended,
            }
        };
        let (reached, failed) = (0, 1);
        assert_eq!((ended, calls), (Ended { reached, failed }, REFUSALS_MAX));
        assert!(queues.is_empty());
    }

    #[test]
    fn a_newer_token_that_comes_during_a_call_is_sent_too() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        queues.add(order("node", [1].into_iter(), 1), now);
        let call = queues.next(now).unwrap();
        queues.add(order("node", [1].into_iter(), 2), now);
        queues.answered(&call, reached(&call), now);
        let call = queues.next(now).unwrap();
        assert_eq!(call.containers, [(id(1), token(2))]);
        queues.answered(&call, reached(&call), now);
        assert!(queues.is_empty());
    }

    #[test]
    fn containers_that_have_ended_are_withdrawn_from_every_node() {
        let now = Instant::now();
        let mut queues = Queues::default();
        queues.add(order("a", 1..3, 1), now);
        queues.add(order("b", 3..5, 1), now);
        let call = queues.next(now).unwrap();
        queues.withdraw(attempt(1), &[1, 2, 3].map(id));
        let other = queues.next(now).unwrap();
        assert_eq!(other.containers, [(id(4), token(1))]);
        // The queue of a call under way waits for its answer.
        queues.answered(&call, None, now);
        queues.withdraw(attempt(1), &[id(4)]);
        queues.answered(&other, None, now);
        assert!(queues.is_empty());
        queues.add(order("a", 1..3, 1), now);
        queues.withdraw(attempt(1), &[1, 2].map(id));
        assert!(queues.is_empty());
    }

    #[test]
    fn a_node_has_one_call_at_a_time_also_when_all_containers_of_a_call_are_withdrawn() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        queues.add(order("node", 1..2, 1), now);
        let call = queues.next(now).unwrap();
        queues.withdraw(attempt(1), &[id(1)]);
        queues.add(order("node", 2..3, 1), now);
        assert!(queues.next(now).is_none());
        queues.answered(&call, reached(&call), now);
        let next = queues.next(now).unwrap();
        assert_eq!(next.containers, [(id(2), token(1))]);
    }

    #[test]
    fn the_node_that_is_due_first_is_called_first() {
        let now = Instant::now();
        let mut queues = Queues::default();
        queues.add(order("b", 1..2, 1), now);
        queues.add(order("a", 2..3, 1), now + FIRST_PAUSE);
        assert_eq!(queues.next_due(), Some(now));
        let later = now + FIRST_PAUSE;
        let hosts = [(); 2].map(|()| queues.next(later).unwrap().key.node.host);
        assert_eq!(hosts, ["b", "a"]);
    }

    #[test]
    fn after_an_answer_the_pause_is_short_again() {
        let mut now = Instant::now();
        let mut queues = Queues::default();
        queues.add(order("a", 1..2, 1), now);
        let mut pauses = Vec::new();
        for answers in [false, false, true, false] {
            queues.add(order("a", 2..3, 1), now);
            let call = queues.next(now).unwrap();
            let answer = answers.then(Answer::default);
            queues.answered(&call, answer, now);
            let due = queues.next_due().unwrap();
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 0, 1]);
    }

    #[test]
    fn the_queues_of_an_attempt_end_with_it() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        let order = order("node", [1].into_iter(), 1);
        let ended = order.ended.clone();
        queues.add(order, now);
        ended.cancel();
        assert!(queues.next(now).is_none());
        assert!(queues.is_empty());
    }
    #[test]
    fn promotions_of_an_attempt_that_has_started_again_do_not_end_with_its_former_start() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        let former = order("node", 1..2, 1);
        let ended = former.ended.clone();
        queues.add(former, now);
        ended.cancel();
        queues.add(order("node", 2..3, 2), now);
        let call = queues.next(now).unwrap();
        assert_eq!(call.containers, [(id(2), token(2))]);
        queues.answered(&call, reached(&call), now);
        assert!(queues.is_empty());
    }

    #[test]
    fn a_call_of_an_attempts_former_start_says_nothing_about_later_promotions() {
        let (mut queues, now) = (Queues::default(), Instant::now());
        let former = order("node", 1..2, 1);
        let ended = former.ended.clone();
        queues.add(former, now);
        let call = queues.next(now).unwrap();
        ended.cancel();
        queues.add(order("node", 2..3, 2), now);
        queues.answered(&call, None, now);
        let call = queues.next(now).unwrap();
        assert_eq!(call.containers, [(id(2), token(2))]);
        queues.answered(&call, None, now);
        assert_eq!(queues.next_due(), Some(now + FIRST_PAUSE));
    }
}
