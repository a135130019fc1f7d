//! Results: the same for every number of threads, complete, and in the order that theory demands.

use std::sync::atomic::AtomicBool;

use simulate::figures::FIGURES;
use simulate::page::page;
use simulate::runner::run;
use simulate::scenario::Scenario;
use simulate::summary::{Settling, summaries};
use simulate::table::{jobs_csv, runs_csv, table};

use crate::{arms_of, figure, results_of};

/// Every policy on a small cluster.
const ALL: &str = r#"
    title = "all policies"
    cluster = { nodes = 20, places = 4 }
    workload = { jobs = "heavy", count = 30, load = 0.8 }
    run = { seeds = 3 }
    arm = [
        { policy = "spread" },
        { policy = "list-order" },
        { policy = "central", nodes-used = 20 },
        { policy = "central", name = "by wait", nodes-used = 20, comparator = "QUEUE_WAIT_TIME" },
        { policy = "hadoop-central" },
        { policy = "hadoop-distributed" },
        { policy = "random" },
        { policy = "looks" },
        { policy = "sparrow-early" },
        { policy = "sparrow-late" },
        { policy = "guaranteed-fifo" },
        { policy = "guaranteed-fair" },
        { policy = "guaranteed-shortest" },
        { policy = "omniscient-fifo" },
        { policy = "omniscient-shortest" },
    ]
"#;

#[test]
fn results_are_the_same_bytes_for_any_number_of_threads() {
    let texts = |threads| {
        let (scenario, results) = results_of(ALL, threads);
        let arms = summaries(&scenario, &results.runs);
        [
            table(&scenario, &arms),
            runs_csv(&scenario, &results),
            jobs_csv(&scenario, &results),
            page(&scenario, ALL, &results, &arms),
        ]
    };
    assert!(texts(1) == texts(3));
}

#[test]
fn every_job_ends_once_under_every_policy_and_none_before_its_work_is_done() {
    let (scenario, results) = results_of(ALL, 2);
    for (arm, runs) in scenario.arms.iter().zip(&results.runs) {
        for run in runs.iter().flatten() {
            assert_eq!(run.jobs.len(), 30);
            for job in &run.jobs {
                let took = job.finished_ms.unwrap() - job.arrives_ms;
                let at_best = job.work_ms / scenario.cluster.all_places();
                assert!(took >= at_best, "{}: {job:?}", arm.label());
            }
        }
    }
    for arm in summaries(&scenario, &results.runs) {
        assert_eq!(arm.figures.len(), FIGURES.len());
        let used = figure(&arm, "used").mean;
        assert!((0.3..=1.0).contains(&used), "{}: {used}", arm.label);
    }
}

#[test]
fn arms_share_arrivals_and_work() {
    let (_, results) = results_of(ALL, 2);
    let work = |arm: usize| {
        let run = results.runs[arm][0].as_ref().unwrap();
        let jobs = run.jobs.iter();
        let first = run.jobs[0].arrives_ms;
        jobs.map(move |job| (job.arrives_ms - first, job.work_ms))
            .collect::<Vec<_>>()
    };
    for arm in 1..results.runs.len() {
        assert_eq!(work(0), work(arm), "arm {arm}");
    }
}

/// A stream of jobs at 80 % load on 200 nodes, with Hadoop's list of ten.
const COLLAPSE: &str = r#"
    title = "a list of ten"
    cluster = { nodes = 400, places = 8 }
    workload = { jobs = "two", count = 250, load = 0.8 }
    run = { seeds = 2 }
    arm = [
        { policy = "spread" },
        { policy = "spread", nodes-used = 200 },
        { policy = "looks" },
        { policy = "omniscient-shortest" },
    ]
"#;

#[test]
fn a_list_of_ten_collapses_under_a_stream_and_looks_do_not() {
    let arms = arms_of(COLLAPSE);
    let [short, long, looks, bound] = [0, 1, 2, 3].map(|arm| figure(&arms[arm], "jct_p50_s").mean);
    assert!(short > 5.0 * long, "{short} {long}");
    assert!(long > looks && looks > bound, "{long} {looks} {bound}");
    assert!(figure(&arms[0], "shed").mean > 1.0);
    // What was refused before placement was spread is shed now: both count.
    assert!(figure(&arms[0], "used").mean < 0.6);
    assert!(figure(&arms[2], "shed").mean < 0.01);
    assert!(figure(&arms[2], "used").mean > 0.7);
}

#[test]
fn a_load_above_the_capacity_does_not_settle_and_says_so() {
    let text = r#"
        title = "overload"
        cluster = { nodes = 5, places = 4 }
        workload = { jobs = "even", tasks = 5, task-ms = 2000, count = 600, load = 1.5 }
        run = { seeds = 4 }
        [[arm]]
        policy = "omniscient-fifo"
    "#;
    let arms = arms_of(text);
    assert_eq!(arms[0].settling, Settling::DoesNotSettle);
    assert!(figure(&arms[0], "used").mean > 0.99);
}

#[test]
fn an_interrupted_scenario_has_what_has_ended() {
    let scenario = Scenario::read(ALL).unwrap();
    let stop = AtomicBool::new(false);
    let results = run(&scenario, 1, &stop, &mut |progress| {
        if progress.done == scenario.arms.len() {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(!results.is_complete());
    for runs in &results.runs {
        assert!(runs[0].is_some() && runs[2].is_none());
    }
    let arms = summaries(&scenario, &results.runs);
    assert!(page(&scenario, ALL, &results, &arms).contains("Partial"));
}

#[test]
fn what_cannot_be_simulated_is_named_with_its_key() {
    let broken = ALL
        .replace("nodes = 20, places = 4", "nodes = 0, places = 4")
        .replace("count = 30, load = 0.8", "count = 0, load = -1.0")
        .replace("{ policy = \"random\" }", "{ policy = \"looks\" }");
    let problems = Scenario::read(&broken).unwrap_err().to_string();
    for expected in [
        "cluster.nodes: 0 is not from 1 to 60000",
        "workload.count",
        "workload.load",
        "two arms are called \"looks\"",
    ] {
        assert!(problems.contains(expected), "{problems}");
    }
}

#[test]
fn an_unknown_key_or_policy_is_named_with_what_is_accepted() {
    for (from, to, expected) in [
        ("places = 4", "place = 4", "did you mean `places`?"),
        ("\"random\"", "\"randum\"", "did you mean `random`?"),
        (
            "nodes-used = 20 }",
            "nodes-use = 20 }",
            "did you mean `nodes-used`?",
        ),
        (
            "load = 0.8",
            "load = \"high\"",
            "invalid type: string \"high\"",
        ),
    ] {
        let error = Scenario::read(&ALL.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
