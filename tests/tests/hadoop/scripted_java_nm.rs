//! The scripted peers with Hadoop's own NodeManager: when this fails, the peers are wrong, not the
//! agent.

use test_support::scripted::{ScriptedAm, ScriptedRm, Tracker};
use tests::node::NodeKind;
use tests::node_process::NodeProcess;
use tests::require;

#[test]
fn a_java_node_takes_the_peers_for_hadoops_own() {
    require!(java, hadoop);
    let rm = ScriptedRm::start();
    let node = NodeProcess::start(&NodeKind::Java, &rm, |_| {});
    let mut am = ScriptedAm::connect(&rm, 1);

    let succeeds = am.run("echo \\$CONTAINER_ID > <LOG_DIR>/stdout");
    let fails = am.run("exit 7");
    let stopped = am.run("exec sleep 600");
    assert_eq!(rm.wait_completed(succeeds).exit_status, 0);
    assert_eq!(rm.wait_completed(fails).exit_status, 7);
    let written = node
        .log_dir()
        .join(succeeds.application_id().to_string())
        .join(succeeds.to_string())
        .join("stdout");
    assert_eq!(
        std::fs::read_to_string(written).unwrap().trim(),
        succeeds.to_string()
    );
    am.stop(stopped).unwrap();
    assert_eq!(rm.wait_completed(stopped).exit_status, -105);

    // Orders, and keys that roll under a connected ApplicationMaster.
    let ordered = am.start(&am.allocate().opportunistic(), "exec sleep 600");
    rm.roll_keys();
    am.renew_secrets(&rm);
    let after_roll = am.run("true");
    assert_eq!(rm.wait_completed(after_roll).exit_status, 0);
    rm.order_kill(ordered);
    assert_eq!(rm.wait_completed(ordered).exit_status, -106);

    // Another run of the ResourceManager is sent all unacknowledged containers.
    rm.with(Tracker::restart);
    let again = rm.wait_registrations(2);
    assert_eq!(again.container_statuses.len(), 5);
    am.reconnect(&rm).unwrap();
}
