//! Delays that no arm shows alone in its figures: of kills, and of the cancelling of probes.

use super::*;
use crate::arm::placer;

/// A node, and jobs of a task each, given by arrival and length.
#[derive(Clone, Copy, Default)]
struct Setup<'a> {
    policy: &'a str,
    delays: &'a str,
    /// Further keys of the scenario.
    further: &'a str,
    /// Settings of the arm.
    settings: &'a str,
    /// Places beyond the first.
    more_places: u32,
    jobs: &'a [(u64, u64)],
    /// Whether the last job asks for a guaranteed container.
    is_last_guaranteed: bool,
}

fn with_world<T>(setup: Setup<'_>, look: impl FnOnce(&mut World<'_, Decisions>) -> T) -> T {
    let Setup {
        policy,
        delays,
        further,
        settings,
        ..
    } = setup;
    let places = 1 + setup.more_places;
    let text = format!(
        r#"
        title = "one node"
        cluster = {{ nodes = 1, places = {places} }}
        workload = {{ jobs = "even", count = 1, load = 0.5, guaranteed-percent = 50 }}
        delays = {{ am-heartbeat-ms = 1, {delays} }}
        {further}
        [[arm]]
        policy = "{policy}"
        {settings}
        "#
    );
    let scenario = Scenario::read(&text).unwrap();
    let job = |(arrives_ms, task_ms): &(u64, u64)| Job::of(*arrives_ms, vec![*task_ms]);
    let mut jobs: Vec<Job> = setup.jobs.iter().map(job).collect();
    if setup.is_last_guaranteed {
        jobs.last_mut().unwrap().ask_for_guaranteed();
    }
    let (arm, streams) = (&scenario.arms[0], Streams::new(1));
    let window = Window {
        from_ms: 0,
        to_ms: 0,
    };
    let placer = placer(&scenario, arm, &jobs, streams).unwrap();
    let level = Decisions::new(&scenario, arm, placer, &jobs);
    let mut world = World::new(&scenario, arm, level, &jobs, window, streams);
    world.begin();
    look(&mut world)
}

/// Returns a node that runs one task of ten seconds.
const fn one_task(delays: &str) -> Setup<'_> {
    Setup {
        policy: "random",
        delays,
        further: "",
        settings: "",
        more_places: 0,
        jobs: &[(0, 10_000)],
        is_last_guaranteed: false,
    }
}

/// Handles the next event, and returns its time.
fn step(world: &mut World<'_, Decisions>) -> u64 {
    let event = world.events.pop().unwrap();
    let now_ms = world.events.now_ms();
    world.meter.advance(now_ms);
    world.handle(event, MonoMillis(now_ms));
    now_ms
}

/// Handles events until something is so, and returns the time.
fn until(world: &mut World<'_, Decisions>, is_so: impl Fn(&World<'_, Decisions>) -> bool) -> u64 {
    loop {
        let now_ms = step(world);
        if is_so(world) {
            return now_ms;
        }
        assert!(now_ms < 60_000, "it never came");
    }
}

/// Kills the only container, and returns the time from that until its end.
fn killed_after_ms(world: &mut World<'_, Decisions>, now_ms: u64) -> u64 {
    let id = *world.live.keys().next().unwrap();
    let mut news = Vec::new();
    world.level.nodes[0].kill(id, MonoMillis(now_ms), &mut news);
    world.hear(0, &news, MonoMillis(now_ms));
    until(world, |world| !world.live.contains_key(&id)) - now_ms
}

