//! Queues whose mean wait is known in closed form. Arrivals at a node stay a Poisson process when
//! each is delayed by the phase of its master's heartbeat, so the wait on the node is comparable
//! although masters are modelled with theirs.

use crate::{arms_of, figure};

/// Greatest distance from the closed form, relative to it.
const TOLERANCE: f64 = 0.02;

/// Mean length of a task in the scenarios below, in seconds.
const TASK_S: f64 = 10.0;

/// Returns a scenario of jobs of one task. Queues have no bound that is met.
fn scenario(cluster: &str, kind: &str, load: f64, jobs: u32, policy: &str) -> String {
    // An idle cluster takes a while to have the queues of its load.
    format!(
        r#"
        title = "closed form"
        cluster = {{ {cluster} }}
        workload = {{ jobs = "{kind}", tasks = 1, task-ms = 10000, count = {jobs}, load = {load} }}
        delays = {{ launch-ms = 0, am-heartbeat-ms = 5000, node-heartbeat-ms = 60000 }}
        run = {{ seeds = 6, warm-up-percent = 30 }}
        [[arm]]
        policy = "{policy}"
        queue-length = 10000
        limit-min = 10000
        limit-max = 10000
        "#
    )
}

fn assert_mean(text: &str, name: &str, expected: f64) {
    let arms = arms_of(text);
    let found = figure(&arms[0], name);
    let width = found.half_width.unwrap();
    let distance = (found.mean - expected).abs();
    assert!(
        distance <= TOLERANCE * expected && distance <= 2.0 * width,
        "{name}: {found:?}, by the closed form {expected}"
    );
}

/// Mean wait of M/M/c, in service times (Erlang, 1917).
fn erlang_c_wait(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let (mut term, mut sum) = (1.0, 0.0);
    for busy in 0..servers {
        sum += term;
        term *= offered / f64::from(busy + 1);
    }
    let queued = term / (1.0 - load);
    let waits = queued / (sum + queued);
    waits / (f64::from(servers) * (1.0 - load))
}

#[test]
fn eight_places_wait_as_erlangs_formula_says() {
    let cluster = "nodes = 1, places = 8";
    let text = scenario(cluster, "exponential", 0.8, 250_000, "omniscient-fifo");
    assert_mean(&text, "am_wait_s", TASK_S * erlang_c_wait(8, 0.8));
}

/// The wait of a node with several places converges slowly. So it is compared, on the same jobs,
/// with that of the scheduler for which Erlang's formula is tested.
#[test]
fn a_node_of_eight_places_waits_as_a_queue_without_delays() {
    let cluster = "nodes = 1, places = 8";
    let wait = |policy, name| {
        let text = scenario(cluster, "exponential", 0.8, 5_000, policy);
        figure(&arms_of(&text)[0], name).mean
    };
    let without_delays = wait("omniscient-fifo", "am_wait_s");
    let on_the_node = wait("random", "node_wait_s");
    let ratio = on_the_node / without_delays;
    assert!(
        (ratio - 1.0).abs() < TOLERANCE,
        "{on_the_node} {without_delays}"
    );
}

#[test]
fn a_node_of_one_place_waits_as_pollaczek_and_khinchine_say() {
    let load = 0.7;
    let text = scenario("nodes = 1, places = 1", "even", load, 15_000, "random");
    // Lengths are uniform within 5 % of the mean.
    let second_moment = 1.0 + 0.1_f64.powi(2) / 12.0;
    let expected = load * second_moment / (2.0 * (1.0 - load));
    assert_mean(&text, "node_wait_s", TASK_S * expected);
}

/// Mean wait of M/M/1 where the shortest task is served first and none is preempted, in service
/// times (Phipps, 1956): the integral over lengths of the mean residual work, divided by the square
/// of the capacity that shorter ones leave.
fn phipps_wait(load: f64) -> f64 {
    let step = 0.001;
    let integral = (0..40_000_u32).map(|number| {
        let length = (f64::from(number) + 0.5) * step;
        let density = (-length).exp();
        let shorter = load * (1.0 - (1.0 + length) * density);
        density * step / (1.0 - shorter).powi(2)
    });
    load * integral.sum::<f64>()
}

#[test]
fn the_omniscient_scheduler_of_one_place_waits_as_phipps_says() {
    let load = 0.7;
    let cluster = "nodes = 1, places = 1";
    let text = scenario(cluster, "exponential", load, 60_000, "omniscient-shortest");
    assert_mean(&text, "am_wait_s", TASK_S * phipps_wait(load));
}

#[test]
fn the_better_of_two_nodes_has_the_queues_of_mitzenmacher_and_vvedenskaya() {
    let cluster = "nodes = 300, places = 1";
    let text = scenario(cluster, "exponential", 0.7, 40_000, "looks");
    let arms = arms_of(&text);
    // The load that the seeds really had in the measured time: it varies more than the queues do.
    let load = figure(&arms[0], "used").mean;
    // A share of load^(2^i - 1) of the nodes has at least i containers, the one that runs included.
    let waiting: f64 = (2..8).map(|i| load.powi((1 << i) - 1)).sum();
    let found = figure(&arms[0], "queue_mean").mean;
    let ratio = found / waiting;
    assert!((ratio - 1.0).abs() < TOLERANCE, "{found} {waiting}");
}
