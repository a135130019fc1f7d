//! Delays that no arm shows alone in its figures: of kills, and of the cancelling of probes.

use super::*;
use crate::arm::placer;

/// Runs jobs of these arrivals and lengths, a task each, on one node of one place. The last one asks
/// for a guaranteed container if `guaranteed` says so.
fn with_world<T>(
    policy: &str,
    delays: &str,
    jobs: &[(u64, u64)],
    guaranteed: bool,
    look: impl FnOnce(&mut World<'_>) -> T,
) -> T {
    let text = format!(
        r#"
        title = "one place"
        cluster = {{ nodes = 1, places = 1 }}
        workload = {{ jobs = "even", count = 1, load = 0.5, guaranteed-percent = 50 }}
        delays = {{ am-heartbeat-ms = 1, {delays} }}
        [[arm]]
        policy = "{policy}"
        "#
    );
    let scenario = Scenario::read(&text).unwrap();
    let job = |(arrives_ms, task_ms): &(u64, u64)| Job::of(*arrives_ms, vec![*task_ms]);
    let mut jobs: Vec<Job> = jobs.iter().map(job).collect();
    if guaranteed {
        jobs.last_mut().unwrap().ask_for_guaranteed();
    }
    let (arm, streams) = (&scenario.arms[0], Streams::new(1));
    let window = Window {
        from_ms: 0,
        to_ms: 0,
    };
    let placer = placer(&scenario, arm, streams).unwrap();
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
        let took_ms = with_world("random", &delays, &[(0, 10_000)], false, |world| {
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
        let took_ms = with_world("random", &delays, &[(0, 10_000)], false, |world| {
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
    with_world("sparrow-late", delays, &jobs, false, |world| {
        // Two probes of each job: one of the first job has the place.
        let queue = |length| move |world: &World<'_>| world.nodes[0].queue_length() == length;
        let full_ms = until(world, queue(3));
        // The first call of the second job comes 100 ms after that of the first.
        assert_eq!(full_ms, 1_500);
        // Asking for the task takes a call each way; then the other probe is cancelled.
        let bound_ms = until(world, |world| {
            world.live.values().any(|live| live.work != Work::Probe)
        });
        assert_eq!(bound_ms, 1_400 + 2 * 400);
        assert_eq!(until(world, queue(2)), bound_ms + 400);
        // The same for the second job, whose probe gets the place with the end of the first task.
        let next_ms = bound_ms + 5_000;
        assert_eq!(until(world, queue(1)), next_ms);
        assert_eq!(until(world, queue(0)), next_ms + 3 * 400);
    });
}

#[test]
fn an_eviction_discards_the_run_so_far_and_the_task_runs_again() {
    let delays = "launch-ms = 50, kill-ms = 700, node-heartbeat-ms = 100";
    with_world(
        "random",
        delays,
        &[(0, 10_000), (4_000, 3_000)],
        true,
        |world| {
            let runs = |world: &World<'_>, execution_type| {
                let mut live = world.live.values();
                live.any(|live| live.runs && live.execution_type == execution_type)
            };
            let first_ms = until(world, |world| runs(world, ExecutionType::Opportunistic));
            let evicted_ms = until(world, |world| world.sums.evicted == 1);
            assert!((5_000..5_200).contains(&evicted_ms), "{evicted_ms}");
            // The process has run since its launch; its end takes the time of a kill.
            assert_eq!(world.sums.lost_ms, evicted_ms - first_ms);
            let next_ms = until(world, |world| runs(world, ExecutionType::Guaranteed));
            assert_eq!(next_ms, evicted_ms + 700 + 50);
            let over_ms = until(world, |world| !runs(world, ExecutionType::Guaranteed));
            assert_eq!(over_ms, next_ms + 3_000);
            let again_ms = until(world, |world| runs(world, ExecutionType::Opportunistic));
            assert_eq!(again_ms, over_ms + 50);
            let end_ms = until(world, |world| world.live.is_empty());
            assert_eq!(end_ms, again_ms + 10_000);
            assert_eq!((world.sums.evicted, world.sums.refused), (1, 0));
        },
    );
}
