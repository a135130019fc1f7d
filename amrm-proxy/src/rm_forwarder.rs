//! The end of every pipeline: forwards the call to the ResourceManager. The only part that waits
//! for the network.
//!
//! One connection per attempt, opened with the attempt's own AMRMToken of the ResourceManager.
//! [`FailoverClient`] goes to the next ResourceManager (`yarn.resourcemanager.ha.rm-ids`) when one
//! is on standby or does not answer. Repeating is safe: the response id tells the ResourceManager
//! that it has answered an `allocate` before, and it then repeats its answer. Exceptions of an
//! active ResourceManager go to the AM unchanged: AMs act on their class. Source:
//! `DefaultRequestInterceptor`, `ServerRMProxy`.
//!
//! An AM waits for this node as long as its own RPC timeout allows, two minutes by default. So a
//! call is not held for as long as Hadoop's proxy retries
//! (`yarn.resourcemanager.connect.max-wait.ms`, 15 minutes): after a minute the AM gets a
//! `RetriableException`, after which its client library retries by itself.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wire::client::{ClientAuth, ClientOptions, RpcError};
use wire::dial::Dialer;
use wire::exception::{HadoopException, RemoteException};
use wire::failover::{
    Endpoints, FailoverClient, FailoverError, LinkConfig, Pauses, Policy, RawCall, Reaction,
    Reactions,
};
use wire::protection::Protections;
use wire::protocol::{application_master, distributed_scheduling_am};
use wire::raw_message::{FrontField, RawMessage, RawMessageError};
use wire::token::Token;

use crate::call::{AmMethod, Outcome, Request, Response};
use crate::fields::{
    distributed_allocate_request, distributed_allocate_response, distributed_register_response,
};
use crate::node_lists::NodeLists;

/// Longest time a call of an AM is held: while it waits for the attempt's previous call, for its
/// delay, and while no ResourceManager answers, all together.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(60);

/// Longest time to connect to one ResourceManager, the look-up of its name included (Hadoop:
/// `ipc.client.connect.timeout`, there 20 s): 5 s for each of the two.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses of the ResourceManagers, and the limits of retries; the same for all attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmConfig {
    /// `host:port` of each scheduler service, in the order of `yarn.resourcemanager.ha.rm-ids`; at
    /// least one.
    pub addresses: Vec<String>,
    /// Longest time without an answer of any; `None`: no limit. A call is held for `HOLD_MAX` at
    /// most all the same.
    pub max_wait: Option<Duration>,
    /// Longest pause between two rounds of tries.
    pub retry_interval: Duration,
    /// Whether calls use DistributedSchedulingAMProtocol
    /// (`yarn.nodemanager.distributed-scheduling.enabled`).
    pub distributed_scheduling: bool,
    /// Levels of protection of calls to ResourceManagers and nodes, the preferred one first.
    pub protections: Protections,
}

/// Note of a request: containers that this node has allocated and reports to the ResourceManager
/// with an `allocate`, each an encoded `ContainerProto`. Sent with distributed scheduling only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedContainers(pub Vec<Bytes>);

/// The part that all forwarders share.
#[derive(Debug)]
pub struct ResourceManagers {
    config: RmConfig,
    endpoints: Arc<Endpoints>,
    dialer: Dialer,
    lists: NodeLists,
}

impl ResourceManagers {
    /// Returns a group in which none has been tried.
    #[must_use]
    pub fn new(config: RmConfig) -> Self {
        Self {
            endpoints: Arc::new(Endpoints::new(config.addresses.clone())),
            config,
            dialer: Dialer::default(),
            lists: NodeLists::default(),
        }
    }

    /// Longest time that a forwarder holds a call.
    fn hold_max(&self) -> Duration {
        self.config
            .max_wait
            .map_or(HOLD_MAX, |wait| wait.min(HOLD_MAX))
    }

    fn policy(&self) -> Policy {
        Policy {
            pauses: Pauses::NODE,
            interval_max: self.config.retry_interval,
            // Each call has a deadline of its own.
            give_up_after: None,
            reactions: Reactions {
                // No exception of a ResourceManager that the AM could be given: another one may be
                // well.
                unusable: Reaction::Leave,
                ..Reactions::REPEATABLE
            },
        }
    }

    fn link(&self, token: Token) -> LinkConfig {
        LinkConfig {
            endpoints: Arc::clone(&self.endpoints),
            protocol: protocol(self.config.distributed_scheduling),
            auth: ClientAuth::Token(token),
            options: ClientOptions {
                connect_timeout: CONNECT_TIMEOUT,
                // The call's deadline is nearer.
                call_timeout: 2 * HOLD_MAX,
                // Calls of one attempt come one after the other.
                calls_in_flight_max: 1,
                protections: self.config.protections.clone(),
                dialer: self.dialer.clone(),
                ..ClientOptions::default()
            },
        }
    }
}

