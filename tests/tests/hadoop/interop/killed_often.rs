//! The node is killed again and again, at random moments, while jobs run.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tests::cluster::Cluster;
use tests::conf::Options;
use tests::ports::Port;
use tests::rm::RmKind;
use tests::{map_reduce, require};

use crate::interop::{node_kind, start_cluster};

/// Room for the ApplicationMaster, which takes two, and some maps.
const SLOTS: u32 = 6;
/// Longest time for which a node lives, from the moment that it is started.
const LIFE_MAX_MS: u64 = 2_000;

#[test]
fn a_job_with_a_shuffle_succeeds_on_a_node_that_is_killed_while_it_runs() {
    require!(java, hadoop);
    let seed = seed();
    println!("NM_AGENT_SEED={seed}");
    let mut random = Random(seed);
    let options = Options::default().with("yarn.nodemanager.recovery.enabled", true);
    // Reducers come back to the port that they were told.
    let port = Port::reserve().release();
    let options = map_reduce::with_shuffle(options).with("mapreduce.shuffle.port", port);
    let mut cluster = start_cluster(&RmKind::Hadoop, SLOTS, options);
    let mut pi = map_reduce::start(&cluster.lab, "killed-pi", ["pi", "10", "100"]);
    let id = pi.application_id();
    let mut killed = 0;
    while killed < 5 && !has_ended(&cluster, &id) {
        std::thread::sleep(Duration::from_millis(random.below(2 * LIFE_MAX_MS)));
        cluster.node.process.kill();
        cluster.node.start_again(&node_kind());
        killed += 1;
    }
    let outcome = pi.outcome(map_reduce::JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    let estimate = "Estimated value of Pi is 3.14800000000000000000";
    assert!(outcome.log.contains(estimate), "{}", outcome.log);
    assert_eq!(cluster.rm.attempts(&id).unwrap().len(), 1);
    println!("{killed} kills");
}

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Returns the seed: `NM_AGENT_SEED`, or a new one.
fn seed() -> u64 {
    let given = std::env::var("NM_AGENT_SEED").ok();
    given.map_or_else(
        || RandomState::new().hash_one(0),
        |seed| seed.parse().expect("NM_AGENT_SEED is a number"),
    )
}

fn has_ended(cluster: &Cluster, id: &str) -> bool {
    let application = cluster.rm.application(id).unwrap();
    matches!(
        application["state"].as_str(),
        Some("FINISHED" | "FAILED" | "KILLED")
    )
}
