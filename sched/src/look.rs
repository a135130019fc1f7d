//! Placement of opportunistic containers after a look at the nodes that may get them.
//!
//! The ResourceManager's list tells everybody the same few nodes, in an order that is a second old.
//! Here two nodes are drawn for each container from all that are known, each of them is asked what
//! it has at that moment, and the containers go to the least loaded of them (Mitzenmacher, "The
//! Power of Two Choices in Randomized Load Balancing", IEEE TPDS 2001; for all containers of a call
//! together as in Ousterhout et al., "Sparrow", SOSP 2013).
//!
//! ```text
//! LookPlacer::draw(nodes, wanted) ─▶ LookRound ─▶ wants(): nodes to look at
//!                                      ▲  │
//!           hears(…, LookAnswer) ──────┘  └─▶ LookPlacer::place ─▶ LookPlaced
//! ```
//!
//! - A sight counts by its age: of what the node could take, a part that shrinks to nothing at
//!   [`SIGHT_AGE_MAX_MS`]. An older one is no sight.
//! - A node gets no more than fits into its free places and into its queue up to the limit that the
//!   ResourceManager published. The rest is held back: it stays an ask for the next heartbeat.
//! - A container with no sight of either of its two nodes is left to the caller with these nodes:
//!   the caller knows only its own containers. One that the nodes seen have no room for is left to
//!   the caller if one of its nodes answers without telling its load: that node may have room.
//! - What was placed within [`PROMISE_MS`] counts as load of its node, because the master may not
//!   have started it yet; what the caller knows to be missing in a sight counts longer.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use records::{MonoMillis, Resource};

use crate::allocator::ALLOCATIONS_PER_CALL_MAX;
use crate::random::{Draw, SplitMix64};

/// Most nodes that one call looks at. A call that wants more containers than 128 draws two of these
/// for each further one.
pub const LOOKS_PER_CALL_MAX: usize = 256;

/// Age in milliseconds at which a sight is no longer used. On 1,000 nodes at a load of 0.8, news
/// that is 2 s old is no better than none.
pub const SIGHT_AGE_MAX_MS: u64 = 1_000;

/// Milliseconds for which a placed container counts as load that a look does not show. Masters
/// start a container within some milliseconds of the answer.
pub const PROMISE_MS: u64 = 500;

/// Most placed containers that are remembered; the oldest are forgotten first.
const PROMISED_MAX: usize = 20_000;

/// Load of a node at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Containers of both types that hold resources.
    pub running: u32,
    /// Containers that wait.
    pub queued: u32,
    /// Resources that no container holds.
    pub free: Resource,
    /// Time at which the node had this load, at the latest when it was asked.
    pub seen_at: MonoMillis,
}

/// Answer of a node to a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookAnswer {
    /// The node has this load.
    Seen(Sight),
    /// The node is there, but its load is not known: what it tells is of unknown age, or has not
    /// come in time.
    Unknown {
        /// Resources that it may have free at most; none if nothing speaks for free ones.
        free: Resource,
    },
}

/// Terms of the placement of one call's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookTerms {
    /// Size of each container.
    pub size: Resource,
    /// Containers that may wait on a node, as the ResourceManager published; `None`: no limit.
    pub max_queue_length: Option<usize>,
    /// Whether containers that no node has room for are held back. Otherwise they go to the node
    /// with the shortest wait.
    pub holds_back: bool,
}

/// Result of [`LookPlacer::place`]. The four parts add up to the containers of the round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookPlaced<N> {
    /// Node of each container that has one.
    pub nodes: Vec<N>,
    /// Containers that wait for the next heartbeat.
    pub held_back: u32,
    /// Node of unknown load for each container that the nodes seen have no room for.
    pub perhaps: Vec<N>,
    /// Drawn nodes of each container with no sight of either of them.
    pub unseen: Vec<[N; 2]>,
    /// Nodes of unknown load, each with the containers that it may have places for at most.
    pub unknown: BTreeMap<N, u32>,
}

