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

/// Returns the words, unless the condition holds.
fn ensure(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}

impl ContainerScheduler {
    /// Panics unless every invariant holds. Visits every container.
    pub fn assert_invariants(&self) {
        assert_holds(self.check_invariants());
    }

    /// Checks every invariant. Visits every container.
    ///
    /// # Errors
    /// Words about the first that does not hold.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        self.check_settled()?;
        let mut rebuilt = Index::new(self.config.vmem_check);
        for (id, container) in &self.containers {
            ensure(*id == container.spec.id, || {
                format!("the key of {id} is another one's")
            })?;
            rebuilt.insert(&container.spec, container.state);
            let overdue = matches!(container.state, S::Done(_)) && container.forget_when_done;
            ensure(!overdue, || format!("{id} is done but not forgotten"))?;
        }
        for resource in self.withheld.values() {
            rebuilt.withhold(*resource);
        }
        ensure(self.index == rebuilt, || {
            "the index differs from a rebuilt one".to_owned()
        })?;
        self.check_timers()?;
        if self.drain.is_some() {
            let waiting = self.index.opportunistic().unstarted_len();
            ensure(waiting == 0, || {
                format!("{waiting} containers wait on a node that is drained")
            })?;
        }
        self.check_pauses_end()?;
        self.check_retries_come()
    }

    /// Checks that each timer is for a container in a state that has such a timer.
    fn check_timers(&self) -> Result<(), String> {
        for timer in self.timers.iter() {
            let (id, legal) = match timer {
                Timer::ForceKill(id) => {
                    let ending = matches!(self.state(id), Some(S::Killing { .. } | S::Restarting));
                    (id, ending)
                }
                Timer::PauseEnd(id) => (id, matches!(self.state(id), Some(S::Paused { .. }))),
                Timer::Retry(id) => (id, matches!(self.state(id), Some(S::Relaunching { .. }))),
            };
            ensure(legal, || {
                format!("{id} in {:?} has the timer {timer:?}", self.state(id))
            })?;
        }
        Ok(())
    }

    /// Checks that each frozen opportunistic container, and no other, has a timer that ends its
    /// pause.
    fn check_pauses_end(&self) -> Result<(), String> {
        let timers: BTreeSet<Timer> = self.timers.iter().collect();
        let has_timer = |id: &ContainerId| timers.contains(&Timer::PauseEnd(*id));
        for (waiting, frozen) in self.index.opportunistic().iter() {
            ensure(frozen == has_timer(&waiting.id), || {
                format!(
                    "{}: frozen without timer, or timer without pause",
                    waiting.id
                )
            })?;
        }
        Ok(())
    }

    /// Checks that each container that waits for its next launch has a timer that orders it.
    fn check_retries_come(&self) -> Result<(), String> {
        let timers: BTreeSet<Timer> = self.timers.iter().collect();
        for (id, container) in &self.containers {
            let relaunching = matches!(container.state, S::Relaunching { .. });
            ensure(!relaunching || timers.contains(&Timer::Retry(*id)), || {
                format!("{id} waits for a launch that nothing orders")
            })?;
        }
        Ok(())
    }

    /// Checks the conditions that need no visit to every container.
    fn check_settled(&self) -> Result<(), String> {
        ensure(self.containers.len() <= CONTAINERS_MAX, || {
            "too many containers".to_owned()
        })?;
        let excess = self.next_frozen_to_kill();
        ensure(excess.is_none(), || {
            format!("frozen containers hold too much memory: {excess:?}")
        })?;
        let Some(head) = self.index.guaranteed().head() else {
            return self.check_opportunistic_settled();
        };
        ensure(!self.may_start_guaranteed(head.amount), || {
            format!("guaranteed {} waits although it may start", head.id)
        })?;
        let needed = self.index.kept() + self.index.guaranteed().total();
        let short = needed.saturating_sub(self.node_amount());
        let victims = victims::newest(short, self.index.evictable_newest_first());
        ensure(victims.is_empty(), || {
            format!(
                "guaranteed {} waits while {victims:?} could be evicted",
                head.id
            )
        })
    }

    /// Checks that no opportunistic container waits although it is its turn. The time is not known
    /// here, so nothing is said of those behind a frozen one that may be kept resources for.
    fn check_opportunistic_settled(&self) -> Result<(), String> {
        for (waiting, is_frozen) in self.index.opportunistic().iter() {
            ensure(!self.has_room(waiting.amount), || {
                format!("opportunistic {} waits although it fits", waiting.id)
            })?;
            ensure(waiting.amount.fits_in(self.node_amount()), || {
                format!("{} can never start", waiting.id)
            })?;
            if !is_frozen || self.fits_beside_guaranteed(waiting.amount) {
                break;
            }
        }
        Ok(())
    }

    /// Runs the checks of debug builds.
    pub(super) fn check_after_event(&self) {
        assert_holds(
            if self.containers.len() <= CHECKED_EACH_TIME_MAX
                || self.events.is_multiple_of(CHECKED_EVERY_EVENTS)
            {
                self.check_invariants()
            } else {
                self.check_settled()
            },
        );
    }
}

fn assert_holds(checked: Result<(), String>) {
    if let Err(broken) = checked {
        panic!("{broken}");
    }
}
