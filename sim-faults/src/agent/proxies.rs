//! Proxies of other nodes, which reserve here and answer offers: some late, some twice, some never.
//! What they do takes no container away and gives none; nothing but the core sees it.

use node_core::WorkerEvent;
use records::{ApplicationAttemptId, ApplicationId, MonoMillis, NodeId, Resource};
use sched::{
    ContainerSpec, Digest, ExpectedRun, HELD_MAX_MS, OFFER_LIFE_MS, Offer, OfferAnswer, OfferId,
    Reservation,
};
use sim::Random;

use super::Agent;
use crate::context::Context;
use crate::event::AgentEvent;
use crate::finding::{Checked, Finding};
use crate::scenario::CAPACITY;

/// Nodes with proxies.
const PROXIES: u64 = 4;

/// Parts per million of the node's heartbeats with which a reservation comes.
const RESERVES: u32 = 300_000;

/// Parts per million of offers without an answer.
const UNANSWERED: u32 = 100_000;

/// Parts per million of answers that come twice.
const DOUBLED: u32 = 100_000;

/// Milliseconds until an answer. An offer is void before the longest.
const ANSWER_MS: std::ops::RangeInclusive<u64> = 0..=700;

/// Size of a container of which nothing has come here.
const SIZE: Resource = Resource::new(1_024, 1);

/// Memory of the proxies.
#[derive(Debug)]
pub(super) struct Proxies {
    random: Random,
    /// Attempt and size of the container that was launched here last.
    last: Option<(ApplicationAttemptId, Resource)>,
    /// Capacity of the node.
    capacity: Resource,
    /// Capacity before that, and the time until which room may be held that was offered then.
    before: (Resource, MonoMillis),
}

impl Proxies {
    pub(super) const fn new(random: Random) -> Self {
        Self {
            random,
            last: None,
            capacity: CAPACITY,
            before: (CAPACITY, MonoMillis(0)),
        }
    }

    /// Notes the capacity of the node. A ResourceManager that makes it smaller takes nothing of
    /// what was held before.
    fn capacity_is(&mut self, capacity: Resource, now: MonoMillis) {
        if capacity != self.capacity {
            let until = MonoMillis(now.0 + OFFER_LIFE_MS + HELD_MAX_MS);
            self.before = (self.capacity, until);
            self.capacity = capacity;
        }
    }

    /// Returns the most that may be held.
    fn held_max(&self, now: MonoMillis) -> Resource {
        let (before, until) = self.before;
        if now < until && self.capacity.fits_in(before) {
            before
        } else {
            self.capacity
        }
    }

    /// Notes a container that is launched: its attempt may reserve.
    pub(super) fn saw(&mut self, spec: &ContainerSpec) {
        self.last = Some((spec.id.attempt, spec.resource));
    }

    fn node(number: u64) -> NodeId {
        let port = 8_041;
        let host = format!("proxy{number}");
        NodeId { host, port }
    }

    /// Returns a reservation of a random proxy, for an attempt with containers here or another.
    fn reservation(&mut self) -> (NodeId, Reservation) {
        let random = &mut self.random;
        let other = || {
            let id = ApplicationId {
                cluster_timestamp: 1,
                id: 1,
            };
            (id.attempt(1), SIZE)
        };
        let (attempt, size) = self
            .last
            .filter(|_| random.chance(800_000))
            .unwrap_or_else(other);
        let run = match random.chance(500_000) {
            true => ExpectedRun::Mean(random.below(100_000)),
            false => ExpectedRun::AtLeast(random.below(10_000)),
        };
        let number = |random: &mut Random, most| u32::try_from(random.below(most)).unwrap_or(0);
        let reservation = Reservation {
            attempt,
            user: Digest([number(random, 3), 0, 0, 0]),
            size,
            waiting: number(random, 20),
            run,
            given_back: number(random, 3),
        };
        (Self::node(random.below(PROXIES)), reservation)
    }

    fn answer(&mut self, rooms: u32) -> OfferAnswer {
        let random = &mut self.random;
        let number =
            |random: &mut Random, most: u64| u32::try_from(random.below(most)).unwrap_or(0);
        OfferAnswer {
            // More than was offered, now and then.
            bound: number(random, u64::from(rooms) + 2),
            waiting: number(random, 20),
            run: ExpectedRun::Mean(random.below(100_000)),
            within_ms: random.below(10_000),
        }
    }
}

impl Agent {
    /// Has a proxy reserve, now and then.
    pub(super) fn proxies_reserve(&mut self, context: &mut Context) {
        if !self.proxies.random.chance(RESERVES) {
            return;
        }
        let (from, reservation) = self.proxies.reservation();
        let now = self.now(context);
        // A refusal is a wish that is not heard.
        let _refusal = self.shell.core.reserve(from, &reservation, now);
    }

    /// Has the proxy that gets an offer answer it.
    pub(super) fn answer_offer(&mut self, offer: &Offer<NodeId>, context: &mut Context) {
        let now = self.now(context).mono;
        context.check(self.room_is_held(now));
        let random = &mut self.proxies.random;
        if random.chance(UNANSWERED) {
            return;
        }
        let times = 1 + u32::from(random.chance(DOUBLED));
        let answer = self.proxies.answer(offer.rooms);
        for _ in 0..times {
            let delay = self.proxies.random.within(ANSWER_MS);
            self.offer_is_answered(offer.to.clone(), offer.id, answer, delay, context);
        }
    }

    fn offer_is_answered(
        &self,
        from: NodeId,
        id: OfferId,
        answer: OfferAnswer,
        delay: u64,
        context: &mut Context,
    ) {
        let event = AgentEvent::Work(WorkerEvent::OfferAnswered { from, id, answer });
        context.agent_in(delay, self.node, self.incarnation, event);
    }

    /// Has the proxies know the capacity of the node, before what changed it has other effects.
    pub(super) fn capacity_is_known(&mut self, now: MonoMillis) {
        let capacity = self.shell.core.numbers().total;
        self.proxies.capacity_is(capacity, now);
    }

    /// Checks that no more is held than the node has.
    fn room_is_held(&mut self, now: MonoMillis) -> Checked {
        self.capacity_is_known(now);
        let (held, most) = (self.shell.core.numbers().held, self.proxies.held_max(now));
        if held.fits_in(most) {
            return Ok(());
        }
        Err(Finding {
            what: format!("{held} is held on a node of {most}"),
            containers: Vec::new(),
            node: Some(self.node),
        })
    }
}
