//! Late binding: a probe waits on a node like a container, and its master decides what it runs when
//! it has a place.

use records::{ContainerId, ExecutionType, MonoMillis};

use super::{Event, Level, Master, Work, World};
use crate::arm::job_of;

impl<L: Level> World<'_, L> {
    /// Drops a probe that has just reached its node if it has nothing to run; returns whether so.
    pub(super) fn is_needless(&mut self, id: ContainerId) -> bool {
        let waits = |job: usize| {
            let master = self.masters[job].as_ref();
            master.is_some_and(Master::has_for_probes)
        };
        let is_needless = self
            .live
            .get(&id)
            .is_some_and(|live| live.work == Work::Probe)
            && !waits(job_of(&id));
        if is_needless {
            self.live.remove(&id);
            self.forget_probe(id);
        }
        is_needless
    }

    /// Asks the master of a probe with a place for a task. Question and answer take a start call's
    /// time each.
    pub(super) fn ask_for_task(&mut self, id: ContainerId) {
        let both_ways_ms = self.delays.start_call() + self.delays.start_call();
        self.events.push_in(both_ways_ms, Event::Binds(id));
    }

    /// Gives the first task that waits to a probe that has a place; without one, its place is free.
    pub(super) fn bind(&mut self, id: ContainerId, now: MonoMillis) {
        let job = job_of(&id);
        self.forget_probe(id);
        if !self.live.contains_key(&id) {
            return;
        }
        let next = self.masters[job]
            .as_mut()
            .and_then(|master| master.next(ExecutionType::Opportunistic));
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        let Some((task, since)) = next else {
            let node = live.node;
            let mut news = Vec::new();
            self.level.abandon(node, id, now, &mut news);
            self.hear(node, &news, now);
            return;
        };
        live.work = Work::Task(task);
        self.sums.am_wait_ms += now.0 - since;
        self.launch(id);
        let master = self.masters[job].as_ref();
        if master.is_some_and(|master| !master.has_for_probes()) {
            self.cancel_probes(job);
        }
    }

    /// Cancels the probes of a job that has no task left to start.
    fn cancel_probes(&mut self, job: usize) {
        let Some(master) = &mut self.masters[job] else {
            return;
        };
        for id in std::mem::take(&mut master.probes) {
            let call_ms = self.delays.start_call();
            self.events.push_in(call_ms, Event::Cancels(id));
        }
    }

    /// Removes a cancelled probe from the queue of its node. One that has got a place, or has not
    /// reached its node, is dropped there.
    pub(super) fn cancel(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get(&id) else {
            return;
        };
        if live.work == Work::Probe && live.has_arrived && !live.is_launching {
            let node = live.node;
            let mut news = Vec::new();
            self.level.kill(node, id, now, &mut news);
            self.hear(node, &news, now);
        }
    }

    /// Removes a probe from those that its master counts on.
    pub(super) fn forget_probe(&mut self, id: ContainerId) {
        if let Some(master) = &mut self.masters[job_of(&id)] {
            master.probes.remove(&id);
        }
    }
}
