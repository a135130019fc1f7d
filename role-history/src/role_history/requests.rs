//! Asks: what they name, how they begin and how they end (Slider: `OutstandingRequest` and
//! `RoleHistory.requestContainerForRole`).

use records::Now;

use super::{RoleHistory, RoleState};
use crate::action::{Action, Ask, AskReason, RequestId};
use crate::container_priority::ContainerPriority;
use crate::node_entry::NodeEntry;
use crate::node_index::NodeIndex;
use crate::outstanding::{OutstandingRequest, Target};
use crate::role::RoleId;

impl RoleHistory {
    /// Asks for one container of a role that is not anti-affine: on its first ready node, or
    /// anywhere if there is none.
    pub(super) fn request_container(&mut self, role: RoleId, now: Now, actions: &mut Vec<Action>) {
        let Some(RoleState {
            role: of, status, ..
        }) = self.roles.get_mut(&role)
        else {
            return;
        };
        status.total_requested += 1;
        let is_strict = of.placement_policy.is_strict();
        let deadline = (!is_strict).then(|| now.mono + of.placement_timeout_ms);
        let target = match self.nodes.first_ready(role) {
            Some(node) => {
                self.nodes.update(node, role, NodeEntry::set_requested);
                Target::Placed { node, deadline }
            }
            None => Target::Open,
        };
        let request = self.outstanding.add(role, target, now.mono);
        actions.extend(self.ask(request).map(Action::Request));
    }

    /// Relaxes a placed request.
    pub(super) fn escalate(&mut self, request: RequestId, actions: &mut Vec<Action>) {
        let from = self.ask(request);
        if self.outstanding.escalate(request)
            && let (Some(from), Some(to)) = (from, self.ask(request))
        {
            actions.push(Action::Escalate { from, to });
        }
    }

    /// Withdraws a request. The node that it named may be asked for again at once.
    pub(super) fn cancel(&mut self, request: RequestId, actions: &mut Vec<Action>) {
        actions.extend(self.ask(request).map(Action::Cancel));
        let Some(ended) = self.outstanding.remove(request) else {
            return;
        };
        if let Some(node) = ended.node() {
            self.nodes.update(node, ended.role, |entry| {
                entry.clear_requested();
                entry.list_if_available();
            });
        }
    }

    /// Withdraws up to `count` single requests of a role: open ones first, the oldest before the
    /// others, then placed ones, the newest first. Returns how many.
    pub(super) fn cancel_some(
        &mut self,
        role: RoleId,
        count: usize,
        actions: &mut Vec<Action>,
    ) -> usize {
        let mut requests: Vec<_> = self.outstanding.open(role).take(count).collect();
        if requests.len() < count {
            let placed = self.outstanding.placed_of(role).rev();
            requests.extend(placed.take(count - requests.len()));
        }
        for &request in &requests {
            self.cancel(request, actions);
        }
        requests.len()
    }

    /// Withdraws every request of a role and returns all nodes that were asked for to its list
    /// (Slider: `OutstandingRequestTracker.resetOutstandingRequests`).
    pub(super) fn cancel_all(&mut self, role: RoleId, actions: &mut Vec<Action>) {
        self.cancel_some(role, usize::MAX, actions);
        let unfulfilled = self
            .roles
            .get_mut(&role)
            .map(|r| std::mem::take(&mut r.unfulfilled));
        for node in unfulfilled.into_iter().flatten() {
            self.nodes.update(node, role, NodeEntry::list_if_available);
        }
    }

    /// Returns the ask of an outstanding request.
    pub(super) fn ask(&self, request: RequestId) -> Option<Ask> {
        let request = self.outstanding.get(request)?;
        let role = &self.roles.get(&request.role)?.role;
        let no_location = request.has_no_location();
        let hosts = match &request.target {
            Target::Placed { node, .. } => vec![self.host(*node)],
            // An ask names hosts or a label. The label may not be given up, the host may.
            Target::Escalated { node } if role.label.is_none() => vec![self.host(*node)],
            Target::Escalated { .. } | Target::Open => Vec::new(),
            Target::AntiAffine { candidates, .. } => {
                let mut hosts: Vec<_> = candidates.iter().map(|&node| self.host(node)).collect();
                hosts.sort_unstable();
                hosts
            }
        };
        Some(Ask {
            request: request.id,
            priority: ContainerPriority {
                role: role.id,
                no_location,
            },
            hosts,
            relax_locality: no_location,
            label: role.label.clone().filter(|_| no_location),
            containers: request.containers(),
            resource: role.resource,
            reason: self.reason(request),
        })
    }

    fn reason(&self, request: &OutstandingRequest) -> AskReason {
        match request.target {
            Target::Placed { node, .. } => {
                let host = self.nodes.node(node);
                let entry = host.entry(request.role);
                AskReason::History {
                    last_used: entry.map_or_else(Default::default, NodeEntry::last_used),
                }
            }
            Target::Escalated { .. } => AskReason::Escalated,
            Target::AntiAffine { .. } => AskReason::AntiAffinity,
            Target::Open => {
                let role = self.roles.get(&request.role).map(|state| &state.role);
                if role.is_some_and(|role| role.placement_policy.consults_history()) {
                    AskReason::NoHistory
                } else {
                    AskReason::Anywhere
                }
            }
        }
    }

    fn host(&self, node: NodeIndex) -> std::sync::Arc<str> {
        self.nodes.node(node).host().clone()
    }
}
