//! Reservations: messages between proxies and nodes, and answers to calls that wait for offers.

use records::MonoMillis;

use super::{Event, Level, World};
use crate::arm::Letter;

impl<L: Level> World<'_, L> {
    /// Has a node offer its room after something has changed there.
    pub(super) fn settle(&mut self, node: usize, now: MonoMillis) {
        self.level.settle(node, now);
        self.send_letters();
        self.schedule_tick(node);
    }

    /// Sends the messages that are to be sent.
    pub(super) fn send_letters(&mut self) {
        let (message_ms, letters) = self.level.take_letters();
        for letter in letters {
            self.events
                .push_in(message_ms, Event::Arrives(Box::new(letter)));
        }
    }

    pub(super) fn arrives(&mut self, letter: Letter, now: MonoMillis) {
        let reached = self.level.deliver(letter, now);
        self.send_letters();
        if let Some(node) = reached {
            self.settle(node, now);
        }
    }

    /// Has the answer to a call come later, where it waits for offers.
    pub(super) fn answer_later(&mut self, job: usize, attempt: u32) {
        if let Some(late_ms) = self.level.answers_late_ms() {
            self.events
                .push_in(late_ms, Event::Answers { job, attempt });
        }
    }

    pub(super) fn answers(&mut self, job: usize, attempt: u32, now: MonoMillis) {
        let master = self.masters[job].as_ref();
        if master.is_some_and(|master| master.attempt == attempt) {
            for given in self.level.late_answer(job, now) {
                self.assign(job, given, now);
            }
        }
    }
}
