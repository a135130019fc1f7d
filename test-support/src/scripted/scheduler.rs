//! The scheduler's side of both protocols for ApplicationMasters: answers as a test says, and keeps
//! calls to the byte when the test asks for it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use prost::Message;
use records::{ApplicationAttemptId, MonoMillis, Resource};
use tokio::runtime::Handle;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, DistributedSchedulingAllocateRequestProto,
    DistributedSchedulingAllocateResponseProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterResponseProto, RegisterDistributedSchedulingAmResponseProto,
    RemoteNodeProto,
};
use wire::protocol::{application_master, distributed_scheduling_am};
use wire::rpc::{BoxFuture, Caller, RpcServer, Service};
use wire::secrets::{AmrmTokenSecretManager, RollTimes};
use wire::server::ServerAuth;
use wire::token::Token;

/// Roll times longer than any test: keys of AMRMTokens do not roll by themselves. A test may
/// advance the clock to `interval` to roll them.
pub const KEYS: RollTimes = RollTimes {
    interval: 1_000_000,
    overlap: 100_000,
};

/// The most that a scripted scheduler gives to one container.
const MAXIMUM: Resource = Resource::new(1 << 20, 1 << 10);

/// A call while the script answers it.
#[derive(Debug)]
pub struct SchedulerCall<'a> {
    /// Text of the attempt id in the token that the connection was opened with.
    pub attempt: &'a str,
    /// Name of the protocol's method.
    pub method: &'a str,
    /// Bytes of the request message, as they came.
    pub request: Bytes,
}

/// A call that was recorded; see [`ScriptedScheduler::record_calls`].
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// Name of the protocol's method.
    pub method: String,
    /// Bytes of the request message, as they came.
    pub request: Bytes,
    /// Identifier of the token that the caller connected with.
    pub identifier: Bytes,
}

/// An answer or a refusal, when it is ready; a future that never ends leaves the call without an
/// answer.
type Reply = BoxFuture<'static, Result<Bytes, RemoteException>>;

/// The answer to each call.
pub type Script = dyn Fn(&SchedulerCall<'_>) -> Reply + Send + Sync;

/// Script of answers that are ready at once.
pub fn answering(
    answer: impl Fn(&SchedulerCall<'_>) -> Result<Bytes, RemoteException> + Send + Sync + 'static,
) -> Arc<Script> {
    Arc::new(move |call| {
        let answer = answer(call);
        Box::pin(async move { answer })
    })
}

/// Script that answers every call with the same bytes.
pub fn always(answer: impl Into<Bytes>) -> Arc<Script> {
    let answer = answer.into();
    answering(move |_| Ok(answer.clone()))
}

/// Script that refuses every call with the same exception.
#[must_use]
pub fn refuse(exception: RemoteException) -> Arc<Script> {
    answering(move |_| Err(exception.clone()))
}

/// Script that answers no call.
#[must_use]
pub fn silent() -> Arc<Script> {
    Arc::new(|_| Box::pin(std::future::pending()))
}

/// The script, and recorded calls where they are recorded.
struct State {
    script: Mutex<Arc<Script>>,
    calls: Mutex<Option<Vec<RecordedCall>>>,
}

impl State {
    fn script(&self) -> MutexGuard<'_, Arc<Script>> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, Option<Vec<RecordedCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Hosted {
    state: Arc<State>,
    protocol: &'static str,
}

impl Service for Hosted {
    fn protocol(&self) -> &'static str {
        self.protocol
    }

    fn version(&self) -> u64 {
        application_master::VERSION
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        method: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        if let Some(calls) = &mut *self.state.calls() {
            calls.push(RecordedCall {
                method: method.to_owned(),
                request: request.clone(),
                identifier: caller.token_identifier.clone().unwrap_or_default(),
            });
        }
        let script = Arc::clone(&self.state.script());
        // Runs when it is polled: a script may block, and the server polls each call in a task.
        Box::pin(async move {
            let reply = script(&SchedulerCall {
                attempt: &caller.user,
                method,
                request,
            });
            reply.await
        })
    }
}

/// ApplicationMasterProtocol and DistributedSchedulingAMProtocol on one port of this machine, until
/// dropped.
pub struct ScriptedScheduler {
    /// Address that the port listens on.
    pub address: SocketAddr,
    /// Makes and verifies AMRMTokens.
    pub secrets: Arc<AmrmTokenSecretManager>,
    state: Arc<State>,
    _stop: DropGuard,
}

impl ScriptedScheduler {
    /// Starts a scheduler on a free port, served by `runtime`.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn start(runtime: &Handle, script: Arc<Script>) -> Self {
        runtime.block_on(Self::open(script))
    }

    /// Starts a scheduler on a free port, served by the current runtime.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn open(script: Arc<Script>) -> Self {
        let secrets = Arc::new(AmrmTokenSecretManager::new(KEYS, MonoMillis(0)));
        Self::open_at(SocketAddr::from(([127, 0, 0, 1], 0)), secrets, script).await
    }

    /// Starts a scheduler at this address, which accepts the AMRMTokens of `secrets`: both of an RM
    /// pair, or an RM after its restart, share them.
    ///
    /// # Panics
    /// When the port is taken.
    pub async fn open_at(
        address: SocketAddr,
        secrets: Arc<AmrmTokenSecretManager>,
        script: Arc<Script>,
    ) -> Self {
        let state = Arc::new(State {
            script: Mutex::new(script),
            calls: Mutex::default(),
        });
        let mut builder = RpcServer::builder(ServerAuth::Token(Arc::clone(&secrets) as Arc<_>));
        for protocol in [
            application_master::PROTOCOL,
            distributed_scheduling_am::PROTOCOL,
        ] {
            let state = Arc::clone(&state);
            builder = builder.service(Hosted { state, protocol });
        }
        let bound = builder.bind(address).await;
        let (server, address) =
            bound.unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"));
        let stop = CancellationToken::new();
        tokio::spawn(server.serve(stop.clone()));
        Self {
            address,
            secrets,
            state,
            _stop: stop.drop_guard(),
        }
    }

    /// Keeps every call from now on. Without this none is kept, so that a measurement does not grow
    /// by its calls.
    #[must_use]
    pub fn record_calls(self) -> Self {
        self.state.calls().get_or_insert_default();
        self
    }

    /// Recorded calls, oldest first.
    ///
    /// # Panics
    /// When calls are not recorded.
    #[must_use]
    #[track_caller]
    pub fn calls(&self) -> Vec<RecordedCall> {
        let calls = self.state.calls().clone();
        calls.expect("this scheduler records calls")
    }

    /// Answers later calls by another script.
    pub fn set_script(&self, script: Arc<Script>) {
        *self.state.script() = script;
    }

    /// The AMRMToken with which an attempt may call; every earlier one of the attempt stays valid.
    #[must_use]
    pub fn token(&self, attempt: ApplicationAttemptId) -> Token {
        self.secrets.activate(attempt, "alice")
    }
}