/// Reason for which an answer is of no use to the AM.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The bytes are no message.
    #[error("the answer is no message")]
    Garbage(#[from] RawMessageError),
    /// A part is missing.
    #[error("the answer has no {0}")]
    Incomplete(&'static str),
}

/// The connection of one attempt to the ResourceManager.
#[derive(Debug)]
pub struct RmForwarder {
    rms: Arc<ResourceManagers>,
    client: FailoverClient,
}

impl RmForwarder {
    /// Returns a forwarder that opens its first connection with the first call.
    #[must_use]
    pub fn new(rms: Arc<ResourceManagers>, token: Token) -> Self {
        Self {
            client: FailoverClient::new(rms.link(token), rms.policy()),
            rms,
        }
    }

    /// Connects with this token from the next call on; returns whether it is a new one.
    pub fn use_token(&mut self, token: Token) -> bool {
        self.client.set_token(token)
    }

    /// Makes a call, repeated if necessary, until `deadline` at the latest.
    ///
    /// # Errors
    /// The exception of an active ResourceManager, unchanged; `RetriableException` when none
    /// answered for a minute, or by the deadline.
    pub async fn call(&mut self, request: &Request, deadline: Instant) -> Outcome {
        let distributed = self.rms.config.distributed_scheduling;
        let call = encode(distributed, request);
        let began = Instant::now();
        let deadline = deadline.min(began + self.rms.hold_max());
        let method = request.method;
        let decode = |answer| read_answer(distributed, method, answer, &self.rms.lists);
        let outcome = self.client.call_raw(&call, deadline, decode).await;
        outcome.map_err(|error| refusal(error, began.elapsed()))
    }
}

/// Returns the exception for the AM.
fn refusal(error: FailoverError, held: Duration) -> RemoteException {
    let unanswered = |error: &dyn Display| {
        tracing::warn!(%error, ?held, "no ResourceManager answers an AM's call");
        let message = format!("no ResourceManager answers: {error}");
        RemoteException::new(HadoopException::Retriable, message)
    };
    match error {
        FailoverError::Call(error) => match error.source {
            RpcError::Remote(exception) => exception,
            RpcError::RequestTooLong(error) => {
                RemoteException::new(HadoopException::YarnException, error.to_string())
            }
            error @ (RpcError::Dial(_)
            | RpcError::ConnectionLost { .. }
            | RpcError::Timeout { .. }
            | RpcError::Sasl { .. }
            | RpcError::Decode { .. }) => unanswered(&error),
        },
        FailoverError::GaveUp { source, .. } => match source {
            Some(error) => unanswered(&error.source),
            None => unanswered(&"no answer in time"),
        },
    }
}

/// Returns the encoded call for the ResourceManager. `distributed`: whether it is of
/// DistributedSchedulingAMProtocol.
#[must_use]
pub fn encode(distributed: bool, request: &Request) -> RawCall {
    use distributed_allocate_request::{ALLOCATE_REQUEST, ALLOCATED_CONTAINERS};
    let (method, message) = match (distributed, request.method) {
        (false, method) | (true, method @ AmMethod::Finish) => {
            (method.as_str(), request.message.encode())
        }
        (true, AmMethod::Register) => (
            "registerApplicationMasterForDistributedScheduling",
            request.message.encode(),
        ),
        (true, AmMethod::Allocate) => {
            let mut containers = RawMessage::default();
            if let Some(AllocatedContainers(allocated)) = request.notes.get() {
                containers.extend(ALLOCATED_CONTAINERS, allocated);
            }
            let message = request.message.encode_within(ALLOCATE_REQUEST, &containers);
            ("allocateForDistributedScheduling", message)
        }
    };
    RawCall {
        method,
        protocol: protocol(distributed),
        version: application_master::VERSION,
        request: message,
    }
}

/// Splits an answer into the part for the AM and the part for this node. `distributed`: whether the
/// answer is of DistributedSchedulingAMProtocol.
///
/// # Errors
/// [`AnswerError`]: the answer is of no use.
pub fn read_answer(
    distributed: bool,
    method: AmMethod,
    answer: Bytes,
    lists: &NodeLists,
) -> Result<Response, AnswerError> {
    let (inner, nodes) = match (distributed, method) {
        (false, _) | (true, AmMethod::Finish) => {
            return Ok(Response {
                message: RawMessage::parse(answer)?,
                ..Response::default()
            });
        }
        (true, AmMethod::Register) => (
            distributed_register_response::REGISTER_RESPONSE,
            distributed_register_response::NODES,
        ),
        (true, AmMethod::Allocate) => (
            distributed_allocate_response::ALLOCATE_RESPONSE,
            distributed_allocate_response::NODES,
        ),
    };
    // ResourceManagers write the AM's part first, and then a list that seldom changes.
    let front = FrontField::split(&answer)
        .filter(|field| method == AmMethod::Allocate && field.number == inner);
    if let Some(FrontField { content, rest, .. }) = &front
        && let Some(nodes) = lists.known(rest)
    {
        return Ok(Response {
            message: RawMessage::parse(content.clone())?,
            nodes,
            ..Response::default()
        });
    }
    let mut scheduling = RawMessage::parse(answer)?;
    let plain = scheduling
        .message(inner)
        .ok_or(AnswerError::Incomplete("answer for the AM"))?;
    let is_in_one_part = scheduling.count(inner) == 1;
    scheduling.remove(inner);
    let list = lists.read(scheduling.all(nodes));
    scheduling.remove(nodes);
    if let Some(front) = front.filter(|_| is_in_one_part && scheduling.is_empty()) {
        lists.keep(&front.rest, &list);
    }
    Ok(Response {
        message: RawMessage::parse(plain)?,
        scheduling,
        nodes: list,
    })
}

const fn protocol(distributed: bool) -> &'static str {
    if distributed {
        distributed_scheduling_am::PROTOCOL
    } else {
        application_master::PROTOCOL
    }
}

#[cfg(test)]
mod tests;
