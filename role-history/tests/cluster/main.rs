//! A service on a simulated cluster of 1,000 nodes, with its history and without.
//!
//! `cargo test -p role-history --test cluster -- --nocapture` prints the table. Seeds are fixed and
//! time is simulated, so the figures are the same on every machine.

mod resource_manager;
mod service;

use service::{Figures, Service};

const SEEDS: std::ops::Range<u64> = 1..4;

/// Seconds after which an ask is relaxed by default.
const ESCALATION_S: u64 = 30;

fn figures(seed: u64, with_history: bool) -> Figures {
    Service::new(seed, with_history).run()
}

#[test]
fn history_brings_containers_back_and_costs_at_most_the_escalation_timeout() {
    println!(
        "seed  history  back where they ran  all placed, mean  slowest  nodes used  most on one"
    );
    for seed in SEEDS {
        let [with, without] = [true, false].map(|with_history| figures(seed, with_history));
        for (name, figures) in [("yes", &with), ("no", &without)] {
            println!(
                "{seed:4}  {name:7}  {:18.1} %  {:14.1} s  {:5} s  {:10}  {:11}",
                figures.hit_ratio() * 100.0,
                figures.mean_placed_s(),
                figures.slowest_placed_s(),
                figures.nodes_used,
                figures.most_on_a_node,
            );
        }
        assert!(
            with.hit_ratio() > 3.0 * without.hit_ratio(),
            "seed {seed}: {with:?} {without:?}"
        );
        for (with_s, without_s) in with.placed_s.iter().zip(&without.placed_s) {
            // One more second passes before the relaxed ask is answered.
            assert!(
                *with_s <= without_s + ESCALATION_S + 2,
                "seed {seed}: {with:?} {without:?}"
            );
        }
        assert!(
            with.nodes_used >= without.nodes_used * 9 / 10,
            "history does not crowd the service: {with:?} {without:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(figures(7, true), figures(7, true));
}
