//! Models of a cluster and its jobs: each has the effect that its key says, and no other.

use crate::{arms_of, figure};

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
