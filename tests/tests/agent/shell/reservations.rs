//! Opportunistic containers whose tasks are bound to nodes that have room, and not before.

use tests::conf::Properties;
use tests::wait;

use crate::shell::cluster::{Cluster, DEADLINE, ended, row};
use crate::shell::looks::{PLACEMENT, series, start};

/// Returns the opportunistic containers that wait on the first node, and those that run there. A
/// series that is not there would be 0 as well; the second one shows that names are right.
fn waiting_and_running(cluster: &Cluster) -> Result<[f64; 2], String> {
    let of = |what: &str| {
        let name = format!("nm_agent_containers_{what}{{execution_type=\"opportunistic\"}} ");
        series(cluster, &name)
    };
    Ok([of("queued")?, of("running")?])
}

#[test]
fn tasks_wait_at_the_proxy_and_go_to_the_node_that_has_room_first() {
    let (mut cluster, shell) = start("reservations");
    wait::until("a node that is full", DEADLINE, || {
        let types = cluster.execution_types()?;
        let is_full = types == ["GUARANTEED", "OPPORTUNISTIC", "OPPORTUNISTIC"];
        wait::check(is_full, format!("{types:?}"))
    });
    // The queue of the node has a place, and nobody waits in it.
    let bound = "nm_agent_amrmproxy_bound_containers_total ";
    assert_eq!(series(&cluster, bound), Ok(2.0));
    assert_eq!(waiting_and_running(&cluster), Ok([0.0, 2.0]));
    for _ in 0..2 {
        // Masters here would need a proxy of their own.
        let without = |site: &mut Properties| {
            site.set("yarn.nodemanager.distributed-scheduling.enabled", false)
                .set(PLACEMENT, "look");
        };
        cluster.add_node(without, &[]);
    }
    wait::until("containers on all nodes", DEADLINE, || {
        let running = cluster.execution_types()?.len();
        wait::check(running == 7, running.to_string())
    });
    cluster.open("gate");
    let (status, log) = ended(shell);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(row(&log, "succeeded"), 9, "{log}");
    for (name, expected) in [
        (bound, 9.0),
        (
            "nm_agent_amrmproxy_allocated_containers_total{locality=\"off_switch\"} ",
            9.0,
        ),
        ("nm_agent_amrmproxy_looks_total{outcome=\"ok\"} ", 0.0),
    ] {
        assert_eq!(series(&cluster, name), Ok(expected), "{name}");
    }
    let rooms = series(&cluster, "nm_agent_bound_containers_total ");
    assert!(rooms.is_ok_and(|rooms| rooms >= 2.0));
    cluster.assert_nothing_is_left();
}
