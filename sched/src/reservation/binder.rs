//! The proxy's side of late binding: where an attempt has reserved, and the tasks that are bound to
//! room on nodes.

use std::collections::{BTreeMap, VecDeque};

use records::{ApplicationAttemptId, MonoMillis, Resource};

use super::{
    ExpectedRun, OfferAnswer, RESERVATION_RENEWAL_MS, RESERVATIONS_PER_TASK, RESERVED_NODES_MAX,
    Reservation, SizeKey,
};
use crate::random::{Shuffle, SplitMix64};
use crate::run_profile::Digest;

/// News of a node about a reservation.
#[derive(Clone, Copy, Debug)]
struct Told {
    at: MonoMillis,
    waiting: u32,
    run: ExpectedRun,
}

impl Told {
    /// Returns whether the node needs to be told anew. A number of tasks counts by its magnitude.
    fn is_old(&self, waiting: u32, run: ExpectedRun, now: MonoMillis) -> bool {
        let is_known = matches!(self.run, ExpectedRun::Mean(_));
        let learns = matches!(run, ExpectedRun::Mean(_)) && !is_known;
        let doubles = waiting / 2 >= self.waiting || self.waiting / 2 >= waiting;
        learns || doubles || now.since(self.at) >= RESERVATION_RENEWAL_MS
    }
}

/// Tasks of one size.
#[derive(Clone, Debug)]
struct Tasks<N> {
    /// Tasks that wait and are not bound.
    waiting: u32,
    run: ExpectedRun,
    /// Nodes with a reservation, at most [`RESERVED_NODES_MAX`].
    told: BTreeMap<N, Told>,
    /// Node of each task that is bound, the first one first.
    bound: VecDeque<N>,
}

impl<N> Tasks<N> {
    const fn new() -> Self {
        Self {
            waiting: 0,
            run: ExpectedRun::AtLeast(0),
            told: BTreeMap::new(),
            bound: VecDeque::new(),
        }
    }
}

/// Reservations of an attempt, and the tasks that are bound to room on nodes until the master's
/// next call. `N` names nodes.
///
/// A task is a number here: which container it gets is decided with the master's call, by what the
/// master asks for then.
#[derive(Clone, Debug)]
pub struct Binder<N> {
    attempt: ApplicationAttemptId,
    user: Digest,
    random: SplitMix64,
    sizes: BTreeMap<SizeKey, Tasks<N>>,
}

impl<N: Clone + Ord> Binder<N> {
    /// Creates the binder of an attempt of a user. Random choices follow from `seed`.
    #[must_use]
    pub const fn new(attempt: ApplicationAttemptId, user: Digest, seed: u64) -> Self {
        Self {
            attempt,
            user,
            random: SplitMix64::new(seed),
            sizes: BTreeMap::new(),
        }
    }

    /// Takes the number of tasks of a size that have no container, bound ones among them, as of the
    /// master's call. Returns what nodes have to be told.
    ///
    /// `nodes` has each node once that the attempt may use. For each task that waits
    /// [`RESERVATIONS_PER_TASK`] of them are drawn, as many different ones as there are. Where an
    /// attempt has reserved, it stays; with nothing left, all its reservations of this size are
    /// void.
    pub fn wants(
        &mut self,
        size: Resource,
        wanted: u32,
        run: ExpectedRun,
        nodes: &[N],
        now: MonoMillis,
    ) -> Vec<(N, Reservation)> {
        let key = SizeKey::from(size);
        let tasks = self.sizes.entry(key).or_insert_with(Tasks::new);
        let mut given_back: BTreeMap<N, u32> = BTreeMap::new();
        while tasks.bound.len() > usize::try_from(wanted).unwrap_or(usize::MAX)
            && let Some(node) = tasks.bound.pop_back()
        {
            *given_back.entry(node).or_default() += 1;
        }
        let bound = u32::try_from(tasks.bound.len()).unwrap_or(u32::MAX);
        let waiting = wanted.saturating_sub(bound);
        (tasks.waiting, tasks.run) = (waiting, run);
        let news = Reservation {
            attempt: self.attempt,
            user: self.user,
            size,
            waiting,
            run,
            given_back: 0,
        };
        let mut told: BTreeMap<N, Reservation> = BTreeMap::new();
        if waiting == 0 {
            let void = std::mem::take(&mut tasks.told).into_keys();
            told.extend(void.map(|node| (node, news)));
        } else {
            draw(tasks, nodes, &mut self.random);
            for (node, before) in &mut tasks.told {
                if before.is_old(waiting, run, now) {
                    let at = now;
                    *before = Told { at, waiting, run };
                    told.insert(node.clone(), news);
                }
            }
        }
        for (node, given_back) in given_back {
            told.entry(node).or_insert(news).given_back = given_back;
        }
        if waiting == 0 && tasks.bound.is_empty() {
            self.sizes.remove(&key);
        }
        told.into_iter().collect()
    }

