//! Lists of nodes in the ResourceManager's answers, decoded once for all attempts of this node.
//!
//! Each answer to an AM has a list, the same for everybody until the ResourceManager sorts its
//! nodes again, about once a second. A list whose bytes are known is the value that they gave
//! before, for whoever asks. Of another one the nodes are mostly known, each by its bytes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost::Message as _;
use records::NodeId;
use sched::{KnownNode, NodeList, RemoteNode};
use wire::proto::hadoop_yarn::RemoteNodeProto;

/// Longest name of a host, in bytes (RFC 1035), and longest path of a rack and name of a partition.
const NAME_BYTES_MAX: usize = 255;

/// Lists whose bytes are kept: the last one, and those that slower attempts still get.
const KEPT_MAX: usize = 4;

/// Longest list whose bytes are kept. That of 50,000 nodes has some 4 MB.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Least number of nodes that are looked through for those that nobody has any more.
const SWEEP_MIN: usize = 1_024;

/// Returns whether a node may be known: it has a host, and names of lengths that names have.
pub(crate) fn is_usable(node: &RemoteNode) -> bool {
    let RemoteNode {
        node_id,
        http_address,
        rack,
        partition,
    } = node;
    let host = &node_id.host;
    !host.is_empty()
        && host.len() <= NAME_BYTES_MAX
        && http_address.len() <= 2 * NAME_BYTES_MAX
        && rack.len() <= NAME_BYTES_MAX
        && partition.len() <= NAME_BYTES_MAX
}

/// Lists and nodes that this node has received.
#[derive(Debug, Default)]
pub struct NodeLists {
    /// The last lists with their bytes, the newest first. Taken out under the lock and compared
    /// outside.
    kept: Mutex<Arc<[(Bytes, NodeList)]>>,
    nodes: Mutex<Nodes>,
}

/// Nodes by their encoding.
#[derive(Debug, Default)]
struct Nodes {
    known: HashMap<Box<[u8]>, KnownNode>,
    /// Number of nodes after the last sweep.
    swept: usize,
}

/// Locks nodes, or what is known of them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves a value that is at worst out of date.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NodeLists {
    /// Returns the list with these bytes if it is known.
    pub(crate) fn known(&self, encoded: &[u8]) -> Option<NodeList> {
        if encoded.is_empty() {
            return Some(NodeList::default());
        }
        let kept = Arc::clone(&lock(&self.kept));
        let known = kept.iter().find(|(bytes, _)| bytes == encoded);
        known.map(|(_, list)| list.clone())
    }

    /// Keeps a list with its bytes, from which it always follows.
    pub(crate) fn keep(&self, encoded: &[u8], list: &NodeList) {
        if encoded.len() > KEPT_BYTES_MAX {
            return;
        }
        // A copy, because the bytes are a part of a larger answer.
        let new = (Bytes::copy_from_slice(encoded), list.clone());
        let mut kept = lock(&self.kept);
        let others = kept.iter().filter(|(bytes, _)| bytes != encoded).cloned();
        *kept = [new].into_iter().chain(others).take(KEPT_MAX).collect();
    }

    /// Decodes a list, each node from an encoded `RemoteNodeProto`. Those that cannot be read or
    /// used are left out.
    pub fn read(&self, nodes: impl IntoIterator<Item = Bytes>) -> NodeList {
        let mut table = lock(&self.nodes);
        let list = nodes
            .into_iter()
            .filter_map(|encoded| table.read(&encoded))
            .collect();
        table.sweep();
        list
    }
}

impl Nodes {
    fn read(&mut self, encoded: &Bytes) -> Option<KnownNode> {
        if let Some(known) = self.known.get(&encoded[..]) {
            return Some(known.clone());
        }
        let node = RemoteNodeProto::decode(encoded.clone()).ok()?;
        let node = read_node(node).filter(is_usable).map(KnownNode::from)?;
        self.known.insert(encoded[..].into(), node.clone());
        Some(node)
    }