#[test]
fn a_kill_ends_processes_after_its_delay() {
    for kill_ms in [0, 700] {
        let delays = format!("launch-ms = 50, kill-ms = {kill_ms}");
        let took_ms = with_world(one_task(&delays), |world| {
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
        let took_ms = with_world(one_task(&delays), |world| {
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
    let setup = Setup {
        policy: "sparrow-late",
        delays,
        jobs: &jobs,
        ..Setup::default()
    };
    with_world(setup, |world| {
        // Two probes of each job: one of the first job has the place.
        let queue = |length| {
            move |world: &World<'_, Decisions>| world.level.nodes[0].queue_length() == length
        };
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
    let setup = Setup {
        policy: "random",
        delays,
        jobs: &[(0, 10_000), (4_000, 3_000)],
        is_last_guaranteed: true,
        ..Setup::default()
    };
    with_world(setup, |world| {
        let runs = |world: &World<'_, Decisions>, execution_type| {
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
    });
}

/// Returns a node with a task of ten seconds, and three seconds of guaranteed work after four, on
/// which victims are frozen.
fn one_victim<'a>(settings: &'a str) -> Setup<'a> {
    Setup {
        policy: "random",
        delays: "launch-ms = 50, kill-ms = 700, pause-ms = 40, node-heartbeat-ms = 100",
        jobs: &[(0, 10_000), (4_000, 3_000)],
        is_last_guaranteed: true,
        settings,
        ..Setup::default()
    }
}

#[test]
fn a_pause_keeps_the_run_so_far_and_the_task_runs_on() {
    with_world(
        one_victim("pause = true\npause-memory-percent = 100"),
        |world| {
            let began_ms = until(world, |world| world.meter.running == 1);
            let ordered_ms = until(world, |world| world.sums.paused == 1);
            let frozen_ms = until(world, |world| world.meter.running == 0);
            assert_eq!(frozen_ms, ordered_ms + 40);
            assert_eq!(world.meter.waiting, 2);
            let next_ms = until(world, |world| world.meter.running == 1);
            assert_eq!(next_ms, frozen_ms + 50);
            let over_ms = until(world, |world| world.meter.running == 0);
            assert_eq!(over_ms, next_ms + 3_000);
            let again_ms = until(world, |world| world.meter.running == 1);
            assert_eq!(again_ms, over_ms + 40);
            let end_ms = until(world, |world| world.live.is_empty());
            assert_eq!(end_ms - again_ms, 10_000 - (frozen_ms - began_ms));
            let sums = &world.sums;
            assert_eq!((sums.paused, sums.evicted, sums.lost_ms), (1, 0, 0));
            until(world, |world| world.unfinished == 0);
            assert_eq!((world.meter.running, world.meter.waiting), (0, 0));
        },
    );
}

#[test]
fn a_frozen_container_is_killed_for_its_memory_and_after_its_longest_pause() {
    for (settings, after_ms) in [
        // Nothing is left for it beside the container that needs the place.
        ("pause = true\npause-memory-percent = 0", 0..60),
        (
            "pause = true\npause-memory-percent = 100\npause-max-s = 2",
            2_000..2_001,
        ),
    ] {
        with_world(one_victim(settings), |world| {
            let began_ms = until(world, |world| world.meter.running == 1);
            let ordered_ms = until(world, |world| world.sums.paused == 1);
            let frozen_ms = until(world, |world| world.meter.running == 0);
            let killed_ms = until(world, |world| world.sums.evicted == 1);
            let paused_ms = killed_ms - frozen_ms;
            assert!(after_ms.contains(&paused_ms), "{settings}: {paused_ms}");
            // A scheduler counts no run after its order.
            assert_eq!(world.sums.lost_ms, ordered_ms - began_ms);
            until(world, |world| world.unfinished == 0);
            assert_eq!((world.meter.running, world.meter.waiting), (0, 0));
            assert_eq!(world.sums.evicted, 1);
        });
    }
}

/// Fails the node once its task has run for three seconds, and returns the time of that.
fn fail_after_three_seconds(world: &mut World<'_, Decisions>) -> u64 {
    let runs_ms = until(world, |world| world.meter.running == 1);
    let failed_ms = loop {
        let now_ms = step(world);
        if now_ms >= runs_ms + 3_000 {
            break now_ms;
        }
    };
    world.node_fails(0, MonoMillis(failed_ms));
    assert_eq!((world.meter.running, world.meter.waiting), (0, 1));
    assert_eq!(world.sums.lost_ms, failed_ms - runs_ms);
    failed_ms
}

#[test]
fn a_task_runs_again_when_its_lost_node_has_registered_again() {
    let further = "failures = { up-s = 100000, down-s = 30, expiry-s = 600 }";
    let setup = Setup {
        further,
        ..one_task("launch-ms = 50")
    };
    with_world(setup, |world| {
        let failed_ms = fail_after_three_seconds(world);
        let again_ms = until(world, |world| world.meter.running == 1);
        // The call that tells of the loss, the one that asks, and the launch.
        let waited_ms = again_ms - failed_ms - 30_000;
        assert!((50..=53).contains(&waited_ms), "{waited_ms}");
        let end_ms = until(world, |world| world.live.is_empty());
        assert_eq!(end_ms, again_ms + 10_000);
        assert_eq!((world.sums.node_lost, world.meter.down), (1, 0));
    });
}

#[test]
fn a_start_call_to_a_node_that_is_down_fails_after_its_time() {
    let further = "failures = { up-s = 100000, down-s = 30, expiry-s = 10, connect-s = 12 }";
    let setup = Setup {
        further,
        ..one_task("launch-ms = 50")
    };
    with_world(setup, |world| {
        let failed_ms = fail_after_three_seconds(world);
        // After the expiry the master asks again, and there is no other node than the one that is
        // down: two calls to it fail, the second after the node is back.
        let again_ms = until(world, |world| world.meter.running == 1);
        let waited_ms = again_ms - failed_ms - 10_000 - 2 * 12_000;
        assert!((50..=56).contains(&waited_ms), "{waited_ms}");
        assert_eq!(world.sums.node_lost, 1 + 2);
    });
}

#[test]
fn a_lost_master_is_followed_by_another_that_finishes_the_job() {
    let further = "failures = { up-s = 100000, down-s = 30 }
        masters = { container = true, start-ms = 2000 }";
    let setup = Setup {
        policy: "guaranteed-fifo",
        further,
        more_places: 1,
        ..one_task("launch-ms = 50, node-heartbeat-ms = 100")
    };
    with_world(setup, |world| {
        let failed_ms = fail_after_three_seconds(world);
        assert_eq!(world.meter.masters, 0);
        let master_ms = until(world, |world| world.meter.masters == 1);
        // The registration starts it.
        assert_eq!(master_ms, failed_ms + 30_000 + 50);
        let again_ms = until(world, |world| world.meter.running == 1);
        let waited_ms = again_ms - master_ms - 2_000;
        assert!((50..=160).contains(&waited_ms), "{waited_ms}");
        until(world, |world| world.unfinished == 0);
        until(world, |world| world.live.is_empty());
        assert_eq!((world.meter.masters, world.meter.running), (0, 0));
    });
}
