//! Late binding on small clusters whose messages are lost, doubled and late: tables of nodes and
//! binders of proxies together.

#![expect(clippy::unwrap_used, reason = "helpers of a test, which they fail")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use records::{ApplicationAttemptId, MonoMillis, Resource};
use sched::{
    Binder, Digest, ExpectedRun, HELD_MAX_MS, OFFER_LIFE_MS, Offer, OfferAnswer, OfferId,
    Reservation, ReservationTable,
};
use test_support::ids::application;

const SIZE: Resource = Resource::new(1_024, 1);

/// Interval of the masters' calls in milliseconds.
const CALL_MS: u64 = 1_000;

/// Places of each node.
const PLACES: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Message {
    Reserve(usize, usize, Reservation),
    Offer(usize, Offer<usize>),
    Answer(usize, usize, OfferId, OfferAnswer),
}

/// Step of a run.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// A message arrives; the number chooses one of those on their way.
    Deliver(usize),
    /// A message is lost.
    Lose(usize),
    /// A message arrives, and does so again later.
    Double(usize),
    /// A master calls.
    Call(usize),
    /// A container ends.
    End(usize),
    /// This many milliseconds pass.
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => any::<usize>().prop_map(Op::Deliver),
        1 => any::<usize>().prop_map(Op::Lose),
        1 => any::<usize>().prop_map(Op::Double),
        3 => any::<usize>().prop_map(Op::Call),
        3 => any::<usize>().prop_map(Op::End),
        2 => (1..3_000_u64).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 0..400)
}

/// Attempt with its master.
struct Job {
    attempt: ApplicationAttemptId,
    binder: Binder<usize>,
    /// Tasks without a container.
    wanted: u32,
    /// Containers that the master has got.
    got: u32,
}

#[derive(Default)]
struct Site {
    /// Containers with a place.
    running: u32,
    /// Containers that wait because their room has gone to others.
    queued: u32,
}

struct Cluster {
    now: MonoMillis,
    tables: Vec<ReservationTable<usize>>,
    sites: Vec<Site>,
    jobs: Vec<Job>,
    messages: Vec<Message>,
}

impl Cluster {
    fn new(nodes: usize, tasks: &[u32]) -> Self {
        let job = |(number, wanted): (i32, &u32)| {
            let attempt = application(number).attempt(1);
            let user = Digest([number.cast_unsigned(), 0, 0, 0]);
            Job {
                attempt,
                binder: Binder::new(attempt, user, u64::from(user.0[0])),
                wanted: *wanted,
                got: 0,
            }
        };
        Self {
            now: MonoMillis(0),
            tables: (0..nodes).map(|_| ReservationTable::new(10)).collect(),
            sites: (0..nodes).map(|_| Site::default()).collect(),
            jobs: (1..).zip(tasks).map(job).collect(),
            messages: Vec::new(),
        }
    }

    /// Has a master call: it starts what was bound, and tells what it wants.
    fn call(&mut self, number: usize) {
        let nodes: Vec<usize> = (0..self.sites.len()).collect();
        let job = &mut self.jobs[number];
        let run = ExpectedRun::Mean(1_000);
        let told = job.binder.wants(SIZE, job.wanted, run, &nodes, self.now);
        let told = told.into_iter();
        self.messages
            .extend(told.map(|(node, news)| Message::Reserve(number, node, news)));
        let (attempt, bound) = (job.attempt, job.binder.take_bound(SIZE));
        let count = u32::try_from(bound.len()).unwrap();
        // No task gets two containers.
        assert!(count <= job.wanted, "{count} {}", job.wanted);
        job.wanted -= count;
        job.got += count;
        for node in bound {
            self.tables[node].arrived(attempt, SIZE);
            self.sites[node].queued += 1;
            self.settle(node);
        }
    }

    fn end(&mut self, node: usize) {
        self.sites[node].running = self.sites[node].running.saturating_sub(1);
        self.settle(node);
    }

