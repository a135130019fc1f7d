//! MapReduce's own client and ApplicationMaster, as far as they get without a shuffle service on
//! the node.

use tests::client::Client;
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::map_reduce;
use tests::rm::RmKind;

use crate::interop::start_cluster;

with_each_rm!(the_application_master_of_pi_registers_and_its_client_talks_to_it);

fn the_application_master_of_pi_registers_and_its_client_talks_to_it(rm: &RmKind) {
    // The ApplicationMaster takes two slots.
    let cluster = start_cluster(rm, 4, Options::default());
    let mut pi = map_reduce::start_pi(&cluster.lab, "pi", 1);
    let id = pi.application_id();
    let application = cluster.rm.wait_application(&id, "RUNNING", STATE_DEADLINE);
    assert_eq!(application["applicationType"], "MAPREDUCE", "{application}");

    let client = Client::connect(cluster.lab.rm_ports().client);
    let report = client.report(id.parse().unwrap()).unwrap();
    assert_ne!(report.host(), "N/A", "{report:?}");
    assert!(report.rpc_port() > 0, "{report:?}");
    assert!(report.original_tracking_url().contains(':'), "{report:?}");
    // The master's two slots; the map may have one more.
    let used = report.app_resource_usage.unwrap_or_default();
    let memory_mb = used.used_resources.map_or(0, |used| used.memory());
    assert!(memory_mb >= i64::from(2 * SLOT_MB), "{memory_mb} MiB");
    // A count that only the ApplicationMaster knows.
    pi.wait_log("running in uber mode : false", STATE_DEADLINE);
    cluster.rm.kill_application(&cluster.lab, &id);
    let _ = cluster.rm.wait_application(&id, "KILLED", STATE_DEADLINE);
}
