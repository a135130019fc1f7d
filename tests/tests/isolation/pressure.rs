//! Waiting times are reported by class.

use std::collections::BTreeMap;

use tests::{guest, http, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto::CssRunning;

use crate::stories::{DEADLINE, Isolated, isolated};

const FAMILY: &str = "nm_agent_containers_pressure_seconds_total";

/// Seconds for which no container of the class may run before the test succeeds. The kernel updates
/// its figures every two seconds.
const STARVED_S: f64 = 6.0;

impl Isolated {
    fn exposition(&self) -> String {
        let port = self.cluster.rm.wait_registrations(1).http_port();
        let answer = http::get(&format!("http://127.0.0.1:{port}/metrics"));
        answer.unwrap().body
    }
}

/// Returns the seconds that the containers of a class have waited, by the other labels as they
/// stand in the exposition.
fn waited(exposition: &str, class: &str) -> BTreeMap<String, f64> {
    let beginning = format!("{FAMILY}{{execution_type=\"{class}\",");
    let values = exposition.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(&beginning)?.rsplit_once("} ")?;
        Some((labels.to_owned(), value.parse().unwrap()))
    });
    values.collect()
}

#[test]
fn opportunistic_containers_wait_for_a_guaranteed_one_that_burns_and_the_metrics_tell() {
    let test = "opportunistic_containers_wait_for_a_guaranteed_one_that_burns_and_the_metrics_tell";
    let Some(node) = isolated(test, |site| {
        site.set("yarn.nodemanager.resource-monitor.interval-ms", 1000);
    }) else {
        return;
    };
    let exposition = node.exposition();
    let told = waited(&exposition, "opportunistic");
    if told.is_empty() {
        test_support::skip::skip_by_kernel(test, &"no pressure is told of cgroups");
        return;
    }
    // Each resource, some and all.
    assert_eq!(told.len(), 6, "{told:?}");
    assert_eq!(waited(&exposition, "guaranteed").len(), 6);
    let (am, rm) = (&node.cluster.am, &node.cluster.rm);
    let end = node.cluster.gate("end");
    let burn = "(while :; do :; done) &";
    let processors = std::thread::available_parallelism().unwrap().get();
    // First the class that waits: it must get nothing.
    let opportunistic = am.start(
        &am.allocate().opportunistic(),
        &format!("{burn} {}", end.then("kill 0")),
    );
    rm.wait_sub_state(opportunistic, CssRunning);
    let guaranteed = am.start(
        &am.allocate(),
        &format!("{} {}", burn.repeat(processors), end.then("kill 0")),
    );
    rm.wait_sub_state(guaranteed, CssRunning);
    // Seconds in which no container of a class had a processor.
    let starved = || {
        let exposition = node.exposition();
        let of = |class| waited(&exposition, class)["resource=\"cpu\",stalled=\"all\""];
        (of("guaranteed"), of("opportunistic"))
    };
    let before = starved();
    let rise = wait::until("opportunistic containers to wait", DEADLINE, || {
        let now = starved();
        let rise = (now.0 - before.0, now.1 - before.1);
        if rise.1 > STARVED_S {
            Ok(rise)
        } else {
            Err(format!("{rise:?} s"))
        }
    });
    // On another machine other programs may take processors from both classes; in the guest only
    // this test and the node do.
    if guest::is_here() {
        assert!(rise.0 < rise.1, "{rise:?}");
    }
    end.open();
    for id in [guaranteed, opportunistic] {
        rm.wait_completed(id);
    }
}
