//! A node that is drained: which containers end, and which may still come.
//!
//! A drain ends the containers of its extent once, and refuses those that would join them. A
//! guaranteed container that starts on a node whose queue or opportunistic containers are drained
//! runs: the ResourceManager promised its resources, and a refusal would cost its AM an attempt.

use records::{ContainerId, ExecutionType};

use super::{ContainerScheduler, Turn};
use crate::action::{DrainExtent, Note, RejectReason, ShedReason};
use crate::container_spec::ContainerSpec;
use crate::container_state::{ContainerState as S, Phase};
use crate::kill_cause::KillCause;

impl ContainerScheduler {
    /// Ends the containers of the drain's extent. Walks over all containers, once for each order.
    pub(super) fn end_drained(&mut self, turn: &mut Turn<'_>) {
        self.shed_drained(turn);
        if self.drain.is_none() {
            return;
        }
        let ids: Vec<ContainerId> = self.containers.keys().copied().collect();
        for id in ids {
            self.end_if_drained(id, turn);
        }
    }

    /// Removes the opportunistic containers that wait on a node that is drained.
    pub(super) fn shed_drained(&mut self, turn: &mut Turn<'_>) {
        if self.drain.is_some() {
            while self.shed_last(ShedReason::Draining, turn) {}
        }
    }

    /// Refuses a container that has just been localized, if the node is drained of its kind;
    /// returns whether it did.
    pub(super) fn refuses_newcomer(&mut self, spec: ContainerSpec, turn: &mut Turn<'_>) -> bool {
        match (self.drain, spec.execution_type) {
            (Some(_), ExecutionType::Opportunistic) => {
                self.reject(spec.id, RejectReason::Draining, turn);
                true
            }
            (Some(DrainExtent::All), ExecutionType::Guaranteed) => {
                self.end_if_drained(spec.id, turn);
                true
            }
            (
                Some(DrainExtent::Queue | DrainExtent::Opportunistic) | None,
                ExecutionType::Guaranteed,
            )
            | (None, ExecutionType::Opportunistic) => false,
        }
    }

    /// Ends a container if the drain's extent includes it.
    pub(super) fn end_if_drained(&mut self, id: ContainerId, turn: &mut Turn<'_>) {
        let (Some(extent), Some(container)) = (self.drain, self.containers.get(&id)) else {
            return;
        };
        let kind = container.spec.execution_type;
        let (state, ran_ms) = (container.state, container.ran_ms(turn.now.mono));
        match state.phase() {
            Phase::Killing | Phase::Gone | Phase::Ended => return,
            Phase::Unstarted if kind == ExecutionType::Opportunistic => {
                // One in the queue is shed; one that is being localized has no place yet.
                if state == S::Localizing {
                    self.reject(id, RejectReason::Draining, turn);
                }
                return;
            }
            Phase::Unstarted | Phase::Active | Phase::Relaunching | Phase::Restarting => {}
        }
        let least = match kind {
            ExecutionType::Opportunistic => DrainExtent::Opportunistic,
            ExecutionType::Guaranteed => DrainExtent::All,
        };
        if extent >= least {
            turn.note(Note::Drained { id, ran_ms });
            self.kill(id, KillCause::Drained(kind), turn);
        }
    }
}
