//! Late binding of one attempt: shared by its pipeline, whose calls say what is wanted, and by the
//! offers of nodes, which come whenever they have room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use records::{ApplicationAttemptId, MonoMillis, NodeId};
use sched::{
    Binder, BoundNodes, Digest, ExpectedRun, HELD_MAX_MS, KnownNode, KnownNodes, Offer,
    OfferAnswer, Rate, Reservation, Wish,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{LateBinding, OFFERS_WAIT_MAX};
use crate::node_lists::lock;

/// Time, in milliseconds, beyond the pause between two calls of an AM until it has started what the
/// second one brought.
const START_MS: u64 = 500;

/// Milliseconds between an attempt's first calls, when their pause is not known, and the shortest
/// pause that counts.
const FIRST_PAUSE_MS: u64 = 1_000;

/// Outcome of a call's wishes.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Whether it has reserved, or renewed, so that offers may come soon.
    pub(crate) reserves: bool,
    /// Nodes that take no reservations, if they are others than before.
    pub(crate) others: Option<Arc<KnownNodes>>,
}

/// Messages of an attempt: a second in the long run, and at once after a pause. A master may call
/// as often as the throttle allows, each time with other asks.
const MESSAGES: Rate = Rate::new(2_048, 2_048);

/// Late binding of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptBinding {
    state: Mutex<State>,
    /// Notified when tasks were bound.
    bound: Notify,
}

#[derive(Debug)]
struct State {
    attempt: ApplicationAttemptId,
    user: Digest,
    /// Binder of each partition's nodes.
    binders: BTreeMap<String, Binder<KnownNode>>,
    /// Nodes at which the attempt has reserved, by what offers name.
    reserved: BTreeSet<KnownNode>,
    rate: Rate,
    /// Nodes that take no reservations at present.
    others: Vec<KnownNode>,
    /// Time of the last call, and the longest of the last pauses between calls in milliseconds.
    called: Option<MonoMillis>,
    pause_ms: u64,
}

impl State {
    /// Returns the milliseconds in which the AM is expected to have started what is bound now.
    fn within_ms(&self) -> u64 {
        let within_ms = self.pause_ms.saturating_mul(2).saturating_add(START_MS);
        within_ms.min(HELD_MAX_MS)
    }

    fn waiting(&self) -> bool {
        let mut binders = self.binders.values();
        binders.any(|binder| binder.sizes().any(|size| binder.waiting(size) > 0))
    }
}

impl AttemptBinding {
    pub(super) fn new(attempt: ApplicationAttemptId, user: Digest) -> Self {
        Self {
            state: Mutex::new(State {
                attempt,
                user,
                binders: BTreeMap::new(),
                reserved: BTreeSet::new(),
                rate: MESSAGES,
                others: Vec::new(),
                called: None,
                pause_ms: FIRST_PAUSE_MS,
            }),
            bound: Notify::new(),
        }
    }

    /// Takes what the AM's call wants, and reserves for it.
    pub(crate) fn wants(
        &self,
        late: &LateBinding,
        wishes: &[Wish],
        run: ExpectedRun,
        nodes: &KnownNodes,
    ) -> Wanted {
        let now = late.now();
        let mut others = None;
        let letters = {
            let rests = late.rests();
            let rests_now = |known: &KnownNode| rests.has(&known.node().node_id, now);
            let any_rests = !rests.is_empty();
            let mut state = lock(&self.state);
            let state = &mut *state;
            if let Some(called) = state.called.replace(now) {
                // A call out of turn says nothing of the next one.
                let before_ms = state.pause_ms - state.pause_ms / 8;
                let pause_ms = now.since(called).max(before_ms);
                state.pause_ms = pause_ms.max(FIRST_PAUSE_MS);
            }
            if !state.rate.allows(now) {
                return Wanted::default();
            }
            if any_rests || !state.others.is_empty() {
                let resting = nodes.iter().filter(|known| rests_now(known)).cloned();
                others = state.other_nodes(resting.collect());
            }
            let mut letters = state.void_unwanted(wishes, now);
            for wish in wishes {
                let usable = wish.usable.as_deref();
                let of_partition = usable.unwrap_or_else(|| nodes.of_partition(&wish.partition));
                let awake: Vec<KnownNode>;
                let usable_now = if any_rests {
                    let all = of_partition.iter().filter(|known| !rests_now(known));
                    awake = all.cloned().collect();
                    &awake
                } else {
                    of_partition
                };
                let binder = state.binders.entry(wish.partition.clone());
                let seed = rand::random();
                let binder = binder.or_insert_with(|| Binder::new(state.attempt, state.user, seed));
                if any_rests || wish.usable.is_some() {
                    let usable: BTreeSet<&KnownNode> = usable_now.iter().collect();
                    binder.retain_nodes(|known| usable.contains(known));
                }
                let told = binder.wants(wish.size, wish.wanted, run, usable_now, now);
                letters.extend(told);
            }
            let reserved = letters.iter().map(|(known, _)| known.clone());
            state.reserved.extend(reserved);
            state.rate.spend(letters.len());
            letters
        };
        let reserves = letters
            .iter()
            .any(|(_, reservation)| reservation.waiting > 0);
        let letters = letters.into_iter();
        let letters = letters.map(|(known, news)| (known.node().node_id.clone(), news));
        late.send(letters.collect());
        Wanted { reserves, others }
    }

