//! Containers that outlive the agent: those of an earlier one, and the leaders that are kept until
//! their end is stored.

use std::sync::Arc;

use keeper::ProcessIdentity;
use localize::ContainerFolder;
use records::ContainerId;

use super::Launcher;
use crate::launch::exit_watch::{Watch, reap};
use crate::launch::leader::{AdoptedLeader, WatchedLeader};

/// Process of a container that an earlier agent started.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Id of the container.
    pub id: ContainerId,
    /// Session leader and process group, alive or not.
    pub process: ProcessIdentity,
    /// Folder of its output.
    pub log_dir: ContainerFolder,
}

impl Launcher {
    /// Watches the process of an earlier agent's container like one that was launched here. Its
    /// end comes as events, at once if it has ended already; `Launched` does not come.
    pub fn adopt(&self, adoption: Adoption) {
        let Adoption {
            id,
            process,
            log_dir,
        } = adoption;
        let Some(orders) = self.registry.adopt(id, process) else {
            tracing::error!(container = %id, "a container of an earlier run is known already");
            return;
        };
        let confined = self.isolation.as_ref();
        let _runtime = self.runtime.enter();
        let watch = Watch {
            id,
            leader: WatchedLeader::Adopted(AdoptedLeader::of(process, self.exits.clone())),
            orders,
            log_dir,
            debug_info: None,
            confined: confined.map(|isolation| isolation.confined(id)),
            seen: Vec::new(),
            foreseen: None,
        };
        self.runtime
            .spawn(watch.run(Arc::clone(&self.shared), None));
    }

    /// Reaps the leader of a container whose end has been stored. Until then the keeper would
    /// learn its status if this agent died.
    pub fn release(&self, id: ContainerId) {
        if let Some(leader) = self.registry.take_ended(id) {
            reap(id, leader);
        }
    }
}
