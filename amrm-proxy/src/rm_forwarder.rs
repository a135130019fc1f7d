//! The end of every pipeline: the call goes to the ResourceManager, and only here somebody waits.
//!
//! One connection per attempt, opened with the attempt's own AMRMToken of the ResourceManager. A ResourceManager that is on
//! standby or does not answer is left for the next one (`yarn.resourcemanager.ha.rm-ids`); a pause follows when all were
//! tried. That is safe because the calls repeat well: the response id tells the ResourceManager that an `allocate` is one
//! it has answered, and it then answers the same again. Exceptions of an active ResourceManager go to the AM unchanged: AMs
//! act on their class. Source: `DefaultRequestInterceptor`, `ServerRMProxy`.
//!
//! An AM waits for this node as long as its own RPC time-out says, two minutes by default. So a call is not held for the
//! whole patience that Hadoop's proxy has (`yarn.resourcemanager.connect.max-wait.ms`, 15 minutes): after a minute the AM is
//! told to try again, which its client library does with a patience of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};
use wire::client::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::exception::{HadoopException, RemoteException};
use wire::protocol::{application_master, distributed_scheduling_am};
use wire::raw_message::{RawMessage, RawMessageError};
use wire::retry::{Failures, RetryPolicy};
use wire::token::Token;

use crate::fields::{
    distributed_allocate_request, distributed_allocate_response, distributed_register_response,
};
use crate::interceptor::{AmMethod, Outcome, Request, Response};

/// Longest time a call of an AM is held: while it waits for the attempt's call before, for its delay, and while no
/// ResourceManager answers, all together.
pub(crate) const HOLD_MAX: Duration = Duration::from_secs(60);

/// How long one try to connect may take (Hadoop: `ipc.client.connect.timeout`, there 20 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How the ResourceManagers are reached; the same for all attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmConfig {
    /// `host:port` of each scheduler service, in the order of `yarn.resourcemanager.ha.rm-ids`; at least one.
    pub addresses: Vec<String>,
    /// How long they may all be silent; `None`: for ever. A call is not held that long.
    pub max_wait: Option<Duration>,
    /// Longest pause between two rounds of tries.
    pub retry_interval: Duration,
    /// Whether they are spoken to in DistributedSchedulingAMProtocol
    /// (`yarn.nodemanager.distributed-scheduling.enabled`).
    pub distributed_scheduling: bool,
}

/// What all forwarders share.
#[derive(Debug)]
pub struct ResourceManagers {
    config: RmConfig,
    /// The one that answered last: with hundreds of attempts not each has to find out by itself.
    active: AtomicUsize,
}

impl ResourceManagers {
    /// None has been tried.
    #[must_use]
    pub const fn new(config: RmConfig) -> Self {
        Self {
            config,
            active: AtomicUsize::new(0),
        }
    }

    fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// This one does not answer. Turns to the next, unless somebody has: of hundreds of attempts that lose the same
    /// ResourceManager only the first turns.
    fn turn_from(&self, failed: usize) {
        let next = (failed + 1) % self.config.addresses.len().max(1);
        let _turned_by_another =
            self.active
                .compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            addresses: self.config.addresses.len(),
            interval_max: self.config.retry_interval,
            give_up_after: Some(self.config.max_wait.unwrap_or(HOLD_MAX).min(HOLD_MAX)),
        }
    }
}

