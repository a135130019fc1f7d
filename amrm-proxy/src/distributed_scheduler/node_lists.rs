//! Length of the ResourceManager's lists of nodes, compared with the cluster.
//!
//! A list that is short beside the cluster sends the containers of every attempt to the same few
//! nodes, which turn most of them away.

use std::sync::Once;

use crate::interceptor::Action;
use crate::observe::Observation;

/// Property of the ResourceManager that bounds its lists.
const NODES_USED: &str = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used";

/// Nodes of the cluster for each node that a list should have.
const CLUSTER_PER_LISTED: usize = 10;

/// Log line of the first attempt with short lists. One line for the process: the cause is the
/// ResourceManager's configuration, the same for all attempts.
static LOGGED: Once = Once::new();

/// Longest list that an attempt has seen.
#[derive(Debug, Default)]
pub(super) struct NodeLists {
    longest: usize,
    is_reported: bool,
}

impl NodeLists {
    /// Notes a list in an answer. The first time that all lists so far are shorter than a tenth of
    /// the cluster, counts it and warns. An empty list says nothing: no node has a free place.
    pub(super) fn note(&mut self, listed: usize, cluster: Option<i32>, actions: &mut Vec<Action>) {
        self.longest = self.longest.max(listed);
        let cluster = cluster.and_then(|nodes| usize::try_from(nodes).ok());
        let Some(cluster) = cluster.filter(|_| listed > 0 && !self.is_reported) else {
            return;
        };
        if self.longest.saturating_mul(CLUSTER_PER_LISTED) >= cluster {
            return;
        }
        self.is_reported = true;
        actions.push(Action::Observe(Observation::ShortNodeLists));
        let longest = self.longest;
        LOGGED.call_once(|| {
            tracing::warn!(
                listed = longest,
                cluster,
                "the ResourceManager lists fewer than a tenth of its nodes for opportunistic \
                 containers, so they crowd on a few nodes and are turned away: set {NODES_USED} to \
                 {} or more there",
                cluster.div_ceil(CLUSTER_PER_LISTED)
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(lists: &[(usize, Option<i32>)]) -> usize {
        let mut node_lists = NodeLists::default();
        let mut actions = Vec::new();
        for (listed, cluster) in lists {
            node_lists.note(*listed, *cluster, &mut actions);
        }
        let short = Action::Observe(Observation::ShortNodeLists);
        assert!(actions.iter().all(|action| *action == short));
        actions.len()
    }

    #[test]
    fn lists_shorter_than_a_tenth_of_the_cluster_are_reported_once() {
        assert_eq!(
            reports(&[(10, Some(101)), (9, Some(101)), (10, Some(500))]),
            1
        );
    }

    #[test]
    fn long_lists_empty_ones_and_a_cluster_of_unknown_size_are_not_reported() {
        assert_eq!(reports(&[(10, Some(100)), (3, Some(100))]), 0);
        assert_eq!(reports(&[(0, Some(100)), (3, None), (3, Some(-1))]), 0);
    }
}