    /// Binds tasks to what a node offers.
    pub(super) fn offered(&self, node: &NodeId, offer: &Offer<()>, now: MonoMillis) -> OfferAnswer {
        let mut state = lock(&self.state);
        let within_ms = state.within_ms();
        let state = &mut *state;
        let Some(known) = state.reserved.get(node) else {
            return OfferAnswer::NOTHING;
        };
        let binder = state.binders.get_mut(&known.node().partition);
        let answer = binder.map_or(OfferAnswer::NOTHING, |binder| {
            binder.offered(known, (offer.size, offer.rooms), within_ms, now)
        });
        if answer.bound > 0 {
            self.bound.notify_one();
        }
        answer
    }

    /// Waits a moment until all tasks are bound that wait.
    pub(crate) async fn first_offers(&self) {
        let deadline = Instant::now() + OFFERS_WAIT_MAX;
        while lock(&self.state).waiting() {
            if timeout_at(deadline, self.bound.notified()).await.is_err() {
                return;
            }
        }
    }

    /// Forgets nodes that take no containers any more, with the tasks that are bound to them.
    pub(crate) fn forget(&self, gone: &BTreeSet<NodeId>) {
        let mut state = lock(&self.state);
        for binder in state.binders.values_mut() {
            binder.retain_nodes(|known| !gone.contains(&known.node().node_id));
        }
    }

    /// Takes the nodes to which tasks are bound.
    pub(crate) fn take(&self) -> Vec<BoundNodes> {
        let mut state = lock(&self.state);
        let mut taken = Vec::new();
        for (partition, binder) in &mut state.binders {
            let sizes: Vec<_> = binder.sizes().collect();
            for size in sizes {
                let nodes = binder.take_bound(size);
                if !nodes.is_empty() {
                    taken.push(BoundNodes {
                        partition: partition.clone(),
                        size,
                        nodes,
                    });
                }
            }
        }
        taken
    }

    /// Takes back nodes that no container was made for.
    pub(crate) fn keep(&self, left: Vec<BoundNodes>) {
        let mut state = lock(&self.state);
        for BoundNodes {
            partition,
            size,
            nodes,
        } in left
        {
            if let Some(binder) = state.binders.get_mut(&partition) {
                binder.keep_bound(size, nodes);
            }
        }
    }
}

impl State {
    /// Takes the nodes that take no reservations. Returns them if they are others than before.
    fn other_nodes(&mut self, others: Vec<KnownNode>) -> Option<Arc<KnownNodes>> {
        if others == self.others {
            return None;
        }
        self.others = others;
        Some(Arc::new(self.others.iter().cloned().collect()))
    }

    /// Voids the reservations of sizes that are not wanted any more.
    fn void_unwanted(&mut self, wishes: &[Wish], now: MonoMillis) -> Vec<(KnownNode, Reservation)> {
        let mut letters = Vec::new();
        for (partition, binder) in &mut self.binders {
            let sizes: Vec<_> = binder.sizes().collect();
            let is_wanted = |size| {
                let mut wishes = wishes.iter();
                wishes.any(|wish| wish.size == size && wish.partition == *partition)
            };
            for size in sizes.into_iter().filter(|size| !is_wanted(*size)) {
                let run = ExpectedRun::AtLeast(0);
                letters.extend(binder.wants(size, 0, run, &[], now));
            }
        }
        if wishes.is_empty() {
            // All is void with these letters.
            self.binders.clear();
            self.reserved.clear();
        }
        letters
    }
}
