//! Events in the order of their virtual time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Queue of events. Events of one time come in the order in which they were pushed.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    now_ms: u64,
    pushed: u64,
    popped: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_ms: u64,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    const fn key(&self) -> (u64, u64) {
        (self.at_ms, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns its greatest element, which must be the earliest event.
        other.key().cmp(&self.key())
    }
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            now_ms: 0,
            pushed: 0,
            popped: 0,
        }
    }
}

impl<E> EventQueue<E> {
    /// Returns the virtual time: that of the event taken last, in milliseconds since the begin.
    #[must_use]
    pub const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the number of events taken so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.popped
    }

    /// Adds an event. One whose time has passed comes next.
    pub fn push_at(&mut self, at_ms: u64, event: E) {
        self.pushed += 1;
        self.heap.push(Entry {
            at_ms: at_ms.max(self.now_ms),
            number: self.pushed,
            event,
        });
    }

    /// Adds an event `delay_ms` after the present.
    pub fn push_in(&mut self, delay_ms: u64, event: E) {
        self.push_at(self.now_ms.saturating_add(delay_ms), event);
    }

    /// Takes the next event and moves the virtual time to it; `None`: no event is left.
    pub fn pop(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now_ms = entry.at_ms;
        self.popped += 1;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_those_of_one_time_in_the_order_they_were_pushed() {
        let mut queue = EventQueue::default();
        for (at_ms, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            queue.push_at(at_ms, event);
        }
        let mut taken = Vec::new();
        while let Some(event) = queue.pop() {
            taken.push((queue.now_ms(), event));
        }
        assert_eq!(taken, [(1, 'a'), (2, 'b'), (5, 'c'), (5, 'd')]);
        assert_eq!(queue.events(), 4);
    }

    #[test]
    fn an_event_of_the_past_comes_at_the_present() {
        let mut queue = EventQueue::default();
        queue.push_at(10, 'a');
        queue.pop();
        queue.push_at(3, 'b');
        assert_eq!((queue.pop(), queue.now_ms()), (Some('b'), 10));
    }
}