#[derive(Clone, Debug)]
struct Candidate<N> {
    node: N,
    /// `None` before the node has answered.
    answer: Option<LookAnswer>,
    /// Containers that the caller has placed there and the sight does not show.
    missing: u32,
}

impl<N> Candidate<N> {
    const fn new(node: N) -> Self {
        Self {
            node,
            answer: None,
            missing: 0,
        }
    }

    fn sight(&self) -> Option<&Sight> {
        match &self.answer {
            Some(LookAnswer::Seen(sight)) => Some(sight),
            Some(LookAnswer::Unknown { .. }) | None => None,
        }
    }

    const fn is_unknown(&self) -> bool {
        matches!(self.answer, Some(LookAnswer::Unknown { .. }))
    }
}

/// Nodes drawn for the containers of one call, and what was seen of them. Holds at most
/// [`LOOKS_PER_CALL_MAX`] nodes and [`ALLOCATIONS_PER_CALL_MAX`] pairs.
#[derive(Clone, Debug)]
pub struct LookRound<N> {
    /// Nodes, each once, in the order in which they were drawn.
    candidates: Vec<Candidate<N>>,
    /// Positions of the candidates of each container.
    pairs: Vec<[usize; 2]>,
}

impl<N: Clone + Ord> LookRound<N> {
    /// Returns the nodes to look at, each once.
    pub fn wants(&self) -> impl ExactSizeIterator<Item = &N> {
        self.candidates.iter().map(|candidate| &candidate.node)
    }

    /// Notes the answer of the node at this position of [`wants`](Self::wants). A position beyond
    /// the last one is ignored, and so is a second answer.
    pub fn hears(&mut self, position: usize, answer: LookAnswer) {
        if let Some(candidate) = self.candidates.get_mut(position) {
            candidate.answer.get_or_insert(answer);
        }
    }

    /// Drops what these nodes have told.
    pub(crate) fn doubt(&mut self, is_doubted: impl Fn(&N) -> bool) {
        for candidate in &mut self.candidates {
            if candidate.sight().is_some() && is_doubted(&candidate.node) {
                let free = Resource::new(0, 0);
                candidate.answer = Some(LookAnswer::Unknown { free });
            }
        }
    }

    /// Notes how many containers of the caller each sight does not show.
    pub(crate) fn expect(&mut self, mut missing: impl FnMut(&N, &Sight) -> u32) {
        for candidate in &mut self.candidates {
            if let Some(LookAnswer::Seen(sight)) = &candidate.answer {
                candidate.missing = missing(&candidate.node, sight);
            }
        }
    }
}

/// Returns the number of containers of this size that fit.
fn fitting(size: Resource, free: Resource) -> u32 {
    let by_memory = free.memory_mb / size.memory_mb.max(1);
    let by_vcores = free.vcores / size.vcores.max(1);
    by_vcores.min(u32::try_from(by_memory).unwrap_or(u32::MAX))
}

/// Load of a node with what is placed on it.
struct Room {
    running: u32,
    queued: u32,
    /// Containers that would start at once.
    fitting: u32,
    /// Containers that the node may get.
    left: u32,
}

impl Room {
    /// Returns the room that a sight leaves; `None` if it is too old.
    fn of(sight: &Sight, terms: &LookTerms, now: MonoMillis) -> Option<Self> {
        let age_left_ms = SIGHT_AGE_MAX_MS.checked_sub(now.since(sight.seen_at))?;
        // Where others wait, the free resources are theirs.
        let fitting = match sight.queued {
            0 => fitting(terms.size, sight.free),
            _ => 0,
        };
        let limit = terms.max_queue_length.unwrap_or(usize::MAX);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let left = u64::from(fitting.saturating_add(limit.saturating_sub(sight.queued)));
        let left = (left * age_left_ms).div_ceil(SIGHT_AGE_MAX_MS);
        (age_left_ms > 0).then(|| Self {
            running: sight.running,
            queued: sight.queued,
            fitting,
            left: match terms.holds_back {
                true => u32::try_from(left).unwrap_or(u32::MAX),
                false => u32::MAX,
            },
        })
    }

