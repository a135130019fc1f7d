//! MapReduce as clusters run it: the default file system is HDFS, logs are aggregated to it, and a
//! history server shows both.
//!
//! One cluster runs all jobs, first on the agent and then, for what is compared, on Hadoop's
//! NodeManager in its place.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

mod cluster;
mod examples;
mod failures;
mod history;

use tests::node::NodeKind;
use tests::node_process::node_kind;
use tests::require;

use crate::AGENT;
use cluster::Cluster;

#[test]
fn jobs_on_hdfs_end_with_results_logs_and_histories_as_on_hadoops_node_manager() {
    require!(jdk, hadoop);
    let mut cluster = Cluster::start(&node_kind(AGENT));
    let examples = examples::run(&cluster);
    history::logs_are_read_from_hdfs_and_through_the_links_of_the_history_server(
        &cluster, &examples,
    );
    let ours = failures::run(&cluster, "agent");
    cluster.replace_node(&NodeKind::Java);
    let java = failures::run(&cluster, "java");
    failures::compare(&ours, &java);
}
