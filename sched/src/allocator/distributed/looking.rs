//! Allocation after looks at nodes ([`Placement::Look`]): which nodes to look at for the
//! outstanding asks, and the containers for what was seen.
//!
//! ```text
//! plan_looks(known nodes, now) ─▶ LookPlan ─▶ nodes(): the caller looks at them
//!                                   ▲  │
//!          hears(…, LookAnswer) ────┘  └─▶ allocate_seen(plan, …): containers, as from allocate
//! ```
//!
//! Asks for the same size and partition are one group, placed by [`LookPlacer`]. Hosts and racks
//! that asks name, and hosts that they prefer, are served from the ResourceManager's list as
//! without looks.
//!
//! [`LookPlacer`]: crate::LookPlacer

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use records::{MonoMillis, NodeId, Resource};

use super::DistributedOpportunisticContainerAllocator;
use super::binding::BoundNodes;
use super::claims::STARTED_MS;
use super::unseen::{Used, take_share};
use crate::allocator::ask::Ask;
use crate::allocator::remote_nodes::{KnownNode, Placement, RemoteNode};
use crate::allocator::{Locality, ResourceLimits};
use crate::look::{LOOKS_PER_CALL_MAX, LookAnswer, LookRound, LookTerms};
use crate::rate::Rate;

/// Most groups of asks that one heartbeat looks for, the most urgent ones; the others wait. Jobs
/// have two or three.
const GROUPS_MAX: usize = 32;

/// Most looks of an attempt at once after a pause.
const LOOKS_BURST: u32 = 1_024;

/// Looks of an attempt per second in the long run. A master that calls once a second makes at most
/// [`LOOKS_PER_CALL_MAX`].
const LOOKS_PER_SECOND: u64 = 2_048;

/// Bound on the looks of an attempt over time. A master may call as often as the throttle allows,
/// with asks that no node has room for.
pub(super) const LOOK_RATE: Rate = Rate::new(LOOKS_PER_SECOND, LOOKS_BURST);

/// Nodes of the cluster by partition, each once.
#[derive(Clone, Debug, Default)]
pub struct KnownNodes {
    /// Nodes of the default partition: in most clusters all. Apart from the map, because comparing
    /// two empty texts is slow.
    default: Vec<KnownNode>,
    named: BTreeMap<String, Vec<KnownNode>>,
}

impl FromIterator<KnownNode> for KnownNodes {
    /// Collects nodes that differ in their ids.
    fn from_iter<T: IntoIterator<Item = KnownNode>>(nodes: T) -> Self {
        let mut known = Self::default();
        for node in nodes {
            let partition = &node.node().partition;
            if partition.is_empty() {
                known.default.push(node);
                continue;
            }
            match known.named.get_mut(partition) {
                Some(others) => others.push(node),
                None => {
                    known.named.insert(partition.clone(), vec![node]);
                }
            }
        }
        known
    }
}

impl KnownNodes {
    /// Returns whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_empty() && self.named.is_empty()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.default.len() + self.named.values().map(Vec::len).sum::<usize>()
    }

    /// Returns all nodes, those of the default partition first.
    pub fn iter(&self) -> impl Iterator<Item = &KnownNode> {
        self.default.iter().chain(self.named.values().flatten())
    }

    /// Returns the nodes of a partition; empty: the default one.
    #[must_use]
    pub fn of_partition(&self, partition: &str) -> &[KnownNode] {
        if partition.is_empty() {
            return &self.default;
        }
        self.named.get(partition).map_or(&[], Vec::as_slice)
    }
}

/// Asks of one size and partition, and the nodes drawn for them.
#[derive(Clone, Debug)]
struct Group {
    partition: String,
    /// Size of the containers, as their tokens state it.
    size: Resource,
    round: LookRound<KnownNode>,
}

/// Looks of one heartbeat.
#[derive(Clone, Debug)]
pub struct LookPlan {
    /// Most containers of the heartbeat.
    budget: u32,
    /// Containers that the attempt wants, on any node.
    wanted: u64,
    /// Time since the attempt's last heartbeat with a plan, in milliseconds; `None` at the first.
    since_last_ms: Option<u64>,
    groups: Vec<Group>,
    /// Nodes to look at, each once. Fewer than twice [`LOOKS_PER_CALL_MAX`].
    nodes: Vec<KnownNode>,
    /// Answer of each of `nodes`.
    answers: Vec<Option<LookAnswer>>,
    /// For each of `nodes` its positions: numbers of groups, with those in the groups' rounds.
    positions: Vec<Vec<(usize, usize)>>,
}

