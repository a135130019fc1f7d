//! Many masters, their pipelines without threads or sockets, and a ResourceManager, played from a seed: calls fail before and
//! after the ResourceManager has carried them out, answers get lost on either side of the node, the ResourceManager is
//! restarted and its nodes come back one by one, its key and the node's roll. In the end every master has what it asked for,
//! guaranteed and opportunistic, each container once and fit to be started, the ResourceManager knows of each, and no
//! master has noticed a restart.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

mod master;
mod rm;

use std::time::Duration;

use records::MonoMillis;
use sched::{Draw, SplitMix64};
use wire::secrets::{AmrmTokenSecretManager, RollTimes};

use crate::master::{Master, Mishap, Trouble};
use crate::rm::Rm;

/// The node's key: rolls several times, and each time every master has some twenty calls to hear of it.
const KEYS: RollTimes = RollTimes {
    interval: 60_000,
    overlap: 25_000,
};

/// Between two rounds of heartbeats.
const ROUND: Duration = Duration::from_secs(1);

/// Rounds with trouble; after them there is none, and all has to come.
const TROUBLED: u64 = 250;

/// Rounds until everything has to be there.
const ROUNDS_MAX: u64 = 320;

/// Rounds afterwards in which nothing may come.
const QUIET: u64 = 5;

/// Everybody, and the random choices.
struct World {
    random: SplitMix64,
    secrets: AmrmTokenSecretManager,
    rm: Rm,
    masters: Vec<Master>,
    round: u64,
    restarts: u32,
}

impl World {
    fn new(seed: u64, masters: i32) -> Self {
        let secrets = AmrmTokenSecretManager::new(KEYS, MonoMillis(0));
        Self {
            random: SplitMix64::new(seed),
            masters: (1..=masters)
                .map(|number| Master::new(number, &secrets))
                .collect(),
            secrets,
            rm: Rm::new(),
            round: 0,
            restarts: 0,
        }
    }

    /// One chance in `of`.
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
        // Most calls are one.
        let at = if self.chance(4) {
            1 + self.random.below(2)
        } else {
            0
        };
        Mishap { trouble, at }
    }

    /// Most masters call once, in an order that never matters.
    fn play_round(&mut self) {
        self.round += 1;
        let now = MonoMillis(self.round * u64::try_from(ROUND.as_millis()).unwrap());
        self.secrets.tick(now);
        if self.is_troubled() && self.chance(50) {
            let started = self
                .masters
                .iter()
                .map(|master| (master.attempt, master.got()))
                .collect();
            self.rm.restart(&started);
            self.restarts += 1;
        }
        for node in self.rm.absent() {
            if self.chance(4) {
                self.rm.node_registers(node);
            }
        }
        for number in 0..self.masters.len() {
            if self.chance(4) {
                continue;
            }
            let asks = self.chance(8) && self.is_troubled();
            let reconnects = self.chance(10);
            let renews = self.chance(40);
            let mishap = self.mishap();
            let is_guaranteed = self.chance(2);
            let master = &mut self.masters[number];
            if asks {
                let count = 1 + i32::try_from(self.random.below(6)).unwrap();
                master.want(count, is_guaranteed);
            }
            if reconnects {
                master.reconnect(&self.secrets);
            }
            self.rm.renews_token = renews;
            master.call(&mut self.rm, &self.secrets, mishap, now);
        }
    }

    fn is_done(&self) -> bool {
        !self.is_troubled() && self.masters.iter().all(Master::is_satisfied)
    }
}

/// Of so many containers one may be refused by its node: when a ResourceManager ends right after this node has registered
/// with it, the node signs for it until it hears of the next.
const REFUSED_OF: usize = 100;

/// What happened, added up.
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

fn assert_nothing_lost_and_nothing_twice(seed: u64, masters: i32, tally: &mut Tally) {
    let mut world = World::new(seed, masters);
    while !world.is_done() {
        assert!(
            world.round < ROUNDS_MAX,
            "seed {seed}: not all came: {:?}",
            world.masters.iter().find(|master| !master.is_satisfied())
        );
        world.play_round();
    }
    for _ in 0..QUIET {
        world.play_round();
    }
    for master in &world.masters {
        let (got, told) = (master.got(), world.rm.told(master.attempt));
        assert_eq!(got.len(), master.wanted(), "seed {seed}: {master:?}");
        let unknown: Vec<_> = got.difference(&told).collect();
        assert!(
            unknown.is_empty(),
            "seed {seed}: {} has containers that nobody told the ResourceManager of: {unknown:?}",
            master.attempt
        );
        assert!(master.renewals() >= 2, "seed {seed}: the key did not roll");
    }
    tally.restarts += world.restarts;
    for master in &world.masters {
        tally.refused += master.refused();
        tally.got += master.wanted();
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
