//! Length of the ResourceManager's lists of nodes, compared with the cluster.
//!
//! A list that is short beside the cluster sends the containers of every attempt to the same few
//! nodes, which turn most of them away. Where nodes are looked at, a list tells only some of them
//! sooner than the others, and its length does not matter.

use std::sync::Once;

use sched::Placement;

use crate::interceptor::Action;
use crate::observe::Observation;

/// Property of the ResourceManager that bounds its lists.
const NODES_USED: &str = "yarn.resourcemanager.opportunistic-container-allocation.nodes-used";

/// Property of this node that makes the length of lists unimportant.
const PLACEMENT: &str = "yarn.nodemanager.agent.amrmproxy.placement";

/// Nodes of the cluster for each node of a list that is not short. Between two sorts, a second
/// apart, a list must take what arrives in the cluster: nodes × places × load ÷ (task seconds ×
/// (places + queue limit)). For 8 places at a load of 0.8, a queue limit of 10 and tasks of 4 s
/// that is a tenth of the nodes. This node knows neither load nor times of the others' tasks.
const CLUSTER_PER_LISTED: usize = 10;

/// Log line of the first attempt with short lists. One line for the process: the cause is the
/// ResourceManager's configuration, the same for all attempts.
static LOGGED: Once = Once::new();

/// Longest list that an attempt has seen.
#[derive(Debug)]
pub(super) struct ShortLists {
    is_reported: bool,
    longest: usize,
}

impl ShortLists {
    pub(super) const fn new(placement: Placement) -> Self {
        let matters = match placement {
            Placement::ListOrder | Placement::Spread => true,
            Placement::Look => false,
        };
        Self {
            is_reported: !matters,
            longest: 0,
        }
    }

    /// Begins anew, with another choice of nodes.
    pub(super) fn set_placement(&mut self, placement: Placement) {
        *self = Self::new(placement);
    }

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
                "the ResourceManager lists few of its nodes for opportunistic containers, which \
                 crowd on them and are turned away: set {PLACEMENT} to look here, or {NODES_USED} \
                 there to at least nodes x places x load / (task seconds x (places + queue \
                 limit)), for short waits to all nodes"
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(lists: &[(usize, Option<i32>)]) -> usize {
        reports_with(Placement::Spread, lists)
    }

    fn reports_with(placement: Placement, lists: &[(usize, Option<i32>)]) -> usize {
        let mut short_lists = ShortLists::new(placement);
        let mut actions = Vec::new();
        for (listed, cluster) in lists {
            short_lists.note(*listed, *cluster, &mut actions);
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

    #[test]
    fn lists_are_never_short_for_looks() {
        let lists = [(1, Some(1_000))];
        assert_eq!(reports_with(Placement::Look, &lists), 0);
        assert_eq!(reports_with(Placement::ListOrder, &lists), 1);
    }
}
