//! The nodes' side of the AM: one connection for each node that runs containers of the job, and
//! its tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use records::{ContainerId, NodeId};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use wire::exception::{HadoopException, RemoteException};
use wire::protection::Protections;
use wire::proto::hadoop_common::TokenProto;
use wire::proto::hadoop_yarn::{
    ContainerExceptionMapProto, ContainerLaunchContextProto, ContainerStateProto,
    ContainerStatusProto, ContainerSubStateProto, ContainerUpdateRequestProto,
    GetContainerStatusesRequestProto, StartContainerRequestProto, StartContainersRequestProto,
    StopContainersRequestProto,
};
use wire::protocol::container_management::{
    self, GetContainerStatuses, StartContainers, StopContainers, UpdateContainer,
};
use wire::rpc::{ClientAuth, ClientOptions, Method, RpcClient, RpcError};
use wire::token::Token;

use super::rm::read_completed;
use super::vocabulary::{Event, Seen, ToStart};
use crate::job::Job;
use crate::quote;

/// Longest time to connect to a node, the look-up of its name included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for one call: Hadoop's node takes seconds for forty starts.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Most calls of nodes in flight. Further ones wait: an AM on a small node must not open
/// thousands of sockets at once.
const CALLS_MAX: usize = 128;

/// Most connections that stay open between calls. For nodes beyond that each call opens one: the
/// usual limit of a process is 1,024 descriptors.
const CONNECTIONS_KEPT_MAX: usize = 512;

/// Reason for which a call of a node failed.
#[derive(Debug, thiserror::Error)]
enum NodeError {
    /// The ResourceManager has sent no token for the node.
    #[error("there is no NMToken for {0}")]
    NoToken(NodeId),
    /// The node cannot be reached, or refuses the call.
    #[error("calling {node}: {source}")]
    Call { node: NodeId, source: RpcError },
}

/// Connection to one node, opened by the first call and shared by all.
#[derive(Debug)]
struct NodeLink {
    node: NodeId,
    token: Token,
    places: Arc<Semaphore>,
    client: Mutex<Option<Kept>>,
    protections: Protections,
}

/// A connection that stays open, with its permit out of [`CONNECTIONS_KEPT_MAX`].
#[derive(Debug)]
struct Kept {
    client: RpcClient,
    _place: OwnedSemaphorePermit,
}

impl NodeLink {
    async fn call<M: Method>(&self, request: &M::Request) -> Result<M::Response, NodeError> {
        let answer = self.client().await?.call::<M>(request).await;
        answer.map_err(|source| self.failed(source))
    }

    async fn client(&self) -> Result<RpcClient, NodeError> {
        let mut kept = self.client.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| !kept.client.is_lost()) {
            return Ok(kept.client.clone());
        }
        *kept = None;
        let NodeId { host, port } = &self.node;
        let protocol = container_management::PROTOCOL;
        let auth = ClientAuth::Token(self.token.clone());
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            protections: self.protections.clone(),
            ..ClientOptions::default()
        };
        let client = RpcClient::connect_host(host, *port, protocol, auth, &options);
        let client = client.await.map_err(|source| self.failed(source))?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        *kept = place.ok().map(|place| Kept {
            client: client.clone(),
            _place: place,
        });
        Ok(client)
    }

    fn failed(&self, source: RpcError) -> NodeError {
        NodeError::Call {
            node: self.node.clone(),
            source,
        }
    }
}

/// The nodes that run containers of the job, with the means to start commands on them.
pub(super) struct Nodes {
    job: Job,
    /// Levels of protection of the calls.
    protections: Protections,
    tokens: HashMap<NodeId, Token>,
    links: HashMap<NodeId, Arc<NodeLink>>,
    /// Tokens of the containers in the last answer, which are started or released at once.
    container_tokens: HashMap<ContainerId, TokenProto>,
    turns: Arc<Semaphore>,
    places: Arc<Semaphore>,
}

/// A prepared call of a node, for a task of its own.
pub(super) struct Call {
    link: Result<Arc<NodeLink>, NodeError>,
    turns: Arc<Semaphore>,
    order: Order,
}

enum Order {
    Start(Vec<ContainerId>, StartContainersRequestProto),
    PollStatus(NodeId, Vec<ContainerId>),
    Update(NodeId, Vec<(ContainerId, TokenProto)>),
    Stop(Vec<ContainerId>),
}

