//! ApplicationMasterProtocol: an ApplicationMaster registers, asks for containers and finishes.
//! Served by the ResourceManager on `yarn.resourcemanager.scheduler.address` and by the AMRMProxy of a node; callers
//! hold an AMRMToken.

use crate::proto::hadoop_yarn::{
    AllocateRequestProto, AllocateResponseProto, FinishApplicationMasterRequestProto,
    FinishApplicationMasterResponseProto, RegisterApplicationMasterRequestProto,
    RegisterApplicationMasterResponseProto,
};

protocol! {
    /// What the scheduler offers ApplicationMasters (`org.apache.hadoop.yarn.api.ApplicationMasterProtocol`).
    ApplicationMasterProtocol, ApplicationMasterService =
        "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB", version 1;

    /// A master has started.
    RegisterApplicationMaster: register_application_master =
        "registerApplicationMaster"(RegisterApplicationMasterRequestProto) -> RegisterApplicationMasterResponseProto;

    /// A master is done; it calls again until the answer says that its end is on record.
    FinishApplicationMaster: finish_application_master =
        "finishApplicationMaster"(FinishApplicationMasterRequestProto) -> FinishApplicationMasterResponseProto;

    /// A master's heartbeat: what it asks for, gives back and gets. Repeating a call with the same response id gets
    /// the same answer again.
    Allocate: allocate = "allocate"(AllocateRequestProto) -> AllocateResponseProto;
}
