//! Completions that the ResourceManager has not been notified of, and containers that stopped
//! lately. Pure.
//!
//! A completion is reported in every heartbeat until one that carried it was surely taken in
//! (Hadoop: `NodeStatusUpdaterImpl`, `pendingCompletedContainers`); that clears exactly what the
//! heartbeat carried, so a completion that happens while a heartbeat is under way is never lost.
//! Containers that left the agent's memory are remembered for a while, so that an AM that asks late
//! gets the answer "recently stopped" and not "unknown".

use std::collections::{BTreeMap, VecDeque};

use records::{ContainerId, MonoMillis};

use crate::effect::Effect;
use crate::end::{End, Part};
use crate::messages::Status;

/// Stopped containers remembered. At 300 completions a second and Hadoop's 10 minutes that would be
/// 180,000 entries of about 100 bytes; beyond this the oldest are forgotten early, which only makes
/// an error text less precise.
pub const RECENTLY_STOPPED_MAX: usize = 100_000;

/// Completions waiting for a heartbeat that carries them, and the recently stopped.
#[derive(Debug)]
pub struct StatusLedger<S> {
    pending: BTreeMap<ContainerId, Pending<S>>,
    stopped: BTreeMap<ContainerId, MonoMillis>,
    stopped_order: VecDeque<(MonoMillis, ContainerId)>,
    track_stopped_ms: u64,
}

#[derive(Debug)]
struct Pending<S> {
    status: S,
    /// The heartbeat under way carries it.
    sent: bool,
}

impl<S: Clone> StatusLedger<S> {
    /// An empty ledger. `track_stopped_ms`:
    /// `yarn.nodemanager.duration-to-track-stopped-containers`, milliseconds.
    #[must_use]
    pub fn new(track_stopped_ms: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            stopped: BTreeMap::new(),
            stopped_order: VecDeque::new(),
            track_stopped_ms,
        }
    }

    /// Changes the time for which completions are remembered.
    pub fn set_track_stopped_ms(&mut self, track_stopped_ms: u64) {
        self.track_stopped_ms = track_stopped_ms;
    }

    /// `id` has completed with `status`, which every heartbeat carries until one is answered.
    pub fn completed(&mut self, id: ContainerId, status: S, now: MonoMillis) {
        self.pending.insert(
            id,
            Pending {
                status,
                sent: false,
            },
        );
        self.expire(now);
        if self.stopped.insert(id, now).is_none() {
            self.stopped_order.push_back((now, id));
        }
        while self.stopped_order.len() > RECENTLY_STOPPED_MAX {
            self.drop_oldest();
        }
    }

    /// The completions for the heartbeat being made, in id order; they count as carried by it.
    pub fn take_for_heartbeat(&mut self) -> Vec<S> {
        self.pending
            .values_mut()
            .map(|pending| {
                pending.sent = true;
                pending.status.clone()
            })
            .collect()
    }

    /// The last heartbeat was taken in: what it carried has arrived.
    pub fn heartbeat_answered(&mut self) {
        self.pending.retain(|_, pending| !pending.sent);
    }

    /// Drops the pending completions for which `is_reported` holds, because a registration carries
    /// them.
    pub fn drop_pending(&mut self, is_reported: impl Fn(&ContainerId) -> bool) {
        self.pending.retain(|id, _| !is_reported(id));
    }

    /// Whether `id` completed within the tracked time.
    #[must_use]
    pub fn is_recently_stopped(&self, id: &ContainerId, now: MonoMillis) -> bool {
        self.stopped
            .get(id)
            .is_some_and(|at| now.since(*at) <= self.track_stopped_ms)
    }

    fn expire(&mut self, now: MonoMillis) {
        while let Some((at, _)) = self.stopped_order.front() {
            if now.since(*at) <= self.track_stopped_ms {
                break;
            }
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, id)) = self.stopped_order.pop_front() {
            self.stopped.remove(&id);
        }
    }
}

impl Part for StatusLedger<Status> {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        if let Some(status) = &end.status {
            self.completed(end.id(), status.clone(), end.now.mono);
        }
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container as id;

    use super::*;

    #[test]
    fn a_completion_is_repeated_until_a_heartbeat_that_carried_it_is_answered() {
        let mut ledger = StatusLedger::new(1000);
        ledger.completed(id(1), "one", MonoMillis(0));
        assert_eq!(ledger.take_for_heartbeat(), ["one"]);
        // That heartbeat failed; the next carries it again.
        assert_eq!(ledger.take_for_heartbeat(), ["one"]);
        ledger.heartbeat_answered();
        assert!(ledger.take_for_heartbeat().is_empty());
    }

    #[test]
    fn a_completion_during_a_heartbeat_waits_for_the_next_one() {
        let mut ledger = StatusLedger::new(1000);
        ledger.completed(id(1), "one", MonoMillis(0));
        assert_eq!(ledger.take_for_heartbeat(), ["one"]);
        ledger.completed(id(2), "two", MonoMillis(0));
        ledger.heartbeat_answered();
        assert_eq!(ledger.take_for_heartbeat(), ["two"]);
    }

    #[test]
    fn stopped_containers_are_forgotten_after_the_tracked_time() {
        let mut ledger = StatusLedger::new(1000);
        ledger.completed(id(1), (), MonoMillis(0));
        assert!(ledger.is_recently_stopped(&id(1), MonoMillis(1000)));
        assert!(!ledger.is_recently_stopped(&id(1), MonoMillis(1001)));
        ledger.completed(id(2), (), MonoMillis(5000));
        assert_eq!(
            ledger.stopped.len(),
            1,
            "the expired entry is gone from memory too"
        );
    }

    #[test]
    fn the_memory_of_stopped_containers_is_bounded() {
        let mut ledger = StatusLedger::new(u64::MAX);
        for n in 0..RECENTLY_STOPPED_MAX + 10 {
            ledger.completed(id(n as i64), (), MonoMillis(0));
            ledger.drop_pending(|_| true);
        }
        assert_eq!(ledger.stopped.len(), RECENTLY_STOPPED_MAX);
        assert_eq!(ledger.stopped_order.len(), RECENTLY_STOPPED_MAX);
    }
}
