//! Requests that the ResourceManager has not satisfied (Slider: `OutstandingRequest` and
//! `OutstandingRequestTracker`).
//!
//! ```text
//!            placed (one node) ──escalated──▶ open ──┬──▶ satisfied
//!                    │            open, anti-affine ─┘       ▲
//!                    └───────────────────────────────────────┘      or cancelled, at any place
//! ```
//!
//! A request is in exactly one place. Placed requests are found by role and node, open ones by role
//! in the order in which they became open. The counts of a role are sums over its requests and are
//! stored nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use records::MonoMillis;

use crate::action::{ContainerAllocationOutcome, RequestId};
use crate::node_index::NodeIndex;
use crate::role::RoleId;

/// Target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Single node, given up at the deadline. Without a deadline it is never given up.
    Placed {
        node: NodeIndex,
        deadline: Option<MonoMillis>,
    },
    /// Any node. The history had none, or may not be consulted.
    Open,
    /// Any node, after the named one did not answer in time.
    Escalated { node: NodeIndex },
    /// Several containers, each on another one of these nodes.
    AntiAffine {
        candidates: BTreeSet<NodeIndex>,
        containers: u32,
    },
}

/// Request that the ResourceManager has not satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutstandingRequest {
    pub(crate) id: RequestId,
    pub(crate) role: RoleId,
    pub(crate) target: Target,
    pub(crate) requested_at: MonoMillis,
}

impl OutstandingRequest {
    /// Returns the node that counts the request in its entry.
    pub(crate) const fn node(&self) -> Option<NodeIndex> {
        match self.target {
            Target::Placed { node, .. } | Target::Escalated { node } => Some(node),
            Target::Open | Target::AntiAffine { .. } => None,
        }
    }

    /// Returns the number of containers that the request still wants.
    pub(crate) const fn containers(&self) -> u32 {
        match self.target {
            Target::AntiAffine { containers, .. } => containers,
            Target::Placed { .. } | Target::Open | Target::Escalated { .. } => 1,
        }
    }

    /// Returns the time after which the request is escalated.
    pub(crate) const fn deadline(&self) -> Option<MonoMillis> {
        match self.target {
            Target::Placed { deadline, .. } => deadline,
            Target::Open | Target::Escalated { .. } | Target::AntiAffine { .. } => None,
        }
    }

    /// Returns whether the priority of the request has the bit for asks without a location.
    pub(crate) const fn has_no_location(&self) -> bool {
        match self.target {
            Target::Open | Target::Escalated { .. } => true,
            Target::Placed { .. } | Target::AntiAffine { .. } => false,
        }
    }
}

/// Key of an open request: its role, and its turn among all requests that became open.
type OpenKey = (RoleId, u64);

/// Outstanding requests of every role.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutstandingRequestTracker {
    requests: BTreeMap<RequestId, OutstandingRequest>,
    placed: BTreeMap<(RoleId, NodeIndex), RequestId>,
    placed_ids: BTreeSet<(RoleId, RequestId)>,
    open: BTreeMap<OpenKey, RequestId>,
    open_keys: BTreeMap<RequestId, OpenKey>,
    deadlines: BTreeSet<(MonoMillis, RequestId)>,
    containers: BTreeMap<RoleId, u32>,
    last_id: u64,
    last_turn: u64,
}

impl OutstandingRequestTracker {
    /// Adds a request and returns its id.
    pub(crate) fn add(&mut self, role: RoleId, target: Target, now: MonoMillis) -> RequestId {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.insert(OutstandingRequest {
            id,
            role,
            target,
            requested_at: now,
        });
        id
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&OutstandingRequest> {
        self.requests.get(&id)
    }

    /// Returns all requests in the order of their creation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &OutstandingRequest> {
        self.requests.values()
    }

    /// Returns the number of containers that the role's requests still want.
    pub(crate) fn requested(&self, role: RoleId) -> u32 {
        self.containers.get(&role).copied().unwrap_or(0)
    }

    /// Returns the request for this role on this node.
    pub(crate) fn placed(&self, role: RoleId, node: NodeIndex) -> Option<RequestId> {
        self.placed.get(&(role, node)).copied()
    }