    /// Binds tasks that wait to the room for so many containers that a node offers. `within_ms`:
    /// time until the master is expected to have started them. Returns the answer.
    pub fn offered(
        &mut self,
        node: &N,
        (size, rooms): (Resource, u32),
        within_ms: u64,
        now: MonoMillis,
    ) -> OfferAnswer {
        let Some(tasks) = self.sizes.get_mut(&size.into()) else {
            return OfferAnswer::NOTHING;
        };
        let bound = rooms.min(tasks.waiting);
        tasks.waiting -= bound;
        tasks.bound.extend((0..bound).map(|_| node.clone()));
        let (waiting, run) = (tasks.waiting, tasks.run);
        if waiting == 0 {
            tasks.told.remove(node);
        } else if let Some(told) = tasks.told.get_mut(node) {
            let at = now;
            *told = Told { at, waiting, run };
        }
        OfferAnswer {
            bound,
            waiting,
            run,
            within_ms,
        }
    }

    /// Takes the nodes of the tasks of a size that are bound, for the containers of the master's
    /// answer: the node that was bound first comes first.
    pub fn take_bound(&mut self, size: Resource) -> VecDeque<N> {
        let tasks = self.sizes.get_mut(&size.into());
        tasks
            .map(|tasks| std::mem::take(&mut tasks.bound))
            .unwrap_or_default()
    }

    /// Takes back nodes of [`take_bound`](Self::take_bound) that no container was made for: they
    /// stay bound until the next answer.
    pub fn keep_bound(&mut self, size: Resource, nodes: impl IntoIterator<Item = N>) {
        if let Some(tasks) = self.sizes.get_mut(&size.into()) {
            tasks.bound.extend(nodes);
        }
    }

    /// Forgets the nodes that are not kept, which are lost or excluded, with the tasks that are
    /// bound to them: they wait again.
    pub fn retain_nodes(&mut self, is_kept: impl Fn(&N) -> bool) {
        for tasks in self.sizes.values_mut() {
            tasks.told.retain(|node, _| is_kept(node));
            let before = tasks.bound.len();
            tasks.bound.retain(&is_kept);
            let lost = u32::try_from(before - tasks.bound.len()).unwrap_or(u32::MAX);
            tasks.waiting = tasks.waiting.saturating_add(lost);
        }
    }

    /// Returns the sizes of which tasks wait or are bound.
    pub fn sizes(&self) -> impl Iterator<Item = Resource> + '_ {
        self.sizes.keys().map(|key| key.size())
    }

    /// Returns the tasks of a size that wait and are not bound.
    #[must_use]
    pub fn waiting(&self, size: Resource) -> u32 {
        self.sizes
            .get(&size.into())
            .map_or(0, |tasks| tasks.waiting)
    }
}

/// Draws nodes for further reservations. A node that is told next has been told nothing so far.
fn draw<N: Clone + Ord>(tasks: &mut Tasks<N>, nodes: &[N], random: &mut SplitMix64) {
    let waiting = usize::try_from(tasks.waiting).unwrap_or(usize::MAX);
    let wanted = waiting.saturating_mul(RESERVATIONS_PER_TASK);
    let wanted = wanted.min(nodes.len()).min(RESERVED_NODES_MAX);
    let mut shuffle = Shuffle::new(nodes.len());
    while tasks.told.len() < wanted
        && let Some(at) = shuffle.next(random)
    {
        let untold = Told {
            at: MonoMillis(0),
            waiting: 0,
            run: ExpectedRun::AtLeast(0),
        };
        tasks.told.entry(nodes[at].clone()).or_insert(untold);
    }
}