impl LookPlan {
    /// Returns the most containers of the heartbeat.
    pub(super) const fn budget(&self) -> u32 {
        self.budget
    }

    /// Returns the nodes to look at, each once.
    #[must_use]
    pub fn nodes(&self) -> &[KnownNode] {
        &self.nodes
    }

    /// Notes the answer of the node at this position of [`nodes`](Self::nodes). A position beyond
    /// the last one is ignored, and so is a second answer.
    pub fn hears(&mut self, position: usize, answer: LookAnswer) {
        if let Some(known) = self.answers.get_mut(position) {
            known.get_or_insert(answer);
        }
        for (group, position) in self.positions.get(position).into_iter().flatten() {
            self.groups[*group].round.hears(*position, answer);
        }
    }

    fn add(&mut self, group: Group) {
        let number = self.groups.len();
        // Nodes of one round differ from each other.
        let others = self.nodes.len();
        for (position, node) in group.round.wants().enumerate() {
            let known = self.nodes[..others].iter().position(|known| known == node);
            let known = known.unwrap_or_else(|| {
                self.nodes.push(node.clone());
                self.answers.push(None);
                self.positions.push(Vec::new());
                self.nodes.len() - 1
            });
            self.positions[known].push((number, position));
        }
        self.groups.push(group);
    }
}

/// Containers of a heartbeat with looks that have no node, or one that nobody has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookOutcome {
    /// Containers for which the nodes seen have no room, or that have reached the share of nodes
    /// not seen. Their asks stay outstanding.
    pub held_back: u32,
    /// Containers placed by the attempt's own counts and the ResourceManager's list, because no
    /// look showed the load of their nodes.
    pub unseen: u32,
}

/// Nodes for the containers of a group, the next one first.
#[derive(Debug)]
struct Places {
    partition: String,
    size: Resource,
    /// Nodes to whose room tasks are bound.
    bound: VecDeque<KnownNode>,
    seen: VecDeque<KnownNode>,
    unseen: VecDeque<KnownNode>,
}

/// Nodes for the containers of a heartbeat.
#[derive(Debug, Default)]
pub(super) struct Looked(Vec<Places>);

impl Looked {
    /// Adds nodes to which tasks are bound; they come before those that were seen.
    pub(super) fn add(&mut self, bound: Vec<BoundNodes>) {
        for BoundNodes {
            partition,
            size,
            nodes,
        } in bound
        {
            let mut groups = self.0.iter_mut();
            let is_same = |group: &&mut Places| group.size == size && group.partition == partition;
            match groups.find(is_same) {
                Some(group) => group.bound.extend(nodes),
                None => self.0.push(Places {
                    partition,
                    size,
                    bound: nodes,
                    seen: VecDeque::new(),
                    unseen: VecDeque::new(),
                }),
            }
        }
    }

    /// Takes the nodes to which tasks are bound and that no container has got.
    pub(super) fn take_bound(&mut self) -> Vec<BoundNodes> {
        let groups = self.0.iter_mut().filter(|group| !group.bound.is_empty());
        let left = groups.map(|group| BoundNodes {
            partition: group.partition.clone(),
            size: group.size,
            nodes: std::mem::take(&mut group.bound),
        });
        left.collect()
    }

    /// Takes the node of the next container of this size; `None` if it must wait.
    pub(super) fn take(&mut self, partition: &str, size: Resource) -> Option<KnownNode> {
        let mut groups = self.0.iter_mut();
        let places = groups.find(|group| group.size == size && group.partition == partition)?;
        let bound = places.bound.pop_front();
        let seen = bound.or_else(|| places.seen.pop_front());
        seen.or_else(|| places.unseen.pop_front())
    }
}

impl DistributedOpportunisticContainerAllocator {
    /// Draws the nodes to look at before [`allocate_seen`](Self::allocate_seen). `None` if this
    /// heartbeat allocates nothing, or without [`Placement::Look`].
    pub fn plan_looks(&mut self, known: &KnownNodes, now: MonoMillis) -> Option<LookPlan> {
        self.plan(known, true, now)
    }

    /// As [`plan_looks`](Self::plan_looks) where no node answers looks: the plan goes to
    /// [`allocate_seen`](Self::allocate_seen) at once.
    pub fn plan_unseen(&mut self, known: &KnownNodes, now: MonoMillis) -> Option<LookPlan> {
        self.plan(known, false, now)
    }

