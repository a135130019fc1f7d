//! MapReduce's own client, ApplicationMaster and tasks, whose reducers fetch from the node's
//! shuffle.

use std::time::Duration;

use tests::client::Client;
use tests::cluster::{SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::map_reduce;
use tests::rm::RmKind;

use crate::interop::start_cluster;

/// Deadline for a job of a dozen tasks, each of which is a JVM's start.
const JOB_DEADLINE: Duration = Duration::from_secs(300);

with_each_rm!(pi_is_estimated_by_maps_and_a_reduce_that_fetches_from_this_node);

fn pi_is_estimated_by_maps_and_a_reduce_that_fetches_from_this_node(rm: &RmKind) {
    // The ApplicationMaster takes two slots.
    let cluster = start_cluster(rm, 8, map_reduce::with_shuffle(Options::default()));
    let mut pi = map_reduce::start_pi(&cluster.lab, "pi", 4);
    let id = pi.application_id();
    let application = cluster.rm.wait_application(&id, "RUNNING", STATE_DEADLINE);
    assert_eq!(application["applicationType"], "MAPREDUCE", "{application}");

    let client = Client::connect(cluster.lab.rm_ports().client);
    let report = client.report(id.parse().unwrap()).unwrap();
    assert_ne!(report.host(), "N/A", "{report:?}");
    assert!(report.rpc_port() > 0, "{report:?}");
    assert!(report.original_tracking_url().contains(':'), "{report:?}");
    // The master's two slots; maps may have more.
    let used = report.app_resource_usage.unwrap_or_default();
    let memory_mb = used.used_resources.map_or(0, |used| used.memory());
    assert!(memory_mb >= i64::from(2 * SLOT_MB), "{memory_mb} MiB");

    let outcome = pi.outcome(JOB_DEADLINE);
    assert!(outcome.succeeded, "{}", outcome.log);
    // Of 40 samples: four maps of ten, as Hadoop's NodeManager gives too.
    let estimate = "Estimated value of Pi is 3.40000000000000000000";
    assert!(outcome.log.contains(estimate), "{}", outcome.log);
    assert!(outcome.log.contains("Shuffled Maps =4"), "{}", outcome.log);
}
