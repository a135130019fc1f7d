//! A fixed set of seeds, and some fresh ones. `cargo run --release -p sim-faults` runs any number.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use sim_faults::checkers::{self, FINISHES, Facts, WORKERS};
use sim_faults::churn::churn;
use sim_faults::hunt::catch;
use sim_faults::planted::Planted;
use sim_faults::scenario::{CAPACITY, SIGKILL_DELAY_MS};
use sim_faults::{KINDS, Outcome, Scenario, Size, run};

/// Small clusters: their runs are short enough for every build, and nodes have more faults.
const SIZE: Size = Size {
    nodes: 8,
    seconds: 240,
};

/// Seeds of the fixed set.
const FIXED: std::ops::RangeInclusive<u64> = 1..=30;

/// Seeds in which a planted fault must be caught.
const SEEDS_MAX: u64 = 300;

/// Number of fresh seeds.
const FRESH: u64 = 20;

fn assert_no_violation(seed: u64) -> Outcome {
    println!("seed {seed}");
    let outcome = run(&Scenario::of(seed, SIZE));
    if let Some(violation) = &outcome.violation {
        panic!(
            "seed {seed}: {violation}repeat it with: cargo run -p sim-faults -- --seeds 1 --from {seed} \
             --nodes {} --minutes {}",
            SIZE.nodes,
            SIZE.seconds / 60
        );
    }
    outcome
}

#[test]
fn no_property_is_violated_by_the_fixed_seeds() {
    let outcomes: Vec<Outcome> = FIXED.map(assert_no_violation).collect();
    let containers: u64 = outcomes.iter().map(|outcome| outcome.containers).sum();
    assert!(
        containers > 1_000,
        "only {containers} containers came to an AM"
    );
    let performed = outcomes.iter().flat_map(|outcome| &outcome.performed);
    let performed: BTreeSet<&str> = performed.copied().collect();
    assert_eq!(
        performed,
        KINDS.iter().copied().collect(),
        "every kind of effect is performed"
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a fresh seed cannot follow from another; it is printed"
)]
fn no_property_is_violated_by_fresh_seeds() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = now.map_or(0, |now| now.as_secs()) * FRESH;
    for seed in first..first + FRESH {
        assert_no_violation(seed);
    }
}

#[test]
fn the_master_of_a_machine_that_ended_does_not_go_on_where_its_first_process_was() {
    let size = Size {
        nodes: 100,
        seconds: 600,
    };
    assert_eq!(run(&Scenario::of(4_528, size)).violation, None);
}

#[test]
fn each_planted_fault_is_caught_by_the_checker_of_its_property() {
    for planted in Planted::ALL {
        let (checker, seeds) = (planted.expected(), catch(planted, SIZE, SEEDS_MAX));
        println!("{planted:?}: {checker} after {seeds:?} seeds");
        assert!(seeds.is_some(), "{checker} does not catch {planted:?}");
    }
}

#[test]
fn each_checker_catches_a_planted_fault() {
    let facts = Facts {
        capacity: CAPACITY,
        nodes: SIZE.nodes,
        sigkill_delay_ms: SIGKILL_DELAY_MS,
    };
    let checkers = checkers::all(&facts);
    let names = checkers.iter().map(|checker| checker.name());
    let names: BTreeSet<&str> = names.chain([FINISHES, WORKERS]).collect();
    let expected: BTreeSet<&str> = Planted::ALL.map(Planted::expected).into();
    assert_eq!(names, expected);
}

#[test]
fn nothing_grows_in_two_hours_of_churn() {
    let size = Size {
        nodes: 3,
        seconds: 7_200,
    };
    let churn = churn(1, size);
    assert_eq!(churn.outcome.violation, None);
    let growing = churn.growing();
    assert!(growing.is_empty(), "{growing:#?}");
    // The stores hold something, and give it back.
    let stored = &churn.series[0].values;
    assert!(stored.iter().any(|bytes| *bytes > 10_000.0), "{stored:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let figures = |seed| {
        let outcome = run(&Scenario::of(seed, SIZE));
        let Outcome {
            events,
            observed,
            containers,
            virtual_ms,
            ..
        } = outcome;
        [events, observed, containers, virtual_ms]
    };
    for seed in [3, 4] {
        assert_eq!(figures(seed), figures(seed), "seed {seed}");
    }
    assert_ne!(figures(3), figures(4));
}