impl Nodes {
    pub(super) fn new(job: Job, protections: Protections) -> Self {
        Self {
            job,
            protections,
            tokens: HashMap::new(),
            links: HashMap::new(),
            container_tokens: HashMap::new(),
            turns: Arc::new(Semaphore::new(CALLS_MAX)),
            places: Arc::new(Semaphore::new(CONNECTIONS_KEPT_MAX)),
        }
    }

    /// Stores the NMToken of a node, for the next connection.
    pub(super) fn add_token(&mut self, node: NodeId, token: Token) {
        self.links.remove(&node);
        self.tokens.insert(node, token);
    }

    /// Stores the token with which a container is started.
    pub(super) fn add_container_token(&mut self, id: ContainerId, token: TokenProto) {
        self.container_tokens.insert(id, token);
    }

    /// Drops the container tokens once the calls for the last answer are prepared.
    pub(super) fn forget_container_tokens(&mut self) {
        self.container_tokens.clear();
    }

    fn link(&mut self, node: &NodeId) -> Result<Arc<NodeLink>, NodeError> {
        if let Some(link) = self.links.get(node) {
            return Ok(Arc::clone(link));
        }
        let token = self.tokens.get(node);
        let token = token.ok_or_else(|| NodeError::NoToken(node.clone()))?;
        let link = Arc::new(NodeLink {
            node: node.clone(),
            token: token.clone(),
            protections: self.protections.clone(),
            places: Arc::clone(&self.places),
            client: Mutex::new(None),
        });
        self.links.insert(node.clone(), Arc::clone(&link));
        Ok(link)
    }

    fn call(&mut self, node: &NodeId, order: Order) -> Call {
        Call {
            link: self.link(node),
            turns: Arc::clone(&self.turns),
            order,
        }
    }

    pub(super) fn start(&mut self, node: &NodeId, containers: &[ToStart]) -> Call {
        let requests = containers.iter().map(|start| {
            let mut environment = self.job.environment.clone();
            environment.insert("YARN_SHELL_ID".to_owned(), (start.task + 1).to_string());
            StartContainerRequestProto {
                container_launch_context: Some(ContainerLaunchContextProto {
                    command: vec![quote::launch_command(&environment, &self.job.command)],
                    ..ContainerLaunchContextProto::default()
                }),
                container_token: self.container_tokens.remove(&start.id),
            }
        });
        let request = StartContainersRequestProto {
            start_container_request: requests.collect(),
        };
        let ids = containers.iter().map(|start| start.id).collect();
        self.call(node, Order::Start(ids, request))
    }

    pub(super) fn poll_status(&mut self, node: &NodeId, containers: Vec<ContainerId>) -> Call {
        self.call(node, Order::PollStatus(node.clone(), containers))
    }

    pub(super) fn update(
        &mut self,
        node: &NodeId,
        changes: Vec<(ContainerId, TokenProto)>,
    ) -> Call {
        self.call(node, Order::Update(node.clone(), changes))
    }

    pub(super) fn stop(&mut self, node: &NodeId, containers: Vec<ContainerId>) -> Call {
        self.call(node, Order::Stop(containers))
    }
}

impl Call {
    /// Makes the call; what came of it, where that matters.
    pub(super) async fn run(self) -> Option<Event> {
        let turn = self.turns.acquire_owned().await;
        let _turn = turn.expect("the semaphore is never closed");
        match self.order {
            Order::Start(ids, request) => Some(start(self.link, ids, &request).await),
            Order::PollStatus(node, ids) => Some(poll_status(self.link, node, ids).await),
            Order::Update(node, changes) => Some(update(self.link, node, changes).await),
            Order::Stop(ids) => {
                stop(self.link, ids).await;
                None
            }
        }
    }
}

