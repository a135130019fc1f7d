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
//! - A node gets no more than fits into its free places and into its queue up to the limit that
//!   the ResourceManager published, and the less of the queue the more the attempt wants
//!   ([`room`]). The rest is held back: it stays an ask for the next heartbeat.
//! - A container with no sight of either of its two nodes is left to the caller with these nodes:
//!   the caller knows only its own containers. One that would wait on the nodes seen goes to a
//!   drawn node that answers without telling its load, if the caller has few containers there: that
//!   node may have room.
//! - What was placed within [`PROMISE_MS`] counts as load of its node, because the master may not
//!   have started it yet; what the caller knows to be missing in a sight counts longer.

mod room;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use records::{MonoMillis, Resource};

pub use self::room::LookTerms;
pub(crate) use self::room::fitting;
use self::room::{Room, Standing};
use crate::allocator::ALLOCATIONS_PER_CALL_MAX;
use crate::random::{Shuffle, SplitMix64};

/// Most nodes that one call looks at. A call that wants more containers than 128 has two of these
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
    /// Containers that wait; [`Sight::CLOSED`] where no opportunistic container is taken.
    pub queued: u32,
    /// Resources that no container holds.
    pub free: Resource,
    /// Time at which the node had this load, at the latest when it was asked.
    pub seen_at: MonoMillis,
}

impl Sight {
    /// [`queued`](Self::queued) of a node that takes no opportunistic containers, because it is
    /// drained or has no queue for them: more than any limit, whatever is free there.
    pub const CLOSED: u32 = u32::MAX;
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

/// Result of [`LookPlacer::place`]. The four parts add up to the containers of the round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookPlaced<N> {
    /// Node of each container that has one.
    pub nodes: Vec<N>,
    /// Containers that wait for the next heartbeat.
    pub held_back: u32,
    /// Node of unknown load for each container that got one in place of a queue, or because the
    /// nodes seen have no room.
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

