//! Brings the new tokens of containers to their nodes, in place of an AM that knows nothing of the change.
//!
//! The ResourceManager counts a container as guaranteed from the moment that it grants the promotion, but its node goes on
//! treating it as opportunistic until somebody shows it the new token with `updateContainer`: the AM, or, with
//! `yarn.resourcemanager.auto-update.containers`, the ResourceManager. Here this node does, in the attempt's name: it can sign an
//! NMToken for any node of the cluster, as it does for the containers that it gives out.
//!
//! No call of an AM waits for this. A node that does not answer is tried for some minutes; one that was told by the ResourceManager
//! meanwhile refuses the second word, and is asked how the container is instead. Source: `ContainerManagerImpl.updateContainer`,
//! `SchedulerApplicationAttempt.updateContainerAndNMToken`.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use records::{ApplicationAttemptId, ContainerId, NodeId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
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

/// Updates that wait for their turn. One is of a node and an attempt: as many as there are nodes on which a large job has
/// containers of the same age. More are given up, with a warning: their containers stay what they are on their nodes.
const WAITING_MAX: usize = 1_024;

/// Nodes that are being told at once.
const AT_ONCE: usize = 16;

/// Longest time to connect to a node, and for its answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Tries before a node is given up, and the pause after the first; each later one is twice as long as the one before. Two
/// minutes and some: a NodeManager that restarts is back by then.
const TRIES: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Containers that a node has to hear of.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeUpdate {
    /// Where they run.
    pub node: NodeId,
    /// Each with the token that the ResourceManager gave for it.
    pub containers: Vec<(ContainerId, TokenProto)>,
}

impl NodeUpdate {
    /// Of no container yet.
    #[must_use]
    pub const fn of(node: NodeId) -> Self {
        Self {
            node,
            containers: Vec::new(),
        }
    }
}

/// An update, in whose name it is, and until when it matters.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) attempt: ApplicationAttemptId,
    pub(crate) user: String,
    pub(crate) update: NodeUpdate,
    pub(crate) ended: CancellationToken,
}

/// Where pipelines leave updates.
#[derive(Debug)]
pub(crate) struct NodeUpdates {
    orders: mpsc::Sender<Order>,
    inbox: Mutex<Option<mpsc::Receiver<Order>>>,
}

impl Default for NodeUpdates {
    fn default() -> Self {
        let (orders, inbox) = mpsc::channel(WAITING_MAX);
        Self {
            orders,
            inbox: Mutex::new(Some(inbox)),
        }
    }
}

/// What it takes to tell nodes.
pub(crate) struct Messenger {
    pub(crate) node_keys: Arc<dyn NodeKeys>,
    pub(crate) observer: Arc<dyn Observer>,
}

/// Why one try did not reach a node.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error("this node is not registered and cannot sign")]
    NoKeys,
    #[error("the address of {node} cannot be found")]
    Resolve {
        node: NodeId,
        #[source]
        source: Option<io::Error>,
    },
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl NodeUpdates {
    /// Leaves an update to be brought to its node. Does not wait.
    pub(crate) fn order(&self, order: Order, observer: &dyn Observer) {
        if let Err(refused) = self.orders.try_send(order) {
            let Order {
                attempt, update, ..
            } = refused.into_inner();
            let containers = update.containers.len();
            tracing::warn!(%attempt, node = %update.node, containers, "too many nodes have to hear of promotions; these containers stay opportunistic there");
            observer.observe(&Observation::PromotionsEnded {
                reached: 0,
                failed: containers as u64,
            });
        }
    }

    /// Brings updates to their nodes until `stop`. The first call does; others return at once.
    pub(crate) async fn run(&self, messenger: Arc<Messenger>, stop: CancellationToken) {
        let inbox = self.inbox.lock();
        let Some(mut inbox) = inbox.unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                Some(_) = under_way.join_next() => {}
                Some(order) = inbox.recv(), if under_way.len() < AT_ONCE => {
                    let messenger = Arc::clone(&messenger);
                    under_way.spawn(async move { messenger.bring(order).await });
                }
            }
        }
    }
}

impl Messenger {
    /// Tells a node, as often as it takes.
    async fn bring(&self, order: Order) {
        let Order {
            attempt,
            user,
            update: NodeUpdate { node, containers },
            ended,
        } = order;
        let total = containers.len() as u64;
        let telling = self.tell(attempt, &user, &node, &containers);
        let reached = tokio::select! {
            // Nobody needs the containers any more.
            () = ended.cancelled() => return,
            reached = telling => reached,
        };
        self.observer.observe(&Observation::PromotionsEnded {
            reached,
            failed: total - reached.min(total),
        });
    }

    /// How many of the containers their node treats as promoted, or as ended.
    async fn tell(
        &self,
        attempt: ApplicationAttemptId,
        user: &str,
        node: &NodeId,
        containers: &[(ContainerId, TokenProto)],
    ) -> u64 {
        let mut pause = FIRST_PAUSE;
        for tries_left in (0..TRIES).rev() {
            match self.tell_once(attempt, user, node, containers).await {
                Ok(reached) => return reached,
                Err(error) if tries_left == 0 => {
                    tracing::warn!(%attempt, %node, %error, containers = containers.len(), "a node cannot be told of promotions; these containers stay opportunistic there");
                }
                Err(error) => {
                    tracing::debug!(%attempt, %node, %error, ?pause, "a node cannot be told of promotions yet");
                    sleep(pause).await;
                    pause *= 2;
                }
            }
        }
        0
    }

    async fn tell_once(
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
        // What the node refuses it may have heard of from the ResourceManager. A refusal has no id when the token cannot be read,
        // so all are looked at that were not taken.
        let taken: Vec<_> = answer
            .succeeded_requests
            .iter()
            .filter_map(|id| ContainerId::try_from(id).ok())
            .collect();
        let refused: Vec<_> = containers
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| !taken.contains(id))
            .collect();
        let request = GetContainerStatusesRequestProto {
            container_id: refused.iter().map(|id| (*id).into()).collect(),
        };
        let statuses = client.call::<GetContainerStatuses>(&request).await?;
        let settled = statuses.status.iter().filter(|status| is_settled(status));
        let settled = settled.count();
        // Those that the node does not know any more have ended.
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

/// Whether a container is what the promotion was to make of it, or needs none any more.
fn is_settled(status: &ContainerStatusProto) -> bool {
    status.execution_type() == ExecutionTypeProto::Guaranteed
        || status.state() == ContainerStateProto::CComplete
}

async fn connect(node: &NodeId, auth: ClientAuth) -> Result<RpcClient, NodeError> {
    let unresolved = |source| NodeError::Resolve {
        node: node.clone(),
        source,
    };
    let looked_up = tokio::net::lookup_host((node.host.as_str(), node.port));
    let found = timeout(CONNECT_TIMEOUT, looked_up).await;
    let mut addresses = found
        .map_err(|_| unresolved(None))?
        .map_err(|error| unresolved(Some(error)))?;
    let address = addresses.next().ok_or_else(|| unresolved(None))?;
    let options = ClientOptions {
        connect_timeout: CONNECT_TIMEOUT,
        call_timeout: CALL_TIMEOUT,
        calls_in_flight_max: 1,
        ..ClientOptions::default()
    };
    Ok(RpcClient::connect(address, container_management::PROTOCOL, auth, &options).await?)
}
