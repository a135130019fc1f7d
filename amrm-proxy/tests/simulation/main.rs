//! Simulation from a seed: many AMs, their pipelines without threads or sockets, and a
//! ResourceManager. Calls fail before and after the ResourceManager has executed them, answers are
//! lost on either side of the node, the ResourceManager restarts and its nodes register again one
//! by one, and the keys of ResourceManager and node roll. In the end every AM has what it
//! requested, guaranteed and opportunistic, each container once and able to start, the
//! ResourceManager knows each container, and no AM has noticed a restart.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod am;
mod rm;

use std::time::Duration;

use records::MonoMillis;
use sched::{Draw, SplitMix64};
use wire::secrets::{AmrmTokenSecretManager, RollTimes};

use crate::am::{Mishap, SimulatedAm, Trouble};
use crate::rm::Rm;

/// Lifetime of the node's key, which rolls several times. Each time every AM makes some twenty
/// calls in which it can get the new token.
const KEYS: RollTimes = RollTimes {
    interval: 60_000,
    overlap: 25_000,
};

/// Time between two rounds of heartbeats.
const ROUND: Duration = Duration::from_secs(1);

/// Rounds with faults; in the rounds after them everything must arrive.
const TROUBLED: u64 = 250;

/// Rounds after which everything must have arrived.
const ROUNDS_MAX: u64 = 320;

/// Rounds afterwards in which nothing more may arrive.
const QUIET: u64 = 5;

/// Participants of the simulation, and its random numbers.
struct World {
    random: SplitMix64,
    secrets: AmrmTokenSecretManager,
    rm: Rm,
    ams: Vec<SimulatedAm>,
    round: u64,
    restarts: u32,
}

impl World {
    fn new(seed: u64, ams: i32) -> Self {
        let secrets = AmrmTokenSecretManager::new(KEYS, MonoMillis(0));
        Self {
            random: SplitMix64::new(seed),
            ams: (1..=ams)
                .map(|number| SimulatedAm::new(number, &secrets))
                .collect(),
            secrets,
            rm: Rm::new(),
            round: 0,
            restarts: 0,
        }
    }

    /// Returns `true` with probability 1 in `of`.
    fn chance(&mut self, of: usize) -> bool {
        self.random.below(of) == 0
    }

    fn is_troubled(&self) -> bool {
        self.round < TROUBLED
    }

    fn mishap(&mut self) -> Mishap {
        let trouble = match self.random.below(20) {
            _ if !self.is_troubled() => Trouble::None,
            0 => Trouble::Refused,
            1 => Trouble::AnswerLostByRm,
            2 => Trouble::AnswerLostByNode,
            _ => Trouble::None,
        };
        // Most AM calls need only one call to the ResourceManager.
        let at = if self.chance(4) {
            1 + self.random.below(2)
        } else {
            0
        };
        Mishap { trouble, at }
    }

    /// Lets most AMs call once. Their order never matters.
    fn play_round(&mut self) {
        self.round += 1;
        let now = MonoMillis(self.round * u64::try_from(ROUND.as_millis()).unwrap());
        self.secrets.tick(now);
        if self.is_troubled() && self.chance(50) {
            let started = self.ams.iter().map(|am| (am.attempt, am.got())).collect();
            self.rm.restart(&started);
            self.restarts += 1;
        }
        for node in self.rm.absent() {
            if self.chance(4) {
                self.rm.node_registers(node);
            }
        }
        for number in 0..self.ams.len() {
            if self.chance(4) {
                continue;
            }
            let asks = self.chance(8) && self.is_troubled();
            let reconnects = self.chance(10);
            let renews = self.chance(40);
            let mishap = self.mishap();
            let is_guaranteed = self.chance(2);
            let am = &mut self.ams[number];
            if asks {
                let count = 1 + i32::try_from(self.random.below(6)).unwrap();
                am.want(count, is_guaranteed);
            }
            if reconnects {
                am.reconnect(&self.secrets);
            }
            self.rm.renews_token = renews;
            am.call(&mut self.rm, &self.secrets, mishap, now);
        }
    }

    fn is_done(&self) -> bool {
        !self.is_troubled() && self.ams.iter().all(SimulatedAm::is_satisfied)
    }
}

/// Share of containers that may be refused by their nodes: one in so many. When a ResourceManager
/// ends directly after this node has registered with it, the node signs for it until it learns of
/// the next one.
const REFUSED_OF: usize = 100;

/// Sums of the events.
#[derive(Default)]
struct Tally {
    restarts: u32,
    refused: usize,
    got: usize,
}

impl Tally {
    fn assert_few_refused(&self) {
        let Self {
            restarts,
            refused,
            got,
        } = self;
        assert!(
            *refused <= got / REFUSED_OF,
            "nodes refuse {refused} of {got}, with {restarts} restarts"
        );
    }
}

fn assert_nothing_lost_and_nothing_twice(seed: u64, ams: i32, tally: &mut Tally) {
    let mut world = World::new(seed, ams);
    while !world.is_done() {
        assert!(
            world.round < ROUNDS_MAX,
            "seed {seed}: not all came: {:?}",
            world.ams.iter().find(|am| !am.is_satisfied())
        );
        world.play_round();
    }
    for _ in 0..QUIET {
        world.play_round();
    }
    for am in &world.ams {
        let (got, told) = (am.got(), world.rm.reported(am.attempt));
        assert_eq!(got.len(), am.wanted(), "seed {seed}: {am:?}");
        let unknown: Vec<_> = got.difference(&told).collect();
        assert!(
            unknown.is_empty(),
            "seed {seed}: {} has containers that nobody told the ResourceManager of: {unknown:?}",
            am.attempt
        );
        let kept: Vec<_> = told
            .iter()
            .filter(|id| !got.contains(id) && !am.refused().contains(id))
            .collect();
        assert!(
            kept.is_empty(),
            "seed {seed}: {} was not given {kept:?}, which nobody released",
            am.attempt
        );
        assert!(am.renewals() >= 2, "seed {seed}: the key did not roll");
    }
    tally.restarts += world.restarts;
    for am in &world.ams {
        tally.refused += am.refused().len();
        tally.got += am.wanted();
    }
}

#[test]
fn five_hundred_masters_get_each_container_once() {
    let mut tally = Tally::default();
    assert_nothing_lost_and_nothing_twice(1, 500, &mut tally);
    assert!(tally.restarts > 0);
    tally.assert_few_refused();
}

#[test]
fn few_masters_get_each_container_once_whatever_the_seed() {
    let mut tally = Tally::default();
    for seed in 2..=60 {
        assert_nothing_lost_and_nothing_twice(seed, 12, &mut tally);
    }
    assert!(tally.restarts > 100, "{}", tally.restarts);
    tally.assert_few_refused();
}
