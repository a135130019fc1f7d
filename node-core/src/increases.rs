//! Increases of containers that no answered heartbeat has carried yet. At most one for each known
//! container.

use std::collections::BTreeMap;

use records::ContainerId;

use crate::effect::Effect;
use crate::end::{End, Part};
use crate::messages::Increase;

/// Increases that the ResourceManager has not been told, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Increases(BTreeMap<ContainerId, Increase>);

impl Increases {
    /// Adds the increase of a container.
    pub(crate) fn add(&mut self, increase: Increase) {
        self.0.insert(increase.spec.id, increase);
    }

    /// Returns whether an increase of the container is still to be told.
    pub(crate) fn has(&self, id: &ContainerId) -> bool {
        self.0.contains_key(id)
    }

    /// Returns all increases, for a heartbeat.
    pub(crate) fn all(&self) -> Vec<Increase> {
        self.0.values().cloned().collect()
    }

    /// Drops the increases that a heartbeat has delivered.
    pub(crate) fn delivered(&mut self, delivered: &[Increase]) {
        self.0.retain(|_, increase| !delivered.contains(increase));
    }
}

impl Part for Increases {
    fn ended(&mut self, end: &End<'_>, _: &mut Vec<Effect>) {
        self.0.remove(&end.id());
    }
}