/// Why one try brought no answer that the AM could be given.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("resolving {address}")]
    Resolve {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error("the answer is no message")]
    Garbage(#[from] RawMessageError),
    #[error("the answer has no {0}")]
    Incomplete(&'static str),
    #[error("no answer in time")]
    Silence,
}

impl TryError {
    /// The exception that the AM shall see at once, because trying again would not help.
    fn into_final(self) -> Result<RemoteException, Self> {
        match self {
            Self::Rpc(RpcError::Remote(exception))
                if !exception.is(HadoopException::Standby)
                    && !exception.is(HadoopException::Retriable) =>
            {
                Ok(exception)
            }
            Self::Rpc(RpcError::RequestTooLong(error)) => Ok(RemoteException::new(
                HadoopException::YarnException,
                error.to_string(),
            )),
            error @ (Self::Resolve { .. }
            | Self::Rpc(_)
            | Self::Garbage(_)
            | Self::Incomplete(_)
            | Self::Silence) => Err(error),
        }
    }
}

/// One attempt's way to the ResourceManager.
#[derive(Debug)]
pub struct RmForwarder {
    rms: Arc<ResourceManagers>,
    token: Token,
    client: Option<RpcClient>,
    /// Which ResourceManager the connection is, or was last, to.
    at: usize,
}

impl RmForwarder {
    /// Nothing is opened before the first call.
    #[must_use]
    pub const fn new(rms: Arc<ResourceManagers>, token: Token) -> Self {
        Self {
            rms,
            token,
            client: None,
            at: 0,
        }
    }

    /// Signs in with this token from the next call on; whether it is a new one. The open connection would do until the old
    /// key ends, but on it the ResourceManager sends the token again with each answer, for that long.
    pub fn use_token(&mut self, token: Token) -> bool {
        if token == self.token {
            return false;
        }
        self.token = token;
        self.client = None;
        true
    }

    /// Makes a call, as often as it takes, until `deadline` at the latest.
    ///
    /// # Errors
    /// The exception of an active ResourceManager, unchanged; `RetriableException` when none answered for a minute, or as
    /// long as was left.
    pub async fn call(&mut self, request: &Request, deadline: Instant) -> Outcome {
        let encoded = self.encode(request);
        let policy = self.rms.policy();
        let began = Instant::now();
        let deadline = deadline.min(began + policy.give_up_after.unwrap_or(HOLD_MAX));
        let mut failures = Failures::default();
        loop {
            let try_began = Instant::now();
            if self.client.as_ref().is_none_or(RpcClient::is_lost) {
                self.at = self.rms.active();
            }
            let was_open = self.client.is_some();
            let tried = timeout_at(deadline, self.try_once(request.method, &encoded)).await;
            let error = match tried.unwrap_or(Err(TryError::Silence)) {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            let error = match error.into_final() {
                Ok(exception) => return Err(exception),
                Err(error) => error,
            };
            self.client = None;
            // A connection that was idle may have been closed by the other side: that says nothing about the server.
            if was_open && matches!(&error, TryError::Rpc(RpcError::ConnectionLost { .. })) {
                continue;
            }
            self.rms.turn_from(self.at);
            let pause = failures.note(try_began, Instant::now(), &policy, &mut rand::rng());
            match pause {
                Ok(pause) if Instant::now() + pause < deadline => {
                    tracing::debug!(%error, ?pause, "the ResourceManager does not answer an AM's call");
                    sleep(pause).await;
                }
                Ok(_) | Err(_) => {
                    tracing::warn!(%error, held = ?began.elapsed(), "no ResourceManager answers an AM's call");
                    return Err(RemoteException::new(
                        HadoopException::Retriable,
                        format!("no ResourceManager answers: {error}"),
                    ));
                }
            }
        }
    }

    fn encode(&self, request: &Request) -> Bytes {
        if !self.rms.config.distributed_scheduling || request.method != AmMethod::Allocate {
            return request.message.encode();
        }
        use distributed_allocate_request::{ALLOCATE_REQUEST, ALLOCATED_CONTAINERS};
        let mut containers = RawMessage::default();
        containers.extend(ALLOCATED_CONTAINERS, &request.allocated);
        request.message.encode_within(ALLOCATE_REQUEST, &containers)
    }

    async fn try_once(&mut self, method: AmMethod, request: &Bytes) -> Result<Response, TryError> {
        let client = match &self.client {
            Some(client) if !client.is_lost() => client.clone(),
            Some(_) | None => {
                let client = self.open().await?;
                self.client.insert(client).clone()
            }
        };
        let distributed = self.rms.config.distributed_scheduling;
        let (protocol, name) = match (distributed, method) {
            (false, method) => (application_master::PROTOCOL, method.as_str()),
            (true, AmMethod::Register) => (
                distributed_scheduling_am::PROTOCOL,
                "registerApplicationMasterForDistributedScheduling",
            ),
            (true, AmMethod::Allocate) => (
                distributed_scheduling_am::PROTOCOL,
                "allocateForDistributedScheduling",
            ),
            (true, AmMethod::Finish) => (distributed_scheduling_am::PROTOCOL, method.as_str()),
        };
        let answer = client
            .call_raw(name, protocol, application_master::VERSION, request.clone())
            .await?;
        let message = RawMessage::parse(answer)?;
        let inner = match (distributed, method) {
            (false, _) | (true, AmMethod::Finish) => {
                return Ok(Response {
                    message,
                    scheduling: RawMessage::default(),
                });
            }
            (true, AmMethod::Register) => distributed_register_response::REGISTER_RESPONSE,
            (true, AmMethod::Allocate) => distributed_allocate_response::ALLOCATE_RESPONSE,
        };
        let mut scheduling = message;
        let plain = scheduling
            .message(inner)
            .ok_or(TryError::Incomplete("answer for the AM"))?;
        scheduling.remove(inner);
        Ok(Response {
            message: RawMessage::parse(plain)?,
            scheduling,
        })
    }

    async fn open(&self) -> Result<RpcClient, TryError> {
        let config = &self.rms.config;
        let address = config.addresses.get(self.at).map_or("", String::as_str);
        let resolved = resolve(address).await.map_err(|source| TryError::Resolve {
            address: address.to_owned(),
            source,
        })?;
        let options = ClientOptions {
            connect_timeout: CONNECT_TIMEOUT,
            // The caller's deadline is nearer.
            call_timeout: 2 * HOLD_MAX,
            // Calls of one attempt come one after the other.
            calls_in_flight_max: 1,
            ..ClientOptions::default()
        };
        let protocol = if config.distributed_scheduling {
            distributed_scheduling_am::PROTOCOL
        } else {
            application_master::PROTOCOL
        };
        let auth = ClientAuth::Token(self.token.clone());
        Ok(RpcClient::connect(resolved, protocol, auth, &options).await?)
    }
}

async fn resolve(address: &str) -> io::Result<SocketAddr> {
    let found = tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::lookup_host(address)).await;
    found
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
        .next()
        .ok_or_else(|| io::Error::other("the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managers(count: usize) -> ResourceManagers {
        ResourceManagers::new(RmConfig {
            addresses: (0..count)
                .map(|number| format!("rm{number}:8030"))
                .collect(),
            max_wait: Some(Duration::from_secs(900)),
            retry_interval: Duration::from_secs(30),
            distributed_scheduling: false,
        })
    }

    #[test]
    fn many_attempts_that_lose_one_rm_turn_once() {
        let rms = managers(2);
        for _ in 0..500 {
            rms.turn_from(0);
        }
        assert_eq!(rms.active(), 1);
        rms.turn_from(1);
        assert_eq!(rms.active(), 0);
    }

    #[test]
    fn a_lone_rm_is_tried_again() {
        let rms = managers(1);
        rms.turn_from(0);
        assert_eq!(rms.active(), 0);
    }

    #[test]
    fn a_token_that_is_sent_again_is_no_news() {
        let token = |identifier: &'static [u8]| Token {
            identifier: identifier.into(),
            password: Bytes::new(),
            kind: wire::token::kind::AM_RM_TOKEN.to_owned(),
            service: String::new(),
        };
        let mut forwarder = RmForwarder::new(Arc::new(managers(1)), token(b"first"));
        assert!(!forwarder.use_token(token(b"first")));
        assert!(forwarder.use_token(token(b"second")));
        assert!(!forwarder.use_token(token(b"second")));
    }

    #[test]
    fn no_call_is_held_longer_than_a_minute() {
        assert_eq!(managers(1).policy().give_up_after, Some(HOLD_MAX));
    }
}
