//! Models of a cluster and its jobs: each has the effect that its key says, and no other.

use simulate::scenario::{Nature, Scenario};
use simulate::summary::ArmSummary;
use simulate::table::headline;

use crate::{arms_of, figure, results_of};

/// Returns a scenario in which one job at a time runs on an idle cluster, without delays but for
/// the heartbeats of masters.
fn one_at_a_time(workload: &str, am_heartbeat_ms: u32, policy: &str) -> String {
    format!(
        r#"
        title = "one job at a time"
        cluster = {{ nodes = 20, places = 8 }}
        workload = {{ jobs = "even", tasks = 12, task-ms = 11000, count = 60, load = 0.02, {workload} }}
        delays = {{ am-heartbeat-ms = {am_heartbeat_ms}, launch-ms = 0 }}
        run = {{ seeds = 2 }}
        [[arm]]
        policy = "{policy}"
        "#
    )
}

fn mean_s(workload: &str, am_heartbeat_ms: u32, policy: &str) -> f64 {
    let text = one_at_a_time(workload, am_heartbeat_ms, policy);
    figure(&arms_of(&text)[0], "jct_mean_s").mean
}

#[test]
fn a_stage_begins_after_the_longest_task_of_the_one_before() {
    // The longest of 4 tasks whose lengths are uniform within 5 % of 11 s: four fifths of the way
    // from 10.45 s to 11.55 s. Of 12: twelve thirteenths.
    for policy in ["omniscient-fifo", "random"] {
        let staged = mean_s("stages = 3", 1, policy);
        assert!((staged - 3.0 * 11.33).abs() < 0.15, "{policy}: {staged}");
        let at_once = mean_s("stages = 1", 1, policy);
        assert!((at_once - 11.465).abs() < 0.1, "{policy}: {at_once}");
    }
}

#[test]
fn a_master_asks_for_a_stage_with_the_call_after_the_one_that_told_the_end() {
    let mean_s = |stages| mean_s(&format!("stages = {stages}"), 2_000, "random");
    // Containers start with a call, so the sixth after it tells the end of the longest task, and
    // the seventh asks for the next stage.
    let found = mean_s(3) - mean_s(1);
    assert!((found - 28.0).abs() < 0.1, "{found}");
}

/// Returns the mean completion time of jobs that run one at a time on these nodes.
fn mean_on(nodes: &str, tasks: u32, policy: &str) -> f64 {
    let text = format!(
        r#"
        title = "nodes that differ"
        cluster = {{ {nodes} }}
        workload = {{ jobs = "even", tasks = {tasks}, task-ms = 10000, count = 30, load = 0.05 }}
        delays = {{ am-heartbeat-ms = 1, launch-ms = 0, node-heartbeat-ms = 100 }}
        run = {{ seeds = 2 }}
        arm = [{{ policy = "{policy}" }}]
        "#
    );
    figure(&arms_of(&text)[0], "jct_mean_s").mean
}

#[test]
fn a_larger_node_runs_more_at_a_time() {
    for policy in ["guaranteed-fifo", "look", "omniscient-fifo"] {
        let one_by_one = mean_on("nodes = 2, places = 2", 12, policy);
        let at_once = mean_on(
            "nodes = 1, places = 2, more = [{ nodes = 1, places = 10 }]",
            12,
            policy,
        );
        assert!((10.0..13.0).contains(&at_once), "{policy}: {at_once}");
        assert!(one_by_one > 28.0, "{policy}: {one_by_one}");
    }
}

#[test]
fn a_task_takes_its_length_divided_by_the_speed_of_its_node() {
    for policy in ["random", "guaranteed-fifo", "omniscient-fifo"] {
        let slow = mean_on("nodes = 1, places = 2, speed = 0.5", 1, policy);
        assert!((slow - 20.0).abs() < 0.3, "{policy}: {slow}");
    }
    // The bound takes the fastest place that is free.
    let nodes = "nodes = 5, places = 2, more = [{ nodes = 1, places = 2, speed = 4.0 }]";
    let fastest = mean_on(nodes, 1, "omniscient-fifo");
    assert!((fastest - 2.5).abs() < 0.1, "{fastest}");
    // Five of six nodes are four times slower.
    let any = mean_on(nodes, 1, "random");
    assert!((any - (5.0 * 10.0 + 2.5) / 6.0).abs() < 0.8, "{any}");
}

#[test]
fn the_load_is_a_share_of_what_slow_nodes_can_do() {
    let text = r#"
        title = "slow nodes"
        cluster = { nodes = 10, places = 4, speed = 0.5 }
        workload = { jobs = "even", tasks = 10, task-ms = 5000, count = 300, load = 0.6 }
        run = { seeds = 4 }
        arm = [{ policy = "omniscient-fifo" }]
    "#;
    let used = figure(&arms_of(text)[0], "used").mean;
    assert!((used - 0.6).abs() < 0.06, "{used}");
}

