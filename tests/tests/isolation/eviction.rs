//! Opportunistic containers are frozen for guaranteed ones, and lose no work.

use std::time::Duration;

use tests::wait;
use wire::proto::hadoop_yarn::ContainerSubStateProto::{CssPaused, CssRunning, CssScheduled};

use crate::stories::{DEADLINE, Ear, isolated, pausing};

/// Time in which a running container would show progress: it sends within microseconds, in the
/// guest within milliseconds.
const MOMENT: Duration = Duration::from_millis(500);

#[test]
fn a_frozen_container_makes_no_progress_and_goes_on_with_its_open_sockets() {
    let test = "a_frozen_container_makes_no_progress_and_goes_on_with_its_open_sockets";
    let Some(node) = isolated(test, pausing) else {
        return;
    };
    let am = &node.cluster.am;
    let ear = Ear::new();
    let opportunistic = am.start(
        &am.allocate().opportunistic().memory_mb(768),
        &ear.command(),
    );
    let mut line = ear.accept();
    assert_eq!(line.hear(), 1);
    line.say("next");
    assert_eq!(line.hear(), 2);
    // The container runs, but the node may not have noticed yet; only containers that it knows to
    // run can be frozen.
    node.cluster.rm.wait_sub_state(opportunistic, CssRunning);
    let gate = node.cluster.gate("go");
    let guaranteed = am.start(&am.allocate().memory_mb(768), &gate.then("exit 0"));
    node.cluster.rm.wait_sub_state(guaranteed, CssRunning);
    node.cluster.rm.wait_sub_state(opportunistic, CssPaused);
    // The container has its answer, but does not run.
    line.say("next");
    assert!(line.is_silent_for(MOMENT));
    gate.open();
    assert_eq!(node.cluster.rm.wait_completed(guaranteed).exit_status, 0);
    // The same connection continues with the next number: nothing was lost or started anew.
    assert_eq!(line.hear(), 3);
    node.cluster.rm.wait_sub_state(opportunistic, CssRunning);
    line.say("next");
    assert_eq!(line.hear(), 4);
    line.say("end");
    let ended = node.cluster.rm.wait_completed(opportunistic);
    assert_eq!(ended.exit_status, 0, "{ended:?}");
}

#[test]
fn under_load_all_guaranteed_containers_start_before_an_opportunistic_one_gets_its_room_back() {
    let test =
        "under_load_all_guaranteed_containers_start_before_an_opportunistic_one_gets_its_room_back";
    let Some(node) = isolated(test, pausing) else {
        return;
    };
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    let end = node.cluster.gate("end");
    // Four busy containers fill the node, and two wait.
    let opportunistic: Vec<_> = (0..6)
        .map(|_| {
            let busy = format!("(while :; do :; done) & {}", end.then("kill \\$!; exit 6"));
            am.start(&am.allocate().opportunistic().memory_mb(256), &busy)
        })
        .collect();
    let (running, waiting) = opportunistic.split_at(4);
    for id in running {
        rm.wait_sub_state(*id, CssRunning);
    }
    for id in waiting {
        rm.wait_sub_state(*id, CssScheduled);
    }
    let gate = node.cluster.gate("go");
    let guaranteed: Vec<_> = (0..4)
        .map(|_| am.start(&am.allocate().memory_mb(256), &gate.then("exit 7")))
        .collect();
    for id in &guaranteed {
        rm.wait_sub_state(*id, CssRunning);
    }
    // While the gate is closed the guaranteed ones hold the node: no other container may have been
    // thawed or started.
    for id in running {
        rm.wait_sub_state(*id, CssPaused);
    }
    rm.wait_heartbeats(3);
    for id in running {
        assert_eq!(node.sub_state(*id), Some(CssPaused), "{id}");
    }
    for id in waiting {
        assert_eq!(node.sub_state(*id), Some(CssScheduled), "{id}");
    }
    gate.open();
    for id in guaranteed {
        assert_eq!(rm.wait_completed(id).exit_status, 7);
    }
    wait::until("the frozen ones to go on", DEADLINE, || {
        let states: Vec<_> = running.iter().map(|id| node.sub_state(*id)).collect();
        let all_run = states.iter().all(|state| *state == Some(CssRunning));
        wait::check(all_run, format!("{states:?}"))
    });
    end.open();
    for id in opportunistic {
        let ended = rm.wait_completed(id);
        assert_eq!(ended.exit_status, 6, "{ended:?}");
    }
}

#[test]
fn a_frozen_container_that_is_stopped_ends() {
    let test = "a_frozen_container_that_is_stopped_ends";
    let Some(node) = isolated(test, pausing) else {
        return;
    };
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    let opportunistic = am.start(
        &am.allocate().opportunistic().memory_mb(768),
        "while :; do :; done",
    );
    rm.wait_sub_state(opportunistic, CssRunning);
    let gate = node.cluster.gate("go");
    let guaranteed = am.start(&am.allocate().memory_mb(768), &gate.then("exit 0"));
    rm.wait_sub_state(guaranteed, CssRunning);
    rm.wait_sub_state(opportunistic, CssPaused);
    am.stop(opportunistic).unwrap();
    assert_eq!(rm.wait_completed(opportunistic).exit_status, -105);
    gate.open();
    assert_eq!(rm.wait_completed(guaranteed).exit_status, 0);
}
