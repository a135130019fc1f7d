//! Containers that outlive the agent: those of an earlier one, and the leaders that are kept until
//! their end is stored.

use std::sync::Arc;

use keeper::ProcessIdentity;
use localize::{ContainerFolder, UserName};
use records::ContainerId;
use sched::ContainerSpec;

use super::Launcher;
use crate::launch::exit_watch::Watch;
use crate::launch::leader::{AdoptedLeader, WatchedLeader};

/// Process of a container that an earlier agent started.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Id, size and type of the container.
    pub spec: ContainerSpec,
    /// The application's submitter.
    pub user: UserName,
    /// Session leader and process group, alive or not.
    pub process: ProcessIdentity,
    /// Folder of its output.
    pub log_dir: ContainerFolder,
    /// Whether the container is frozen, and to stay so.
    pub is_frozen: bool,
}

impl Launcher {
    /// Watches the process of an earlier agent's container like one that was launched here. Its
    /// end comes as events, at once if it has ended already; `Launched` does not come.
    pub fn adopt(&self, adoption: Adoption) {
        let Adoption {
            spec,
            user,
            process,
            log_dir,
            is_frozen,
        } = adoption;
        let id = spec.id;
        let Some(orders) = self.registry.adopt(spec, process) else {
            tracing::error!(container = %id, "a container of an earlier run is known already");
            return;
        };
        let confined = self.isolation.as_ref();
        let confined = confined.filter(|isolation| isolation.adopt(spec, is_frozen));
        let exits = self.outlives.as_ref();
        let exits = exits.map(|outlives| outlives.exits.clone());
        let _runtime = self.runtime.enter();
        let watch = Watch {
            id,
            user,
            leader: WatchedLeader::Adopted(AdoptedLeader::of(process, exits)),
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
    /// learn its status if this agent died. `pid`: the leader whose end it was; `None`: the
    /// container's last. A record may reach the disk after a later leader has ended, of which it
    /// says nothing: that one stays.
    pub fn release(&self, id: ContainerId, pid: Option<i32>) {
        if let Some(leader) = self.registry.take_ended(id, pid) {
            self.registry.reap(leader);
        }
        if let Some(outlives) = &self.outlives {
            outlives.starts.forget(&id.to_string());
        }
    }
}
