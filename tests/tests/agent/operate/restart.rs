//! A drain over a restart of the agent.

use tests::wait;

use super::{code, err, json};
use crate::shell::cluster::{Cluster, DEADLINE};

/// Drains a node, kills its agent, and returns the state of the next one.
#[track_caller]
fn drain_after_crash(recovery: bool) -> serde_json::Value {
    let mut cluster = Cluster::start(0);
    let dir = cluster.folder().join("recovery");
    let change = |site: &mut tests::conf::Properties| {
        site.set("yarn.nodemanager.recovery.enabled", recovery)
            .set("yarn.nodemanager.recovery.dir", dir.display());
    };
    cluster.add_node(change, &[]);
    cluster.wait_nodes(1);
    let drained = cluster.operate(0, "drain", &["--mode", "quick", "--reason", "new kernel"]);
    assert_eq!(code(&drained), Some(0), "{}", err(&drained));
    let before = json(&cluster, "status", &[]);
    cluster.crash_node(0);
    let after = wait::until("the next agent", DEADLINE, || {
        let status = cluster.operate(0, "status", &[]);
        wait::check(code(&status) == Some(0), err(&status))?;
        Ok::<_, String>(json(&cluster, "status", &[]))
    });
    assert_ne!(before["pid"], after["pid"]);
    if recovery {
        assert_eq!(before["drain"]["since_ms"], after["drain"]["since_ms"]);
    }
    after["drain"].clone()
}

#[test]
fn a_node_that_is_drained_comes_back_drained_with_recovery_and_in_service_without() {
    assert_eq!(drain_after_crash(true)["reason"], "new kernel");
    assert_eq!(drain_after_crash(false), serde_json::Value::Null);
}
