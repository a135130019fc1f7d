//! Conditions that hold between events.

use std::collections::BTreeSet;

use records::ContainerId;

use super::ContainerScheduler;
use crate::config::CONTAINERS_MAX;
use crate::container_state::ContainerState as S;
use crate::index::Index;
use crate::timers::Timer;
use crate::victims;

/// Most containers with which debug builds check every condition after each event. With more they
/// sample, so that tests with thousands of containers stay fast.
const CHECKED_EACH_TIME_MAX: usize = 64;

/// Events from one full check of debug builds to the next when there are more containers than that.
const CHECKED_EVERY_EVENTS: u64 = 1_024;

impl ContainerScheduler {
    /// Panics unless every invariant holds. Visits every container.
    pub fn assert_invariants(&self) {
        self.assert_settled();
        let mut rebuilt = Index::new(self.config.vmem_check);
        for (id, container) in &self.containers {
            assert_eq!(*id, container.spec.id, "a container's key is its id");
            rebuilt.insert(&container.spec, container.state);
            let overdue = matches!(container.state, S::Done(_)) && container.forget_when_done;
            assert!(!overdue, "{id} is done but not forgotten");
        }
        for resource in self.withheld.values() {
            rebuilt.withhold(*resource);
        }
        assert!(
            self.index == rebuilt,
            "the index differs from a rebuilt one"
        );
        for timer in self.timers.iter() {
            let (id, legal) = match timer {
                Timer::ForceKill(id) => {
                    let ending = matches!(self.state(id), Some(S::Killing { .. } | S::Restarting));
                    (id, ending)
                }
                Timer::PauseEnd(id) => (id, matches!(self.state(id), Some(S::Paused { .. }))),
                Timer::Retry(id) => (id, matches!(self.state(id), Some(S::Relaunching { .. }))),
            };
            assert!(
                legal,
                "{id} in {:?} has the timer {timer:?}",
                self.state(id)
            );
        }
        if self.drain.is_some() {
            let waiting = self.index.opportunistic().unstarted_len();
            assert_eq!(waiting, 0, "containers wait on a node that is drained");
        }
        self.assert_pauses_end();
        self.assert_retries_come();
    }

    /// Asserts that each frozen opportunistic container, and no other, has a timer that ends its
    /// pause.
    fn assert_pauses_end(&self) {
        let timers: BTreeSet<Timer> = self.timers.iter().collect();
        let has_timer = |id: &ContainerId| timers.contains(&Timer::PauseEnd(*id));
        for (waiting, frozen) in self.index.opportunistic().iter() {
            assert_eq!(
                frozen,
                has_timer(&waiting.id),
                "{}: frozen without timer, or timer without pause",
                waiting.id
            );
        }
    }

    /// Asserts that each container that waits for its next launch has a timer that orders it.
    fn assert_retries_come(&self) {
        let timers: BTreeSet<Timer> = self.timers.iter().collect();
        for (id, container) in &self.containers {
            let relaunching = matches!(container.state, S::Relaunching { .. });
            assert!(
                !relaunching || timers.contains(&Timer::Retry(*id)),
                "{id} waits for a launch that nothing orders"
            );
        }
    }

    /// Asserts the conditions that need no visit to every container.
    fn assert_settled(&self) {
        assert!(
            self.containers.len() <= CONTAINERS_MAX,
            "too many containers"
        );
        let excess = self.next_frozen_to_kill();
        assert_eq!(excess, None, "frozen containers hold too much memory");
        if let Some(head) = self.index.guaranteed().head() {
            assert!(
                !self.may_start_guaranteed(head.amount),
                "guaranteed {} waits although it may start",
                head.id
            );
            let needed = self.index.kept() + self.index.guaranteed().total();
            let short = needed.saturating_sub(self.node_amount());
            let victims = victims::select(short, self.index.evictable_newest_first());
            assert!(
                victims.is_empty(),
                "guaranteed {} waits while {victims:?} could be evicted",
                head.id
            );
        } else {
            self.assert_opportunistic_settled();
        }
    }

    /// Asserts that no opportunistic container waits although it is its turn. The time is not known
    /// here, so nothing is asserted of those behind a frozen one that may be kept resources for.
    fn assert_opportunistic_settled(&self) {
        for (waiting, is_frozen) in self.index.opportunistic().iter() {
            assert!(
                !self.has_room(waiting.amount),
                "opportunistic {} waits although it fits",
                waiting.id
            );
            assert!(
                waiting.amount.fits_in(self.node_amount()),
                "{} can never start",
                waiting.id
            );
            if !is_frozen || self.fits_beside_guaranteed(waiting.amount) {
                return;
            }
        }
    }

    /// Runs the checks of debug builds.
    pub(super) fn check_after_event(&self) {
        if self.containers.len() <= CHECKED_EACH_TIME_MAX
            || self.events.is_multiple_of(CHECKED_EVERY_EVENTS)
        {
            self.assert_invariants();
        } else {
            self.assert_settled();
        }
    }
}
