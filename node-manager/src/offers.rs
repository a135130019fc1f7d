//! Offers of this node's room, sent to the proxies that have reserved.

use std::sync::Arc;

use late_binding::Peers;
use node_core::WorkerEvent;
use records::NodeId;
use sched::{Offer, OfferAnswer};
use tokio::sync::mpsc;

/// Sends offers, and passes their answers on. Clones share the connections.
#[derive(Clone, Debug)]
pub(crate) struct OfferTask {
    peers: Arc<Peers>,
    answers: mpsc::Sender<WorkerEvent>,
}

impl OfferTask {
    pub(crate) const fn new(peers: Arc<Peers>, answers: mpsc::Sender<WorkerEvent>) -> Self {
        Self { peers, answers }
    }

    /// Sends an offer. Each holds room, so that there are no more at a time than fit on the node.
    pub(crate) fn send(&self, offer: Offer<NodeId>) {
        let Self { peers, answers } = self.clone();
        tokio::spawn(async move {
            let answer = peers.offer(&offer).await.unwrap_or_else(|error| {
                tracing::debug!(
                    node = %offer.to,
                    error = records::error_chain(&error),
                    "a proxy does not answer an offer"
                );
                OfferAnswer::NOTHING
            });
            let (from, id) = (offer.to, offer.id);
            // Fails once the agent has stopped.
            let _stopped = answers
                .send(WorkerEvent::OfferAnswered { from, id, answer })
                .await;
        });
    }
}
