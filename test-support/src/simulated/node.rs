//! Nodes that register, report and follow orders, and run nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use records::{ContainerId, NodeId, Resource};
use wire::proto::hadoop_yarn::{
    ContainerStateProto, ContainerStatusProto, ExecutionTypeProto, NodeHeartbeatRequestProto,
    NodeHeartbeatResponseProto, NodeStatusProto, OpportunisticContainersStatusProto,
    RegisterNodeManagerRequestProto,
};
use wire::protocol::resource_tracker::{self, NodeHeartbeat, RegisterNodeManager};
use wire::rpc::RpcClient;
use wire::token::MasterKey;

use crate::scripted::{connect, simple_auth};

/// Exit status of a container that the ResourceManager ended (Hadoop: `KILLED_BY_APPMASTER`).
const KILLED_EXIT_STATUS: i32 = -105;

/// A node that takes whatever a test puts on it, at no cost.
#[derive(Debug)]
pub struct SimulatedNode {
    /// Id that the node registers under.
    pub id: NodeId,
    /// Keys of NMTokens and of container tokens, from the answer to the registration.
    pub keys: (Option<MasterKey>, Option<MasterKey>),
    /// Running containers, with size and type; the test changes them.
    pub running: BTreeMap<ContainerId, (Resource, ExecutionTypeProto)>,
    /// Exit status by finished container, until the ResourceManager acknowledges it.
    pub ended: BTreeMap<ContainerId, i32>,
    /// Reported capacity of the queue of opportunistic containers, in containers.
    pub queue_capacity: i32,
    client: RpcClient,
    response_id: i32,
}

impl SimulatedNode {
    /// Registers a node of this size.
    ///
    /// # Panics
    /// When the ResourceManager refuses.
    pub async fn register(tracker: SocketAddr, id: NodeId, offers: Resource) -> Self {
        let client = connect(tracker, resource_tracker::PROTOCOL, simple_auth()).await;
        let request = RegisterNodeManagerRequestProto {
            node_id: Some((&id).into()),
            http_port: Some(1),
            resource: Some(offers.into()),
            nm_version: Some(crate::HADOOP_VERSION.to_owned()),
            ..RegisterNodeManagerRequestProto::default()
        };
        let answer = client.call::<RegisterNodeManager>(&request).await;
        let answer = answer.expect("the ResourceManager takes nodes");
        let key = |key: Option<_>| key.and_then(|key| MasterKey::try_from(key).ok());
        Self {
            id,
            keys: (
                key(answer.nm_token_master_key),
                key(answer.container_token_master_key),
            ),
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            queue_capacity: 10,
            client,
            response_id: 0,
        }
    }

    /// Sends a heartbeat and follows the orders in its answer.
    ///
    /// # Panics
    /// When the ResourceManager does not answer.
    pub async fn heartbeat(&mut self) -> NodeHeartbeatResponseProto {
        let request = self.report();
        let answer = self.client.call::<NodeHeartbeat>(&request).await;
        let answer = answer.expect("the ResourceManager answers nodes");
        self.response_id = answer.response_id();
        for id in &answer.containers_to_cleanup {
            if let Ok(id) = ContainerId::try_from(id)
                && self.running.remove(&id).is_some()
            {
                self.ended.insert(id, KILLED_EXIT_STATUS);
            }
        }
        for id in &answer.containers_to_be_removed_from_nm {
            if let Ok(id) = ContainerId::try_from(id) {
                self.ended.remove(&id);
            }
        }
        answer
    }

    fn report(&self) -> NodeHeartbeatRequestProto {
        let running = self.running.iter().map(|(id, (size, kind))| {
            let size = Some((*size).into());
            (*id, ContainerStateProto::CRunning, None, size, *kind)
        });
        let ended = self.ended.iter().map(|(id, exit)| {
            let kind = ExecutionTypeProto::Guaranteed;
            (*id, ContainerStateProto::CComplete, Some(*exit), None, kind)
        });
        let statuses = running
            .chain(ended)
            .map(
                |(id, state, exit_status, capability, kind)| ContainerStatusProto {
                    container_id: Some(id.into()),
                    state: Some(state.into()),
                    exit_status,
                    capability,
                    execution_type: Some(kind.into()),
                    ..ContainerStatusProto::default()
                },
            );
        let key_id = |key: &Option<MasterKey>| key.clone().map(Into::into);
        NodeHeartbeatRequestProto {
            node_status: Some(NodeStatusProto {
                node_id: Some((&self.id).into()),
                response_id: Some(self.response_id),
                containers_statuses: statuses.collect(),
                opportunistic_containers_status: Some(OpportunisticContainersStatusProto {
                    opport_queue_capacity: Some(self.queue_capacity),
                    ..OpportunisticContainersStatusProto::default()
                }),
                ..NodeStatusProto::default()
            }),
            last_known_nm_token_master_key: key_id(&self.keys.0),
            last_known_container_token_master_key: key_id(&self.keys.1),
            ..NodeHeartbeatRequestProto::default()
        }
    }
}
