//! Sends the new tokens of promoted containers to their nodes, in place of an AM that does not know
//! of the promotion.
//!
//! The ResourceManager counts a container as guaranteed from the moment that it grants the
//! promotion, but its node goes on treating it as opportunistic until it gets the new token by
//! `updateContainer`: from the AM, or, with `yarn.resourcemanager.auto-update.containers`, from the
//! ResourceManager. Here this node calls it in the attempt's name: it can sign an NMToken for any
//! node of the cluster, as it does for the containers that it allocates.
//!
//! No call of an AM waits for this. A node that does not answer is retried for some minutes. A node
//! that has meanwhile got the token from the ResourceManager refuses it the second time; then the
//! container's status decides. Source: `ContainerManagerImpl.updateContainer`,
//! `SchedulerApplicationAttempt.updateContainerAndNMToken`.

use std::sync::Arc;
use std::time::Duration;

use records::{ApplicationAttemptId, ContainerId, NodeId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerStateProto, ContainerStatusProto, ContainerUpdateRequestProto, ExecutionTypeProto,
    GetContainerStatusesRequestProto,
};
use wire::protocol::container_management::{self, GetContainerStatuses, UpdateContainer};
use wire::secrets::nm_token;

use crate::observe::{Observation, Observer};
use crate::pipeline::NodeKeys;

/// Most updates in the queue. One is of a node and an attempt: as many as there are nodes on which
/// a large job has containers of the same age. Further ones are dropped with a warning: their
/// containers stay opportunistic there.
const WAITING_MAX: usize = 1_024;

/// Most nodes that are updated at once.
const AT_ONCE: usize = 16;

/// Longest time to connect to a node, the look-up of its name included: 5 s for each of the two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for one call of a node.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Most tries of an update. With the pauses between them a little over two minutes: a NodeManager
/// that restarts is back by then.
const TRIES: u32 = 8;

/// Pause after the first try; each later one is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Promoted containers of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUpdate {
    /// Node that the containers run on.
    pub node: NodeId,
    /// Containers, each with the token that the ResourceManager sent for it.
    pub containers: Vec<(ContainerId, TokenProto)>,
}

impl NodeUpdate {
    /// Returns an update of a node without containers.
    #[must_use]
    pub const fn of(node: NodeId) -> Self {
        Self {
            node,
            containers: Vec::new(),
        }
    }
}

/// An update, the attempt and user that it is for, and the token that is cancelled when the attempt
/// ends.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) attempt: ApplicationAttemptId,
    pub(crate) user: String,
    pub(crate) update: NodeUpdate,
    pub(crate) ended: CancellationToken,
}

/// Queue of updates from the pipelines.
#[derive(Debug)]
pub(crate) struct NodeUpdates {
    orders: mpsc::Sender<Order>,
}

/// Task that sends the queued updates to their nodes. While it does not run, updates wait; once it
/// is dropped, the containers of further updates stay opportunistic on their nodes.
#[must_use = "promotions reach their nodes only while the task runs"]
pub struct NodeUpdateTask {
    orders: mpsc::Receiver<Order>,
    messenger: Arc<Messenger>,
}

/// Sender of updates to nodes.
struct Messenger {
    node_keys: Arc<dyn NodeKeys>,
    observer: Arc<dyn Observer>,
}

/// Reason for which a try did not reach a node.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error("this node is not registered and cannot sign")]
    NoKeys,
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl NodeUpdates {
    /// Creates the queue and the task that empties it.
    pub(crate) fn new(
        node_keys: Arc<dyn NodeKeys>,
        observer: Arc<dyn Observer>,
    ) -> (Self, NodeUpdateTask) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let task = NodeUpdateTask {
            orders: receiver,
            messenger: Arc::new(Messenger {
                node_keys,
                observer,
            }),
        };
        (Self { orders: sender }, task)
    }

    /// Queues an update for its node. Does not wait.
    pub(crate) fn order(&self, order: Order, observer: &dyn Observer) {
        if let Err(refused) = self.orders.try_send(order) {
            let Order {
                attempt, update, ..
            } = refused.into_inner();
            let containers = update.containers.len();
            tracing::warn!(%attempt, node = %update.node, containers, "too many updates of promoted containers are waiting; these containers stay opportunistic on their node");
            observer.observe(&Observation::PromotionsEnded {
                reached: 0,
                failed: containers as u64,
            });
        }
    }
}

