//! Numbers of each attempt for pages and metrics, published by its pipeline after every call.
//!
//! A call owns its pipeline for as long as the ResourceManager takes to answer, so a reader cannot
//! look into the pipeline meanwhile. The numbers are therefore published beside it, as the latest
//! value of a watch channel. Readers pay the cost: a call only counts, and checks whether
//! [`Activity`] has a subscriber.

use std::sync::Arc;

use records::{ApplicationAttemptId, MonoMillis};
use sched::Locality;
use tokio::sync::watch;

use crate::call::Timing;
use crate::distributed_scheduler::gauges::Gauges;
use crate::observe::Observation;

/// Opportunistic containers by distance from the requested location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenContainers {
    /// Containers on a requested host.
    pub node_local: u64,
    /// Containers on a requested rack.
    pub rack_local: u64,
    /// Containers on any other node.
    pub off_switch: u64,
}

impl GivenContainers {
    /// Returns the sum over all distances.
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

/// Placement by looks, all calls together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookTotals {
    /// Nodes asked for their load, each time.
    pub asked: u64,
    /// Nodes that have answered in time.
    pub answered: u64,
    /// Containers left to a later call, each time.
    pub held_back: u64,
    /// Containers placed without a sight of their nodes.
    pub unseen: u64,
}

/// Numbers of one attempt since its pipeline was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptNumbers {
    /// Calls that have ended, answered or refused.
    pub calls: u64,
    /// End of the last call; `None` before the first.
    pub last_call_at: Option<MonoMillis>,
    /// Time that all calls took together.
    pub took: Timing,
    /// Opportunistic containers that this node has allocated.
    pub given: GivenContainers,
    /// Calls that this node delayed or refused.
    pub throttled: u64,
    /// Containers in asks that a rule made opportunistic, counted at each request.
    pub relabelled: u64,
    /// Promotions of relabelled containers that were requested.
    pub promotions_asked: u64,
    /// Looks at nodes, and what came of them.
    pub looks: LookTotals,
    /// Gauges of the distributed scheduler as of the last call's end.
    pub gauges: Gauges,
}

impl AttemptNumbers {
    /// Returns the number of opportunistic containers that were allocated or are still wanted.
    /// Containers that the AM no longer wants do not count.
    #[must_use]
    pub const fn containers_asked(&self) -> u64 {
        self.given.total() + self.gauges.containers_outstanding
    }

    /// Returns the mean time of a call; `None` before the first.
    #[must_use]
    pub fn mean(&self) -> Option<Timing> {
        let calls = u32::try_from(self.calls).unwrap_or(u32::MAX);
        Some(Timing {
            total: self.took.total.checked_div(calls)?,
            rm: self.took.rm.checked_div(calls)?,
        })
    }

    /// Counts an interceptor's observation. Calls are counted by [`Self::record_call`], whether or
    /// not an interceptor observes them too.
    pub(crate) fn record(&mut self, observation: &Observation) {
        match observation {
            Observation::Call { .. }
            | Observation::ShortNodeLists
            | Observation::AllocatedCompleted
            | Observation::RegisteredAgain
            | Observation::PromotionsEnded { .. }
            | Observation::Bound(_)
            | Observation::History(_) => {}
            Observation::Allocated { locality, .. } => self.given.count(*locality),
            Observation::Looked(looked) => {
                self.looks.asked += u64::from(looked.asked);
                self.looks.answered += u64::from(looked.answered);
                self.looks.held_back += u64::from(looked.held_back);
                self.looks.unseen += u64::from(looked.unseen);
            }
            Observation::Throttled(_) => self.throttled += 1,
            Observation::Relabelled { containers } => self.relabelled += containers,
            Observation::PromotionAsked => self.promotions_asked += 1,
        }
    }

    /// Counts a call that has ended.
    pub(crate) fn record_call(&mut self, at: MonoMillis, took: Timing) {
        self.calls += 1;
        self.last_call_at = Some(at);
        self.took = Timing {
            total: self.took.total.saturating_add(took.total),
            rm: self.took.rm.saturating_add(took.rm),
        };
    }
}

/// Latest numbers of a pipeline, published for readers.
#[derive(Debug, Default)]
pub(crate) struct PublishedNumbers(watch::Sender<AttemptNumbers>);

impl PublishedNumbers {
    /// Returns the latest numbers.
    pub(crate) fn read(&self) -> AttemptNumbers {
        *self.0.borrow()
    }

    /// Changes the numbers in place. Notifies nobody, which would take ten times as long: readers
    /// that wait for changes subscribe to [`Activity`].
    pub(crate) fn change(&self, change: impl FnOnce(&mut AttemptNumbers)) {
        self.0.send_if_modified(|numbers| {
            change(numbers);
            false
        });
    }
}

