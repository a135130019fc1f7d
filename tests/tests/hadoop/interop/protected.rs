//! Clusters whose calls are signed or encrypted (`hadoop.rpc.protection`): the launcher's and the
//! masters' calls to nodes, masters' calls through the AMRMProxy, the proxy's to the
//! ResourceManager.

use tests::cluster::{JOB_DEADLINE, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::ContainerType;
use tests::rm::RmKind;
use tests::wait;
use wire::client::RpcError;
use wire::digest_md5::DigestError;
use wire::sasl::SaslError;

use super::proxied::{distributed, master_token, try_connect};
use crate::interop::start_cluster;

with_each_rm!(
    opportunistic_containers_run_through_the_proxy_when_calls_are_signed,
    opportunistic_containers_run_through_the_proxy_when_calls_are_encrypted,
    opportunistic_containers_run_through_the_proxy_when_calls_may_be_encrypted,
);

fn opportunistic_containers_run_through_the_proxy_when_calls_are_signed(rm: &RmKind) {
    run(rm, "integrity", false);
}

fn opportunistic_containers_run_through_the_proxy_when_calls_are_encrypted(rm: &RmKind) {
    run(rm, "privacy", false);
}

fn opportunistic_containers_run_through_the_proxy_when_calls_may_be_encrypted(rm: &RmKind) {
    run(rm, "authentication,privacy", true);
}

/// Runs a job whose containers are all opportunistic and allocated by the node. `in_clear`: whether
/// the node's proxy takes a caller that wants neither.
fn run(rm: &RmKind, levels: &str, in_clear: bool) {
    let options = Options::default().with("hadoop.rpc.protection", levels);
    let cluster = start_cluster(rm, 8, distributed(options));
    let gate = cluster.gate("gate");
    let command = gate.wait_command();
    let mut shell = cluster.submit("protected", &command, 6, ContainerType::Opportunistic);
    let id = shell.application_id();
    wait::until("containers of the node's own", STATE_DEADLINE, || {
        let series = "nm_agent_amrmproxy_allocated_containers_total{locality=\"off_switch\"}";
        let allocated = cluster.node.metric(series)?;
        wait::check(allocated >= 6.0, allocated.to_string())
    });
    let token = master_token(&cluster, &id);
    match try_connect(cluster.node.site.ports.amrm_proxy, &token) {
        Ok(()) => assert!(in_clear, "a call in clear under {levels}"),
        Err(RpcError::Sasl { source, .. }) => {
            assert_eq!(source, SaslError::Digest(DigestError::NoCommonProtection));
            assert!(!in_clear, "no call in clear under {levels}");
        }
        Err(other) => panic!("{levels}: {other}"),
    }
    gate.open();
    shell.assert_succeeds(JOB_DEADLINE);
    cluster.node.logs(&id).assert_succeeded(6);
}
