//! A master lives on through rolling keys and a restarted ResourceManager, and counts its containers.

use std::collections::BTreeSet;
use std::time::Duration;

use records::ContainerId;
use tests::cluster::STATE_DEADLINE;
use tests::conf::{Options, StateStore};
use tests::gate::Gate;
use tests::played::{PlayedMaster, open};
use tests::require;
use wire::proto::hadoop_yarn::ExecutionTypeProto::{Guaranteed, Opportunistic};

use crate::played::{Cluster, here};
use crate::{agent, distributed};

/// How long a silent master is believed to live. A new key counts from one and a half of this on.
const AM_EXPIRY: Duration = Duration::from_secs(8);

/// Between two keys: the least that Hadoop takes is three of the above.
const ROLL_INTERVAL: Duration = Duration::from_secs(26);

/// For both keys to have rolled and the new ones to count.
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

/// Starts those that came since.
fn start_new(master: &PlayedMaster, started: &mut BTreeSet<ContainerId>, command: &str) {
    for id in master.got.keys().filter(|id| !started.contains(id)) {
        master.start(*id, command);
    }
    started.extend(master.got.keys());
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
        master.got.len() == 7
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
    let refused = runtime.block_on(open(scheduler, &master.token));
    assert!(refused.is_err(), "the new token is the ResourceManager's");

    // What is asked for while there is no ResourceManager has to wait for it.
    cluster.rm.kill();
    master.ask(3, 5, Opportunistic);
    master.ask(4, 2, Guaranteed);
    cluster.rm.start_again(&cluster.lab);
    let registrations = master.registrations;
    master.beat_until("seven more containers", STATE_DEADLINE, |master| {
        master.got.len() == 14
    });
    assert!(
        master.registrations > registrations,
        "the restart was not noticed"
    );
    start_new(&master, &mut started, &command);
    let mut kinds = [0, 0];
    for container in master.got.values() {
        kinds[usize::from(container.execution_type() == Opportunistic)] += 1;
    }
    assert_eq!(kinds, [4, 10]);
    assert!(master.ended.is_empty(), "{:?}", master.ended);

    gate.open();
    master.beat_until("the end of all", STATE_DEADLINE, |master| {
        master.ended.len() == 14
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
