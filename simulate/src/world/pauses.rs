//! Pauses: a node freezes a container to make room for a guaranteed one, and thaws it when there is
//! room again. Its task runs on from where it was.

use records::{ContainerId, MonoMillis};

use super::{Event, Level, Live, World};

impl<L: Level> World<'_, L> {
    /// Has a container be frozen after a delay. Until then it runs.
    pub(super) fn freezing(&mut self, id: ContainerId, now: MonoMillis) {
        if let Some(at_ms) = self.pause_answered(id, now) {
            self.events.push_at(at_ms, Event::Frozen(id));
            self.sums.paused += 1;
        }
    }

    /// Has a container run again after a delay.
    pub(super) fn thawing(&mut self, id: ContainerId, now: MonoMillis) {
        if let Some(at_ms) = self.pause_answered(id, now) {
            self.events.push_at(at_ms, Event::Thawed(id));
        }
    }

    /// Returns when an order to freeze or thaw is answered: the answers come in the order of the
    /// orders.
    fn pause_answered(&mut self, id: ContainerId, now: MonoMillis) -> Option<u64> {
        let live: &mut Live = self.live.get_mut(&id)?;
        let at_ms = now.0 + self.delays.pause();
        live.pause_answer_ms = at_ms.max(live.pause_answer_ms);
        Some(live.pause_answer_ms)
    }

    /// Takes the answer that a container is frozen. One that has ended meanwhile is not.
    pub(super) fn frozen(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        let node = live.node;
        let mut news = Vec::new();
        if self.level.frozen(node, id, now, &mut news) {
            live.frozen_ms = Some(now.0);
            live.runs = false;
            self.meter.running -= 1;
            self.meter.waiting += 1;
        }
        self.hear(node, &news, now);
    }

    /// Takes the answer that a container runs again. One that was killed meanwhile does not.
    pub(super) fn thawed(&mut self, id: ContainerId, now: MonoMillis) {
        let Some(live) = self.live.get_mut(&id) else {
            return;
        };
        let Some(since_ms) = live.frozen_ms.take() else {
            return;
        };
        let paused_ms = now.0 - since_ms;
        live.launched_ms += paused_ms;
        live.runs = true;
        live.exits_ms = live.exits_ms.map(|at_ms| at_ms + paused_ms);
        if let Some(at_ms) = live.exits_ms {
            self.events.push_at(at_ms, Event::Exits(id));
        }
        self.meter.running += 1;
        self.meter.waiting -= 1;
        let node = live.node;
        let mut news = Vec::new();
        self.level.thawed(node, id, now, &mut news);
        self.hear(node, &news, now);
    }
}
