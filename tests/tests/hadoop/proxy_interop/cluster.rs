//! A cluster of Hadoop's ResourceManager with simulated masters.

use std::net::{Ipv4Addr, SocketAddr};

use test_support::scripted::Launched;
use test_support::simulated::SimulatedAm;
use tests::client::ShellApplication;
use tests::cluster::SLOT_MB;
use tests::conf::Options;
use tests::lab::Lab;
use tests::node::{Node, NodeKind};
use tests::proxy_cluster::{SLEEP, wait_launched};
use tests::rm::{ResourceManager, RmKind};

/// Nodes, ResourceManager and folder of a cluster. Fields are dropped in this order.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) rm: ResourceManager,
    pub(crate) lab: Lab,
}

/// Returns the address of a port of this machine.
pub(crate) fn here(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Cluster {
    /// Starts a ResourceManager and nodes of these kinds.
    pub(crate) fn start(kinds: &[NodeKind], options: Options) -> Self {
        let lab = Lab::new(&RmKind::Hadoop, options);
        let mut cluster = Self {
            rm: ResourceManager::start(&lab, &RmKind::Hadoop),
            nodes: Vec::new(),
            lab,
        };
        for kind in kinds {
            cluster.add_node(kind);
        }
        cluster
    }

    pub(crate) fn add_node(&mut self, kind: &NodeKind) {
        let name = format!("node{}", self.nodes.len() + 1);
        let node = Node::start_registered(&self.lab, kind, &name, &self.rm);
        self.nodes.push(node);
    }

    /// Launches a master that sleeps; returns its node and its token.
    pub(crate) fn launch(&self) -> (&Node, Launched) {
        let application = ShellApplication {
            command: SLEEP,
            memory_mb: SLOT_MB,
        };
        let id = application.submit(&self.lab);
        let nodes = self.nodes.iter().map(|node| node.site.local_dir());
        let nodes: Vec<_> = nodes.collect();
        let (node, launched) = wait_launched(&nodes, id.parse().unwrap());
        (&self.nodes[node], launched)
    }

    /// Launches a master and registers it through its node.
    pub(crate) fn play(&self) -> SimulatedAm {
        let (node, launched) = self.launch();
        SimulatedAm::register(here(node.site.ports.amrm_proxy), launched)
    }
}
