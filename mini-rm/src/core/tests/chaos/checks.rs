//! Invariants.

use std::collections::BTreeSet;

use records::{ApplicationId, ContainerId, ExecutionType, Resource};
use wire::proto::hadoop_yarn::AllocateRequestProto;

use super::cluster::{Chaos, MACHINES, is_master};
use crate::core::tests::{SLOT_MB, asking};
use crate::nodes::NodeState;

/// Number of ended applications that are remembered.
const FINISHED_MAX: usize = 2;

impl Chaos {
    /// Asserts what holds after every step.
    pub(super) fn check(&self) {
        let core = &self.world.core;
        for node in core.nodes() {
            let guaranteed = core.containers.values().filter(|container| {
                container.node == node.id && container.execution_type == ExecutionType::Guaranteed
            });
            let promised = guaranteed.fold(Resource::default(), |sum, container| {
                sum.saturating_add(container.resource)
            });
            assert_eq!(
                promised,
                core.used_of(node),
                "the books of {} differ",
                node.id
            );
            assert!(
                promised.fits_in(node.capability),
                "{} is overcommitted",
                node.id
            );
            let here = core.containers.values();
            let here = here.filter(|container| container.node == node.id);
            let here: BTreeSet<ContainerId> = here.map(|container| container.id).collect();
            assert_eq!(
                here,
                node.containers.iter().copied().collect(),
                "{}",
                node.id
            );
            assert!(
                node.state.is_active() || here.is_empty(),
                "{} is gone",
                node.id
            );
        }
        for container in core.containers.values() {
            let session = core.sessions.get(&container.id.application_id());
            let is_owned = session.is_some_and(|session| session.attempt == container.id.attempt);
            assert!(is_owned, "{} has no owner", container.id);
        }
        let live = core
            .applications()
            .filter(|each| !each.attempt().state.is_final());
        let live: BTreeSet<ApplicationId> = live.map(|application| application.id).collect();
        assert_eq!(live, core.sessions.keys().copied().collect());
        assert!(core.ended.len() <= FINISHED_MAX);
        assert_eq!(core.applications.len(), live.len() + core.ended.len());
        assert!(core.promotions.len() <= core.containers.len());
    }

    /// Lets machines and AMs go on without losses until every message under way has arrived.
    pub(super) fn settle(&mut self) {
        for _ in 0..4 {
            for at in 0..MACHINES {
                self.machines[at].healthy = true;
                if !self.machines[at].registered {
                    self.register(at);
                }
                self.heartbeat(at, true);
            }
            let owners: Vec<ApplicationId> = self.owners.keys().copied().collect();
            for id in owners {
                let size = Resource::new(SLOT_MB, 1);
                let nothing = AllocateRequestProto {
                    ask: [ExecutionType::Guaranteed, ExecutionType::Opportunistic]
                        .map(|kind| asking(0, size, kind))
                        .to_vec(),
                    ..AllocateRequestProto::default()
                };
                self.call(id, nothing, true);
            }
            self.check();
        }
    }

    /// Asserts that each AM knows exactly the containers that exist.
    pub(super) fn check_owners(&self) {
        for owner in self.owners.values() {
            let here = self.world.core.containers_of(owner.attempt);
            let here = here.filter(|container| !container.is_master);
            let here: BTreeSet<ContainerId> = here.map(|container| container.id).collect();
            let held: BTreeSet<ContainerId> = owner.held.keys().copied().collect();
            assert_eq!(held, here, "{}", owner.attempt);
        }
    }

    /// Ends every application and asserts that nothing is left.
    pub(super) fn end(&mut self) {
        while !self.launches.is_empty() {
            self.launch(0, true);
        }
        let core = &mut self.world.core;
        let all: Vec<ApplicationId> = core.applications().map(|each| each.id).collect();
        for id in all {
            let _ = core.kill(id, "the end", self.world.now);
        }
        self.owners.clear();
        self.settle();
        // AMs that had unregistered end by themselves, and their containers end with them.
        for machine in &mut self.machines {
            let masters = machine.running.iter().copied();
            for id in masters.filter(|id| is_master(*id)).collect::<Vec<_>>() {
                machine.end(id, 0);
            }
        }
        self.settle();
        self.world.pass(1);
        let core = &self.world.core;
        assert!(core.sessions.is_empty(), "{:?}", core.sessions.keys());
        assert!(core.containers.is_empty(), "{:?}", core.containers.keys());
        assert_eq!(core.promotions.len(), 0, "{:?}", core.promotions);
        assert_eq!(core.count_nodes(NodeState::Running), MACHINES);
        let slots: u64 = self.machines.iter().map(|machine| machine.slots).sum();
        assert_eq!(core.free_resources().memory_mb, slots * SLOT_MB);
        for machine in &self.machines {
            let left = (&machine.running, &machine.ended);
            assert!(
                left.0.is_empty() && left.1.is_empty(),
                "{}: {left:?}",
                machine.id
            );
        }
    }
}
