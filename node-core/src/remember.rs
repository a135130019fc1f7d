//! When records for the next agent change: after each event, those of the containers that it
//! concerned are compared with what is stored. So no transition of the scheduler needs to know of
//! records.

use records::{ApplicationId, ContainerId, Now};
use sched::{Action, Event, KillReason};

use super::{Core, Effect};
use crate::order::StoreOrder;

/// Returns the container that an action concerns. Each change of a container's state that its
/// event does not name comes with one of these.
pub(super) fn subject_of_action(action: &Action) -> Option<ContainerId> {
    match action {
        Action::Localize(id)
        | Action::Launch(id)
        | Action::RollBack(id)
        | Action::Pause(id)
        | Action::Resume(id)
        | Action::Terminate(id)
        | Action::ForceKill(id)
        | Action::CleanUp(id) => Some(*id),
        Action::ApplyLimits(spec) => Some(spec.id),
        Action::Completed(completion) => Some(completion.id),
        Action::Note(_) => None,
    }
}

impl Core {
    /// Stores the states of containers that differ from what is stored.
    pub(super) fn remember(&mut self, ids: impl IntoIterator<Item = ContainerId>, now: Now) {
        if !self.recorder.are_kept() {
            return;
        }
        for id in ids {
            let Some(view) = self.scheduler.container(&id) else {
                continue;
            };
            let Some(container) = self.containers.get(&id) else {
                continue;
            };
            let retries = self.scheduler.granted_retries(&id).unwrap_or_default();
            let effects = &mut self.effects;
            self.recorder
                .container(view, retries, container, now, effects);
        }
    }

    /// Stores the state of an application, or that it is forgotten.
    pub(super) fn remember_application(&mut self, id: ApplicationId, now: Now) {
        let application = self.applications.get(&id);
        let effects = &mut self.effects;
        self.recorder
            .application_changed(id, application, now, effects);
    }

    /// Ends containers that a restart would not find.
    pub fn take_back(&mut self, ids: &[ContainerId], now: Now) {
        for id in ids {
            let reason = KillReason::ResourceManager;
            self.must_feed(Event::Kill { id: *id, reason }, now);
        }
    }

    /// Forgets that tokens were used which have expired.
    pub(super) fn forget_uses(&mut self, now: Now) {
        if self.recorder.are_kept() {
            let expired = self.started.take_expired(now.wall);
            if !expired.is_empty() {
                let order = StoreOrder::ForgetUses(expired);
                self.effects.push(Effect::Store(order));
            }
        }
    }
}
