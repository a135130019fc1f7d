//! Observes nodes and jobs, and feeds the news to the story.

use std::time::Duration;

use node_view::overview::Decision;
use node_web::overview::Overview;

use super::cluster::Cluster;
use super::jobs::Followed;
use super::story::{NodeSight, Sight};
use super::tally::{Happened, What};

/// The jobs of the story.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    pub(super) batch: Followed,
    pub(super) urgent: Followed,
}

/// Remembers what it has seen.
#[derive(Debug)]
pub(super) struct Observer {
    /// The last decision seen of each node.
    seen: Vec<u64>,
}

impl Observer {
    /// Returns an observer of this many nodes that has seen no decision yet.
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            seen: vec![0; nodes],
        }
    }

    /// A look, and what has happened since the last one, each node's in its order.
    pub(super) async fn look(
        &mut self,
        at: Duration,
        cluster: &Cluster,
        jobs: &Jobs,
    ) -> (Sight, Vec<Happened>) {
        // The jobs first: what a job's end followed from is then among what the nodes say.
        let mut sight = Sight {
            at,
            batch: jobs.batch.sight(),
            urgent: jobs.urgent.sight(),
            nodes_offered: cluster.nodes_offered().await,
            ..Sight::default()
        };
        let mut happened = Vec::new();
        for ((index, watch), seen) in cluster.watches().iter().enumerate().zip(&mut self.seen) {
            match watch.overview().await {
                Some(view) => {
                    sight.nodes.push(node_sight(&view));
                    news(index, &view, seen, &mut happened);
                }
                None => sight.stopped_node = Some(index),
            }
        }
        (sight, happened)
    }
}

fn node_sight(view: &Overview) -> NodeSight {
    let counts = view.node.numbers.counts;
    NodeSight {
        running_opportunistic: counts.running_opportunistic,
        waiting: counts.waiting,
    }
}

fn news(node: usize, view: &Overview, seen: &mut u64, happened: &mut Vec<Happened>) {
    let oldest_first = view.node.decisions.iter().rev();
    for decision in oldest_first {
        if decision.sequence <= *seen {
            continue;
        }
        *seen = decision.sequence;
        let what = match &decision.decision {
            Decision::Note(note) => What::Decided(note.clone()),
            Decision::Completed { completion, .. } => What::Completed(completion.clone()),
            Decision::QueuingLimit(_)
            | Decision::Registered
            | Decision::Resync
            | Decision::RmSilent
            | Decision::RmBack
            | Decision::Drain(_)
            | Decision::DrainEnds
            | Decision::DrainCancelled { .. } => continue,
        };
        happened.push(Happened {
            at: decision.at,
            node,
            what,
        });
    }
}
