//! An ApplicationMaster that follows the protocol's rules with the token of a launched one: it
//! asks, registers again when the scheduler requires it, changes to renewed tokens, starts its
//! containers, and counts each of them once.

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
    Allocate, FinishApplicationMaster, RegisterApplicationMaster,
};
use wire::protocol::container_management::{self, StartContainers};
use wire::rpc::{ClientAuth, ClientOptions, RpcClient, RpcError};
use wire::token::Token;

use crate::LaunchContext;
use crate::scripted::{Launched, connect_scheduler};

/// Pause between two heartbeats.
const BEAT: Duration = Duration::from_millis(200);

/// A registered master and its containers.
#[derive(Debug)]
pub struct SimulatedAm {
    /// Attempt that the master runs for.
    pub attempt: ApplicationAttemptId,
    /// Every container that the scheduler ever allocated to it.
    pub allocated: BTreeMap<ContainerId, ContainerProto>,
    /// Exit status by container that has completed.
    pub ended: BTreeMap<ContainerId, i32>,
    /// Latest AMRMToken that the scheduler sent.
    pub token: Token,
    /// Number of AMRMTokens received after the first.
    pub renewals: usize,
    /// Number of registrations, the first included.
    pub registrations: usize,
    scheduler: SocketAddr,
    /// Containers not allocated yet and their type, by priority.
    outstanding: BTreeMap<i32, (i32, ExecutionTypeProto)>,
    /// Priorities whose asks the next heartbeat sends.
    unsent: BTreeSet<i32>,
    nm_tokens: BTreeMap<NodeId, Token>,
    response_id: i32,
    client: RpcClient,
    // Dropped last: connections are its tasks.
    runtime: Runtime,
}

impl SimulatedAm {
    /// Connects to a scheduler, of a node's proxy or of the ResourceManager, and registers.
    ///
    /// # Panics
    /// When the scheduler refuses.
    #[must_use]
    #[track_caller]
    pub fn register(scheduler: SocketAddr, launched: Launched) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start a runtime: {error}"));
        let client = runtime
            .block_on(connect_scheduler(scheduler, &launched.token))
            .unwrap_or_else(|error| panic!("{} may not connect: {error}", launched.attempt));
        let mut master = Self {
            attempt: launched.attempt,
            allocated: BTreeMap::new(),
            ended: BTreeMap::new(),
            token: launched.token,
            renewals: 0,
            registrations: 0,
            scheduler,
            outstanding: BTreeMap::new(),
            unsent: BTreeSet::new(),
            nm_tokens: BTreeMap::new(),
            response_id: 0,
            client,
            runtime,
        };
        if let Err(error) = master.send_registration() {
            panic!("{} may not register: {error}", master.attempt);
        }
        master
    }

    /// Asks for containers of 128 MiB on any node. Each ask has a priority of its own.
    pub fn ask(&mut self, priority: i32, count: i32, kind: ExecutionTypeProto) {
        self.outstanding.insert(priority, (count, kind));
        self.unsent.insert(priority);
    }

    /// Sends heartbeats until `is_reached`.
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
                self.allocated.len(),
                self.ended.len()
            );
            last = self.beat();
            std::thread::sleep(BEAT);
        }
    }

    /// Sends one heartbeat.
    ///
    /// # Errors
    /// When no answer comes; the same call may be repeated.
    ///
    /// # Panics
    /// When a container is allocated or completes twice, or completes without having been
    /// allocated.
    pub fn beat(&mut self) -> Result<(), RpcError> {
        let request = AllocateRequestProto {
            response_id: Some(self.response_id),
            ask: self.unsent_asks(),
            progress: Some(0.5),
            ..AllocateRequestProto::default()
        };
        let answer = self
            .runtime
            .block_on(self.client.call::<Allocate>(&request));
        match answer {
            Ok(answer) => {
                self.unsent.clear();
                self.take(answer);
                Ok(())
            }
            Err(error) => {
                let exception = error.remote();
                if exception.is_some_and(|e| e.is(HadoopException::ApplicationMasterNotRegistered))
                {
                    self.send_registration()?;
                    self.unsent = self.outstanding.keys().copied().collect();
                } else if exception.is_none() {
                    self.client = self
                        .runtime
                        .block_on(connect_scheduler(self.scheduler, &self.token))?;
                }
                Err(error)
            }
        }
    }

    /// Response id of the next call.
    #[must_use]
    pub const fn response_id(&self) -> i32 {
        self.response_id
    }

    /// Makes a call with this response id; returns the exception that refuses it.
    ///
    /// # Panics
    /// When the call is not refused.
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

    fn send_registration(&mut self) -> Result<(), RpcError> {
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

    fn unsent_asks(&self) -> Vec<ResourceRequestProto> {
        let asks = self.unsent.iter().filter_map(|priority| {
            let (count, kind) = self.outstanding.get(priority)?;
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
            if let Some((count, _)) = self.outstanding.get_mut(&priority) {
                *count -= 1;
            }
            let before = self.allocated.insert(id, container);
            assert!(before.is_none(), "{id} came twice");
        }
        for status in answer.completed_container_statuses {
            let id = status
                .container_id
                .and_then(|id| ContainerId::try_from(&id).ok());
            let id = id.expect("a status has a container");
            assert!(
                self.allocated.contains_key(&id),
                "{id} ended and never came"
            );
            let before = self.ended.insert(id, status.exit_status());
            assert!(before.is_none(), "{id} ended twice");
        }
        if let Some(token) = answer.am_rm_token {
            self.token = token.into();
            self.renewals += 1;
            // As after a lost connection: from here on the new token is used.
            let opened = self
                .runtime
                .block_on(connect_scheduler(self.scheduler, &self.token));
            self.client = opened.unwrap_or_else(|error| {
                panic!(
                    "{} was sent a token that is rejected: {error}",
                    self.attempt
                )
            });
        }
    }

    /// Starts an allocated container on its node.
    ///
    /// # Panics
    /// When the node refuses.
    #[track_caller]
    pub fn start(&self, id: ContainerId, command: &str) {
        let container = &self.allocated[&id];
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

    /// Unregisters with success, and repeats that until it is recorded.
    ///
    /// # Panics
    /// When the scheduler refuses.
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

fn id_of(container: &ContainerProto) -> ContainerId {
    let id = container.id.as_ref();
    let id = id.and_then(|id| ContainerId::try_from(id).ok());
    id.expect("a container has an id")
}