    fn plan(&mut self, known: &KnownNodes, looks: bool, now: MonoMillis) -> Option<LookPlan> {
        if self.config.placement != Placement::Look {
            return None;
        }
        let limits = self.limits_to_allocate(now)?;
        let budget = self.budget();
        let all = self.groups(limits);
        let last = self.planned.replace(now);
        let mut plan = LookPlan {
            budget,
            wanted: all.iter().map(|(.., wanted)| wanted).sum(),
            since_last_ms: last.map(|last| now.since(last)),
            groups: Vec::new(),
            nodes: Vec::new(),
            answers: Vec::new(),
            positions: Vec::new(),
        };
        if looks && !self.look_rate.allows(now) {
            return Some(plan);
        }
        let mut left = budget;
        for (partition, size, wanted) in all {
            if left == 0 || (looks && plan.nodes.len() >= LOOKS_PER_CALL_MAX) {
                break;
            }
            let wanted = u32::try_from(wanted).map_or(left, |wanted| wanted.min(left));
            left -= wanted;
            let nodes = known.of_partition(&partition);
            let nodes = if self.excludes_any() {
                usable(nodes, |node| self.is_excluded(node, now))
            } else {
                Cow::Borrowed(nodes)
            };
            let group = |round| Group {
                partition,
                size,
                round,
            };
            if looks {
                plan.add(group(self.looks.draw(&nodes, wanted)));
            } else {
                let round = self.looks.draw_unseen(&nodes, wanted);
                plan.groups.push(group(round));
            }
        }
        if looks {
            self.look_rate.spend(plan.nodes.len());
        }
        Some(plan)
    }

    /// Returns partition, size and number of the containers that may go anywhere, the most urgent
    /// ones first.
    pub(super) fn groups(&self, limits: ResourceLimits) -> Vec<(String, Resource, u64)> {
        let mut groups: Vec<(String, Resource, u64)> = Vec::new();
        for (capability, partition, count) in self.wanted.asks.for_anywhere() {
            let size = limits.normalize(capability);
            let count = u64::from(count);
            let is_same = |group: &(String, Resource, u64)| group.1 == size && group.0 == partition;
            match groups.iter().position(is_same) {
                Some(at) => groups[at].2 += count,
                None if groups.len() < GROUPS_MAX => {
                    groups.push((partition.to_owned(), size, count));
                }
                None => {}
            }
        }
        groups
    }

    pub(super) fn excludes_any(&self) -> bool {
        !self.wanted.blacklist.is_empty() || self.nodes.has_resting()
    }

    pub(super) fn is_excluded(&self, known: &KnownNode, now: MonoMillis) -> bool {
        let id = &known.node().node_id;
        self.wanted.blacklist.contains(&id.host) || self.nodes.is_resting(id, now)
    }

    /// Allocates containers as [`allocate`](Self::allocate) does, those for any node by what was
    /// seen. Containers without a sight of their nodes go to the one of the two with fewer
    /// containers of this attempt, then to the one higher on the ResourceManager's list.
    /// `max_queue_length`: most containers that may wait on a node, as the ResourceManager
    /// published; `None`: no limit.
    pub fn allocate_seen(
        &mut self,
        plan: LookPlan,
        max_queue_length: Option<usize>,
        now: MonoMillis,
    ) -> LookOutcome {
        let Some(limits) = self.limits_to_allocate(now) else {
            return LookOutcome::default();
        };
        let budget = plan.budget();
        let (mut looked, outcome) = self.looked(plan, max_queue_length, now);
        self.give(limits, budget, &mut looked, now);
        self.take_back(&looked);
        outcome
    }

