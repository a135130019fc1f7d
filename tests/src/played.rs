//! An ApplicationMaster that a test plays with the token of one that was launched: it asks, registers again when it is told to,
//! changes to the tokens that it is sent, starts its containers, and keeps account of each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use records::{ApplicationAttemptId, ContainerId, NodeId, Resource};
use tokio::runtime::{Builder, Runtime};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, ContainerProto, ExecutionTypeProto,
    ExecutionTypeRequestProto, FinalApplicationStatusProto, FinishApplicationMasterRequestProto,
    RegisterApplicationMasterRequestProto, ResourceRequestProto, StartContainerRequestProto,
    StartContainersRequestProto,
};
use wire::protocol::application_master::{
    self, Allocate, FinishApplicationMaster, RegisterApplicationMaster,
};
use wire::protocol::container_management::{self, StartContainers};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

use crate::peer::LaunchContext;
use crate::simulated::Launched;

/// Between two heartbeats.
const BEAT: Duration = Duration::from_millis(200);

/// A registered master.
#[derive(Debug)]
pub struct PlayedMaster {
    /// Its attempt.
    pub attempt: ApplicationAttemptId,
    /// Every container that it was ever given.
    pub got: BTreeMap<ContainerId, ContainerProto>,
    /// How those ended that have.
    pub ended: BTreeMap<ContainerId, i32>,
    /// The AMRMToken that it has now.
    pub token: Token,
    /// How often it was sent a new one.
    pub renewals: usize,
    /// How often it had to register, the first time included.
    pub registrations: usize,
    scheduler: SocketAddr,
    /// By priority, what is asked for and not there yet.
    asks: BTreeMap<i32, (i32, ExecutionTypeProto)>,
    unsaid: BTreeSet<i32>,
    nm_tokens: BTreeMap<NodeId, Token>,
    response_id: i32,
    client: RpcClient,
    // Dropped last: the connections are tasks of it.
    runtime: Runtime,
}

