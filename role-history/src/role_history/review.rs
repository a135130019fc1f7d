//! Comparison of the desired and the actual number of containers (Slider:
//! `AppState.reviewRequestAndReleaseNodes`).

use records::Now;

use super::{Life, OperationError, RoleHistory};
use crate::action::Action;
use crate::node_entry::NodeEntry;
use crate::role::RoleId;

impl RoleHistory {
    /// Changes the number of containers that a role should have (Slider: flex).
    ///
    /// # Errors
    /// [`OperationError::UnknownRole`].
    pub fn set_desired(
        &mut self,
        role: RoleId,
        desired: u32,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let status = self.status_mut(role);
        status.ok_or(OperationError::UnknownRole(role))?.desired = desired;
        self.review(now, actions);
        Ok(())
    }

    /// Asks for what is missing and cancels or releases what is too much. Without an event in
    /// between, a second review does nothing. Operations run reviews themselves; a caller needs one
    /// after it has thawed a history and replayed live containers.
    pub fn review(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.update_blacklist(actions);
        let roles: Vec<_> = self.roles.keys().copied().collect();
        for role in roles {
            self.review_role(role, now, actions);
        }
    }

    /// Saves what changed, withdraws all asks and releases all containers. What follows changes
    /// counters but no longer the saved history.
    pub fn tear_down(&mut self, actions: &mut Vec<Action>) {
        if self.is_dirty() {
            actions.push(Action::Save);
        }
        self.life = Life::TornDown;
        let roles: Vec<_> = self.roles.keys().copied().collect();
        for role in roles {
            self.cancel_all(role, actions);
            if let Some(status) = self.status_mut(role) {
                status.desired = 0;
                status.pending_anti_affine = 0;
            }
        }
        let containers = self.containers.iter();
        let held: Vec<_> = containers
            .filter(|(_, tracked)| !tracked.releasing)
            .map(|(container, _)| container)
            .collect();
        for container in held {
            self.release(container, actions);
        }
    }

    pub(super) fn review_role(&mut self, role: RoleId, now: Now, actions: &mut Vec<Action>) {
        let Some(state) = self.roles.get(&role) else {
            return;
        };
        if state.role.placement_policy.is_excluded_from_flexing() || self.life != Life::Running {
            return;
        }
        let (status, is_anti_affine) =
            (&state.status, state.role.placement_policy.is_anti_affine());
        let threshold = state.role.container_failure_threshold;
        if threshold.is_some_and(|threshold| status.failed_recently > threshold.get()) {
            actions.push(Action::FailApplication {
                role,
                failed_recently: status.failed_recently,
                failed_containers: status.failed_containers.clone(),
            });
            self.life = Life::Failed;
            return;
        }
        let held = status
            .actual
            .saturating_add(self.outstanding.requested(role));
        let missing = status.desired.saturating_sub(held);
        // Containers that are being released still count as actual, and are on their way out.
        let excess = held
            .saturating_sub(status.desired)
            .saturating_sub(status.releasing);
        if is_anti_affine && missing > 0 {
            self.request_anti_affine(role, missing, now, actions);
            return;
        }
        if is_anti_affine && let Some(status) = self.status_mut(role) {
            status.pending_anti_affine = 0;
        }
        for _ in 0..missing {
            self.request_container(role, now, actions);
        }
        if excess > 0 {
            self.shrink(role, excess, now, actions);
        }
    }

    /// Cancels outstanding asks first and releases running containers for the rest. There may be
    /// fewer running ones than wanted: those that start are released when they have started.
    fn shrink(&mut self, role: RoleId, excess: u32, now: Now, actions: &mut Vec<Action>) {
        let cancelled = if self.outstanding.anti_affine(role).is_some() {
            self.shrink_anti_affine(role, excess, now, actions)
        } else {
            let count = usize::try_from(excess).unwrap_or(usize::MAX);
            u32::try_from(self.cancel_some(role, count, actions)).unwrap_or(excess)
        };
        let excess = usize::try_from(excess.saturating_sub(cancelled)).unwrap_or(usize::MAX);
        let choice = self.config.release_choice;
        let chosen = self.containers.to_release(role, excess, choice);
        if chosen.len() < excess {
            self.ignored.releases_without_candidate += 1;
        }
        for container in chosen {
            self.release(container, actions);
        }
    }

    /// Sends a release and counts it as submitted.
    fn release(&mut self, container: records::ContainerId, actions: &mut Vec<Action>) {
        if self.submit_release(container).is_ok() {
            actions.push(Action::Release(container));
        }
    }

    /// Counts a release that the ApplicationMaster submits by itself. The caller lowers the desired
    /// number as well, unless the container is to be replaced.
    ///
    /// # Errors
    /// A container that is unknown or is being released already.
    pub fn submit_release(
        &mut self,
        container: records::ContainerId,
    ) -> Result<(), OperationError> {
        let tracked = self.containers.get_mut(container);
        let tracked = tracked.ok_or(OperationError::UnknownContainer(container))?;
        if tracked.releasing {
            return Err(OperationError::AlreadyReleasing(container));
        }
        tracked.releasing = true;
        let (role, node) = (tracked.role, tracked.node);
        self.nodes.update(node, role, NodeEntry::submit_release);
        if let Some(status) = self.status_mut(role) {
            status.releasing += 1;
        }
        Ok(())
    }

    /// Brings the blacklist up to date with the nodes that fail too often.
    fn update_blacklist(&mut self, actions: &mut Vec<Action>) {
        if !self.config.blacklist {
            return;
        }
        let unreliable = self.nodes.unreliable();
        if unreliable == self.blacklist {
            return;
        }
        let host = |&node| self.nodes.node(node).host().clone();
        let additions = unreliable.difference(&self.blacklist).map(host).collect();
        let removals = self.blacklist.difference(&unreliable).map(host).collect();
        self.blacklist = unreliable;
        actions.push(Action::UpdateBlacklist {
            additions,
            removals,
        });
    }
}