    /// Forgets nodes that are on no list any more and that no attempt remembers. Looks through the
    /// table when it has doubled.
    fn sweep(&mut self) {
        if self.known.len() < SWEEP_MIN.max(2 * self.swept) {
            return;
        }
        self.known.retain(|_, node| node.is_shared());
        self.swept = self.known.len();
    }
}

/// Decodes a node of a list; `None` when it has no id.
fn read_node(node: RemoteNodeProto) -> Option<RemoteNode> {
    Some(RemoteNode {
        node_id: NodeId::try_from(node.node_id?).ok()?,
        http_address: node.http_address.unwrap_or_default(),
        rack: node.rack_name.unwrap_or_default(),
        partition: node.node_partition.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use test_support::ids::node;

    use super::*;

    fn encoded(host: &str, rack: &str) -> Bytes {
        let node = RemoteNodeProto {
            node_id: Some((&node(host)).into()),
            http_address: Some(format!("{host}:8042")),
            rack_name: Some(rack.to_owned()),
            node_partition: None,
        };
        node.encode_to_vec().into()
    }

    fn range(from: usize, to: usize) -> impl Iterator<Item = Bytes> {
        (from..to).map(|number| encoded(&number.to_string(), "/rack"))
    }

    #[test]
    fn lists_share_their_nodes_and_a_node_that_has_moved_is_a_new_one() {
        let lists = NodeLists::default();
        let [first, second] = [(); 2].map(|()| lists.read(range(0, 3)));
        let address = |list: &NodeList, at: usize| std::ptr::from_ref(list.nodes()[at].node());
        assert!((0..3).all(|at| address(&first, at) == address(&second, at)));
        let moved = lists.read([encoded("0", "/other")]);
        assert_eq!(moved.nodes()[0].node().rack, "/other");
    }

    #[test]
    fn nodes_that_cannot_be_used_are_left_out_and_doubled_ones_are_one() {
        let lists = NodeLists::default();
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let nodes = [
            encoded("a", "/rack"),
            encoded("", "/rack"),
            encoded(&long, "/rack"),
            encoded("b", &long),
            Bytes::from_static(b"\x0a\xff"),
            Bytes::new(),
            encoded("a", "/other"),
        ];
        let list = lists.read(nodes);
        let ids: Vec<_> = list.nodes().iter().map(|known| known.node()).collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(
            (ids[0].node_id.host.as_str(), &*ids[0].rack),
            ("a", "/rack")
        );
    }

    #[test]
    fn the_last_lists_are_known_and_long_ones_are_not_kept() {
        let lists = NodeLists::default();
        let kept: Vec<_> = (0..=KEPT_MAX)
            .map(|number| {
                let list = lists.read(range(number, number + 1));
                let bytes = number.to_string();
                lists.keep(bytes.as_bytes(), &list);
                // A second attempt that gets the same list at the same time.
                lists.keep(bytes.as_bytes(), &list);
                list
            })
            .collect();
        assert!(lists.known(b"0").is_none(), "the oldest");
        for (number, list) in kept.iter().enumerate().skip(1) {
            let known = lists.known(number.to_string().as_bytes());
            assert!(known.is_some_and(|known| known.is_same(list)));
        }
        assert!(lists.known(b"").is_some_and(|list| list.nodes().is_empty()));
        let long = vec![0; KEPT_BYTES_MAX + 1];
        lists.keep(&long, &kept[0]);
        assert!(lists.known(&long).is_none());
    }

    #[test]
    fn nodes_that_nobody_has_are_forgotten() {
        let lists = NodeLists::default();
        let held = lists.read(range(0, 10));
        for round in 1..100 {
            let from = round * 100;
            lists.read(range(from, from + 100));
            assert!(lock(&lists.nodes).known.len() < SWEEP_MIN + 100);
        }
        let before = std::ptr::from_ref(held.nodes()[3].node());
        let again = lists.read(range(3, 4));
        assert_eq!(std::ptr::from_ref(again.nodes()[0].node()), before);
    }
}
