//! Late binding by reservations.

use crate::{arms_of, figure, results_of};

/// Large and small jobs, nearly as many as the nodes can do.
const BUSY: &str = r#"
    title = "busy"
    cluster = { nodes = 50, places = 8 }
    workload = { jobs = "heavy", count = 150, load = 0.95 }
    run = { seeds = 2 }
    arm = [
        { policy = "reservations" },
        { policy = "reservations", hints = true, name = "true lengths" },
        { policy = "look" },
        { policy = "omniscient-shortest" },
    ]
"#;

#[test]
fn jobs_with_little_left_do_not_wait_behind_large_ones() {
    let arms = arms_of(BUSY);
    let [learnt, known, look, bound] = [0, 1, 2, 3].map(|arm| figure(&arms[arm], "jct_p50_s").mean);
    assert!(learnt < 0.75 * look, "{learnt} {look}");
    assert!(known < 0.75 * look, "{known} {look}");
    assert!(bound < learnt && bound < known, "{bound} {learnt} {known}");
    for arm in [0, 1] {
        let lost = figure(&arms[arm], "refused").mean + figure(&arms[arm], "shed").mean;
        assert!(lost <= 0.001, "{lost}");
        // What is bound finds its room, so nothing waits in queues.
        let waits = figure(&arms[arm], "node_wait_s").mean;
        assert!(waits <= 0.01, "{waits}");
    }
}

/// A job alone gets its containers with the answer to its first call, and learns of the last end
/// with the next call after it.
#[test]
fn the_first_call_is_answered_with_what_nodes_offer_at_once() {
    let text = r#"
        title = "one job at a time"
        cluster = { nodes = 100, places = 8 }
        workload = { jobs = "even", tasks = 60, task-ms = 10000, count = 40, load = 0.01 }
        run = { seeds = 2 }
        delays = { launch-ms = 0 }
        arm = [{ policy = "reservations" }, { policy = "reservations", name = "late", look-ms = 1 }]
    "#;
    let arms = arms_of(text);
    let [early, late] = [0, 1].map(|arm| figure(&arms[arm], "jct_p50_s").mean);
    assert!((10.5..=12.5).contains(&early), "{early}");
    // Offers that come after the answer wait for the next call.
    assert!((0.9..=1.1).contains(&(late - early)), "{late} {early}");
}

#[test]
fn nodes_that_fail_lose_no_task_and_a_seed_repeats() {
    let text = r#"
        title = "failures"
        cluster = { nodes = 30, places = 4 }
        workload = { jobs = "two", tasks = 30, count = 60, load = 0.7 }
        masters = { container = true }
        failures = { up-s = 600, down-s = 30, expiry-s = 20, connect-s = 5 }
        run = { seeds = 2 }
        arm = [{ policy = "reservations" }]
    "#;
    let (_, first) = results_of(text, 1);
    let (_, again) = results_of(text, 2);
    assert_eq!(first.runs, again.runs);
    let arms = arms_of(text);
    assert!(figure(&arms[0], "unfinished").mean == 0.0);
    assert!(figure(&arms[0], "node_lost").mean > 0.0);
}

#[test]
fn hints_that_are_wrong_for_a_fifth_of_the_jobs_cost_little() {
    let text = r#"
        title = "wrong hints"
        cluster = { nodes = 50, places = 8 }
        workload = { jobs = "heavy", count = 150, load = 0.95 }
        run = { seeds = 2 }
        arm = [
            { policy = "reservations", hints = true, hints-wrong-percent = [0, 20] },
        ]
    "#;
    let arms = arms_of(text);
    let [right, wrong] = [0, 1].map(|arm| figure(&arms[arm], "jct_mean_s").mean);
    assert!(wrong < 1.15 * right, "{wrong} {right}");
}
