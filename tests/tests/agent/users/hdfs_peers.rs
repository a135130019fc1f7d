//! NameNodes and DataNodes that a tenant chose, with accounts for tenants, with cgroups and
//! without, over a restart: other tenants' containers start while the attack goes on.

use records::ContainerId;
use tests::hostile_hdfs::{HostileHdfs, Lie, Moment};
use tests::ports::Port;
use tests::proc;
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto as Visibility;

use super::ends::with_and_without_cgroups_and;
use super::*;
use crate::bad_input::hdfs_peers::{MEMORY_MAX, MemoryWatch, Started, context, start_all};

/// Limit on the answer of a peer that no test reaches, so that a silent one keeps its container
/// until that is stopped.
const NEVER_MS: u64 = 3_600_000;

fn agent_of(tenants: &Tenants) -> u32 {
    proc::agent_below(tenants.cluster.node.process.id())
}

/// Containers of the victim, with and without files from an honest HDFS, start and end. Those of
/// the attacker that a silent peer holds are still being localized then. `first` is the number of
/// the first of three applications; the attacker's begin at 10.
fn assert_others_start_meanwhile(tenants: &Tenants, started: &[Started], first: i32) {
    let honest = HostileHdfs::start(Moment::NameNode, Lie::None);
    let contexts = [
        LaunchContext::command("true"),
        context(&honest, Visibility::Application),
        context(&honest, Visibility::Public),
    ];
    for (number, context) in (first..).zip(contexts) {
        let victim = ScriptedAm::connect_as(VICTIM, &tenants.cluster.rm, number);
        let (status, diagnostics) = tenants.end_of(&victim, context);
        assert_eq!(status, 0, "{diagnostics}");
    }
    for held in silent(started) {
        let ended = tenants
            .cluster
            .rm
            .with(|tracker| tracker.completed.get(&held.id).cloned());
        assert!(ended.is_none(), "{:?} is over: {ended:?}", held.lie);
    }
}

fn silent(started: &[Started]) -> impl Iterator<Item = &Started> {
    let silent = |started: &&Started| started.lie.1 == Lie::Silence;
    started.iter().filter(silent)
}

fn is_over(tenants: &Tenants, id: ContainerId) -> bool {
    let rm = &tenants.cluster.rm;
    rm.with(|tracker| tracker.completed.contains_key(&id))
}

/// Attacks a node, restarts its agent amid the attack, and ends it.
fn attack(tenants: &mut Tenants) {
    let agent = agent_of(tenants);
    let (status, diagnostics) = tenants.end_of(&tenants.victim, LaunchContext::command("true"));
    assert_eq!(status, 0, "{diagnostics}");
    let (before, watch) = (proc::anonymous_memory(agent), MemoryWatch::start(agent));
    let started = start_all(&tenants.cluster, ATTACKER);
    assert_others_start_meanwhile(tenants, &started, 4);
    let taken = watch.most().saturating_sub(before);
    assert!(taken <= MEMORY_MAX, "{taken} bytes in the agent");
    drop(watch);

    tenants.cluster.node.process.kill();
    tenants.cluster.node.start_agent_again(AGENT.as_ref());
    tenants.cluster.rm.wait_registrations(2);
    let again = agent_of(tenants);
    assert_ne!(again, agent);
    let watch = MemoryWatch::start(again);
    assert_others_start_meanwhile(tenants, &started, 7);
    for held in started.iter().filter(|held| !is_over(tenants, held.id)) {
        let attempt = held.id.attempt.application_id;
        let eve = ScriptedAm::connect_as(ATTACKER, &tenants.cluster.rm, attempt.id);
        eve.stop(held.id).expect("the container is known");
    }
    for Started { id, lie } in &started {
        let completed = tenants.cluster.rm.wait_completed(*id);
        assert_ne!(completed.exit_status, 0, "{lie:?}: {completed:?}");
    }
    // The agent of before held as much for its own.
    let taken = watch.most().saturating_sub(before);
    assert!(taken <= MEMORY_MAX, "{taken} bytes in the second agent");
    assert_eq!(agent_of(tenants), again, "it lives");
    let victim = ScriptedAm::connect_as(VICTIM, &tenants.cluster.rm, 3000);
    let (status, diagnostics) = tenants.end_of(&victim, LaunchContext::command("true"));
    assert_eq!(status, 0, "{diagnostics}");
}

#[test]
fn no_lie_of_an_hdfs_keeps_another_tenant_waiting_over_a_restart_too() {
    let test = "no_lie_of_an_hdfs_keeps_another_tenant_waiting_over_a_restart_too";
    let change = |site: &mut Properties| {
        let port = Port::reserve().release();
        site.set("ipc.client.rpc-timeout.ms", NEVER_MS)
            .set("yarn.nodemanager.resource.memory-mb", 65536)
            .set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    };
    with_and_without_cgroups_and(test, change, attack);
}
