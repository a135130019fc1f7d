//! Answers of the ResourceManager, and the contents of the next heartbeat.

use std::collections::BTreeMap;

use records::{ExecutionType, MonoMillis, NodeId, Resource};

use super::{HeldStage, Master, TYPES, index};
use crate::master::vocabulary::{Action, Answer, Heartbeat, Promote, ToStart};

/// Limit on containers in one call of a node.
const START_BATCH_MAX: usize = 100;

/// Limit on the bytes of commands in one call of a node: a sixteenth of the longest frame.
const START_BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Master {
    pub(super) fn registered(
        &mut self,
        largest: Option<Resource>,
        now: MonoMillis,
        actions: &mut Vec<Action>,
    ) {
        self.is_registered = true;
        self.pace.registered(now);
        for book in &mut self.books {
            book.forget();
        }
        self.releases.append(&mut self.released);
        // The ResourceManager has lost pending promotions, too.
        if self.job.promote_after_ms.is_some() {
            let waiting = self.held.iter_mut().filter(|(_, held)| {
                held.stage == HeldStage::Waiting
                    && held.execution_type == ExecutionType::Opportunistic
                    && held.promote_at.is_none()
            });
            for (id, held) in waiting {
                held.promote_at = Some(now);
                self.promote_at.insert((now, *id));
            }
        }
        if let Some(largest) = largest.filter(|largest| !self.job.size().fits_in(*largest)) {
            let reason = format!(
                "a container of {} is asked for, and the queue gives {largest} at most",
                self.job.size()
            );
            self.fail_all(&reason, now, actions);
        }
    }

    pub(super) fn answered(&mut self, answer: Answer, now: MonoMillis, actions: &mut Vec<Action>) {
        let Answer {
            granted,
            completed,
            changed,
            refused,
        } = answer;
        self.pace.answered();
        if !(granted.is_empty() && completed.is_empty() && changed.is_empty()) {
            self.pace.changed(now);
        }
        let mut to_start: BTreeMap<NodeId, Vec<ToStart>> = BTreeMap::new();
        for container in granted {
            let node = container.node.clone();
            if let Some(start) = self.granted(container, now) {
                to_start.entry(node).or_default().push(start);
            }
        }
        for completed in completed {
            self.completed(&completed, now);
        }
        for changed in changed {
            self.changed(changed);
        }
        for (id, refusal) in refused {
            self.change_refused(id, refusal, now);
        }
        let command: usize = self.job.command.iter().map(String::len).sum();
        let batch = (START_BATCH_BYTES_MAX / command.max(1)).clamp(1, START_BATCH_MAX);
        for (node, starts) in to_start {
            for containers in starts.chunks(batch) {
                actions.push(Action::Start {
                    node: node.clone(),
                    containers: containers.to_vec(),
                });
            }
        }
    }

    fn missing(&self, execution_type: ExecutionType) -> u32 {
        u32::try_from(self.wanted[index(execution_type)].len()).unwrap_or(u32::MAX)
    }

    /// Returns whether a heartbeat would carry anything new.
    pub(super) fn has_orders(&self) -> bool {
        let differs = |of: &ExecutionType| self.books[index(*of)].differs(self.missing(*of));
        !self.releases.is_empty() || TYPES.iter().any(differs)
    }

    pub(super) fn has_orders_at(&self, now: MonoMillis) -> bool {
        let is_promotion_due = self.promote_at.first().is_some_and(|(at, _)| *at <= now);
        is_promotion_due || self.has_orders()
    }

    pub(super) fn heartbeat(&mut self, now: MonoMillis) -> Heartbeat {
        let mut heartbeat = Heartbeat::default();
        for execution_type in TYPES {
            let missing = self.missing(execution_type);
            let ask = self.books[index(execution_type)].ask(execution_type, missing, now);
            heartbeat.asks.extend(ask);
        }
        heartbeat.releases = self.releases.iter().copied().collect();
        self.released.append(&mut self.releases);
        while let Some((at, id)) = self.promote_at.first().copied()
            && at <= now
        {
            self.promote_at.pop_first();
            if let Some(held) = self.held.get_mut(&id) {
                held.promote_at = None;
                heartbeat.promotions.push(Promote {
                    id,
                    version: held.version,
                });
            }
        }
        heartbeat
    }
}
