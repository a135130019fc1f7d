//! Steps as calls of a core, and the reactions of the peers to its answers.

use std::collections::{BTreeMap, BTreeSet};

use records::{ApplicationAttemptId, ApplicationId, ContainerId, ExecutionType, NodeId, Resource};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, ContainerUpdateTypeProto, FinalApplicationStatusProto,
    FinishApplicationMasterRequestProto, NodeActionProto, NodeHealthStatusProto,
    NodeHeartbeatRequestProto, NodeStatusProto, OpportunisticContainersStatusProto,
    RegisterApplicationMasterRequestProto, RegisterNodeManagerRequestProto,
    UnRegisterNodeManagerRequestProto, UpdateContainerRequestProto,
};

use super::peers::{Held, Machine, Owner, id_of};
use super::{OfMachine, OfMaster, Step};
use crate::core::Effect;
use crate::core::tests::{SLOT_MB, World, asking, node};
use crate::nodes::DEFAULT_RACK;

pub(super) const MACHINES: usize = 3;

/// Short expiry intervals, so that a few steps of time exceed them; keys keep Hadoop's.
const PROPERTIES: [(&str, &str); 4] = [
    ("yarn.nm.liveness-monitor.expiry-interval-ms", "10000"),
    ("yarn.am.liveness-monitor.expiry-interval-ms", "20000"),
    (
        "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
        "8000",
    ),
    ("yarn.resourcemanager.max-completed-applications", "2"),
];

/// A cluster of peers around a core.
pub(super) struct Chaos {
    pub(super) world: World,
    pub(super) machines: Vec<Machine>,
    pub(super) owners: BTreeMap<ApplicationId, Owner>,
    /// Launches ordered and not done.
    pub(super) launches: Vec<(ApplicationAttemptId, NodeId)>,
    allocated: BTreeSet<ContainerId>,
}