    /// Returns the containers that fit on a node of unknown load at most.
    fn places(&self, size: Resource) -> u32 {
        match self.answer {
            Some(LookAnswer::Unknown { free }) => fitting(size, free),
            Some(LookAnswer::Seen(_)) | None => 0,
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

/// Returns the nodes of unknown load, each with the places that it may have at most.
fn unknown_places<N: Clone + Ord>(candidates: &[Candidate<N>], size: Resource) -> BTreeMap<N, u32> {
    let unknown = candidates.iter().filter(|candidate| candidate.is_unknown());
    let places = unknown.map(|candidate| (candidate.node.clone(), candidate.places(size)));
    places.collect()
}

/// Nodes seen, in the order in which they get containers.
struct SeenNodes {
    /// Room by position; `None` without a sight.
    rooms: Vec<Option<Room>>,
    /// Open ones, the best first.
    order: BinaryHeap<Reverse<(Standing, usize)>>,
}

impl SeenNodes {
    fn new(rooms: Vec<Option<Room>>) -> Self {
        let order = (0..)
            .zip(&rooms)
            .filter_map(|(position, room)| Some((room.as_ref()?, position)))
            .filter(|(room, _)| room.is_open())
            .map(|(room, position)| Reverse((room.standing(), position)))
            .collect();
        Self { rooms, order }
    }

    /// Returns the position of the node for the next container; `None` if there is none, or, unless
    /// the container may wait, none where it starts at once.
    fn next(&mut self, may_wait: bool) -> Option<usize> {
        let Reverse((standing, position)) = *self.order.peek()?;
        if standing.waits && !may_wait {
            return None;
        }
        self.order.pop();
        let room = self.rooms.get_mut(position).and_then(Option::as_mut)?;
        room.add(1);
        if room.is_open() {
            self.order.push(Reverse((room.standing(), position)));
        }
        Some(position)
    }
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

    /// Draws two of `nodes` for each container that is wanted, up to [`ALLOCATIONS_PER_CALL_MAX`]:
    /// as many different nodes as there are, at most [`LOOKS_PER_CALL_MAX`]. `nodes` has each node
    /// once, without those that the attempt excludes.
    pub fn draw(&mut self, nodes: &[N], wanted: u32) -> LookRound<N> {
        self.draw_most(nodes, wanted, LOOKS_PER_CALL_MAX)
    }

    /// As [`draw`](Self::draw) where nobody will look at the nodes, without a bound on their
    /// number: where a node gets a bounded number of containers, no container is without one.
    pub fn draw_unseen(&mut self, nodes: &[N], wanted: u32) -> LookRound<N> {
        self.draw_most(nodes, wanted, usize::MAX)
    }

    fn draw_most(&mut self, nodes: &[N], wanted: u32, most: usize) -> LookRound<N> {
        let wanted = usize::try_from(wanted.min(ALLOCATIONS_PER_CALL_MAX)).unwrap_or(usize::MAX);
        let count = nodes.len().min(2 * wanted).min(most);
        let mut shuffle = Shuffle::new(nodes.len());
        let drawn = std::iter::from_fn(|| shuffle.next(&mut self.random)).take(count);
        let candidates = drawn.map(|at| Candidate::new(nodes[at].clone()));
        let candidates: Vec<Candidate<N>> = candidates.collect();
        let pair = |container| [container, container + count / 2].map(|number| number % count);
        let pairs = (0..wanted).filter(|_| count > 0).map(pair).collect();
        LookRound { candidates, pairs }
    }

    /// Places the containers of a round on the nodes seen, the least loaded first. `may_get` says
    /// whether a node of unknown load gets one more, which it may while the caller has fewer there
    /// than this number, and counts it.
    pub fn place(
        &mut self,
        round: LookRound<N>,
        terms: &LookTerms,
        mut may_get: impl FnMut(&N, u32) -> bool,
        now: MonoMillis,
    ) -> LookPlaced<N> {
        self.promised
            .retain(|(placed, _)| now.since(*placed) < PROMISE_MS);
        let LookRound { candidates, pairs } = round;
        let rooms = self.rooms(&candidates, terms, now);
        let is_seen = |position: &usize| rooms.get(*position).is_some_and(Option::is_some);
        let (seen, unseen): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|pair| pair.iter().any(is_seen));
        let is_unknown = |position: &&usize| candidates[**position].is_unknown();
        let unknown = seen.iter();
        let unknown = unknown.filter_map(|pair| pair.iter().find(is_unknown).copied());
        let mut unknown: Vec<usize> = unknown.collect();
        let mut order = SeenNodes::new(rooms);
        let mut on_seen = Vec::with_capacity(seen.len());
        let mut perhaps = Vec::new();
        let mut left = seen.len();
        for waits in [false, true] {
            let taken = std::iter::from_fn(|| order.next(waits)).take(left);
            let taken: Vec<usize> = taken.collect();
            left -= taken.len();
            on_seen.extend(taken);
            // A node that may have a place at once comes before a queue.
            let max = |position: usize| match waits {
                false => candidates[position].places(terms.size),
                true => terms.limit(),
            };
            unknown.retain(|at| {
                let gets = left > 0 && may_get(&candidates[*at].node, max(*at));
                if gets {
                    left -= 1;
                    perhaps.push(*at);
                }
                !gets
            });
        }
        let nodes_at = |positions: Vec<usize>| {
            let nodes = positions.into_iter().map(|at| candidates[at].node.clone());
            nodes.collect::<Vec<N>>()
        };
        let nodes = nodes_at(on_seen);
        self.promised
            .extend(nodes.iter().map(|node| (now, node.clone())));
        let excess = self.promised.len().saturating_sub(PROMISED_MAX);
        self.promised.drain(..excess);
        let node = |position: usize| candidates[position].node.clone();
        LookPlaced {
            nodes,
            held_back: u32::try_from(left).unwrap_or(u32::MAX),
            perhaps: nodes_at(perhaps),
            unseen: unseen.into_iter().map(|pair| pair.map(node)).collect(),
            unknown: unknown_places(&candidates, terms.size),
        }
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