impl NodeUpdateTask {
    /// Sends promotions that rules requested to the containers' nodes, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = under_way.join_next() => {}
                Some(order) = self.orders.recv(), if under_way.len() < AT_ONCE => {
                    let messenger = Arc::clone(&self.messenger);
                    under_way.spawn(async move { messenger.deliver(order).await });
                }
            }
        }
    }
}

impl Messenger {
    /// Sends an update until the node has it, the tries are used up, or the attempt ends.
    async fn deliver(&self, order: Order) {
        let Order {
            attempt,
            user,
            update: NodeUpdate { node, containers },
            ended,
        } = order;
        let total = containers.len() as u64;
        let sending = self.send(attempt, &user, &node, &containers);
        let reached = tokio::select! {
            // The containers are not needed any more.
            () = ended.cancelled() => return,
            reached = sending => reached,
        };
        self.observer.observe(&Observation::PromotionsEnded {
            reached,
            failed: total - reached.min(total),
        });
    }

    /// Sends an update, with retries. Returns how many of the containers their node treats as
    /// promoted, or as ended.
    async fn send(
        &self,
        attempt: ApplicationAttemptId,
        user: &str,
        node: &NodeId,
        containers: &[(ContainerId, TokenProto)],
    ) -> u64 {
        let mut pause = FIRST_PAUSE;
        for tries_left in (0..TRIES).rev() {
            match self.send_once(attempt, user, node, containers).await {
                Ok(reached) => return reached,
                Err(error) if tries_left == 0 => {
                    tracing::warn!(%attempt, %node, %error, containers = containers.len(), "cannot send promotions to a node; these containers stay opportunistic there");
                }
                Err(error) => {
                    tracing::debug!(%attempt, %node, %error, ?pause, "cannot send promotions to a node yet");
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
        0
    }

    async fn send_once(
        &self,
        attempt: ApplicationAttemptId,
        user: &str,
        node: &NodeId,
        containers: &[(ContainerId, TokenProto)],
    ) -> Result<u64, NodeError> {
        let keys = self.node_keys.current().ok_or(NodeError::NoKeys)?;
        let auth = ClientAuth::Token(nm_token(&keys.nm_token, attempt, node, user));
        let client = connect(node, auth).await?;
        let request = ContainerUpdateRequestProto {
            update_container_token: containers.iter().map(|(_, token)| token.clone()).collect(),
        };
        let answer = client.call::<UpdateContainer>(&request).await?;
        if answer.failed_requests.is_empty() {
            return Ok(containers.len() as u64);
        }
        // A node refuses what it already has from the ResourceManager. A refusal has no id when the
        // token cannot be read, so the status of every container that was not accepted is asked
        // for.
        let accepted: Vec<_> = answer
            .succeeded_requests
            .iter()
            .filter_map(|id| ContainerId::try_from(id).ok())
            .collect();
        let refused: Vec<_> = containers
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| !accepted.contains(id))
            .collect();
        let request = GetContainerStatusesRequestProto {
            container_id: refused.iter().map(|id| (*id).into()).collect(),
        };
        let statuses = client.call::<GetContainerStatuses>(&request).await?;
        let settled = statuses.status.iter().filter(|status| is_settled(status));
        let settled = settled.count();
        // Containers that the node does not know any more have ended.
        let gone = statuses.failed_requests.len();
        let missed = refused.len().saturating_sub(settled + gone);
        if missed > 0 {
            let why = answer
                .failed_requests
                .first()
                .and_then(|failed| failed.exception.as_ref())
                .map_or("", |exception| exception.message());
            tracing::warn!(%attempt, %node, missed, why, "a node refuses promotions");
        }
        Ok((containers.len() - missed.min(containers.len())) as u64)
    }
}

/// Whether a container is guaranteed on its node, or has ended.
fn is_settled(status: &ContainerStatusProto) -> bool {
    status.execution_type() == ExecutionTypeProto::Guaranteed
        || status.state() == ContainerStateProto::CComplete
}

async fn connect(node: &NodeId, auth: ClientAuth) -> Result<RpcClient, RpcError> {
    let NodeId { host, port } = node;
    let protocol = container_management::PROTOCOL;
    let options = ClientOptions {
        connect_timeout: CONNECT_TIMEOUT,
        call_timeout: CALL_TIMEOUT,
        calls_in_flight_max: 1,
        ..ClientOptions::default()
    };
    RpcClient::connect_host(host, *port, protocol, auth, &options).await
}
