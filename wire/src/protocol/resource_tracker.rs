//! ResourceTracker: a NodeManager registers with the ResourceManager and sends it heartbeats.
//! Served by the ResourceManager on `yarn.resourcemanager.resource-tracker.address`, without
//! tokens.

use crate::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};

protocol! {
    /// Protocol of nodes with a ResourceManager
    /// (`org.apache.hadoop.yarn.server.api.ResourceTracker`).
    ResourceTracker, ResourceTrackerService = "org.apache.hadoop.yarn.server.api.ResourceTrackerPB", version 1;

    /// Registers a node, or registers it again with the containers it runs.
    RegisterNodeManager: register_node_manager =
        "registerNodeManager"(RegisterNodeManagerRequestProto) -> RegisterNodeManagerResponseProto;

    /// Heartbeat of a node: status in, commands out. Repeating a report with the same response id
    /// returns the same answer.
    NodeHeartbeat: node_heartbeat = "nodeHeartbeat"(NodeHeartbeatRequestProto) -> NodeHeartbeatResponseProto;

    /// Unregisters a node that leaves permanently.
    UnRegisterNodeManager: un_register_node_manager =
        "unRegisterNodeManager"(UnRegisterNodeManagerRequestProto) -> UnRegisterNodeManagerResponseProto;
}