/// An attempt with a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptActivity {
    /// Id of the attempt.
    pub attempt: ApplicationAttemptId,
    /// User who submitted the application. Chosen by a peer, so escaped wherever it is shown.
    pub user: String,
    /// Numbers of its calls and containers.
    pub numbers: AttemptNumbers,
}

/// Attempts with a pipeline: the most active ones, and the total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxiedAttempts {
    /// Attempts that called most recently, in the order of their ids.
    pub most_active: Vec<AttemptActivity>,
    /// Number of all attempts that have a pipeline.
    pub total: usize,
}

/// State of the proxy at one moment, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxySnapshot {
    /// Number of attempts that have a pipeline.
    pub pipelines: usize,
    /// Gauges summed over all pipelines, each as of its last call. A list of nodes counts only
    /// while its AM calls often enough for the list to be used.
    pub gauges: Gauges,
}

/// Keeps the `max` items that come first by `key`, in no order.
pub(crate) fn retain_first<T, K: Ord>(items: &mut Vec<T>, max: usize, key: impl Fn(&T) -> K) {
    if items.len() > max {
        if max > 0 {
            items.select_nth_unstable_by_key(max - 1, key);
        }
        items.truncate(max);
    }
}

/// Change notification for readers of the numbers. Costs one load of a counter while there is no
/// subscriber.
#[derive(Clone, Debug)]
pub struct Activity(Arc<watch::Sender<()>>);

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(())))
    }
}

impl Activity {
    /// Subscribes to changes from now on. Dropping the receiver unsubscribes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }

    /// Notifies subscribers of numbers that have been published before.
    pub(crate) fn notify(&self) {
        // A subscriber that arrives now reads the numbers afterwards.
        if self.0.receiver_count() > 0 {
            self.0.send_replace(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::{LookNumbers, ThrottleReason};

    fn took(total_us: u64, rm_us: u64) -> Timing {
        Timing {
            total: Duration::from_micros(total_us),
            rm: Duration::from_micros(rm_us),
        }
    }

    #[test]
    fn calls_and_observations_add_up() {
        let mut numbers = AttemptNumbers::default();
        assert_eq!(numbers.mean(), None);
        for (locality, count) in [
            (Locality::NodeLocal, 3),
            (Locality::RackLocal, 2),
            (Locality::OffSwitch, 1),
        ] {
            for _ in 0..count {
                let latency = Duration::ZERO;
                let id = test_support::ids::container(1);
                numbers.record(&Observation::Allocated {
                    id,
                    locality,
                    latency,
                });
            }
        }
        numbers.record(&Observation::Throttled(ThrottleReason::CallRate));
        numbers.record(&Observation::Relabelled { containers: 7 });
        numbers.record(&Observation::PromotionAsked);
        for _ in 0..2 {
            numbers.record(&Observation::Looked(LookNumbers {
                asked: 4,
                answered: 3,
                held_back: 2,
                unseen: 1,
                took: Duration::ZERO,
            }));
        }
        let gauges = Gauges {
            containers_outstanding: 4,
            nodes_at: Some(MonoMillis(9)),
            containers_live: 6,
        };
        numbers.record_call(MonoMillis(10), took(500, 300));
        numbers.record_call(MonoMillis(20), took(1_500, 700));
        numbers.gauges = gauges;
        let given = GivenContainers {
            node_local: 3,
            rack_local: 2,
            off_switch: 1,
        };
        let expected = AttemptNumbers {
            calls: 2,
            last_call_at: Some(MonoMillis(20)),
            took: took(2_000, 1_000),
            given,
            throttled: 1,
            relabelled: 7,
            promotions_asked: 1,
            looks: LookTotals {
                asked: 8,
                answered: 6,
                held_back: 4,
                unseen: 2,
            },
            gauges,
        };
        assert_eq!(numbers, expected);
        assert_eq!(numbers.mean(), Some(took(1_000, 500)));
        assert_eq!(numbers.containers_asked(), 10);
    }

    #[test]
    fn the_first_by_a_key_are_kept() {
        let mut items = vec![3, 1, 4, 1, 5, 9, 2, 6];
        retain_first(&mut items, 3, |item| std::cmp::Reverse(*item));
        items.sort_unstable();
        assert_eq!(items, [5, 6, 9]);
        retain_first(&mut items, 3, |item| *item);
        assert_eq!(items.len(), 3);
        retain_first(&mut items, 0, |item| *item);
        assert!(items.is_empty());
    }

    #[test]
    fn only_who_watches_hears_of_changes() {
        let activity = Activity::default();
        activity.notify();
        let mut watching = activity.watch();
        assert!(!watching.has_changed().unwrap());
        activity.notify();
        assert!(watching.has_changed().unwrap());
        watching.mark_unchanged();
        drop(watching);
        activity.notify();
    }
}
