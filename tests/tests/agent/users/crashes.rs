//! Crashes of an agent with accounts for tenants, with cgroups and without: one tenant's work that
//! was in progress each time is given up, and another's goes on.

use tests::hostile_hdfs::{HostileHdfs, Lie, Moment};
use tests::ports::Port;
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto as Visibility;

use super::ends::with_and_without_cgroups_and;
use super::*;
use crate::after_restart::crashes::{crash, gauge, wait_held};
use crate::bad_input::hdfs_peers::context;

/// Limit on the answer of a peer that no test reaches.
const NEVER_MS: u64 = 3_600_000;

fn crash_twice(tenants: &mut Tenants) {
    let gate = tenants.cluster.gate("victim");
    let runs = tenants.victim.run(&gate.then("exit 7"));
    let silent = HostileHdfs::start(Moment::NameNode, Lie::Silence);
    let context = context(&silent, Visibility::Private);
    let attacker = &tenants.attacker;
    let fatal = attacker.try_start(&attacker.allocate(), context);
    let fatal = fatal.expect("the container starts");
    tenants.cluster.rm.wait_heartbeats(2);

    crash(&mut tenants.cluster);
    wait_held(&tenants.cluster, 0.0);
    crash(&mut tenants.cluster);
    let failed = tenants.cluster.rm.wait_completed(fatal);
    assert!(failed.diagnostics.contains("two crashes"), "{failed:?}");
    let works = gauge(&tenants.cluster, "nm_agent_recovery_failed_works ");
    assert_eq!(works, Ok(1.0));
    gate.open();
    assert_eq!(tenants.cluster.rm.wait_completed(runs).exit_status, 7);
    let again = ScriptedAm::connect_as(ATTACKER, &tenants.cluster.rm, 4);
    let (status, diagnostics) = tenants.end_of(&again, LaunchContext::command("true"));
    assert_eq!(status, 0, "{diagnostics}");
}

#[test]
fn what_one_tenant_crashes_the_agent_with_is_given_up_and_anothers_container_goes_on() {
    let test = "what_one_tenant_crashes_the_agent_with_is_given_up_and_anothers_container_goes_on";
    let change = |site: &mut Properties| {
        let port = Port::reserve().release();
        site.set("ipc.client.rpc-timeout.ms", NEVER_MS)
            .set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    };
    with_and_without_cgroups_and(test, change, crash_twice);
}
