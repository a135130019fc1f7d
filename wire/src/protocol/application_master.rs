//! ApplicationMasterProtocol: an ApplicationMaster registers, asks for containers and finishes.
//! Served by the ResourceManager on `yarn.resourcemanager.scheduler.address` and by the AMRMProxy
//! of a node; callers hold an AMRMToken.

use crate::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, FinishApplicationMasterRequestProto,
    FinishApplicationMasterResponseProto, RegisterApplicationMasterRequestProto,
    RegisterApplicationMasterResponseProto,
};

protocol! {
    /// Protocol of ApplicationMasters with the scheduler
    /// (`org.apache.hadoop.yarn.api.ApplicationMasterProtocol`).
    ApplicationMasterProtocol, ApplicationMasterService =
        "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB", version 1;

    /// Registers a master that has started.
    RegisterApplicationMaster: register_application_master =
        "registerApplicationMaster"(RegisterApplicationMasterRequestProto) -> RegisterApplicationMasterResponseProto;

    /// Unregisters a master; repeated until the answer says that the end is stored.
    FinishApplicationMaster: finish_application_master =
        "finishApplicationMaster"(FinishApplicationMasterRequestProto) -> FinishApplicationMasterResponseProto;

    /// Heartbeat of a master: asks and releases in, containers out. Repeating a call with the same
    /// response id returns the same answer.
    Allocate: allocate = "allocate"(AllocateRequestProto) -> AllocateResponseProto;
}
