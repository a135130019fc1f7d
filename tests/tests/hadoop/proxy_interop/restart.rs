//! A master survives rolling keys and a restarted ResourceManager, and counts its containers.

use std::collections::BTreeSet;
use std::time::Duration;

use records::ContainerId;
use test_support::scripted::connect_scheduler;
use test_support::simulated::SimulatedAm;
use tests::cluster::STATE_DEADLINE;
use tests::conf::{Options, StateStore};
use tests::gate::Gate;
use tests::require;
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::ExecutionTypeProto::{Guaranteed, Opportunistic};

use crate::proxy_interop::cluster::{Cluster, here};
use crate::proxy_interop::{agent, distributed};

/// Expiry interval of a silent master. A new key is used after one and a half of this.
const AM_EXPIRY: Duration = Duration::from_secs(8);

/// Interval between two keys: Hadoop's minimum is three of the above.
const ROLL_INTERVAL: Duration = Duration::from_secs(26);

/// Deadline for both keys to have rolled and the new ones to be used.
const ROLL_DEADLINE: Duration = Duration::from_secs(150);

fn rolling() -> Options {
    let options = Options {
        state_store: StateStore::FileSystem,
        ..distributed()
    };
    let keys = "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs";
    options
        .with(
            "yarn.am.liveness-monitor.expiry-interval-ms",
            AM_EXPIRY.as_millis(),
        )
        .with(keys, ROLL_INTERVAL.as_secs())
}

/// Starts containers allocated since the last call.
fn start_new(master: &SimulatedAm, started: &mut BTreeSet<ContainerId>, command: &str) {
    for id in master.allocated.keys().filter(|id| !started.contains(id)) {
        master.start(*id, command);
    }
    started.extend(master.allocated.keys());
}

/// Returns how often nodes registered an attempt again.
fn registered_again(cluster: &Cluster) -> f64 {
    let series = "nm_agent_amrmproxy_registrations_again_total";
    let nodes = cluster.nodes.iter();
    nodes.map(|node| node.metric(series).unwrap()).sum()
}

/// Asserts that a response id that is too high by `by` is refused, with the master's own numbers in
/// the text.
fn assert_wrong_id(refusal: &RemoteException, master: &SimulatedAm, by: i32) {
    let expected = master.response_id();
    assert!(
        refusal.is(HadoopException::InvalidApplicationMasterRequest),
        "{refusal}"
    );
    let text = format!(
        "Invalid responseId in AllocateRequest from application attempt: {} expect responseId to be {expected} but get {}",
        master.attempt,
        expected + by
    );
    assert!(refusal.message.contains(&text), "{refusal}");
}

#[test]
fn a_wrong_response_id_is_refused_by_the_resource_manager_through_the_node() {
    require!(java, hadoop);
    let cluster = Cluster::start(&[agent()], distributed());
    let mut master = cluster.play();
    for _ in 0..3 {
        master.beat().unwrap();
    }
    for by in [-3, 1, 1_000] {
        let refusal = master.refusal_of(master.response_id() + by);
        assert_wrong_id(&refusal, &master, by);
    }
    master.beat().unwrap();
    master.finish();
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_over_rolled_keys_and_a_restarted_resource_manager() {
    require!(java, hadoop);
    let mut cluster = Cluster::start(&[agent(), agent()], rolling());
    let mut master = cluster.play();
    let gate = Gate::at(cluster.lab.folder().join("gate"));
    let command = gate.wait_command();
    let mut started = BTreeSet::new();
    master.ask(1, 5, Opportunistic);
    master.ask(2, 2, Guaranteed);
    master.beat_until("seven containers", STATE_DEADLINE, |master| {
        master.allocated.len() == 7
    });
    start_new(&master, &mut started, &command);

    let first = master.token.clone();
    let is_over = |log: String| log.contains("Activating next master key");
    master.beat_until("new keys", ROLL_DEADLINE, |master| {
        master.renewals > 0 && is_over(cluster.rm.log())
    });
    assert_ne!(first, master.token);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scheduler = here(cluster.lab.rm_ports().scheduler);
    let refused = runtime.block_on(connect_scheduler(scheduler, &master.token));
    assert!(refused.is_err(), "the new token is the ResourceManager's");

    // The ResourceManager has received this ask and loses it: the master does not send it again.
    master.ask(5, 3, Guaranteed);
    master.beat().unwrap();
    assert_eq!(master.allocated.len(), 7, "the ask has to be outstanding");
    cluster.rm.kill();
    // An ask while no ResourceManager runs has to wait for it.
    master.ask(3, 5, Opportunistic);
    master.ask(4, 2, Guaranteed);
    cluster.rm.start_again(&cluster.lab);
    master.beat_until("ten more containers", STATE_DEADLINE, |master| {
        master.allocated.len() == 17
    });
    assert_eq!(master.registrations, 1, "the restart was noticed");
    assert_eq!(registered_again(&cluster), 1.0);
    let refusal = master.refusal_of(master.response_id() + 1_000);
    assert_wrong_id(&refusal, &master, 1_000);
    start_new(&master, &mut started, &command);
    let mut kinds = [0, 0];
    for container in master.allocated.values() {
        kinds[usize::from(container.execution_type() == Opportunistic)] += 1;
    }
    assert_eq!(kinds, [7, 10]);
    assert!(master.ended.is_empty(), "{:?}", master.ended);

    gate.open();
    master.beat_until("the end of all", STATE_DEADLINE, |master| {
        master.ended.len() == 17
    });
    assert!(
        master.ended.values().all(|status| *status == 0),
        "{:?}",
        master.ended
    );
    master.finish();
    let id = master.attempt.application_id.to_string();
    let application = cluster.rm.wait_application(&id, "FINISHED", STATE_DEADLINE);
    assert_eq!(application["finalStatus"], "SUCCEEDED", "{application}");
}
