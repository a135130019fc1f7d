//! A machine that runs containers and an AM that owns them, as far as a ResourceManager can tell.
//! Both obey; neither decides anything.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationAttemptId, ContainerId, ExecutionType, NodeId};
use wire::proto::hadoop_yarn::{
    AllocateResponseProto, ContainerIdProto, ContainerProto, ContainerStateProto,
    ContainerStatusProto, NmContainerStatusProto, NodeHeartbeatResponseProto,
};

use crate::core::tests::status;

/// `ContainerExitStatus.KILLED_BY_RESOURCEMANAGER`.
const KILLED: i32 = -106;

pub(super) fn id_of(id: Option<&ContainerIdProto>) -> ContainerId {
    ContainerId::try_from(id.expect("a container has an id")).expect("an id is one")
}

/// A machine with a NodeManager on it.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) id: NodeId,
    pub(super) slots: u64,
    pub(super) healthy: bool,
    pub(super) registered: bool,
    pub(super) response_id: i32,
    pub(super) running: BTreeSet<ContainerId>,
    /// Exit statuses of ended containers, kept until these may be forgotten.
    pub(super) ended: BTreeMap<ContainerId, i32>,
}

impl Machine {
    pub(super) const fn new(id: NodeId, slots: u64) -> Self {
        Self {
            id,
            slots,
            healthy: true,
            registered: false,
            response_id: 0,
            running: BTreeSet::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Ends a container by itself.
    pub(super) fn end(&mut self, id: ContainerId, exit_status: i32) {
        if self.running.remove(&id) {
            self.ended.insert(id, exit_status);
        }
    }

    /// Returns everything that the machine runs or has run, for a registration.
    pub(super) fn inventory(&self) -> Vec<NmContainerStatusProto> {
        let of = |id: ContainerId, state: ContainerStateProto, exit_status: Option<i32>| {
            NmContainerStatusProto {
                container_id: Some(id.into()),
                container_state: Some(state.into()),
                container_exit_status: exit_status,
                ..NmContainerStatusProto::default()
            }
        };
        let running = self.running.iter();
        let running = running.map(|id| of(*id, ContainerStateProto::CRunning, None));
        let ended = self.ended.iter();
        let ended = ended.map(|(id, exit)| of(*id, ContainerStateProto::CComplete, Some(*exit)));
        running.chain(ended).collect()
    }

    /// Returns everything that the machine runs or has run, for a heartbeat.
    pub(super) fn statuses(&self) -> Vec<ContainerStatusProto> {
        let running = self.running.iter().map(|id| status(*id, None));
        let ended = self.ended.iter();
        let ended = ended.map(|(id, exit)| status(*id, Some(*exit)));
        running.chain(ended).collect()
    }

    pub(super) fn obey(&mut self, answer: &NodeHeartbeatResponseProto) {
        self.response_id = answer.response_id();
        for id in &answer.containers_to_cleanup {
            self.end(id_of(Some(id)), KILLED);
        }
        for application in &answer.applications_to_cleanup {
            let application = application.try_into().expect("an id is one");
            let of_it = self.running.iter().copied();
            let of_it: Vec<ContainerId> = of_it
                .filter(|id| id.application_id() == application)
                .collect();
            for id in of_it {
                self.end(id, KILLED);
            }
        }
        for id in &answer.containers_to_be_removed_from_nm {
            let id = id_of(Some(id));
            assert!(
                !self.running.contains(&id),
                "{id} runs and is to be forgotten"
            );
            self.ended.remove(&id);
        }
    }
}

/// A container as its AM knows it.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) node: NodeId,
    pub(super) execution_type: ExecutionType,
    pub(super) version: i32,
    pub(super) is_started: bool,
}

/// An AM that has registered.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) attempt: ApplicationAttemptId,
    pub(super) response_id: i32,
    pub(super) held: BTreeMap<ContainerId, Held>,
    /// Containers whose completion was received.
    pub(super) completed: BTreeSet<ContainerId>,
}

impl Owner {
    pub(super) const fn new(attempt: ApplicationAttemptId) -> Self {
        Self {
            attempt,
            response_id: 0,
            held: BTreeMap::new(),
            completed: BTreeSet::new(),
        }
    }

    /// Takes an answer that has arrived: every container is new, and completes once.
    pub(super) fn take_answer(&mut self, answer: &AllocateResponseProto) {
        self.response_id = answer.response_id();
        for container in &answer.allocated_containers {
            let id = id_of(container.id.as_ref());
            assert_eq!(id.attempt, self.attempt, "{id} is another attempt's");
            let is_new = self.held.insert(id, held(container)).is_none();
            assert!(
                is_new && !self.completed.contains(&id),
                "{id} was given out twice"
            );
        }
        for updated in &answer.updated_containers {
            let id = id_of(updated.container.id.as_ref());
            let known = self.held.get_mut(&id);
            let known = known.unwrap_or_else(|| panic!("{id} is updated and not held"));
            assert!(
                updated.container.version() > known.version,
                "{id} went back to version {}",
                updated.container.version()
            );
            *known = Held {
                is_started: known.is_started,
                ..held(&updated.container)
            };
        }
        for ended in &answer.completed_container_statuses {
            let id = id_of(ended.container_id.as_ref());
            assert_eq!(id.attempt, self.attempt, "{id} is another attempt's");
            assert!(self.completed.insert(id), "{id} ended twice");
            self.held.remove(&id);
        }
    }

    /// Returns the container at this index among the started or the unstarted ones; `None` past the
    /// last.
    pub(super) fn pick(&self, place: usize, is_started: bool) -> Option<(ContainerId, Held)> {
        let all = self.held.iter();
        let mut all = all.filter(|(_, held)| held.is_started == is_started);
        all.nth(place).map(|(id, held)| (*id, held.clone()))
    }
}

fn held(container: &ContainerProto) -> Held {
    let node = container.node_id.as_ref().expect("a container has a node");
    Held {
        node: NodeId::try_from(node).expect("a node's id is one"),
        execution_type: container.execution_type().into(),
        version: container.version(),
        is_started: false,
    }
}
