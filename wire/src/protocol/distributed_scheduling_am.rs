//! DistributedSchedulingAMProtocol: what ApplicationMasterProtocol is, for nodes that allocate opportunistic containers.
//! Served by a ResourceManager with distributed scheduling on `yarn.resourcemanager.scheduler.address`, beside the plain
//! protocol; the caller is the AMRMProxy of a node with the AMRMToken of an attempt.

use crate::proto::hadoop_yarn::{
    DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
    FinishApplicationMasterRequestProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterRequestProto, RegisterDistributedSchedulingAmResponseProto,
};

protocol! {
    /// What the scheduler offers allocators on nodes
    /// (`org.apache.hadoop.yarn.server.api.DistributedSchedulingAMProtocol`).
    DistributedSchedulingAMProtocol, DistributedSchedulingAMService =
        "org.apache.hadoop.yarn.server.api.DistributedSchedulingAMProtocolPB", version 1;

    /// A master has started; the answer also has the node's range of container ids and the first nodes.
    RegisterApplicationMasterForDistributedScheduling: register_application_master_for_distributed_scheduling =
        "registerApplicationMasterForDistributedScheduling"(RegisterApplicationMasterRequestProto)
        -> RegisterDistributedSchedulingAmResponseProto;

    /// A master's heartbeat, with what the node has allocated; the answer also has fresh nodes.
    AllocateForDistributedScheduling: allocate_for_distributed_scheduling =
        "allocateForDistributedScheduling"(DistributedSchedulingAllocateRequestProto)
        -> DistributedSchedulingAllocateResponseProto;

    /// As in ApplicationMasterProtocol.
    FinishApplicationMaster: finish_application_master =
        "finishApplicationMaster"(FinishApplicationMasterRequestProto) -> FinishApplicationMasterResponseProto;
}
