//! The transition function against a table of its own, and the ways through it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use launch_context::{ContextBudget, ContextLimits, LaunchContext};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::*;

/// Every legal pair of a state and a step, with the state after it.
const LEGAL: [(&str, &str, &str); 22] = [
    ("InForce", "Reinitialize", "Localizing"),
    ("InForce", "Restart", "Restarting"),
    ("InForce", "Fetch", "Fetching"),
    ("InForce", "Launch", "InForce"),
    ("InForce", "End", "InForce"),
    ("Localizing", "Restart", "Restarting"),
    ("Localizing", "Abandon", "InForce"),
    ("Localizing", "Launch", "Localizing"),
    ("Localizing", "End", "InForce"),
    ("Restarting", "Abandon", "InForce"),
    ("Restarting", "Launch", "InForce"),
    ("Restarting", "End", "InForce"),
    ("Fetching", "Fetched", "InForce"),
    ("Fetching", "Missing", "Incomplete"),
    ("Fetching", "Launch", "LaunchDue"),
    ("Fetching", "End", "Fetching"),
    ("LaunchDue", "Fetched", "InForce"),
    ("LaunchDue", "Missing", "Incomplete"),
    ("LaunchDue", "EndLaunch", "Fetching"),
    ("LaunchDue", "End", "Fetching"),
    ("Incomplete", "Launch", "Incomplete"),
    ("Incomplete", "End", "Incomplete"),
];

/// Returns a launch context of no commands, as its holder has it.
fn context() -> Arc<HeldContext> {
    let budget = ContextBudget::new(ContextLimits {
        resources_max: 1,
        bytes_max: 1_000_000,
        node_bytes_max: 4_000_000,
    });
    Arc::new(
        budget
            .hold(&"alice".parse().unwrap(), LaunchContext::default())
            .unwrap(),
    )
}

fn setup(set: u64) -> Setup {
    Setup {
        context: context(),
        localized: Vec::new(),
        set: SetNumber(set),
    }
}

fn steps() -> [Step; 9] {
    [
        Step::Reinitialize(NextContext {
            context: context(),
            auto_commit: false,
            set: SetNumber(2),
        }),
        Step::Restart {
            next: setup(2),
            previous: Some(setup(1)),
        },
        Step::Abandon,
        Step::Fetch,
        Step::Fetched,
        Step::Missing("no such file".to_owned()),
        Step::Launch,
        Step::EndLaunch,
        Step::End,
    ]
}

fn expected(state: &str, step: &str) -> Option<&'static str> {
    let pair = LEGAL
        .into_iter()
        .find(|(from, by, _)| (*from, *by) == (state, step));
    pair.map(|(_, _, to)| to)
}

#[test]
fn walks_follow_the_table_and_come_by_every_legal_pair() {
    let (steps, visited) = (steps(), RefCell::new(BTreeSet::new()));
    let walks = prop::collection::vec(0..steps.len(), 1..200);
    let walk = |chosen: Vec<usize>| {
        let mut state = SetupState::default();
        for index in chosen {
            let step = steps[index].clone();
            let (from, by) = (state.name(), step.name());
            match (state.clone().after(step), expected(from, by)) {
                (Ok(after), Some(to)) => {
                    prop_assert_eq!(after.name(), to, "{} in {}", by, from);
                    visited.borrow_mut().insert((from, by, to));
                    state = after;
                }
                (Err(illegal), None) => {
                    prop_assert_eq!((illegal.state, illegal.step), (from, by));
                }
                (after, to) => {
                    let what = format!("{by} in {from}: {after:?}, not {to:?}");
                    return Err(TestCaseError::fail(what));
                }
            }
        }
        Ok(())
    };
    TestRunner::default().run(&walks, walk).unwrap();
    assert_eq!(visited.into_inner(), BTreeSet::from(LEGAL));
}

#[test]
fn every_state_gets_back_to_the_setup_in_force_unless_a_resource_is_missing() {
    for (from, _, _) in LEGAL {
        let mut reached = BTreeSet::from([from]);
        for _ in 0..LEGAL.len() {
            let further = LEGAL
                .into_iter()
                .filter(|(from, ..)| reached.contains(from));
            let further: Vec<_> = further.map(|(_, _, to)| to).collect();
            reached.extend(further);
        }
        assert_eq!(reached.contains("InForce"), from != "Incomplete", "{from}");
    }
}

#[test]
fn a_restart_keeps_both_setups_until_the_launch() {
    let restart = Step::Restart {
        next: setup(2),
        previous: Some(setup(1)),
    };
    let mut restarting = SetupState::InForce.after(restart).unwrap();
    let sets: Vec<_> = restarting.setups_mut().map(|setup| setup.set.0).collect();
    assert_eq!(sets, [2, 1]);
    let mut launched = restarting.after(Step::Launch).unwrap();
    assert_eq!(launched.setups_mut().count(), 0);
}

#[test]
fn an_illegal_step_names_state_and_step() {
    let error = SetupState::Fetching.after(Step::Abandon).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step Abandon is illegal in setup state Fetching"
    );
}
