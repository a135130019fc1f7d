//! The directory in the node's state store: written with each answer of the ResourceManager, read
//! when the agent starts again. Pure.
//!
//! What was stored counts until the question that would have come next. So a restart of the agent
//! asks for nothing that is known, and believes nothing longer than it would have without a
//! restart.

use records::{EpochMillis, Now, Resource};
use sched::RemoteNode;
use wire::proto::hadoop_yarn::{NodeReportProto, NodeStateProto};

use super::cluster_nodes::read_report;
use super::directory::{Directory, INTERVAL_MAX_MS, NODES_MAX, ReportedNode};
use crate::store::{NodesRecord, Record as _};

/// Reason for which what was stored is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoredError {
    #[error("of another version, or broken")]
    Unreadable,
    #[error("too old")]
    Stale,
}

/// Encodes a directory whose nodes the ResourceManager has told.
pub(super) fn encode(directory: &Directory, now: Now) -> Vec<u8> {
    let until_ms = directory.next_question().map_or(0, |next| {
        let left_ms = i64::try_from(next.since(now.mono)).unwrap_or(i64::MAX);
        now.wall.0.saturating_add(left_ms)
    });
    let record = NodesRecord {
        epoch: directory.epoch(),
        until_ms,
        node_bytes: directory.node_bytes(),
        nodes: directory.reported().map(write).collect(),
    };
    record.to_stored()
}

fn write((node, capability): (&RemoteNode, Option<Resource>)) -> NodeReportProto {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    NodeReportProto {
        node_id: Some((&node.node_id).into()),
        http_address: text(&node.http_address),
        rack_name: text(&node.rack),
        capability: capability.map(Into::into),
        node_state: Some(NodeStateProto::NsRunning.into()),
        node_labels: text(&node.partition).into_iter().collect(),
        ..NodeReportProto::default()
    }
}

/// Decodes what was stored.
pub(super) fn decode(stored: &[u8], now: Now) -> Result<Directory, StoredError> {
    let record = NodesRecord::from_stored(stored).ok_or(StoredError::Unreadable)?;
    let EpochMillis(wall) = now.wall;
    let left_ms = u64::try_from(record.until_ms.saturating_sub(wall)).unwrap_or(0);
    // A question can be no farther away than this: the clock has been set back.
    if left_ms == 0 || left_ms > 2 * INTERVAL_MAX_MS {
        return Err(StoredError::Stale);
    }
    let nodes = record.nodes.into_iter().take(NODES_MAX);
    let nodes: Vec<ReportedNode> = nodes.filter_map(read_report).collect();
    let next = now.mono + left_ms;
    Ok(Directory::restored(
        nodes,
        (record.epoch, record.node_bytes),
        next,
        now.mono,
    ))
}

#[cfg(test)]
mod tests {
    use records::MonoMillis;
    use test_support::ids::node;

    use super::*;

    fn at(wall_s: i64, mono_ms: u64) -> Now {
        Now {
            mono: MonoMillis(mono_ms),
            wall: EpochMillis(wall_s * 1_000),
        }
    }

    fn reported(host: &str, partition: &str) -> ReportedNode {
        ReportedNode {
            node: RemoteNode {
                node_id: node(host),
                http_address: format!("{host}:8042"),
                rack: "/rack".to_owned(),
                partition: partition.to_owned(),
            },
            capability: Some(Resource::new(8_192, 8)),
        }
    }

    /// A directory that has heard of two nodes at second 1,000, and asks again at 1,010.
    fn directory() -> Directory {
        let mut directory = Directory::default();
        directory.resource_manager(Some(7));
        let now = at(1_000, 5_000).mono;
        assert!(directory.wanted(Some(2), now, |_| 0));
        let nodes = vec![reported("a", ""), reported("b", "gpu")];
        directory.answered(nodes, 500, now, |_| 0);
        directory
    }

    #[test]
    fn nodes_and_the_time_of_the_next_question_outlive_a_restart() {
        let directory = directory();
        let stored = encode(&directory, at(1_000, 5_000));
        // The next agent's monotonic clock begins anew.
        let mut restored = decode(&stored, at(1_004, 77)).unwrap();
        let nodes = |directory: &Directory| {
            let nodes = directory.reported();
            let nodes = nodes.map(|(node, capability)| (node.clone(), capability));
            nodes.collect::<Vec<_>>()
        };
        assert_eq!(nodes(&restored), nodes(&directory));
        assert!(!restored.wanted(Some(2), MonoMillis(77 + 5_999), |_| 0));
        assert!(restored.wanted(Some(2), MonoMillis(77 + 6_000), |_| 0));
        // Another ResourceManager knows other nodes.
        assert!(!restored.resource_manager(Some(7)));
        assert!(restored.resource_manager(Some(8)));
        assert_eq!(nodes(&restored), []);
    }

    #[test]
    fn what_is_stale_of_another_time_or_broken_is_not_used() {
        let stored = encode(&directory(), at(1_000, 5_000));
        let decoded = |wall_s| decode(&stored, at(wall_s, 77)).map(|_| ());
        assert_eq!(decoded(1_009), Ok(()));
        assert_eq!(decoded(1_010), Err(StoredError::Stale));
        assert_eq!(decoded(-10_000_000), Err(StoredError::Stale));
        let mut other = stored.clone();
        other[0] += 1;
        for broken in [&other[..], &stored[..9], b""] {
            let error = decode(broken, at(1_001, 77)).map(|_| ());
            assert_eq!(error, Err(StoredError::Unreadable));
        }
        // A directory that has asked nobody has nothing to keep.
        let empty = encode(&Directory::default(), at(1_000, 5_000));
        assert_eq!(
            decode(&empty, at(1_000, 77)).map(|_| ()),
            Err(StoredError::Stale)
        );
    }
}
