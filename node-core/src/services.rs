//! What auxiliary services learn of containers: each begins once and ends once, whatever becomes
//! of it in between (Hadoop: `ContainerImpl`, `AuxServicesEventType.CONTAINER_INIT` and
//! `CONTAINER_STOP`).

use records::ContainerId;
use sched::ContainerState;

use super::Core;
use super::effect::{Effect, ServedContainer};

impl Core {
    /// Notifies services of a container that leaves the state New, before its localization. One
    /// that they know is not told of again.
    pub(super) fn tell_services(&mut self, id: ContainerId) {
        let Some(served) = self.served(id, false) else {
            return;
        };
        self.set_known_to_services(id, true);
        self.effects
            .push(Effect::ContainerInitialized(Box::new(served)));
    }

    /// Notifies services of those containers of an earlier agent that go on: they may be other
    /// processes than those which learned of them first.
    pub(super) fn tell_services_of_restored(&mut self, ids: &[ContainerId]) {
        for id in ids {
            let summary = self.scheduler.summary(id);
            if summary.is_some_and(|known| !matches!(known.state, ContainerState::Done(_))) {
                self.tell_services(*id);
            }
        }
    }

    /// Notifies services of the end of a container that they know.
    pub(super) fn tell_services_of_end(&mut self, id: ContainerId) {
        let Some(served) = self.served(id, true) else {
            return;
        };
        self.set_known_to_services(id, false);
        self.effects
            .push(Effect::ContainerStopped(Box::new(served)));
    }

    /// Returns a container as services see it, if they know it or do not, as asked.
    fn served(&self, id: ContainerId, is_known: bool) -> Option<ServedContainer> {
        let container = self.containers.get(&id)?;
        let spec = self.scheduler.summary(&id)?.spec;
        (container.is_known_to_services == is_known).then(|| ServedContainer {
            spec,
            user: container.user.clone(),
            role: container.facts.role,
        })
    }

    fn set_known_to_services(&mut self, id: ContainerId, is_known: bool) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.is_known_to_services = is_known;
        }
    }
}