    /// Starts what waits on a node, and offers the room that is left.
    fn settle(&mut self, node: usize) {
        let site = &mut self.sites[node];
        let starts = site.queued.min(PLACES - site.running);
        site.running += starts;
        site.queued -= starts;
        let free = PLACES - site.running;
        let room = Resource::new(SIZE.memory_mb * u64::from(free), free);
        if site.queued == 0 {
            while let Some(offer) = self.tables[node].offer(room, self.now) {
                assert!(offer.rooms > 0 && offer.size == SIZE);
                // No room is given twice.
                assert!(self.tables[node].held().fits_in(room));
                self.messages.push(Message::Offer(node, offer));
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Reserve(job, node, news) => {
                assert_eq!(self.tables[node].reserve(job, &news, self.now), Ok(()));
                self.settle(node);
            }
            Message::Offer(node, offer) => {
                let binder = &mut self.jobs[offer.to].binder;
                let room = (offer.size, offer.rooms);
                let answer = binder.offered(&node, room, CALL_MS, self.now);
                let answer = Message::Answer(offer.to, node, offer.id, answer);
                self.messages.push(answer);
            }
            Message::Answer(job, node, id, answer) => {
                // An answer that is late or doubled is refused.
                let _refusal = self.tables[node].answered(&job, id, answer, self.now);
                self.settle(node);
            }
        }
    }

    fn wait(&mut self, time_ms: u64) {
        self.now = self.now + time_ms;
        for node in 0..self.sites.len() {
            self.settle(node);
        }
    }

    fn perform(&mut self, op: Op) {
        let chosen = |number: usize, of: usize| (of > 0).then(|| number % of);
        match op {
            Op::Deliver(number) => {
                if let Some(at) = chosen(number, self.messages.len()) {
                    let message = self.messages.swap_remove(at);
                    self.deliver(message);
                }
            }
            Op::Lose(number) => {
                if let Some(at) = chosen(number, self.messages.len()) {
                    self.messages.swap_remove(at);
                }
            }
            Op::Double(number) => {
                if let Some(at) = chosen(number, self.messages.len()) {
                    self.deliver(self.messages[at]);
                }
            }
            Op::Call(number) => self.call(number % self.jobs.len()),
            Op::End(number) => self.end(number % self.sites.len()),
            Op::Wait(time_ms) => self.wait(time_ms),
        }
    }

    fn has_work(&self) -> bool {
        self.jobs.iter().any(|job| job.wanted > 0)
    }

    /// Lets a second pass in which every message arrives, every master calls and every container
    /// ends.
    fn pass_second(&mut self) {
        self.wait(CALL_MS);
        for number in 0..self.jobs.len() {
            self.call(number);
        }
        while let Some(message) = self.messages.pop() {
            self.deliver(message);
        }
        for node in 0..self.sites.len() {
            for _ in 0..PLACES {
                self.end(node);
            }
        }
        while let Some(message) = self.messages.pop() {
            self.deliver(message);
        }
    }
}

proptest! {
    /// Every task gets one container, soon after messages arrive again, and nothing is held for
    /// ever, whatever was lost, doubled or late.
    #[test]
    fn every_task_gets_one_container(
        nodes in 1..5_usize,
        tasks in prop::collection::vec(1..12_u32, 1..4),
        ops in ops(),
    ) {
        let mut cluster = Cluster::new(nodes, &tasks);
        for op in ops {
            cluster.perform(op);
        }
        let all: u32 = tasks.iter().sum();
        // Reservations are renewed within five calls, and room of lost answers is free after that.
        let seconds = 10 + 2 * u64::from(all) + (HELD_MAX_MS + OFFER_LIFE_MS).div_ceil(1_000);
        let mut passed = 0;
        while cluster.has_work() {
            cluster.pass_second();
            passed += 1;
            prop_assert!(passed <= seconds, "{passed} s");
        }
        for (job, wanted) in cluster.jobs.iter().zip(&tasks) {
            prop_assert_eq!(job.got, *wanted);
        }
        // What is on its way arrives, and what nobody answers is over.
        cluster.pass_second();
        cluster.wait(HELD_MAX_MS + 10_000);
        for table in &mut cluster.tables {
            table.expire(cluster.now);
            prop_assert!(table.is_empty() && table.held() == Resource::new(0, 0));
        }
    }
}

/// Model of the choice: every reservation, looked at one by one.
fn chosen_plainly(
    entries: &BTreeMap<i32, (u64, u32, u64)>,
    bound_factor: u64,
    now_ms: u64,
) -> Option<i32> {
    let due = |(since_ms, _, run_ms): &(u64, u32, u64)| since_ms + bound_factor * run_ms;
    let overdue = entries.iter().filter(|(_, entry)| due(entry) <= now_ms);
    let overdue = overdue.min_by_key(|(number, entry)| (due(entry), **number));
    let left = |(_, waiting, run_ms): &(u64, u32, u64)| u64::from(*waiting) * run_ms;
    let least = entries.iter();
    let least = least.min_by_key(|(number, entry)| (left(entry), entry.0, **number));
    overdue.or(least).map(|(number, _)| *number)
}

proptest! {
    /// The indexes of a table choose as a walk over all reservations does.
    #[test]
    fn the_choice_is_that_of_a_walk_over_all(
        turns in prop::collection::vec((1..9_i32, 1..40_u32, 1..400_u64, 0..120_u64, any::<bool>()), 1..80),
    ) {
        let mut table = ReservationTable::new(10);
        let mut entries: BTreeMap<i32, (u64, u32, u64)> = BTreeMap::new();
        let mut now = MonoMillis(0);
        for (number, waiting, run_ms, passes_ms, is_news) in turns {
            now = now + passes_ms;
            if is_news {
                let news = Reservation {
                    attempt: application(number).attempt(1),
                    user: Digest([0; 4]),
                    size: SIZE,
                    waiting,
                    run: ExpectedRun::Mean(run_ms),
                    given_back: 0,
                };
                prop_assert_eq!(table.reserve(number, &news, now), Ok(()));
                let since_ms = entries.get(&number).map_or(now.0, |(since_ms, ..)| *since_ms);
                entries.insert(number, (since_ms, waiting, run_ms));
                continue;
            }
            let offer = table.offer(SIZE, now);
            let expected = chosen_plainly(&entries, 10, now.0);
            prop_assert_eq!(offer.map(|offer| offer.to), expected);
            let Some(offer) = offer else {
                continue;
            };
            let (_, before, run_ms) = entries[&offer.to];
            let answer = OfferAnswer {
                bound: 1,
                waiting: before - 1,
                run: ExpectedRun::Mean(run_ms),
                within_ms: 1_000,
            };
            prop_assert_eq!(table.answered(&offer.to, offer.id, answer, now), Ok(()));
            prop_assert!(table.arrived(offer.attempt, SIZE));
            match before {
                1 => entries.remove(&offer.to),
                _ => entries.insert(offer.to, (now.0, before - 1, run_ms)),
            };
        }
    }
}
