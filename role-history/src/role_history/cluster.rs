//! Reports about the nodes of the cluster (Slider: `RoleHistory.onNodesUpdated`,
//! `AppState.onNodesUpdated`).

use std::collections::BTreeSet;

use records::Now;

use super::RoleHistory;
use crate::action::{Action, NodeReport};
use crate::node_index::NodeIndex;
use crate::outstanding::Target;

impl RoleHistory {
    /// Takes a batch of node reports, also an empty one. Anti-affine roles wait for the first.
    ///
    /// Nodes that became candidates make anti-affine roles ask anew with the new list. Asks for a
    /// node that was lost are relaxed at once; Slider waits for the timer, and for ever if the role
    /// is anti-affine and this was its only candidate. Strict asks stay.
    pub fn on_nodes_updated(
        &mut self,
        reports: &[NodeReport],
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        let mut significant = !self.nodes_reported;
        let mut lost = BTreeSet::new();
        for NodeReport { host, state, label } in reports {
            let (false, Some(state)) = (host.is_empty(), state) else {
                self.ignored.incomplete_node_reports += 1;
                continue;
            };
            let effect = self.nodes.report(host, *state, label);
            significant |= effect.significant;
            if effect.lost {
                lost.extend(self.nodes.find(host));
            }
        }
        self.nodes_reported = true;
        let lost_candidate = self.give_up(&lost, actions);
        if significant {
            let roles: Vec<_> = self.roles.keys().copied().collect();
            for role in roles {
                self.cancel_anti_affine(role, actions);
            }
        }
        if significant || lost_candidate {
            self.review(now, actions);
        }
    }

    /// Relaxes or withdraws asks for lost nodes. Returns whether an ask was withdrawn.
    fn give_up(&mut self, lost: &BTreeSet<NodeIndex>, actions: &mut Vec<Action>) -> bool {
        let (mut escalated, mut withdrawn) = (Vec::new(), Vec::new());
        if lost.is_empty() {
            return false;
        }
        for request in self.outstanding.iter() {
            match &request.target {
                Target::Placed {
                    node,
                    deadline: Some(_),
                } if lost.contains(node) => escalated.push(request.id),
                Target::AntiAffine { candidates, .. } if !candidates.is_disjoint(lost) => {
                    withdrawn.push(request.id);
                }
                Target::Placed { .. }
                | Target::AntiAffine { .. }
                | Target::Open
                | Target::Escalated { .. } => {}
            }
        }
        for request in escalated {
            self.escalate(request, actions);
        }
        for &request in &withdrawn {
            self.cancel(request, actions);
        }
        !withdrawn.is_empty()
    }
}
