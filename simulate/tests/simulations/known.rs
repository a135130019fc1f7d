//! Figures that were known before this program, from a throw-away one around the same `sched`.

use std::sync::atomic::AtomicBool;

use simulate::builtin::find;
use simulate::runner::run;
use simulate::scenario::Scenario;
use simulate::summary::summaries;

use crate::figure;

/// Greatest difference from a known figure, as a share of it.
const TOLERANCE: f64 = 0.1;

/// Known figures that are compared. The known 95th percentiles are of fewer seeds than ours, and
/// 11 to 21 % above them; the table that `nm-agent simulate` prints shows both.
const COMPARED: [&str; 4] = ["refused", "shed", "jct_p50_s", "used"];

/// Asserts that the known figures of these arms come out: within the tolerance, or within what
/// the seeds leave open.
fn assert_known(scenario: &str, arms: &[&str], seeds: u64) {
    let mut scenario = Scenario::read(find(scenario).unwrap().text).unwrap();
    scenario.arms.retain(|arm| arms.contains(&&*arm.label()));
    scenario.run.seeds = seeds;
    let results = run(&scenario, 2, &AtomicBool::new(false), &mut |_| ());
    let found = summaries(&scenario, &results.runs);
    assert_eq!(found.len(), arms.len());
    for arm in &found {
        let known = scenario.known.iter().filter(|known| known.arm == arm.label);
        let known = known.filter(|known| COMPARED.contains(&&*known.figure));
        assert_eq!(known.clone().count(), COMPARED.len(), "{}", arm.label);
        for known in known {
            let estimate = figure(arm, &known.figure);
            let off = (estimate.mean - known.value).abs();
            let allowed = (TOLERANCE * known.value).max(estimate.half_width.unwrap_or(0.0));
            // Known counts per container have two places.
            assert!(
                off <= allowed.max(0.005),
                "{} {}: {} ± {:?}, known {}",
                arm.label,
                known.figure,
                estimate.mean,
                estimate.half_width,
                known.value
            );
        }
    }
}

#[test]
fn the_known_figures_of_a_hundred_nodes_come_out() {
    let arms = [
        "spread, list of 10",
        "spread, list of 100",
        "omniscient-shortest",
    ];
    assert_known("known-100", &arms, 5);
}
