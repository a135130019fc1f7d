//! Late binding by reservations: `sched`'s table on each node, and its binder and allocator at the
//! proxy of each job. Messages between proxies and nodes take `message-ms`; the answer to a call
//! waits `look-ms` for the first offers.
//!
//! With hints a proxy knows the mean length of its job's tasks, as if from earlier runs. Without,
//! it knows what it has learnt from the job's containers that have ended, and nodes take their own
//! mean for those of which nothing is known.

use std::collections::BTreeMap;

use records::{ContainerExitStatus, ContainerId, MonoMillis};
use sched::{
    Binder, BoundNodes, ContainerQueuingLimit, Digest, DistributedAllocatorConfig,
    DistributedOpportunisticContainerAllocator, ExpectedRun, KnownNode, NodeList, NodeLoad, Offer,
    OfferAnswer, OfferId, Placement, Reservation, ReservationTable, RunProfile,
};

use super::distributed::GRANT;
use super::look::remote;
use super::managed::{Loads as _, Shipped};
use super::placer::{MasterCall, Placed, Placer, application_of, ask};
use crate::measure::Cost;
use crate::node::{Node, SIZE, number_of};
use crate::scenario::Settings;

/// Time, in milliseconds, in which a proxy expects its master to start what was bound: the longest
/// that a node waits for it.
const WITHIN_MS: u64 = sched::HELD_MAX_MS;

/// Message between the proxy of a job and a node, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Letter {
    /// To the node.
    Reserve {
        job: usize,
        node: usize,
        reservation: Reservation,
    },
    /// To the proxy.
    Offer { node: usize, offer: Offer<usize> },
    /// To the node.
    Answer {
        job: usize,
        node: usize,
        id: OfferId,
        answer: OfferAnswer,
    },
}

/// Proxy of a job.
struct Proxy {
    allocator: DistributedOpportunisticContainerAllocator,
    binder: Binder<KnownNode>,
}

pub(crate) struct Reserving {
    message_ms: u64,
    look_ms: u64,
    bound_factor: u32,
    loads: Shipped,
    /// Hint of each job's containers; empty: none.
    hints: Vec<RunProfile>,
    all: Vec<KnownNode>,
    /// Nodes that are not lost.
    known: Vec<KnownNode>,
    tables: Vec<ReservationTable<usize>>,
    jobs: BTreeMap<usize, Proxy>,
    /// Messages that have not been sent.
    letters: Vec<Letter>,
    cost: Cost,
}

impl Reserving {
    pub(super) fn new(settings: &Settings, hints: Vec<RunProfile>, nodes: usize) -> Self {
        let all: Vec<KnownNode> = (0..nodes).map(remote).map(KnownNode::from).collect();
        let bound_factor = settings.queue_bound_factor;
        Self {
            message_ms: settings.message_ms,
            look_ms: settings.look_ms,
            bound_factor,
            loads: Shipped::new(settings, nodes),
            hints,
            known: all.clone(),
            all,
            tables: (0..nodes)
                .map(|_| ReservationTable::new(bound_factor))
                .collect(),
            jobs: BTreeMap::new(),
            letters: Vec::new(),
            cost: Cost::default(),
        }
    }

    /// Returns the time that a message takes.
    pub(crate) const fn message_ms(&self) -> u64 {
        self.message_ms
    }

    /// Returns the time for which the answer to a call waits for offers.
    pub(crate) const fn look_ms(&self) -> u64 {
        self.look_ms
    }

