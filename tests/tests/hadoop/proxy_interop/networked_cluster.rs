//! A cluster of Hadoop's ResourceManager whose nodes have networks of their own: each has a host of
//! its own, and its AMRMProxy at `localhost:8049`.

use tests::conf::Options;
use tests::lab::Lab;
use tests::network::{HUB, NodeNetwork};
use tests::node::{Node, NodeKind};
use tests::rm::{ResourceManager, RmKind};

/// A node and its network. Fields are dropped in this order.
pub(crate) struct Place {
    pub(crate) node: Node,
    pub(crate) network: NodeNetwork,
    /// Whether it is a node of ours, which has metrics.
    pub(crate) is_agent: bool,
}

/// A ResourceManager and its nodes. Fields are dropped in this order.
pub(crate) struct NetworkedCluster {
    pub(crate) places: Vec<Place>,
    pub(crate) rm: ResourceManager,
    pub(crate) lab: Lab,
}

impl NetworkedCluster {
    /// Starts a ResourceManager and no node. For use in [`tests::network::isolated`].
    pub(crate) fn start(options: Options) -> Self {
        let mut lab = Lab::new(&RmKind::Hadoop, options);
        lab.set_rm_host(HUB);
        Self {
            rm: ResourceManager::start(&lab, &RmKind::Hadoop),
            places: Vec::new(),
            lab,
        }
    }

    /// Adds a node in a network of its own.
    pub(crate) fn add_node(&mut self, kind: &NodeKind) {
        let number = u8::try_from(self.places.len() + 1).unwrap();
        let network = NodeNetwork::connect(number);
        let name = format!("node{number}");
        let node = Node::start_registered_in(&network, &self.lab, kind, &name, &self.rm);
        let is_agent = matches!(kind, NodeKind::Agent(_));
        self.places.push(Place {
            node,
            network,
            is_agent,
        });
    }

    /// Returns, by node, the printed numbers of containers that have a log, without the masters.
    /// A master is not always the first: the ResourceManager counts containers that it reserves.
    pub(crate) fn used(&self, application_id: &str) -> Vec<Vec<i64>> {
        let attempts = self.rm.attempts(application_id).unwrap_or_default();
        let is_master = |id: &String| {
            let mut masters = attempts.iter().map(|attempt| &attempt["containerId"]);
            masters.any(|master| master == id.as_str())
        };
        let number = |id: &String| id.rsplit('_').next()?.parse::<i64>().ok();
        let of = |place: &Place| {
            let files = place.node.logs(application_id).files("stdout");
            let containers = files.keys().filter(|id| !is_master(id));
            containers.filter_map(number).collect()
        };
        self.places.iter().map(of).collect()
    }
}
