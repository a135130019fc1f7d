//! The life of an accepted container: start, failed start, end (Slider:
//! `AppState.innerOnNodeManagerContainerStarted`, `onNodeManagerContainerStartFailed`,
//! `onCompletedContainer`).

use records::{ContainerId, Now};

use super::{OperationError, RoleHistory};
use crate::action::{Action, CompletedContainer, LiveContainer, Ran};
use crate::container_outcome::ContainerOutcome;
use crate::containers::Tracked;
use crate::node_entry::{NodeEntry, Phase};

/// End of a container.
struct End<'a> {
    outcome: ContainerOutcome,
    diagnostics: &'a str,
    ran: Ran,
}

impl RoleHistory {
    /// Adds the containers that run when an ApplicationMaster registers again (Slider:
    /// `AppState.rebuildModelFromRestart`). Call after [`thaw`](Self::thaw) and the first node
    /// reports, then [`review`](Self::review).
    ///
    /// Last uses stay as they are. The documents set them to the present, which a save during a
    /// slow start would then spread.
    pub fn replay_live(
        &mut self,
        live: impl IntoIterator<Item = LiveContainer>,
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        for LiveContainer {
            container,
            host,
            role,
        } in live
        {
            if self.containers.is_known(container) {
                self.ignored.duplicate_allocations += 1;
                continue;
            }
            let Some(status) = self.status_mut(role) else {
                self.ignored.unknown_roles += 1;
                self.containers.ignore(container);
                actions.push(Action::Release(container));
                continue;
            };
            status.actual += 1;
            status.started += 1;
            let node = self.nodes.get_or_create(&host);
            self.containers.insert(container, role, node, Phase::Live);
            if let Some(tracked) = self.containers.get_mut(container) {
                tracked.started_at = Some(now.mono);
            }
            self.nodes
                .update(node, role, |entry| entry.add(Phase::Live));
            self.set_dirty();
        }
    }

    /// Notes that the start of a container was submitted, which makes it the newest of its role.
    ///
    /// # Errors
    /// [`OperationError::UnknownContainer`].
    pub fn on_start_submitted(&mut self, container: ContainerId) -> Result<(), OperationError> {
        self.tracked(container)?;
        self.containers.set_newest(container);
        Ok(())
    }

    /// Notes that a container runs.
    ///
    /// # Errors
    /// A container that is unknown or has started already.
    pub fn on_container_started(
        &mut self,
        container: ContainerId,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let tracked = self.containers.get_mut(container);
        let tracked = tracked.ok_or(OperationError::UnknownContainer(container))?;
        match tracked.phase {
            Phase::Live => return Err(OperationError::AlreadyStarted(container)),
            Phase::Starting => tracked.phase = Phase::Live,
        }
        tracked.started_at = Some(now.mono);
        let (role, node) = (tracked.role, tracked.node);
        self.nodes.update(node, role, NodeEntry::confirm_start);
        if let Some(status) = self.status_mut(role) {
            status.started += 1;
        }
        self.set_dirty();
        // A role that shrank while its containers were starting could release none of them.
        self.review_role(role, now, actions);
        Ok(())
    }

    /// Notes that a node could not start a container. The completion that the ResourceManager
    /// reports later is ignored; Slider counts the failure twice.
    ///
    /// # Errors
    /// [`OperationError::UnknownContainer`].
    pub fn on_container_start_failed(
        &mut self,
        container: ContainerId,
        diagnostics: &str,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let tracked = self.tracked(container)?;
        let end = End {
            outcome: ContainerOutcome::Failed,
            diagnostics,
            ran: Ran::SinceStart,
        };
        self.end(container, tracked, &end, now);
        self.containers.ignore(container);
        self.review(now, actions);
        Ok(())
    }

    /// Counts ended containers and replaces those that are still wanted.
    pub fn on_containers_completed(
        &mut self,
        completed: Vec<CompletedContainer>,
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        for CompletedContainer {
            container,
            exit_status,
            diagnostics,
            ran,
        } in completed
        {
            if self.containers.take_ignored(container) {
                continue;
            }
            let Ok(tracked) = self.tracked(container) else {
                self.ignored.unknown_completions += 1;
                continue;
            };
            let outcome = ContainerOutcome::of(exit_status);
            let end = End {
                outcome,
                diagnostics: &diagnostics,
                ran,
            };
            self.end(container, tracked, &end, now);
        }
        self.review(now, actions);
    }

    fn tracked(&self, container: ContainerId) -> Result<Tracked, OperationError> {
        let tracked = self.containers.get(container).copied();
        tracked.ok_or(OperationError::UnknownContainer(container))
    }

    /// Counts the end of a container. After a release any exit status is a success.
    fn end(&mut self, container: ContainerId, tracked: Tracked, end: &End<'_>, now: Now) {
        let End {
            outcome,
            diagnostics,
            ran,
        } = *end;
        let used_at = self.used_at(now);
        let ran_ms = match ran {
            Ran::SinceStart => tracked.started_at.map(|at| now.mono.since(at)),
            Ran::For(ms) => Some(ms),
            Ran::Unknown => None,
        };
        // A node gets no trust for a life that nobody has seen.
        let short_lived = ran_ms.is_none_or(|ran_ms| ran_ms < self.config.short_life_ms);
        let Tracked {
            role,
            node,
            phase,
            releasing,
            ..
        } = tracked;
        self.containers.remove(container);
        self.nodes.update(node, role, |entry| {
            if releasing {
                entry.complete_release(phase, used_at);
            } else {
                entry.complete(phase, outcome, short_lived, used_at);
            }
        });
        let is_replaced = self.config.replaces_ended;
        if let Some(status) = self.status_mut(role) {
            status.actual = status.actual.saturating_sub(1);
            if !is_replaced {
                status.desired = status.desired.saturating_sub(1);
            }
            if releasing {
                status.releasing = status.releasing.saturating_sub(1);
                status.completed += 1;
            } else {
                status.complete(container, outcome, short_lived, diagnostics);
            }
        }
        self.set_dirty();
    }
}