    /// Takes the messages to send.
    pub(crate) fn take_letters(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.letters)
    }

    /// Has a message arrive. Returns the node that it has reached.
    pub(crate) fn deliver(
        &mut self,
        letter: Letter,
        nodes: &[Node],
        now: MonoMillis,
    ) -> Option<usize> {
        match letter {
            Letter::Reserve {
                job,
                node,
                reservation,
            } => {
                self.cost.looks += 1;
                if !nodes[node].is_up {
                    return None;
                }
                let table = &mut self.tables[node];
                table.set_unknown_run_ms(nodes[node].unknown_run_ms());
                // A refusal is a wish that is not heard: the proxy renews it.
                let _refusal = table.reserve(job, &reservation, now);
                Some(node)
            }
            Letter::Offer { node, offer } => {
                let job = offer.to;
                let (size, rooms) = (offer.size, offer.rooms);
                let answer = match self.jobs.get_mut(&job) {
                    Some(proxy) => {
                        let known = &self.all[node];
                        proxy.binder.offered(known, (size, rooms), WITHIN_MS, now)
                    }
                    None => OfferAnswer::NOTHING,
                };
                let id = offer.id;
                self.letters.push(Letter::Answer {
                    job,
                    node,
                    id,
                    answer,
                });
                None
            }
            Letter::Answer {
                job,
                node,
                id,
                answer,
            } => {
                self.cost.looks += 1;
                if !nodes[node].is_up {
                    return None;
                }
                // An answer that is too late: the room went to the next one.
                let _refusal = self.tables[node].answered(&job, id, answer, now);
                Some(node)
            }
        }
    }

    /// Has a node offer the room that it has.
    pub(crate) fn settle(&mut self, node: usize, nodes: &[Node], now: MonoMillis) {
        let Some(sight) = nodes[node].sight(now) else {
            return;
        };
        if sight.queued > 0 {
            return;
        }
        while let Some(offer) = self.tables[node].offer(sight.free, now) {
            self.letters.push(Letter::Offer { node, offer });
        }
    }

    /// Notes that a container has reached its node.
    pub(crate) fn arrived(&mut self, node: usize, id: &ContainerId) {
        self.tables[node].arrived(id.attempt, SIZE);
    }

    /// Returns the time at which room of a node becomes free because something is over.
    pub(crate) fn next_deadline(&self, node: usize) -> Option<MonoMillis> {
        self.tables[node].next_deadline()
    }

    /// Ends a node with its reservations.
    pub(crate) fn node_fails(&mut self, node: usize) {
        self.tables[node] = ReservationTable::new(self.bound_factor);
    }

    /// Returns the containers of the answer to a job's last call.
    pub(crate) fn answer(&mut self, job: usize, now: MonoMillis) -> Vec<Placed> {
        let Some(Proxy { allocator, binder }) = self.jobs.get_mut(&job) else {
            return Vec::new();
        };
        let bound = BoundNodes {
            partition: String::new(),
            size: SIZE,
            nodes: binder.take_bound(SIZE),
        };
        let left = allocator.allocate_bound(vec![bound], None, now);
        binder.keep_bound(SIZE, left.into_iter().flat_map(|bound| bound.nodes));
        let given = allocator.confirmed(NodeList::default(), now);
        let placed = given.iter().filter_map(|allocation| {
            Some(Placed::opportunistic(
                allocation.container.container_id,
                number_of(&allocation.container.node_id)?,
            ))
        });
        placed.collect()
    }

    fn register(&mut self, job: usize, now: MonoMillis) -> Proxy {
        // The registration is a call.
        self.cost.rm_calls += 1;
        let config = DistributedAllocatorConfig {
            placement: Placement::Look,
            ..DistributedAllocatorConfig::default()
        };
        let attempt = application_of(job).attempt(1);
        let mut allocator = DistributedOpportunisticContainerAllocator::new(attempt, config);
        allocator.registered(GRANT, NodeList::default(), now);
        let user = self.hints.get(job).map_or(Digest([0; 4]), |hint| hint.user);
        Proxy {
            allocator,
            binder: Binder::new(attempt, user, job as u64),
        }
    }
}

impl Placer for Reserving {
    fn node_beats(
        &mut self,
        node: usize,
        load: &NodeLoad,
        _ended: &[(ContainerId, ContainerExitStatus)],
        now: MonoMillis,
    ) {
        self.loads.update(node, load, now);
    }

    fn job_arrives(&mut self, _job: usize, _now: MonoMillis) {}

    fn master_calls(
        &mut self,
        call: &MasterCall,
        ended: &[(ContainerId, ContainerExitStatus)],
        _nodes: &[Node],
    ) -> Vec<Placed> {
        self.cost.rm_calls += 1;
        let (job, now) = (call.job, call.now);
        let mut proxy = match self.jobs.remove(&job) {
            Some(proxy) => proxy,
            None => self.register(job, now),
        };
        let Proxy { allocator, binder } = &mut proxy;
        // One line of one ask is within every bound of an attempt.
        let updated = allocator.update_asks(&[ask(call.wanted)], now);
        debug_assert_eq!(updated, Ok(()));
        for (id, status) in ended {
            allocator.container_ended(*id, *status, now);
        }
        let hint = self.hints.get(job).and_then(|hint| hint.hint_ms);
        let run = hint.map_or_else(|| allocator.expected_run(now), ExpectedRun::Mean);
        for (node, reservation) in binder.wants(SIZE, call.wanted, run, &self.known, now) {
            if let Some(node) = number_of(&node.node().node_id) {
                self.letters.push(Letter::Reserve {
                    job,
                    node,
                    reservation,
                });
            }
        }
        self.jobs.insert(job, proxy);
        Vec::new()
    }

    fn node_is_lost(&mut self, node: usize) {
        self.loads.remove(node);
        let lost = &self.all[node];
        self.known.retain(|known| known != lost);
        for proxy in self.jobs.values_mut() {
            proxy.binder.retain_nodes(|node| node != lost);
        }
    }

    fn node_joins(&mut self, node: usize) {
        self.known.push(self.all[node].clone());
    }

    fn job_ends(&mut self, job: usize, _now: MonoMillis) {
        self.jobs.remove(&job);
    }

    fn tick(&mut self, now: MonoMillis) {
        self.loads.sort(now);
    }

    fn queuing_limit(&self) -> ContainerQueuingLimit {
        self.loads.queuing_limit()
    }

    fn reserving(&self) -> Option<&Reserving> {
        Some(self)
    }

    fn reserving_mut(&mut self) -> Option<&mut Reserving> {
        Some(self)
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}
