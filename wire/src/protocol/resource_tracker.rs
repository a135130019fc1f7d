//! ResourceTracker: a NodeManager registers with the ResourceManager and sends it heartbeats.
//! Served by the ResourceManager on `yarn.resourcemanager.resource-tracker.address`, without tokens.

use crate::proto::hadoop_yarn::{
    NodeHeartbeatRequestProto, NodeHeartbeatResponseProto, RegisterNodeManagerRequestProto,
    RegisterNodeManagerResponseProto, UnRegisterNodeManagerRequestProto,
    UnRegisterNodeManagerResponseProto,
};

protocol! {
    /// What a ResourceManager offers its nodes (`org.apache.hadoop.yarn.server.api.ResourceTracker`).
    ResourceTracker, ResourceTrackerService = "org.apache.hadoop.yarn.server.api.ResourceTrackerPB", version 1;

    /// A node joins, or joins again with the containers it runs.
    RegisterNodeManager: register_node_manager =
        "registerNodeManager"(RegisterNodeManagerRequestProto) -> RegisterNodeManagerResponseProto;

    /// A node reports and gets its orders. Repeating a report with the same response id gets the same answer again.
    NodeHeartbeat: node_heartbeat = "nodeHeartbeat"(NodeHeartbeatRequestProto) -> NodeHeartbeatResponseProto;

    /// A node leaves for good.
    UnRegisterNodeManager: un_register_node_manager =
        "unRegisterNodeManager"(UnRegisterNodeManagerRequestProto) -> UnRegisterNodeManagerResponseProto;
}
