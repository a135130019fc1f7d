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
            assert_eq!(
                *id, container.spec.id,
                "a container is filed under its own id"
            );
            rebuilt.insert(&container.spec, container.state);
            let gone = matches!(container.state, S::Done(_)) && container.forget_when_done;
            assert!(!gone, "{id} is done and was to be forgotten");
        }
        assert!(
            self.index == rebuilt,
            "the index is not that of the containers"
        );
        for timer in self.timers.iter() {
            let (id, due) = match timer {
                Timer::ForceKill(id) => (id, matches!(self.state(id), Some(S::Killing { .. }))),
                Timer::PauseEnd(id) => (id, matches!(self.state(id), Some(S::Paused { .. }))),
            };
            assert!(due, "{id} in {:?} has the timer {timer:?}", self.state(id));
        }
        self.assert_pauses_end();
    }

    /// Asserts that each frozen opportunistic container, and no other, has a timer that ends its
    /// pause.
    fn assert_pauses_end(&self) {
        let timers: BTreeSet<Timer> = self.timers.iter().collect();
        let ending = |id: &ContainerId| timers.contains(&Timer::PauseEnd(*id));
        for (waiting, frozen) in self.index.opportunistic().iter() {
            assert_eq!(
                frozen,
                ending(&waiting.id),
                "{}: pause and timer",
                waiting.id
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
        assert_eq!(excess, None, "frozen memory is held that is needed");
        if let Some(head) = self.index.guaranteed().head() {
            assert!(
                !self.config.forces_guaranteed(),
                "{} was not forced",
                head.id
            );
            assert!(
                !self.has_room(head.amount),
                "guaranteed {} waits beside room",
                head.id
            );
            let needed = self.index.kept() + self.index.guaranteed().total();
            let short = needed.saturating_sub(self.node_amount());
            let victims = victims::select(short, self.index.evictable_newest_first());
            assert!(
                victims.is_empty(),
                "{} waits, {victims:?} still run",
                head.id
            );
        } else if let Some(head) = self.index.opportunistic().head() {
            assert!(
                !self.has_room(head.amount),
                "opportunistic {} waits beside room",
                head.id
            );
            assert!(
                head.amount.fits_in(self.node_amount()),
                "{} can never start",
                head.id
            );
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
