//! The cluster: HDFS, ResourceManager, history server and one node at a time.

use std::time::Duration;

use tests::conf::Options;
use tests::hdfs::Hdfs;
use tests::history_server::HistoryServer;
use tests::job_client::JobClient;
use tests::lab::Lab;
use tests::map_reduce::{self, OrderedJob};
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};

/// Slots of 256 MiB that the node has: three ApplicationMasters of two, and six tasks.
pub(super) const SLOTS: u32 = 12;

/// Group of all aggregated logs: that of the root that the node creates.
pub(super) const LOG_GROUP: &str = "log-readers";

/// Property with the address at which ApplicationMasters find the scheduler.
const SCHEDULER: &str = "yarn.resourcemanager.scheduler.address";

/// Deadline for a node that was stopped to be gone.
const STOP_DEADLINE: Duration = Duration::from_secs(90);

/// Fields are dropped in this order.
pub(super) struct Cluster {
    pub(super) node: Node,
    pub(super) history: HistoryServer,
    pub(super) rm: ResourceManager,
    pub(super) hdfs: Hdfs,
    pub(super) ordered: OrderedJob,
    pub(super) lab: Lab,
}

impl Cluster {
    pub(super) fn start(node: &NodeKind) -> Self {
        let options = Options {
            node_memory_mb: SLOTS * tests::cluster::SLOT_MB,
            ..Options::default()
        };
        let options = map_reduce::with_shuffle(options)
            .with("yarn.nodemanager.amrmproxy.enabled", true)
            .with("yarn.nodemanager.distributed-scheduling.enabled", true)
            .with("yarn.log-aggregation-enable", true)
            .with("yarn.nodemanager.remote-app-log-dir.groupname", LOG_GROUP);
        let kind = RmKind::Hadoop;
        let mut lab = Lab::new(&kind, options);
        let history = HistoryServer::reserve(&mut lab);
        let hdfs = Hdfs::start_for(&mut lab);
        let rm = ResourceManager::start(&lab, &kind);
        let history = HistoryServer::start(&lab, &history);
        let node = Node::start_registered(&lab, node, "node", &rm);
        let mut cluster = Self {
            ordered: OrderedJob::compile(&lab),
            node,
            history,
            rm,
            hdfs,
            lab,
        };
        cluster.send_masters_to_the_proxy();
        cluster
    }

    /// Stops the node and starts one of another kind.
    pub(super) fn replace_node(&mut self, kind: &NodeKind) {
        self.node.process.terminate();
        let _ = self.node.process.wait_exit(STOP_DEADLINE);
        let rm = format!("localhost:{}", self.lab.rm_ports().scheduler);
        self.lab.set(SCHEDULER, rm);
        self.node = Node::start_registered(&self.lab, kind, "other-node", &self.rm);
        self.send_masters_to_the_proxy();
    }

    /// Configures clients with the AMRMProxy of the node: MapReduce's configuration travels with
    /// the job.
    fn send_masters_to_the_proxy(&mut self) {
        let proxy = format!("localhost:{}", self.node.site.ports.amrm_proxy);
        self.lab.set(SCHEDULER, proxy);
    }

    /// Starts the client of an example.
    pub(super) fn example<const N: usize>(&self, arguments: [&str; N]) -> JobClient {
        map_reduce::start(&self.lab, arguments[0], arguments)
    }
}
