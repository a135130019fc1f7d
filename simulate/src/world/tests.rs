//! Delays that no arm shows alone in its figures: of kills, and of the cancelling of probes.

use super::*;
use crate::arm::placer;

/// Runs jobs of these arrivals and lengths, a task each, on one node of one place.
fn with_world<T>(
    policy: &str,
    delays: &str,
    jobs: &[(u64, u64)],
    look: impl FnOnce(&mut World<'_>) -> T,
) -> T {
    let text = format!(
        r#"
        title = "one place"
        cluster = {{ nodes = 1, places = 1 }}
        workload = {{ jobs = "even", count = 1, load = 0.5 }}
        delays = {{ am-heartbeat-ms = 1, {delays} }}
        [[arm]]
        policy = "{policy}"
        "#
    );
    let scenario = Scenario::read(&text).unwrap();
    let job = |(arrives_ms, task_ms): &(u64, u64)| Job::of(*arrives_ms, vec![*task_ms]);
    let jobs: Vec<Job> = jobs.iter().map(job).collect();
    let (arm, streams) = (&scenario.arms[0], Streams::new(1));
    let window = Window {
        from_ms: 0,
        to_ms: 0,
    };
    let placer = placer(arm, &scenario.cluster, streams).unwrap();
    let mut world = World::new(&scenario, arm, placer, &jobs, window, streams);
    world.begin();
    look(&mut world)
}

/// Handles the next event, and returns its time.
fn step(world: &mut World<'_>) -> u64 {
    let event = world.events.pop().unwrap();
    let now_ms = world.events.now_ms();
    world.meter.advance(now_ms);
    world.handle(event, MonoMillis(now_ms));
    now_ms
}

/// Handles events until something is so, and returns the time.
fn until(world: &mut World<'_>, is_so: impl Fn(&World<'_>) -> bool) -> u64 {
    loop {
        let now_ms = step(world);
        if is_so(world) {
            return now_ms;
        }
        assert!(now_ms < 60_000, "it never came");
    }
}

/// Kills the only container, and returns the time from that until its end.
fn killed_after_ms(world: &mut World<'_>, now_ms: u64) -> u64 {
    let id = *world.live.keys().next().unwrap();
    let mut news = Vec::new();
    world.nodes[0].kill(id, MonoMillis(now_ms), &mut news);
    world.hear(0, &news, MonoMillis(now_ms));
    until(world, |world| !world.live.contains_key(&id)) - now_ms
}

#[test]
fn a_kill_ends_processes_after_its_delay() {
    for kill_ms in [0, 700] {
        let delays = format!("launch-ms = 50, kill-ms = {kill_ms}");
        let took_ms = with_world("random", &delays, &[(0, 10_000)], |world| {
            let now_ms = until(world, |world| world.live.values().any(|live| live.runs));
            killed_after_ms(world, now_ms)
        });
        assert_eq!(took_ms, kill_ms);
    }
}

#[test]
fn what_is_killed_during_its_launch_ends_after_it() {
    // The launch cannot be taken back: the process has to exist before it can end.
    for (kill_ms, expected_ms) in [(0, 301), (700, 700)] {
        let delays = format!("launch-ms = 300, kill-ms = {kill_ms}");
        let took_ms = with_world("random", &delays, &[(0, 10_000)], |world| {
            let now_ms = until(world, |world| {
                world.live.values().any(|live| live.is_launching)
            });
            killed_after_ms(world, now_ms)
        });
        assert_eq!(took_ms, expected_ms);
    }
}

#[test]
fn a_cancelled_probe_leaves_its_queue_a_call_after_the_last_task_has_a_place() {
    let delays = "launch-ms = 0, start-call-ms = 400";
    let jobs = [(0, 5_000), (100, 5_000)];
    with_world("sparrow-late", delays, &jobs, |world| {
        // Two probes of each job: one of the first job has the place.
        let queue = |length| move |world: &World<'_>| world.nodes[0].queue_length() == length;
        let full_ms = until(world, queue(3));
        // The first call of the second job comes 100 ms after that of the first.
        assert_eq!(full_ms, 1_500);
        // Asking for the task takes a call each way; then the other probe is cancelled.
        let bound_ms = until(world, |world| {
            world.live.values().any(|live| live.task.is_some())
        });
        assert_eq!(bound_ms, 1_400 + 2 * 400);
        assert_eq!(until(world, queue(2)), bound_ms + 400);
        // The same for the second job, whose probe gets the place with the end of the first task.
        let next_ms = bound_ms + 5_000;
        assert_eq!(until(world, queue(1)), next_ms);
        assert_eq!(until(world, queue(0)), next_ms + 3 * 400);
    });
}