#[test]
fn nodes_that_cannot_be_are_named_and_those_that_can_are_described() {
    let text = |nodes: &str| {
        format!(
            r#"
            title = "nodes"
            cluster = {{ {nodes} }}
            workload = {{ jobs = "even", count = 5, load = 0.5 }}
            arm = [{{ policy = "random" }}]
            "#
        )
    };
    let nodes = "nodes = 3, places = 2, more = [{ nodes = 0, places = 2, speed = 0.0 }]";
    let problems = Scenario::read(&text(nodes)).unwrap_err().to_string();
    for expected in [
        "cluster.more 1.nodes: 0 is not from 1 to 60000",
        "cluster.more 1.speed: 0 is not from 0.01 to 100",
    ] {
        assert!(problems.contains(expected), "{problems}");
    }
    let nodes = "nodes = 3, places = 2, more = [{ nodes = 1, place = 2 }]";
    let problems = Scenario::read(&text(nodes)).unwrap_err().to_string();
    assert!(problems.contains("did you mean `places`?"), "{problems}");
    let nodes = "nodes = 3, places = 2, more = [{ nodes = 1, places = 4, speed = 0.5 }]";
    let shown = headline(&Scenario::read(&text(nodes)).unwrap());
    let expected = "3 nodes of 2 places and 1 nodes of 4 places at a speed of 0.5, ";
    assert!(shown.contains(expected), "{shown}");
}

/// Jobs of which one in three asks for guaranteed containers.
const MIXED_TYPES: &str = r#"
    title = "both types"
    cluster = { nodes = 20, places = 4 }
    workload = { jobs = "even", tasks = 20, task-ms = 8000, count = 200, load = 0.85, guaranteed-percent = 33 }
    run = { seeds = 3 }
    arm = [
        { policy = "look" },
        { policy = "spread", nodes-used = 20 },
        { policy = "guaranteed-fifo" },
        { policy = "omniscient-fifo" },
    ]
"#;

#[test]
fn guaranteed_containers_evict_opportunistic_ones_and_wait_for_nobody() {
    let arms = arms_of(MIXED_TYPES);
    let alone = arms_of(&MIXED_TYPES.replace("guaranteed-percent = 33", "guaranteed-percent = 0"));
    for arm in [0, 1] {
        let label = &arms[arm].label;
        let evicted = figure(&arms[arm], "evicted").mean;
        assert!((0.03..0.5).contains(&evicted), "{label}: {evicted}");
        // An eviction ends what started last: it loses less than half of a task.
        let lost_s = figure(&arms[arm], "lost_s").mean / evicted;
        assert!((0.2..4.0).contains(&lost_s), "{label}: {lost_s}");
        // Jobs of guaranteed containers take a task and three heartbeats, at most.
        let guaranteed = figure(&arms[arm], "jct_guaranteed_s").mean;
        assert!(guaranteed < 8.4 + 3.0, "{label}: {guaranteed}");
        assert!(figure(&arms[arm], "jct_p95_s").mean > guaranteed);
        assert!(figure(&alone[arm], "evicted").mean == 0.0);
        assert!(figure(&alone[arm], "jct_guaranteed_s").mean == 0.0);
    }
    // Where every container is guaranteed, or nothing waits for a node, no task is evicted.
    for arm in [2, 3] {
        assert!(figure(&arms[arm], "evicted").mean == 0.0);
    }
}

#[test]
fn which_jobs_are_guaranteed_is_the_same_for_every_arm() {
    let (_, results) = results_of(MIXED_TYPES, 2);
    let types = |arm: usize| -> Vec<bool> {
        let run = results.runs[arm][0].as_ref().unwrap();
        run.jobs.iter().map(|job| job.is_guaranteed).collect()
    };
    let guaranteed = types(0)
        .iter()
        .filter(|is_guaranteed| **is_guaranteed)
        .count();
    assert!((50..85).contains(&guaranteed), "{guaranteed} of 200");
    for arm in 1..4 {
        assert_eq!(types(arm), types(0), "arm {arm}");
    }
}

