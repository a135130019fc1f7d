//! Events on their way to the scheduler. Never waits: the owner of the cgroups answers the threads
//! that watch containers, so it must not depend on how fast the core takes events.
//!
//! Events that the full channel does not take stay here. Their number is bounded by the frozen
//! containers: each has at most one order to freeze or thaw under way, and a measurement replaces
//! the one before it.

use std::collections::VecDeque;
use std::time::Duration;

use records::ContainerId;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::isolation::IsolationEvent;

/// Pause between two attempts to send while the channel is full: short beside a launch, and no
/// load.
pub(super) const RETRY: Duration = Duration::from_millis(10);

/// Queue in front of the channel to the core.
#[derive(Debug)]
pub(super) struct Outbox {
    channel: mpsc::Sender<IsolationEvent>,
    waiting: VecDeque<IsolationEvent>,
}

impl Outbox {
    pub(super) const fn new(channel: mpsc::Sender<IsolationEvent>) -> Self {
        Self {
            channel,
            waiting: VecDeque::new(),
        }
    }

    /// Sends an event, or keeps it while the channel is full.
    pub(super) fn send(&mut self, event: IsolationEvent) {
        match (self.last_of(id_of(&event)), &event) {
            (
                Some(IsolationEvent::FrozenMemory { held_mb, .. }),
                IsolationEvent::FrozenMemory { held_mb: newer, .. },
            ) => *held_mb = *newer,
            (_, _) => self.waiting.push_back(event),
        }
        self.flush();
    }

    /// Sends as many of the waiting events as the channel takes. Returns whether some are left.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(event) = self.waiting.pop_front() {
            match self.channel.try_send(event) {
                Ok(()) => {}
                Err(TrySendError::Full(event)) => {
                    self.waiting.push_front(event);
                    return true;
                }
                // The core is gone only when the agent has stopped.
                Err(TrySendError::Closed(_)) => self.waiting.clear(),
            }
        }
        false
    }

    fn last_of(&mut self, id: ContainerId) -> Option<&mut IsolationEvent> {
        let mut newest_first = self.waiting.iter_mut().rev();
        newest_first.find(|event| id_of(event) == id)
    }
}

const fn id_of(event: &IsolationEvent) -> ContainerId {
    match event {
        IsolationEvent::Paused { id, .. }
        | IsolationEvent::FrozenMemory { id, .. }
        | IsolationEvent::Resumed(id)
        | IsolationEvent::PauseFailed(id) => *id,
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;

    #[test]
    fn events_beyond_the_capacity_wait_in_order_and_a_measurement_replaces_the_one_before() {
        let (sender, mut receiver) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        let memory = |n, held_mb| IsolationEvent::FrozenMemory {
            id: container(n),
            held_mb,
        };
        outbox.send(IsolationEvent::Resumed(container(9)));
        outbox.send(IsolationEvent::Paused {
            id: container(1),
            held_mb: Some(7),
        });
        for held_mb in 0..1000 {
            outbox.send(memory(1, held_mb));
        }
        outbox.send(IsolationEvent::Resumed(container(1)));
        assert!(outbox.flush(), "the channel is full");
        assert_eq!(outbox.waiting.len(), 3);
        let mut received = Vec::new();
        while let Ok(event) = receiver.try_recv() {
            received.push(event);
            outbox.flush();
        }
        assert!(
            matches!(
                received[..],
                [
                    IsolationEvent::Resumed(_),
                    IsolationEvent::Paused { .. },
                    IsolationEvent::FrozenMemory { held_mb: 999, .. },
                    IsolationEvent::Resumed(_),
                ]
            ),
            "{received:?}"
        );
        assert!(!outbox.flush());
    }

    #[test]
    fn events_of_a_stopped_agent_are_dropped() {
        let (sender, receiver) = mpsc::channel(1);
        let mut outbox = Outbox::new(sender);
        drop(receiver);
        outbox.send(IsolationEvent::Resumed(container(1)));
        assert!(!outbox.flush());
    }
}
