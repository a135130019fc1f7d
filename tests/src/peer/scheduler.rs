//! The scheduler's side of both protocols for ApplicationMasters: it answers as a test says, and the test may keep what it
//! was asked, to the byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

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
use wire::secrets::{MasterSecrets, RollTimes};
use wire::server::ServerAuth;
use wire::token::Token;

/// Longer than any test: its key does not roll by itself.
const KEYS: RollTimes = RollTimes {
    interval: 100_000_000,
    overlap: 10_000_000,
};

/// What a scheduler of these tests gives at most.
const MAXIMUM: Resource = Resource::new(1 << 20, 1 << 10);

/// A call that came.
#[derive(Debug)]
pub struct SchedulerCall<'a> {
    /// Whose token the connection was opened with.
    pub attempt: &'a str,
    /// The method's name.
    pub method: &'a str,
    /// The message.
    pub request: Bytes,
}

/// What it answers.
pub type Script = dyn Fn(&SchedulerCall<'_>) -> Result<Bytes, RemoteException> + Send + Sync;

struct Hosted {
    script: Arc<Mutex<Arc<Script>>>,
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
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let script = Arc::clone(&script);
        Box::pin(async move {
            script(&SchedulerCall {
                attempt: &caller.user,
                method,
                request,
            })
        })
    }
}

/// Both protocols on one port, until it is dropped.
pub struct PeerScheduler {
    /// Where it listens.
    pub address: SocketAddr,
    secrets: Arc<MasterSecrets>,
    script: Arc<Mutex<Arc<Script>>>,
    _stop: DropGuard,
}

impl PeerScheduler {
    /// Starts one on a free port, served by `runtime`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn start(runtime: &Handle, script: Arc<Script>) -> Self {
        let script = Arc::new(Mutex::new(script));
        let secrets = Arc::new(MasterSecrets::new(KEYS, MonoMillis(0)));
        let mut builder = RpcServer::builder(ServerAuth::Token(Arc::clone(&secrets) as Arc<_>));
        for protocol in [
            application_master::PROTOCOL,
            distributed_scheduling_am::PROTOCOL,
        ] {
            let script = Arc::clone(&script);
            builder = builder.service(Hosted { script, protocol });
        }
        let bound = runtime.block_on(builder.bind((Ipv4Addr::LOCALHOST, 0).into()));
        let (server, address) = bound.unwrap_or_else(|error| panic!("no port is free: {error}"));
        let stop = CancellationToken::new();
        runtime.spawn(server.serve(stop.clone()));
        Self {
            address,
            secrets,
            script,
            _stop: stop.drop_guard(),
        }
    }

    /// Answers like this from now on.
    pub fn say(&self, script: Arc<Script>) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// An attempt's right to talk to it.
    #[must_use]
    pub fn token(&self, attempt: ApplicationAttemptId) -> Token {
        self.secrets.admit(attempt)
    }
}

/// What a scheduler says that never has anything: each call is answered, each response id counted on.
#[derive(Debug, Clone, Default)]
pub struct Nothing {
    /// Nodes that it lets other nodes allocate on.
    pub nodes: Vec<RemoteNodeProto>,
}

impl Nothing {
    /// The answer to a call of either protocol.
    ///
    /// # Errors
    /// That the request is no message of the method, or that there is no such method.
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

    /// The answer as a script.
    #[must_use]
    pub fn into_script(self) -> Arc<Script> {
        Arc::new(move |call| self.answer(call))
    }

    fn registered_distributed(&self) -> RegisterDistributedSchedulingAmResponseProto {
        RegisterDistributedSchedulingAmResponseProto {
            register_response: Some(registered()),
            max_container_resource: Some(MAXIMUM.into()),
            min_container_resource: Some(Resource::new(128, 1).into()),
            incr_container_resource: Some(Resource::new(128, 1).into()),
            container_token_expiry_interval: Some(600_000),
            // As of a ResourceManager's first run.
            container_id_start: Some(1 << 40),
            nodes_for_scheduling: self.nodes.clone(),
        }
    }
}

/// Reads a call's message.
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
