//! What whoever looks may know of each attempt, published by its pipeline after every call.
//!
//! A call keeps its pipeline for as long as the ResourceManager takes to answer, so nobody can look into it meanwhile. What
//! is to be seen therefore lies beside it, in a cell that is locked for as long as it takes to copy some numbers. Who looks
//! pays: a call only counts, and asks whether anybody wants to hear of it ([`Activity`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use records::{ApplicationAttemptId, MonoMillis};
use sched::Locality;
use tokio::sync::watch;

use crate::interceptor::{Gauges, Timing};
use crate::observe::Observation;

/// Opportunistic containers by how near they are to where they were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenContainers {
    /// On a host that was named.
    pub node_local: u64,
    /// On a rack that was named.
    pub rack_local: u64,
    /// Anywhere.
    pub off_switch: u64,
}

impl GivenContainers {
    /// All together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.node_local + self.rack_local + self.off_switch
    }

    fn count(&mut self, locality: Locality) {
        let counter = match locality {
            Locality::NodeLocal => &mut self.node_local,
            Locality::RackLocal => &mut self.rack_local,
            Locality::OffSwitch => &mut self.off_switch,
        };
        *counter += 1;
    }
}

/// Numbers of one attempt since its pipeline was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MasterNumbers {
    /// Calls that have ended, answered or refused.
    pub calls: u64,
    /// When the last of them ended; `None` before the first.
    pub last_call_at: Option<MonoMillis>,
    /// How long all of them took together.
    pub took: Timing,
    /// Opportunistic containers that this node has allocated.
    pub given: GivenContainers,
    /// Calls that were delayed or refused by this node.
    pub throttled: u64,
    /// Containers in asks that a rule made opportunistic, each time they were asked for.
    pub relabelled: u64,
    /// Promotions of such containers that were asked for.
    pub promotions_asked: u64,
    /// What the interceptors said when the last call ended.
    pub gauges: Gauges,
}

impl MasterNumbers {
    /// Opportunistic containers that were allocated or are still wanted; those that the AM wants no more do not count.
    #[must_use]
    pub const fn containers_asked(&self) -> u64 {
        self.given.total() + self.gauges.containers_outstanding
    }

    /// How long a call took at the mean; `None` before the first.
    #[must_use]
    pub fn mean(&self) -> Option<Timing> {
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        Some(Timing {
            total: self.took.total.checked_div(calls)?,
            rm: self.took.rm.checked_div(calls)?,
        })
    }

    /// Takes in what an interceptor has observed. Calls are counted where they end ([`Self::ended`]), whether or not an
    /// interceptor counts them too.
    pub(crate) fn observed(&mut self, observation: &Observation) {
        match observation {
            Observation::Call { .. }
            | Observation::AllocatedCompleted
            | Observation::RegisteredAgain
            | Observation::PromotionsEnded { .. } => {}
            Observation::Allocated { locality, .. } => self.given.count(*locality),
            Observation::Throttled(_) => self.throttled += 1,
            Observation::Relabelled { containers } => self.relabelled += containers,
            Observation::PromotionAsked => self.promotions_asked += 1,
        }
    }

    /// A call has ended.
    pub(crate) fn ended(&mut self, at: MonoMillis, took: Timing, gauges: Gauges) {
        self.calls += 1;
        self.last_call_at = Some(at);
        self.took = Timing {
            total: self.took.total.saturating_add(took.total),
            rm: self.took.rm.saturating_add(took.rm),
        };
        self.gauges = gauges;
    }
}

/// Where a pipeline's numbers lie.
#[derive(Debug)]
pub(crate) struct NumbersCell(Mutex<MasterNumbers>);

impl NumbersCell {
    /// Of an attempt that has not called, or not since a restart.
    pub(crate) fn new(gauges: Gauges) -> Self {
        Self(Mutex::new(MasterNumbers {
            gauges,
            ..MasterNumbers::default()
        }))
    }