    fn add(&mut self, count: u32) {
        let starts = count.min(self.fitting);
        self.fitting -= starts;
        self.running = self.running.saturating_add(starts);
        self.queued = self.queued.saturating_add(count - starts);
        self.left = self.left.saturating_sub(count);
    }

    /// Returns the order of nodes, the better one first: the wait of one more container in
    /// thousandths of the mean run time, then the containers that run.
    fn standing(&self) -> (u64, u32) {
        let wait = match self.fitting {
            0 => (u64::from(self.queued) + 1) * 1_000 / u64::from(self.running.max(1)),
            _ => 0,
        };
        (wait, self.running)
    }
}

/// Returns the nodes of unknown load, each with the places that it may have at most.
fn unknown_places<N: Clone + Ord>(candidates: &[Candidate<N>], size: Resource) -> BTreeMap<N, u32> {
    let unknown = candidates
        .iter()
        .filter_map(|candidate| match candidate.answer {
            Some(LookAnswer::Unknown { free }) => {
                Some((candidate.node.clone(), fitting(size, free)))
            }
            Some(LookAnswer::Seen(_)) | None => None,
        });
    unknown.collect()
}

/// Placement by looks for the attempts of one node. Names of nodes are of any type.
#[derive(Clone, Debug)]
pub struct LookPlacer<N> {
    random: SplitMix64,
    /// Containers placed within [`PROMISE_MS`], the oldest first.
    promised: VecDeque<(MonoMillis, N)>,
}

