//! Roles with at most one container per node.
//!
//! Slider asks for one container at a time and names every candidate, because its client library
//! adds the counts of asks: two asks over the same hosts might both land on one host. In the raw
//! protocol one ask is enough for many containers: each host has the count 1, and racks and "any"
//! do not relax. The ResourceManager lowers the host's count with each container, so the host
//! gets no second one. [`anti_affine_at_once`](super::RoleHistoryConfig::anti_affine_at_once) of 1
//! gives Slider's sequence.

use records::Now;

use super::RoleHistory;
use crate::action::Action;
use crate::outstanding::Target;
use crate::role::RoleId;

impl RoleHistory {
    /// Asks for the missing containers of an anti-affine role, as far as there are candidates. The
    /// ask in flight is replaced only by a larger one.
    pub(super) fn request_anti_affine(
        &mut self,
        role: RoleId,
        missing: u32,
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        let in_flight = self.outstanding.requested(role);
        let wanted = in_flight.saturating_add(missing);
        let limit = wanted.min(self.config.anti_affine_at_once.get());
        // Labels are known with the first reports; before that a candidate may be a wrong one.
        if self.nodes_reported && limit > in_flight {
            let candidates = self.nodes.anti_affine_candidates(role);
            let containers = limit.min(u32::try_from(candidates.len()).unwrap_or(u32::MAX));
            if containers > in_flight {
                self.cancel_anti_affine(role, actions);
                let target = Target::AntiAffine {
                    candidates: candidates.into_iter().collect(),
                    containers,
                };
                let request = self.outstanding.add(role, target, now.mono);
                actions.extend(self.ask(request).map(Action::Request));
                if let Some(status) = self.status_mut(role) {
                    status.total_requested += u64::from(containers - in_flight);
                }
            }
        }
        let pending = wanted - self.outstanding.requested(role);
        if let Some(status) = self.status_mut(role) {
            status.pending_anti_affine = pending;
        }
    }

    /// Lowers the ask in flight by up to `count` containers. Returns by how many.
    pub(super) fn shrink_anti_affine(
        &mut self,
        role: RoleId,
        count: u32,
        now: Now,
        actions: &mut Vec<Action>,
    ) -> u32 {
        let Some(request) = self.outstanding.anti_affine(role) else {
            return 0;
        };
        let cancelled = count.min(request.containers());
        let remaining = request.containers() - cancelled;
        let target = request.target.clone();
        self.cancel_anti_affine(role, actions);
        if let Target::AntiAffine { candidates, .. } = target
            && remaining > 0
        {
            let target = Target::AntiAffine {
                candidates,
                containers: remaining,
            };
            let request = self.outstanding.add(role, target, now.mono);
            actions.extend(self.ask(request).map(Action::Request));
        }
        cancelled
    }

    /// Withdraws the ask in flight. The next review decides what to ask for instead.
    pub(super) fn cancel_anti_affine(&mut self, role: RoleId, actions: &mut Vec<Action>) {
        if let Some(request) = self.outstanding.anti_affine(role).map(|request| request.id) {
            self.cancel(request, actions);
        }
    }
}