/// Answers of a scheduler that never allocates: each call is answered, each response id
/// incremented.
#[derive(Debug, Clone, Default)]
pub struct IdleScheduler {
    /// Nodes on which it lets other nodes allocate opportunistic containers.
    pub nodes: Vec<RemoteNodeProto>,
}

impl IdleScheduler {
    /// Returns the answer to a call of either protocol.
    ///
    /// # Errors
    /// When the request is no message of the method, or the method does not exist.
    pub fn answer(&self, call: &SchedulerCall<'_>) -> Result<Bytes, RemoteException> {
        let answer = match call.method {
            "registerApplicationMaster" => registered().encode_to_vec(),
            "registerApplicationMasterForDistributedScheduling" => {
                self.registered_distributed().encode_to_vec()
            }
            "allocate" => allocated(&decode(call)?).encode_to_vec(),
            "allocateForDistributedScheduling" => {
                let request: DistributedSchedulingAllocateRequestProto = decode(call)?;
                let answer = DistributedSchedulingAllocateResponseProto {
                    allocate_response: Some(allocated(
                        &request.allocate_request.unwrap_or_default(),
                    )),
                    nodes_for_scheduling: self.nodes.clone(),
                };
                answer.encode_to_vec()
            }
            "finishApplicationMaster" => FinishApplicationMasterResponseProto {
                is_unregistered: Some(true),
            }
            .encode_to_vec(),
            other => {
                let why = format!("no method {other}");
                return Err(RemoteException::new(HadoopException::YarnException, why));
            }
        };
        Ok(answer.into())
    }

    /// Returns these answers as a script.
    #[must_use]
    pub fn into_script(self) -> Arc<Script> {
        answering(move |call| self.answer(call))
    }

    fn registered_distributed(&self) -> RegisterDistributedSchedulingAmResponseProto {
        RegisterDistributedSchedulingAmResponseProto {
            register_response: Some(registered()),
            max_container_resource: Some(MAXIMUM.into()),
            min_container_resource: Some(Resource::new(128, 1).into()),
            incr_container_resource: Some(Resource::new(128, 1).into()),
            container_token_expiry_interval: Some(600_000),
            // As of a ResourceManager's first run.
            container_id_start: Some(0),
            nodes_for_scheduling: self.nodes.clone(),
        }
    }
}

fn decode<M: Message + Default>(call: &SchedulerCall<'_>) -> Result<M, RemoteException> {
    M::decode(call.request.clone()).map_err(|error| {
        RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
    })
}

fn registered() -> RegisterApplicationMasterResponseProto {
    RegisterApplicationMasterResponseProto {
        maximum_capability: Some(MAXIMUM.into()),
        queue: Some("default".to_owned()),
        ..RegisterApplicationMasterResponseProto::default()
    }
}

fn allocated(request: &AllocateRequestProto) -> AllocateResponseProto {
    AllocateResponseProto {
        response_id: Some(request.response_id() + 1),
        num_cluster_nodes: Some(1),
        ..AllocateResponseProto::default()
    }
}
