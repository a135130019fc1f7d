//! DistributedSchedulingAMProtocol: ApplicationMasterProtocol for nodes that allocate opportunistic
//! containers.
//!
//! Served by a ResourceManager with distributed scheduling on
//! `yarn.resourcemanager.scheduler.address`, beside the plain protocol; the caller is the AMRMProxy
//! of a node with the AMRMToken of an attempt.

use crate::proto::hadoop_yarn::{
    DistributedSchedulingAllocateRequestProto, DistributedSchedulingAllocateResponseProto,
    FinishApplicationMasterRequestProto, FinishApplicationMasterResponseProto,
    RegisterApplicationMasterRequestProto, RegisterDistributedSchedulingAmResponseProto,
};

protocol! {
    /// Protocol of allocators on nodes with the scheduler
    /// (`org.apache.hadoop.yarn.server.api.DistributedSchedulingAMProtocol`).
    DistributedSchedulingAMProtocol, DistributedSchedulingAMService =
        "org.apache.hadoop.yarn.server.api.DistributedSchedulingAMProtocolPB", version 1;

    /// Registers a master; the answer also has the node's range of container ids and the first
    /// nodes.
    RegisterApplicationMasterForDistributedScheduling: register_application_master_for_distributed_scheduling =
        "registerApplicationMasterForDistributedScheduling"(RegisterApplicationMasterRequestProto)
        -> RegisterDistributedSchedulingAmResponseProto;

    /// Heartbeat of a master, with the node's own allocations; the answer also has the latest
    /// nodes.
    AllocateForDistributedScheduling: allocate_for_distributed_scheduling =
        "allocateForDistributedScheduling"(DistributedSchedulingAllocateRequestProto)
        -> DistributedSchedulingAllocateResponseProto;

    /// Unregisters a master, as in ApplicationMasterProtocol.
    FinishApplicationMaster: finish_application_master =
        "finishApplicationMaster"(FinishApplicationMasterRequestProto) -> FinishApplicationMasterResponseProto;
}