impl Chaos {
    pub(super) fn new() -> Self {
        let slots = [2, 3, 5];
        let machines = (1..).zip(slots);
        Self {
            world: World::new(&PROPERTIES),
            machines: machines
                .map(|(port, slots)| Machine::new(node(port), slots))
                .collect(),
            owners: BTreeMap::new(),
            launches: Vec::new(),
            allocated: BTreeSet::new(),
        }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Pass(ms) => self.world.pass(*ms),
            Step::OfMachine(at, of) => self.of_machine(*at, of),
            Step::Submit => {
                self.world.submit();
            }
            Step::Launch(at, is_good) => self.launch(*at, *is_good),
            Step::OfMaster(at, of) => {
                if let Some(id) = self.owners.keys().nth(*at).copied() {
                    self.of_master(id, of);
                }
            }
            Step::Kill(at) => {
                let id = self.world.core.applications().nth(*at).map(|each| each.id);
                if let Some(id) = id {
                    let killed = self.world.core.kill(id, "enough", self.world.now);
                    assert_eq!(killed, Ok(true));
                }
            }
        }
        for Effect::Launch(launch) in self.world.core.take_effects() {
            self.launches.push((launch.attempt, launch.node));
        }
        self.check();
    }

    fn of_machine(&mut self, at: usize, of: &OfMachine) {
        let machine = &mut self.machines[at];
        match of {
            OfMachine::Register => self.register(at),
            OfMachine::Heartbeat(arrives) => self.heartbeat(at, *arrives),
            OfMachine::End(place) => {
                if let Some(id) = machine.running.iter().nth(*place).copied() {
                    machine.end(id, 7);
                }
            }
            OfMachine::Health(is_healthy) => machine.healthy = *is_healthy,
            OfMachine::Goodbye => {
                // The machine's containers end with it, and it returns as a new one.
                *machine = Machine::new(machine.id.clone(), machine.slots);
                let request = UnRegisterNodeManagerRequestProto {
                    node_id: Some((&machine.id).into()),
                };
                let core = &mut self.world.core;
                core.unregister_node(&request, self.world.now).unwrap();
            }
        }
    }

    pub(super) fn register(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let running = machine.running.iter().chain(machine.ended.keys());
        let applications: BTreeSet<ApplicationId> = running.map(|id| id.application_id()).collect();
        let request = RegisterNodeManagerRequestProto {
            node_id: Some((&machine.id).into()),
            resource: Some(Resource::new(machine.slots * SLOT_MB, 64).into()),
            container_statuses: machine.inventory(),
            running_applications: applications.into_iter().map(Into::into).collect(),
            ..RegisterNodeManagerRequestProto::default()
        };
        let core = &mut self.world.core;
        core.register_node(&request, DEFAULT_RACK, self.world.now)
            .unwrap();
        machine.response_id = 0;
        machine.registered = true;
    }

    pub(super) fn heartbeat(&mut self, at: usize, arrives: bool) {
        if !self.machines[at].registered {
            return;
        }
        let machine = &mut self.machines[at];
        let request = NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some((&machine.id).into()),
                response_id: Some(machine.response_id),
                containers_statuses: machine.statuses(),
                node_health_status: Some(NodeHealthStatusProto {
                    is_node_healthy: Some(machine.healthy),
                    ..NodeHealthStatusProto::default()
                }),
                opportunistic_containers_status: Some(OpportunisticContainersStatusProto {
                    opport_queue_capacity: Some(10),
                    ..OpportunisticContainersStatusProto::default()
                }),
                ..NodeStatusProto::default()
            }),
            ..NodeHeartbeatRequestProto::default()
        };
        let answer = self.world.core.heartbeat(request, self.world.now);
        if !arrives {
            return;
        }
        if answer.node_action() == NodeActionProto::Resync {
            self.register(at);
            return;
        }
        machine.obey(&answer);
        let core = &self.world.core;
        for id in &answer.containers_to_cleanup {
            let id = id_of(Some(id));
            assert!(
                !core.containers.contains_key(&id),
                "{id} counts and is ended"
            );
        }
        for id in &answer.applications_to_cleanup {
            let id = ApplicationId::try_from(id).expect("an id is one");
            assert!(
                !core.sessions.contains_key(&id),
                "{id} is active and ordered to end"
            );
        }
        for id in &answer.containers_to_be_removed_from_nm {
            let id = id_of(Some(id));
            let owner = self.owners.get(&id.application_id());
            let owner = owner.filter(|owner| owner.attempt == id.attempt && !is_master(id));
            // The AM of a killed application receives no completion.
            let session = core.sessions.get(&id.application_id());
            let is_live = session.is_some_and(|session| session.attempt == id.attempt);
            let owner = owner.filter(|_| is_live);
            let is_known = owner.is_none_or(|owner| owner.completed.contains(&id));
            assert!(
                is_known,
                "{id} is forgotten before the AM has its completion"
            );
        }
    }

    pub(super) fn launch(&mut self, at: usize, is_good: bool) {
        if at >= self.launches.len() {
            return;
        }
        let (attempt, at_node) = self.launches.remove(at);
        let now = self.world.now;
        if !is_good {
            let refusal = Err("the node refuses".to_owned());
            self.world.core.master_launched(attempt, refusal, now);
            return;
        }
        // A node that was ordered to kill a container before it got it does not know that order any
        // more.
        let first = master_of(attempt);
        let machine = self.machines.iter_mut().find(|each| each.id == at_node);
        machine
            .expect("a launch is on a machine")
            .running
            .insert(first);
        self.world.core.master_launched(attempt, Ok(()), now);
        let request = RegisterApplicationMasterRequestProto::default();
        // The application may have been killed meanwhile.
        if self
            .world
            .core
            .register_master(attempt, &request, now)
            .is_ok()
        {
            self.owners
                .insert(attempt.application_id, Owner::new(attempt));
        }
    }

    fn of_master(&mut self, id: ApplicationId, of: &OfMaster) {
        match of {
            OfMaster::Call {
                guaranteed,
                opportunistic,
                release,
                update,
                arrives,
            } => {
                let owner = &self.owners[&id];
                let size = Resource::new(SLOT_MB, 1);
                let given_back = release.and_then(|place| owner.pick(place, false));
                let changed = update.and_then(|place| owner.pick(place, true));
                let request = AllocateRequestProto {
                    ask: vec![
                        asking(*guaranteed, size, ExecutionType::Guaranteed),
                        asking(*opportunistic, size, ExecutionType::Opportunistic),
                    ],
                    release: given_back.iter().map(|(id, _)| (*id).into()).collect(),
                    update_requests: changed.iter().map(changing).collect(),
                    ..AllocateRequestProto::default()
                };
                self.call(id, request, *arrives);
            }
            OfMaster::Start(place) => self.start(id, *place),
            OfMaster::Finish => {
                let attempt = self.owners[&id].attempt;
                let request = FinishApplicationMasterRequestProto {
                    final_application_status: Some(
                        FinalApplicationStatusProto::AppSucceeded.into(),
                    ),
                    ..FinishApplicationMasterRequestProto::default()
                };
                let core = &mut self.world.core;
                let _ = core.finish_master(attempt, &request, self.world.now);
                self.owners.remove(&id);
            }
        }
    }

    pub(super) fn call(
        &mut self,
        id: ApplicationId,
        mut request: AllocateRequestProto,
        arrives: bool,
    ) {
        let owner = self.owners.get_mut(&id).expect("the master is there");
        request.response_id = Some(owner.response_id);
        let core = &mut self.world.core;
        let Ok(answer) = core.allocate(owner.attempt, b"", &request, self.world.now) else {
            // Not the current attempt any more.
            self.owners.remove(&id);
            return;
        };
        if arrives {
            owner.take_answer(&answer);
            for container in &answer.allocated_containers {
                let container = id_of(container.id.as_ref());
                assert!(
                    self.allocated.insert(container),
                    "{container} is not unique"
                );
            }
        }
    }

    fn start(&mut self, id: ApplicationId, place: usize) {
        let owner = self.owners.get_mut(&id).expect("the master is there");
        let Some((container, held)) = owner.pick(place, false) else {
            return;
        };
        let machine = self.machines.iter_mut().find(|each| each.id == held.node);
        let machine = machine.expect("a container is on a machine");
        machine.running.insert(container);
        let held = owner.held.get_mut(&container);
        held.expect("it was picked from there").is_started = true;
    }
}

/// Returns the first container of an attempt in the first epoch, its AM's.
const fn master_of(attempt: ApplicationAttemptId) -> ContainerId {
    attempt.container(1)
}

pub(super) fn is_master(id: ContainerId) -> bool {
    id == master_of(id.attempt)
}

fn changing((id, held): &(ContainerId, Held)) -> UpdateContainerRequestProto {
    let update_type = match held.execution_type {
        ExecutionType::Opportunistic => ContainerUpdateTypeProto::PromoteExecutionType,
        ExecutionType::Guaranteed => ContainerUpdateTypeProto::DemoteExecutionType,
    };
    UpdateContainerRequestProto {
        container_version: held.version,
        container_id: (*id).into(),
        update_type: update_type.into(),
        capability: None,
        execution_type: None,
    }
}