impl<N: Clone + Ord> LookPlacer<N> {
    /// Creates a placement whose random choices follow from `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            random: SplitMix64::new(seed),
            promised: VecDeque::new(),
        }
    }

    /// Draws two of `nodes` for each container that is wanted, up to [`ALLOCATIONS_PER_CALL_MAX`].
    /// `nodes` has each node once, without those that the attempt excludes.
    pub fn draw(&mut self, nodes: &[N], wanted: u32) -> LookRound<N> {
        let wanted = wanted.min(ALLOCATIONS_PER_CALL_MAX);
        let mut drawn = BTreeMap::new();
        let mut candidates: Vec<Candidate<N>> = Vec::new();
        let mut pairs = Vec::new();
        for _ in 0..wanted {
            if nodes.is_empty() {
                break;
            }
            let mut pair = [0, 0];
            let mut other_than = None;
            for position in &mut pair {
                *position = if candidates.len() < LOOKS_PER_CALL_MAX {
                    let number = self.number(nodes.len(), other_than);
                    other_than = Some(number);
                    *drawn.entry(number).or_insert_with(|| {
                        let node = nodes[number].clone();
                        candidates.push(Candidate::new(node));
                        candidates.len() - 1
                    })
                } else {
                    self.number(candidates.len(), None)
                };
            }
            pairs.push(pair);
        }
        LookRound { candidates, pairs }
    }

    /// Draws two of `nodes` for each container where nobody will look at them. They are as many
    /// different nodes as there are, so that a bound on the containers of a node leaves no
    /// container without one. `nodes` as for [`draw`](Self::draw).
    pub fn draw_unseen(&mut self, nodes: &[N], wanted: u32) -> LookRound<N> {
        let mut round = LookRound {
            candidates: Vec::new(),
            pairs: Vec::new(),
        };
        if nodes.is_empty() {
            return round;
        }
        let wanted = usize::try_from(wanted.min(ALLOCATIONS_PER_CALL_MAX)).unwrap_or(usize::MAX);
        // Shuffled as far as it is used.
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        for position in 0..nodes.len().min(2 * wanted) {
            let other = position + self.number(nodes.len() - position, None);
            order.swap(position, other);
            let node = nodes[order[position]].clone();
            round.candidates.push(Candidate::new(node));
        }
        let candidates = round.candidates.len();
        let second = |container| (wanted + container) % candidates;
        round.pairs = (0..wanted)
            .map(|container| [container % candidates, second(container)])
            .collect();
        round
    }

    /// Draws a number below `bound`, and not `other` if there is another.
    fn number(&mut self, bound: usize, other: Option<usize>) -> usize {
        match other {
            Some(other) if bound > 1 => {
                let number = self.random.below(bound - 1) % (bound - 1);
                number + usize::from(number >= other)
            }
            _ => self.random.below(bound) % bound,
        }
    }

    /// Places the containers of a round on the nodes seen, the least loaded first.
    pub fn place(
        &mut self,
        round: LookRound<N>,
        terms: &LookTerms,
        now: MonoMillis,
    ) -> LookPlaced<N> {
        self.promised
            .retain(|(placed, _)| now.since(*placed) < PROMISE_MS);
        let LookRound { candidates, pairs } = round;
        let mut rooms = self.rooms(&candidates, terms, now);
        let is_seen = |position: &usize| rooms.get(*position).is_some_and(Option::is_some);
        let (seen, unseen): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|pair| pair.iter().any(is_seen));
        let is_unknown = |position: &&usize| candidates[**position].is_unknown();
        let unknown = seen.iter();
        let unknown = unknown.filter_map(|pair| pair.iter().find(is_unknown).copied());
        let unknown: Vec<usize> = unknown.collect();
        let node = |position: usize| candidates[position].node.clone();
        let unseen: Vec<[N; 2]> = unseen.into_iter().map(|pair| pair.map(node)).collect();
        let seen = seen.len();
        let mut placed = LookPlaced {
            nodes: Vec::with_capacity(seen),
            held_back: 0,
            perhaps: Vec::new(),
            unseen,
            unknown: unknown_places(&candidates, terms.size),
        };
        let mut order: BinaryHeap<_> = (0..)
            .zip(&rooms)
            .filter_map(|(position, room)| Some((room.as_ref()?, position)))
            .filter(|(room, _)| room.left > 0)
            .map(|(room, position)| Reverse((room.standing(), position)))
            .collect();
        while placed.nodes.len() < seen
            && let Some(Reverse((_, position))) = order.pop()
        {
            let Some(room) = rooms.get_mut(position).and_then(Option::as_mut) else {
                continue;
            };
            room.add(1);
            if room.left > 0 {
                order.push(Reverse((room.standing(), position)));
            }
            placed.nodes.push(candidates[position].node.clone());
        }
        let without = seen - placed.nodes.len();
        placed.perhaps = unknown.into_iter().take(without).map(node).collect();
        let held_back = without - placed.perhaps.len();
        placed.held_back = u32::try_from(held_back).unwrap_or(u32::MAX);
        let promises = placed.nodes.iter().map(|node| (now, node.clone()));
        self.promised.extend(promises);
        let excess = self.promised.len().saturating_sub(PROMISED_MAX);
        self.promised.drain(..excess);
        placed
    }

    /// Forgets the last promise to each of these nodes: the caller has not sent the container.
    pub fn take_back<'a>(&mut self, nodes: impl IntoIterator<Item = &'a N>)
    where
        N: 'a,
    {
        for node in nodes {
            let last = self.promised.iter().rposition(|(_, to)| to == node);
            last.map(|position| self.promised.remove(position));
        }
    }

    /// Returns the room of each candidate, less what was promised; `None` without a sight.
    fn rooms(
        &self,
        candidates: &[Candidate<N>],
        terms: &LookTerms,
        now: MonoMillis,
    ) -> Vec<Option<Room>> {
        let mut promised: BTreeMap<&N, u32> = BTreeMap::new();
        for (_, node) in &self.promised {
            *promised.entry(node).or_default() += 1;
        }
        let room = |candidate: &Candidate<N>| {
            let mut room = Room::of(candidate.sight()?, terms, now)?;
            let promised = promised.get(&candidate.node).copied().unwrap_or(0);
            room.add(promised.max(candidate.missing));
            Some(room)
        };
        candidates.iter().map(room).collect()
    }
}