    /// Returns the nodes for the containers of a plan.
    pub(super) fn looked(
        &mut self,
        plan: LookPlan,
        max_queue_length: Option<usize>,
        now: MonoMillis,
    ) -> (Looked, LookOutcome) {
        let mut outcome = LookOutcome::default();
        self.check_claims(&plan, now);
        let ends_per_thousand = self.ends_per_thousand(plan.since_last_ms);
        let share = self.config.elsewhere_max.get();
        let mut used = Used::new();
        let mut looked = Looked::default();
        for mut group in plan.groups {
            let claims = &self.claims;
            let is_doubted = |node: &KnownNode| claims.is_distrusted(&node.node().node_id, now);
            group.round.doubt(is_doubted);
            self.expect_own(&mut group.round, now);
            let terms = LookTerms {
                size: group.size,
                max_queue_length,
                wanted: plan.wanted,
                ends_per_thousand,
            };
            let Self { looks, nodes, .. } = &mut *self;
            let may_get = |node: &KnownNode, max| take_share(nodes, node, (share, max), &mut used);
            let placed = looks.place(group.round, &terms, may_get, now);
            let limit = max_queue_length.unwrap_or(usize::MAX);
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            let mut unseen = self.by_own_counts(&placed, limit, &mut used);
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let without = placed.unseen.len() - unseen.len();
            unseen.extend(placed.perhaps);
            outcome.held_back = outcome.held_back.saturating_add(placed.held_back);
            outcome.held_back = outcome.held_back.saturating_add(count(without));
            outcome.unseen = outcome.unseen.saturating_add(count(unseen.len()));
            looked.0.push(Places {
                partition: group.partition,
                size: group.size,
                bound: VecDeque::new(),
                seen: placed.nodes.into(),
                unseen,
            });
        }
        (looked, outcome)
    }

    /// Notes that nodes that were seen have got no container: hosts, racks or preferences have got
    /// it in their place.
    pub(super) fn take_back(&mut self, looked: &Looked) {
        for left in &looked.0 {
            self.looks.take_back(left.seen.iter().rev());
        }
    }
}

impl DistributedOpportunisticContainerAllocator {
    /// Returns the containers that end between two heartbeats of the master, for each thousand that
    /// run; 0 before anything is known.
    fn ends_per_thousand(&self, since_last_ms: Option<u64>) -> u64 {
        let run_time_ms = self.nodes.run_time_ms().filter(|ran_ms| *ran_ms > 0);
        let ends = since_last_ms.zip(run_time_ms);
        ends.map_or(0, |(since, ran_ms)| since.saturating_mul(1_000) / ran_ms)
    }

    /// Counts the containers of this attempt that sights do not show though they may be on their
    /// way: more live there, as far as the attempt knows, than the node has in all. A master on a
    /// busy machine takes seconds to start them.
    fn expect_own(&self, round: &mut LookRound<KnownNode>, now: MonoMillis) {
        let mut on_their_way: Option<BTreeMap<&NodeId, u32>> = None;
        round.expect(|known, sight| {
            let node = &known.node().node_id;
            let shown = sight.running.saturating_add(sight.queued);
            let missing = self.nodes.live_on(node).saturating_sub(shown);
            if missing == 0 {
                return 0;
            }
            let counts = on_their_way.get_or_insert_with(|| {
                let live = self.nodes.live();
                let new = live.filter(|(_, placed)| now.since(*placed) < STARTED_MS);
                let mut counts = BTreeMap::new();
                for (node, _) in new {
                    *counts.entry(node).or_default() += 1;
                }
                counts
            });
            missing.min(counts.get(node).copied().unwrap_or(0))
        });
    }

    /// Notes what the nodes with containers of this attempt claim, and checks earlier claims.
    fn check_claims(&mut self, plan: &LookPlan, now: MonoMillis) {
        let Self { nodes, claims, .. } = self;
        if let Some(told_at) = nodes.received() {
            claims.check(told_at, nodes.live(), now);
        }
        for (known, answer) in plan.nodes.iter().zip(&plan.answers) {
            let id = &known.node().node_id;
            if let Some(LookAnswer::Seen(sight)) = answer
                && nodes.live_on(id) > 0
            {
                let containers = sight.running.saturating_add(sight.queued);
                claims.note(id, containers, sight.seen_at);
            }
        }
    }
}

/// Returns the distance of a node from the places that an ask names.
pub(super) fn locality_of(ask: &Ask, node: &RemoteNode) -> Locality {
    if ask.hosts.has(&node.node_id.host) {
        Locality::NodeLocal
    } else if ask.wants_rack(&node.rack) {
        Locality::RackLocal
    } else {
        Locality::OffSwitch
    }
}

/// Returns the nodes that are not excluded.
fn usable(nodes: &[KnownNode], is_excluded: impl Fn(&KnownNode) -> bool) -> Cow<'_, [KnownNode]> {
    if nodes.iter().any(&is_excluded) {
        let usable = nodes.iter().filter(|node| !is_excluded(node));
        return Cow::Owned(usable.cloned().collect());
    }
    Cow::Borrowed(nodes)
}