async fn start(
    link: Result<Arc<NodeLink>, NodeError>,
    ids: Vec<ContainerId>,
    request: &StartContainersRequestProto,
) -> Event {
    let result = match link {
        Ok(link) => link.call::<StartContainers>(request).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(response) => {
            let refused = refusals(response.failed_requests);
            // A node whose answer lacks a container may have started it.
            let is_refused = |id: &ContainerId| refused.iter().any(|(refused, _)| refused == id);
            let accepted = ids.into_iter().filter(|id| !is_refused(id)).collect();
            let reasons = refused.into_iter();
            let refused = reasons.map(|(id, why)| (id, why.to_string())).collect();
            Event::Started { accepted, refused }
        }
        Err(error) => {
            tracing::warn!(%error, "starting containers");
            let reason = error.to_string();
            Event::Started {
                accepted: Vec::new(),
                refused: ids.into_iter().map(|id| (id, reason.clone())).collect(),
            }
        }
    }
}

fn refusals(failed: Vec<ContainerExceptionMapProto>) -> Vec<(ContainerId, RemoteException)> {
    let failed = failed.into_iter().filter_map(|failure| {
        let id = ContainerId::try_from(failure.container_id.as_ref()?).ok()?;
        let exception = RemoteException::from(failure.exception.unwrap_or_default());
        tracing::warn!(container = %id, %exception, "a node refuses a container");
        Some((id, exception))
    });
    failed.collect()
}

async fn poll_status(
    link: Result<Arc<NodeLink>, NodeError>,
    node: NodeId,
    ids: Vec<ContainerId>,
) -> Event {
    let request = GetContainerStatusesRequestProto {
        container_id: ids.into_iter().map(Into::into).collect(),
    };
    let result = match link {
        Ok(link) => link.call::<GetContainerStatuses>(&request).await,
        Err(error) => Err(error),
    };
    let seen = match result {
        Ok(response) => Some(response.status.iter().filter_map(read_seen).collect()),
        Err(error) => {
            tracing::warn!(%error, "asking how containers are");
            None
        }
    };
    Event::StatusPolled { node, seen }
}

fn read_seen(status: &ContainerStatusProto) -> Option<Seen> {
    let completed = read_completed(status).ok()?;
    let id = completed.id;
    if status.state() == ContainerStateProto::CComplete {
        return Some(Seen::Completed(completed));
    }
    // A node older than the sub-states reports only that it knows the container.
    let Some(_) = status.container_sub_state else {
        return Some(Seen::Running(id));
    };
    Some(match status.container_sub_state() {
        ContainerSubStateProto::CssScheduled => Seen::Waiting(id),
        ContainerSubStateProto::CssRunning
        | ContainerSubStateProto::CssPaused
        | ContainerSubStateProto::CssCompleting
        | ContainerSubStateProto::CssDone => Seen::Running(id),
    })
}

/// Sends changes to a node. A node that has one from the ResourceManager already refuses it, which
/// does no harm.
async fn update(
    link: Result<Arc<NodeLink>, NodeError>,
    node: NodeId,
    changes: Vec<(ContainerId, TokenProto)>,
) -> Event {
    let request = ContainerUpdateRequestProto {
        update_container_token: changes.iter().map(|(_, token)| token.clone()).collect(),
    };
    let result = match link {
        Ok(link) => link.call::<UpdateContainer>(&request).await,
        Err(error) => Err(error),
    };
    let settled = match result {
        Ok(response) => {
            let refused = refused_for_now(response.failed_requests);
            let mut settled = changes.clone();
            settled.retain(|(id, _)| !refused.contains(id));
            settled
        }
        Err(error) => {
            tracing::warn!(%error, "changing containers");
            Vec::new()
        }
    };
    Event::Updated {
        node,
        has_failed: settled.len() < changes.len(),
        settled,
    }
}

/// Returns the containers that a node refuses only while it registers or recovers them.
fn refused_for_now(failed: Vec<ContainerExceptionMapProto>) -> Vec<ContainerId> {
    let refused = refusals(failed).into_iter();
    let is_temporary = |exception: &RemoteException| {
        exception.is(HadoopException::InvalidContainer)
            || exception.is(HadoopException::NmNotYetReady)
    };
    refused
        .filter(|(_, exception)| is_temporary(exception))
        .map(|(id, _)| id)
        .collect()
}

async fn stop(link: Result<Arc<NodeLink>, NodeError>, ids: Vec<ContainerId>) {
    let request = StopContainersRequestProto {
        container_id: ids.into_iter().map(Into::into).collect(),
    };
    let result = match link {
        Ok(link) => link.call::<StopContainers>(&request).await,
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        tracing::warn!(%error, "stopping containers");
    }
}