/// Returns a scenario of jobs of two tasks whose masters have containers, or have not.
fn with_masters(masters: &str, load: f64) -> String {
    format!(
        r#"
        title = "masters"
        cluster = {{ nodes = 10, places = 4 }}
        workload = {{ jobs = "even", tasks = 2, task-ms = 8000, count = 150, load = {load} }}
        delays = {{ am-heartbeat-ms = 1000, node-heartbeat-ms = 500, launch-ms = 50 }}
        masters = {{ {masters} }}
        run = {{ seeds = 3 }}
        arm = [
            {{ policy = "guaranteed-fifo" }},
            {{ policy = "look" }},
            {{ policy = "sparrow-late" }},
        ]
        "#
    )
}

#[test]
fn a_master_takes_a_place_and_its_start_delays_its_job() {
    let [without, with] = [
        "container = false",
        "container = true, start-ms = 4000, share-percent = 100",
    ]
    .map(|masters| arms_of(&with_masters(masters, 0.2)));
    for (arm, without) in with.iter().zip(&without) {
        let p50 = |arm| figure(arm, "jct_p50_s").mean;
        // The heartbeat of a node in place of half of a master's, the launch and the start. A
        // longest of two tasks fits into heartbeats otherwise, by up to one.
        let added = p50(arm) - p50(without);
        assert!((3.4..5.6).contains(&added), "{}: {added}", arm.label);
        assert!(figure(without, "masters").mean == 0.0);
        // Two tasks are 16 s of work, for which a master runs for its start and some 10 s.
        let share = figure(arm, "masters").mean / figure(arm, "used").mean;
        assert!((0.75..1.1).contains(&share), "{}: {share}", arm.label);
    }
}

#[test]
fn masters_take_no_more_than_their_share_and_evict_opportunistic_containers() {
    let masters = "container = true, start-ms = 4000, share-percent = 20";
    let arms = arms_of(&with_masters(masters, 1.2));
    for arm in &arms {
        // Eight of forty places.
        let share = figure(arm, "masters").mean;
        assert!((0.15..=0.2).contains(&share), "{}: {share}", arm.label);
    }
    assert!(figure(&arms[0], "evicted").mean == 0.0);
    let text = with_masters("container = true, share-percent = 50", 0.9);
    let text = text.replace("tasks = 2,", "tasks = 20,");
    assert!(figure(&arms_of(&text)[1], "evicted").mean > 0.005);
}

#[test]
fn failures_lose_what_runs_and_a_late_expiry_makes_jobs_wait() {
    let text = |failures: &str| {
        format!(
            r#"
            title = "failures"
            cluster = {{ nodes = 20, places = 4 }}
            workload = {{ jobs = "even", tasks = 10, task-ms = 8000, count = 400, load = 0.5 }}
            failures = {{ {failures} }}
            run = {{ seeds = 4 }}
            arm = [
                {{ policy = "look" }},
                {{ policy = "central", nodes-used = 20 }},
                {{ policy = "spread", nodes-used = 20 }},
                {{ policy = "hadoop-central", nodes-used = 20 }},
                {{ policy = "sparrow-late" }},
                {{ policy = "guaranteed-fifo" }},
                {{ policy = "omniscient-fifo" }},
            ]
            "#
        )
    };
    let failing = "up-s = 1000, down-s = 120, expiry-s = 20, connect-s = 10";
    let arms = arms_of(&text(failing));
    let late = arms_of(&text(&failing.replace("expiry-s = 20", "expiry-s = 100")));
    let none = arms_of(&text("up-s = 0"));
    for (number, arm) in arms.iter().enumerate() {
        let of = |arms: &[ArmSummary], name| figure(&arms[number], name).mean;
        assert!(of(&none, "node_lost") == 0.0, "{}", arm.label);
        assert!(of(&arms, "unfinished") == 0.0, "{}", arm.label);
        if arm.nature == Nature::Bound {
            assert!(of(&arms, "node_lost") == 0.0);
            continue;
        }
        let lost = of(&arms, "node_lost");
        let lost_s = of(&arms, "lost_s") / lost;
        if ["look", "guaranteed-fifo"].contains(&&*arm.label) {
            // A failure in 50 s meets two tasks that run, of 5 that begin in a second; half of
            // each is done.
            assert!((0.004..0.02).contains(&lost), "{}: {lost}", arm.label);
            assert!((2.5..5.5).contains(&lost_s), "{}: {lost_s}", arm.label);
        } else {
            // These send containers to a node that is down until it has expired.
            assert!((0.004..0.3).contains(&lost), "{}: {lost}", arm.label);
            assert!((0.05..5.5).contains(&lost_s), "{}: {lost_s}", arm.label);
        }
        let [with, after] = [&arms, &late].map(|arms| of(arms, "jct_mean_s"));
        assert!(with > of(&none, "jct_mean_s"), "{}: {with}", arm.label);
        assert!(after > with + 1.0, "{}: {with} {after}", arm.label);
    }
}
