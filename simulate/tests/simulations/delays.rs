//! Each delay reaches the completion time, by its full length and by no more.

use crate::{arms_of, figure};

/// Runs one job of one task on an idle cluster, with these delays; returns its completion time in
/// milliseconds. The seed, and so the task and the phases, is always the same.
fn completion_ms(delays: &str, policy: &str) -> f64 {
    let text = format!(
        r#"
        title = "one task"
        cluster = {{ nodes = 3, places = 2 }}
        workload = {{ jobs = "even", tasks = 1, task-ms = 10000, count = 1, load = 0.1 }}
        run = {{ seeds = 1, warm-up-percent = 0 }}
        delays = {{ am-heartbeat-ms = 1, launch-ms = 0, {delays} }}
        [[arm]]
        policy = "{policy}"
        "#
    );
    let arms = arms_of(&text);
    figure(&arms[0], "jct_p50_s").mean * 1_000.0
}

fn assert_adds(delays: &str, added_ms: f64) {
    let without = completion_ms("kill-ms = 0", "random");
    let with = completion_ms(delays, "random");
    let found = with - without;
    // Two heartbeats of the master, a millisecond each, may fall the other way.
    assert!((found - added_ms).abs() <= 2.0, "{delays}: {found}");
}

#[test]
fn a_launch_and_a_start_call_take_their_time() {
    assert_adds("start-call-ms = 700", 700.0);
    let launched = completion_ms("start-call-ms = 0", "random");
    let text = completion_ms("kill-ms = 1000", "random");
    assert!(
        (launched - text).abs() < 0.5,
        "a kill that nobody ordered: {text}"
    );
}

#[test]
fn an_end_is_told_with_the_next_heartbeat_unless_out_of_band() {
    let at_once = completion_ms("node-heartbeat-ms = 60000", "random");
    let in_turn = completion_ms("node-heartbeat-ms = 60000, out-of-band = false", "random");
    assert!(at_once < 10_510.0, "{at_once}");
    // The task ends within its first minute, and the next heartbeat of its node is at the phase of
    // that: later than the end, and at most an interval.
    let waited = in_turn - at_once;
    assert!(waited > 10.0 && waited <= 60_000.0, "{waited}");
}

#[test]
fn a_master_waits_for_its_heartbeat_twice() {
    let text = |am_heartbeat: u32| {
        format!(
            r#"
            title = "one task"
            cluster = {{ nodes = 100, places = 8 }}
            workload = {{ jobs = "even", tasks = 1, task-ms = 10000, count = 500, load = 0.1 }}
            run = {{ seeds = 4 }}
            delays = {{ am-heartbeat-ms = {am_heartbeat} }}
            [[arm]]
            policy = "random"
            "#
        )
    };
    let mean = |am_heartbeat| figure(&arms_of(&text(am_heartbeat))[0], "jct_mean_s").mean;
    // Half an interval before the start, and half of one after the end.
    let found = mean(4_000) - mean(1);
    assert!((found - 4.0).abs() < 0.15, "{found}");
}

#[test]
fn guaranteed_containers_wait_for_a_heartbeat_of_their_node_before_they_are_placed() {
    let by_list = completion_ms("node-heartbeat-ms = 2000", "random");
    let guaranteed = completion_ms("node-heartbeat-ms = 2000", "guaranteed-fifo");
    let waited = guaranteed - by_list;
    assert!(
        (0.0..=2_002.0).contains(&waited) && waited > 5.0,
        "{waited}"
    );
}

/// Mean completion of single tasks under a launch that is drawn.
fn mean_with_launch(launch: &str) -> f64 {
    let text = format!(
        r#"
        title = "launches"
        cluster = {{ nodes = 100, places = 8 }}
        workload = {{ jobs = "even", tasks = 1, task-ms = 5000, count = 1500, load = 0.1 }}
        run = {{ seeds = 2 }}
        delays = {{ am-heartbeat-ms = 1, launch-ms = {launch} }}
        [[arm]]
        policy = "random"
        "#
    );
    figure(&arms_of(&text)[0], "jct_mean_s").mean
}

#[test]
fn a_delay_that_is_drawn_adds_its_mean() {
    let without = mean_with_launch("0");
    for launch in [
        "{ uniform = [1000, 3000] }",
        "{ exponential = 2000 }",
        "{ log-normal = { mean = 2000.0, variation = 0.5 } }",
        "{ quantiles = [[0, 0], [50, 2000], [100, 4000]] }",
    ] {
        let added = mean_with_launch(launch) - without;
        assert!((added - 2.0).abs() < 0.1, "{launch}: {added}");
    }
}

#[test]
fn heartbeats_that_vary_have_their_mean() {
    let mean = |interval: &str| {
        let text = format!(
            r#"
            title = "intervals"
            cluster = {{ nodes = 100, places = 8 }}
            workload = {{ jobs = "even", tasks = 1, task-ms = 60000, count = 600, load = 0.1 }}
            run = {{ seeds = 2 }}
            delays = {{ am-heartbeat-ms = {interval} }}
            [[arm]]
            policy = "random"
            "#
        );
        figure(&arms_of(&text)[0], "jct_mean_s").mean
    };
    // The wait for the next of intervals that vary is longer than half their mean: by the variance
    // over twice the mean. Uniform from 0 to 4 s: 1 s + 1.333 / 4 s after the end of the task.
    let found = mean("{ uniform = [0, 4000] }") - mean("1");
    assert!((2.1..2.6).contains(&found), "{found}");
}
