//! Containers of an earlier run, put back in their places before anything else happens.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerName, ExecutionType, MonoMillis, Now, Resource};

use super::{ContainerScheduler, Turn};
use crate::action::{Action, Refusal};
use crate::config::CONTAINERS_MAX;
use crate::container::{Container, EarlierPause};
use crate::container_scheduler::room::Change;
use crate::container_spec::ContainerSpec;
use crate::container_state::{ContainerState as S, Ending};
use crate::diagnostics::Diagnostics;
use crate::queue_order::QueuePlace;
use crate::retry::{GrantedRetries, Retries};

/// A container of an earlier run of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredContainer {
    /// Id, size, type and version.
    pub spec: ContainerSpec,
    /// How far it has come.
    pub stage: RecoveredStage,
    /// Exit status so far: final for a container that is done.
    pub exit_status: ContainerExitStatus,
    /// Diagnostics so far, stamped as they were.
    pub diagnostics: String,
    /// Time at which the stage was entered. A wait or a pause counts from here.
    pub since: MonoMillis,
    /// Retries so far, which count under the policy that [`crate::Event::RetryPolicy`] brings next.
    pub retries: GrantedRetries,
}

/// How far a container of an earlier run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveredStage {
    /// Accepted; its resources are still to be localized.
    Accepted,
    /// Waits for the node's resources, and has no process.
    Waiting,
    /// The launch was ordered, but there is no process: the container starts in its allocation.
    Starting,
    /// Has a process, or had one whose end is reported next.
    Running,
    /// Was frozen, and is frozen again: its last thaw may be on no record.
    Paused,
    /// Is being killed.
    Killing,
    /// Finished.
    Done(Ending),
}

impl ContainerScheduler {
    /// Keeps room for processes that an earlier run started for a container of which nothing else
    /// is known. They are being killed, and until [`Self::give_back`] they take what they took.
    /// Comes before [`Self::recover`].
    pub fn withhold(&mut self, name: ContainerName, resource: Resource) {
        if let Some(before) = self.withheld.insert(name, resource) {
            self.index.give_back(before);
        }
        self.index.withhold(resource);
    }

    /// Returns whether room is kept for processes of a container of this name.
    #[must_use]
    pub fn withholds(&self, name: &ContainerName) -> bool {
        self.withheld.contains_key(name)
    }

    /// Frees the room of processes that are gone, and starts what fits now.
    pub fn give_back(&mut self, name: &ContainerName, now: Now, actions: &mut Vec<Action>) {
        let Some(resource) = self.withheld.remove(name) else {
            return;
        };
        self.index.give_back(resource);
        self.settle(Change::Other, &mut Turn { now, actions });
        if cfg!(debug_assertions) {
            self.check_after_event();
        }
    }

    /// Takes over containers of an earlier run. They get their places, in the queues and in the
    /// order of starts, in the order given. Nothing is started before all are known.
    ///
    /// Orders localizations, ends, and the starts that were ordered before or become possible. A
    /// container whose process has ended meanwhile is taken over as running, and its end is
    /// reported by [`crate::Event::Exited`].
    ///
    /// # Errors
    /// A [`Refusal`] for the first container that is known already or is one too many. All that are
    /// neither are taken over, also those behind it.
    pub fn recover(
        &mut self,
        containers: impl IntoIterator<Item = RecoveredContainer>,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let mut turn = Turn { now, actions };
        let mut result = Ok(());
        for container in containers {
            let taken = self.recover_one(container, &mut turn);
            result = result.and(taken);
        }
        self.sort_queue(turn.now.mono);
        self.start_again(&mut turn);
        self.settle(Change::Other, &mut turn);
        if cfg!(debug_assertions) {
            self.check_after_event();
        }
        result
    }

    /// Launches the containers whose launch was ordered before. The earlier run may have given the
    /// room of one to another, whose process is known while the end of the first is on no record:
    /// one that does not fit waits, before all others of its type.
    fn start_again(&mut self, turn: &mut Turn<'_>) {
        let starting = self.containers.values();
        let starting = starting.filter_map(|container| {
            if let S::Launching { order } = container.state {
                Some((order, container.spec))
            } else {
                None
            }
        });
        let starting: BTreeMap<u64, ContainerSpec> = starting.collect();
        // Opportunistic ones give way first, and of those the last, as in an eviction.
        let is_of = |wanted| {
            let newest_first = starting.iter().rev();
            newest_first.filter(move |(_, spec)| spec.execution_type == wanted)
        };
        let opportunistic = is_of(ExecutionType::Opportunistic);
        for (order, spec) in opportunistic.chain(is_of(ExecutionType::Guaranteed)) {
            let is_forced =
                spec.execution_type == ExecutionType::Guaranteed && self.config.forces_guaranteed();
            if is_forced || self.index.allocated().fits_in(self.node_amount()) {
                break;
            }
            let launching = S::Launching { order: *order };
            let place = QueuePlace::fifo(*order);
            let queued = S::Queued { place };
            self.index.remove(spec, launching);
            self.index.insert(spec, queued);
            if let Some(container) = self.containers.get_mut(&spec.id) {
                container.state = queued;
            }
        }
        for spec in starting.values() {
            if matches!(self.state(spec.id), Some(S::Launching { .. })) {
                turn.order(Action::Launch(spec.id));
            }
        }
    }

    fn recover_one(
        &mut self,
        recovered: RecoveredContainer,
        turn: &mut Turn<'_>,
    ) -> Result<(), Refusal> {
        let RecoveredContainer {
            spec,
            stage,
            exit_status,
            diagnostics,
            since,
            retries,
        } = recovered;
        let id = spec.id;
        if self.containers.contains_key(&id) {
            return Err(Refusal::AlreadyKnown(id));
        }
        if self.containers.len() >= CONTAINERS_MAX {
            return Err(Refusal::TooManyContainers(self.containers.len()));
        }
        let state = match stage {
            RecoveredStage::Accepted => S::Localizing,
            RecoveredStage::Waiting => S::Queued {
                place: self.next_place(&spec, since),
            },
            RecoveredStage::Starting => S::Launching {
                order: self.allocate_number(),
            },
            RecoveredStage::Running => S::Running {
                order: self.allocate_number(),
            },
            RecoveredStage::Paused => S::Pausing,
            RecoveredStage::Killing => S::Killing { holds_room: true },
            RecoveredStage::Done(ending) => S::Done(ending),
        };
        let mut container = Container::new(spec, since);
        container.state = state;
        container.earlier_pause = (stage == RecoveredStage::Paused).then(|| EarlierPause {
            place: self.next_frozen_place(),
            since,
        });
        container.retries = Retries::recovered(retries);
        container.exit_status = exit_status;
        container.diagnostics = Diagnostics::recovered(diagnostics);
        self.index.insert(&container.spec, container.state);
        self.containers.insert(id, container);
        match stage {
            RecoveredStage::Accepted => turn.order(Action::Localize(id)),
            // It keeps its allocation until it is known to be frozen.
            RecoveredStage::Paused => turn.order(Action::Pause(id)),
            RecoveredStage::Killing => self.order_end(id, false, turn),
            // Launched when all are known.
            RecoveredStage::Starting
            | RecoveredStage::Waiting
            | RecoveredStage::Running
            | RecoveredStage::Done(_) => {}
        }
        Ok(())
    }
}