    pub(crate) fn read(&self) -> MasterNumbers {
        *self.lock()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut MasterNumbers)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, MasterNumbers> {
        // Numbers only: each of them is right by itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that passes the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxiedMaster {
    /// Which.
    pub attempt: ApplicationAttemptId,
    /// Who submitted its application. Chosen by a peer: to be escaped wherever it is shown.
    pub user: String,
    /// What it has done.
    pub numbers: MasterNumbers,
}

/// Those that pass the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxiedMasters {
    /// Those that called most recently, in the order of their ids.
    pub most_active: Vec<ProxiedMaster>,
    /// How many there are in all.
    pub total: usize,
}

/// Keeps the `max` items that come first by `key`, in no order.
pub(crate) fn keep_first<T, K: Ord>(items: &mut Vec<T>, max: usize, key: impl Fn(&T) -> K) {
    if items.len() > max {
        if max > 0 {
            items.select_nth_unstable_by_key(max - 1, key);
        }
        items.truncate(max);
    }
}

/// Tells whoever watches that something of the proxy has changed. While nobody watches it costs a look at a number.
#[derive(Clone, Debug)]
pub struct Activity(Arc<watch::Sender<()>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(())))
    }
}

impl Activity {
    /// Changes from now on. Watching ends when this is dropped.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    /// Numbers have changed, and were published before.
    pub(crate) fn changed(&self) {
        // Who begins to watch now looks at the numbers afterwards.
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::ThrottleReason;

    fn took(total_us: u64, rm_us: u64) -> Timing {
        Timing {
            total: Duration::from_micros(total_us),
            rm: Duration::from_micros(rm_us),
        }
    }

    #[test]
    fn calls_and_observations_add_up() {
        let mut numbers = MasterNumbers::default();
        assert_eq!(numbers.mean(), None);
        for (locality, count) in [
            (Locality::NodeLocal, 3),
            (Locality::RackLocal, 2),
            (Locality::OffSwitch, 1),
        ] {
            for _ in 0..count {
                let latency = Duration::ZERO;
                numbers.observed(&Observation::Allocated { locality, latency });
            }
        }
        numbers.observed(&Observation::Throttled(ThrottleReason::CallRate));
        numbers.observed(&Observation::Relabelled { containers: 7 });
        numbers.observed(&Observation::PromotionAsked);
        let gauges = Gauges {
            containers_outstanding: 4,
            nodes_at: Some(MonoMillis(9)),
            containers_live: 6,
        };
        numbers.ended(MonoMillis(10), took(500, 300), Gauges::default());
        numbers.ended(MonoMillis(20), took(1_500, 700), gauges);
        let given = GivenContainers {
            node_local: 3,
            rack_local: 2,
            off_switch: 1,
        };
        let expected = MasterNumbers {
            calls: 2,
            last_call_at: Some(MonoMillis(20)),
            took: took(2_000, 1_000),
            given,
            throttled: 1,
            relabelled: 7,
            promotions_asked: 1,
            gauges,
        };
        assert_eq!(numbers, expected);
        assert_eq!(numbers.mean(), Some(took(1_000, 500)));
        assert_eq!(numbers.containers_asked(), 10);
    }

    #[test]
    fn the_first_by_a_key_are_kept() {
        let mut items = vec![3, 1, 4, 1, 5, 9, 2, 6];
        keep_first(&mut items, 3, |item| std::cmp::Reverse(*item));
        items.sort_unstable();
        assert_eq!(items, [5, 6, 9]);
        keep_first(&mut items, 3, |item| *item);
        assert_eq!(items.len(), 3);
        keep_first(&mut items, 0, |item| *item);
        assert!(items.is_empty());
    }

    #[test]
    fn only_who_watches_hears_of_changes() {
        let activity = Activity::default();
        activity.changed();
        let mut watching = activity.watch();
        assert!(!watching.has_changed().unwrap());
        activity.changed();
        assert!(watching.has_changed().unwrap());
        watching.mark_unchanged();
        drop(watching);
        activity.changed();
    }
}