    /// Returns the open requests of the role, the longest open first.
    pub(crate) fn open(&self, role: RoleId) -> impl DoubleEndedIterator<Item = RequestId> + '_ {
        let keys = (role, 0)..=(role, u64::MAX);
        self.open.range(keys).map(|(_, &id)| id)
    }

    /// Returns the anti-affine request of the role. A role has at most one.
    pub(crate) fn anti_affine(&self, role: RoleId) -> Option<&OutstandingRequest> {
        self.open(role)
            .filter_map(|id| self.get(id))
            .find(|request| matches!(request.target, Target::AntiAffine { .. }))
    }

    /// Returns the placed requests of the role, the oldest first.
    pub(crate) fn placed_of(
        &self,
        role: RoleId,
    ) -> impl DoubleEndedIterator<Item = RequestId> + '_ {
        let keys = (role, RequestId(0))..=(role, RequestId(u64::MAX));
        self.placed_ids.range(keys).map(|&(_, id)| id)
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns the earliest deadline of a placed request.
    pub(crate) fn next_deadline(&self) -> Option<MonoMillis> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Returns the requests whose deadline is before `now`.
    pub(crate) fn expired(&self, now: MonoMillis) -> Vec<RequestId> {
        let expired = self
            .deadlines
            .iter()
            .take_while(|&&(deadline, _)| deadline < now);
        expired.map(|&(_, id)| id).collect()
    }

    /// Makes a placed request an open one, behind all others that are open. Returns whether it was
    /// placed.
    pub(crate) fn escalate(&mut self, id: RequestId) -> bool {
        let Some(mut request) = self.take(id) else {
            return false;
        };
        let placed = match request.target {
            Target::Placed { node, .. } => {
                request.target = Target::Escalated { node };
                true
            }
            Target::Open | Target::Escalated { .. } | Target::AntiAffine { .. } => false,
        };
        self.insert(request);
        placed
    }

    /// Removes a request that was cancelled.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<OutstandingRequest> {
        self.take(id)
    }

    /// Counts a container on `node` towards a request, which is removed once it wants no more.
    pub(crate) fn satisfy(&mut self, id: RequestId, node: NodeIndex) -> Option<Satisfied> {
        let mut request = self.take(id)?;
        let outcome = match &mut request.target {
            Target::Placed { .. } => ContainerAllocationOutcome::Placed,
            Target::Open => ContainerAllocationOutcome::Open,
            Target::Escalated { .. } => ContainerAllocationOutcome::Escalated,
            Target::AntiAffine {
                candidates,
                containers,
            } => {
                candidates.remove(&node);
                *containers = containers.saturating_sub(1);
                let remaining = *containers;
                if remaining > 0 {
                    self.insert(request);
                }
                return Some(Satisfied {
                    node: None,
                    outcome: ContainerAllocationOutcome::Open,
                    remaining,
                });
            }
        };
        Some(Satisfied {
            node: request.node(),
            outcome,
            remaining: 0,
        })
    }

    fn insert(&mut self, request: OutstandingRequest) {
        let (id, role) = (request.id, request.role);
        *self.containers.entry(role).or_insert(0) += request.containers();
        if let Target::Placed { node, .. } = request.target {
            let replaced = self.placed.insert((role, node), id);
            debug_assert_eq!(replaced, None, "a node is asked for once per role");
            self.placed_ids.insert((role, id));
            if let Some(deadline) = request.deadline() {
                self.deadlines.insert((deadline, id));
            }
        } else {
            self.last_turn += 1;
            let key = (role, self.last_turn);
            self.open.insert(key, id);
            self.open_keys.insert(id, key);
        }
        self.requests.insert(id, request);
    }

    fn take(&mut self, id: RequestId) -> Option<OutstandingRequest> {
        let request = self.requests.remove(&id)?;
        if let Some(containers) = self.containers.get_mut(&request.role) {
            *containers = containers.saturating_sub(request.containers());
        }
        if let Target::Placed { node, .. } = request.target {
            self.placed.remove(&(request.role, node));
            self.placed_ids.remove(&(request.role, id));
        }
        if let Some(deadline) = request.deadline() {
            self.deadlines.remove(&(deadline, id));
        }
        if let Some(key) = self.open_keys.remove(&id) {
            self.open.remove(&key);
        }
        Some(request)
    }
}

/// Effect of a container on the request that it satisfies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Satisfied {
    /// Node that the request had named.
    pub(crate) node: Option<NodeIndex>,
    pub(crate) outcome: ContainerAllocationOutcome,
    /// Containers that the request still wants; 0 when it has ended.
    pub(crate) remaining: u32,
}

#[cfg(test)]
mod tests;