impl PlayedMaster {
    /// Connects to a scheduler, that of a node or of the ResourceManager, and registers.
    ///
    /// # Panics
    /// When it may not.
    #[must_use]
    #[track_caller]
    pub fn register(scheduler: SocketAddr, launched: Launched) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start a runtime: {error}"));
        let client = runtime
            .block_on(open(scheduler, &launched.token))
            .unwrap_or_else(|error| panic!("{} may not connect: {error}", launched.attempt));
        let mut master = Self {
            attempt: launched.attempt,
            got: BTreeMap::new(),
            ended: BTreeMap::new(),
            token: launched.token,
            renewals: 0,
            registrations: 0,
            scheduler,
            asks: BTreeMap::new(),
            unsaid: BTreeSet::new(),
            nm_tokens: BTreeMap::new(),
            response_id: 0,
            client,
            runtime,
        };
        if let Err(error) = master.say_register() {
            panic!("{} may not register: {error}", master.attempt);
        }
        master
    }

    /// Asks for containers of 128 MiB anywhere. Each ask has a priority of its own.
    pub fn ask(&mut self, priority: i32, count: i32, kind: ExecutionTypeProto) {
        self.asks.insert(priority, (count, kind));
        self.unsaid.insert(priority);
    }

    /// Heartbeats until `is_reached`.
    ///
    /// # Panics
    /// At the deadline.
    #[track_caller]
    pub fn beat_until(
        &mut self,
        what: &str,
        deadline: Duration,
        mut is_reached: impl FnMut(&Self) -> bool,
    ) {
        let begin = Instant::now();
        let mut last = Ok(());
        while !is_reached(self) {
            assert!(
                begin.elapsed() < deadline,
                "waited {deadline:?} for {what}; {} got, {} ended; last call: {last:?}",
                self.got.len(),
                self.ended.len()
            );
            last = self.beat();
            std::thread::sleep(BEAT);
        }
    }

    /// Makes one heartbeat.
    ///
    /// # Errors
    /// Why there is no answer. Then the same call may be made again.
    ///
    /// # Panics
    /// When a container comes or ends twice, or one ends that never came.
    pub fn beat(&mut self) -> Result<(), RpcError> {
        let request = AllocateRequestProto {
            response_id: Some(self.response_id),
            ask: self.lines(),
            progress: Some(0.5),
            ..AllocateRequestProto::default()
        };
        let answer = self
            .runtime
            .block_on(self.client.call::<Allocate>(&request));
        match answer {
            Ok(answer) => {
                self.unsaid.clear();
                self.take(answer);
                Ok(())
            }
            Err(error) => {
                let exception = error.remote();
                if exception.is_some_and(|e| e.is(HadoopException::ApplicationMasterNotRegistered))
                {
                    self.say_register()?;
                    self.unsaid = self.asks.keys().copied().collect();
                } else if exception.is_none() {
                    self.client = self.runtime.block_on(open(self.scheduler, &self.token))?;
                }
                Err(error)
            }
        }
    }

    /// The number of its next call.
    #[must_use]
    pub const fn response_id(&self) -> i32 {
        self.response_id
    }

    /// Why a call of this number is refused.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    #[track_caller]
    pub fn refusal_of(&self, response_id: i32) -> RemoteException {
        let request = AllocateRequestProto {
            response_id: Some(response_id),
            ..AllocateRequestProto::default()
        };
        let call = self.client.call::<Allocate>(&request);
        let error = self.runtime.block_on(call).expect_err("a wrong number");
        let exception = error.remote().cloned();
        exception.unwrap_or_else(|| panic!("{}: {error}", self.attempt))
    }

    fn say_register(&mut self) -> Result<(), RpcError> {
        let request = RegisterApplicationMasterRequestProto {
            host: Some("localhost".to_owned()),
            rpc_port: Some(0),
            ..RegisterApplicationMasterRequestProto::default()
        };
        let call = self.client.call::<RegisterApplicationMaster>(&request);
        self.runtime.block_on(call)?;
        self.registrations += 1;
        self.response_id = 0;
        Ok(())
    }

    fn lines(&self) -> Vec<ResourceRequestProto> {
        let asks = self.unsaid.iter().filter_map(|priority| {
            let (count, kind) = self.asks.get(priority)?;
            Some((*priority, *count, *kind))
        });
        asks.map(|(priority, count, kind)| ResourceRequestProto {
            priority: Some(priority.into()),
            resource_name: Some("*".to_owned()),
            capability: Some(Resource::new(128, 1).into()),
            num_containers: Some(count),
            relax_locality: Some(true),
            execution_type_request: Some(ExecutionTypeRequestProto {
                execution_type: Some(kind.into()),
                enforce_execution_type: Some(true),
            }),
            ..ResourceRequestProto::default()
        })
        .collect()
    }

    fn take(&mut self, answer: AllocateResponseProto) {
        self.response_id = answer.response_id();
        for token in answer.nm_tokens {
            let node = token.node_id.and_then(|id| NodeId::try_from(&id).ok());
            if let (Some(node), Some(token)) = (node, token.token) {
                self.nm_tokens.insert(node, token.into());
            }
        }
        for container in answer.allocated_containers {
            let id = id_of(&container);
            let priority = container.priority.map_or(0, |priority| priority.priority());
            if let Some((count, _)) = self.asks.get_mut(&priority) {
                *count -= 1;
            }
            let before = self.got.insert(id, container);
            assert!(before.is_none(), "{id} came twice");
        }
        for status in answer.completed_container_statuses {
            let id = status
                .container_id
                .and_then(|id| ContainerId::try_from(&id).ok());
            let id = id.expect("a status has a container");
            assert!(self.got.contains_key(&id), "{id} ended and never came");
            let before = self.ended.insert(id, status.exit_status());
            assert!(before.is_none(), "{id} ended twice");
        }
        if let Some(token) = answer.am_rm_token {
            self.token = token.into();
            self.renewals += 1;
            // As a master that loses its connection: from now on it shows the new token.
            let opened = self.runtime.block_on(open(self.scheduler, &self.token));
            self.client = opened.unwrap_or_else(|error| {
                panic!(
                    "{} was sent a token that does not count: {error}",
                    self.attempt
                )
            });
        }
    }

    /// Starts a container that it was given.
    ///
    /// # Panics
    /// When the node refuses.
    #[track_caller]
    pub fn start(&self, id: ContainerId, command: &str) {
        let container = &self.got[&id];
        let node = container.node_id.as_ref();
        let node = node.and_then(|node| NodeId::try_from(node).ok());
        let node = node.expect("a container has a node");
        let token = self.nm_tokens.get(&node);
        let token = token.unwrap_or_else(|| panic!("no NMToken for {node}"));
        let request = StartContainersRequestProto {
            start_container_request: vec![StartContainerRequestProto {
                container_launch_context: Some(LaunchContext::command(command).into_proto()),
                container_token: container.container_token.clone(),
            }],
        };
        let address = (node.host.as_str(), node.port).to_socket_addrs();
        let address = address.ok().and_then(|mut addresses| addresses.next());
        let address = address.unwrap_or_else(|| panic!("{node} is nowhere"));
        let answer = self.runtime.block_on(async {
            let auth = ClientAuth::Token(token.clone());
            let options = ClientOptions::default();
            let protocol = container_management::PROTOCOL;
            let client = RpcClient::connect(address, protocol, auth, &options).await?;
            client.call::<StartContainers>(&request).await
        });
        let answer = answer.unwrap_or_else(|error| panic!("{node} refuses {id}: {error}"));
        assert!(answer.failed_requests.is_empty(), "{id}: {answer:?}");
    }

    /// Says that all went well, until that is on record.
    ///
    /// # Panics
    /// When the scheduler does not want to hear it.
    pub fn finish(&self) {
        let request = FinishApplicationMasterRequestProto {
            final_application_status: Some(FinalApplicationStatusProto::AppSucceeded.into()),
            ..FinishApplicationMasterRequestProto::default()
        };
        loop {
            let call = self.client.call::<FinishApplicationMaster>(&request);
            let answer = self.runtime.block_on(call);
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", self.attempt));
            if answer.is_unregistered() {
                return;
            }
            std::thread::sleep(BEAT);
        }
    }
}

/// The id in a container.
fn id_of(container: &ContainerProto) -> ContainerId {
    let id = container.id.as_ref();
    let id = id.and_then(|id| ContainerId::try_from(id).ok());
    id.expect("a container has an id")
}

/// Opens a scheduler's door, of a node or of the ResourceManager.
///
/// # Errors
/// Why it stays closed.
pub async fn open(scheduler: SocketAddr, token: &Token) -> Result<RpcClient, RpcError> {
    let auth = ClientAuth::Token(token.clone());
    let options = ClientOptions::default();
    RpcClient::connect(scheduler, application_master::PROTOCOL, auth, &options).await
}
