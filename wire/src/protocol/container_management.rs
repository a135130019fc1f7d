//! ContainerManagementProtocol: ApplicationMasters start, watch, change and stop containers on a node.
//! Served by the NodeManager on `yarn.nodemanager.address`; callers hold an NMToken and are application attempts.

use crate::proto::hadoop_yarn::{
    CommitResponseProto, ContainerIdProto, ContainerUpdateRequestProto,
    ContainerUpdateResponseProto, GetContainerStatusesRequestProto,
    GetContainerStatusesResponseProto, GetLocalizationStatusesRequestProto,
    GetLocalizationStatusesResponseProto, IncreaseContainersResourceRequestProto,
    IncreaseContainersResourceResponseProto, ReInitializeContainerRequestProto,
    ReInitializeContainerResponseProto, ResourceLocalizationRequestProto,
    ResourceLocalizationResponseProto, RestartContainerResponseProto, RollbackResponseProto,
    SignalContainerRequestProto, SignalContainerResponseProto, StartContainersRequestProto,
    StartContainersResponseProto, StopContainersRequestProto, StopContainersResponseProto,
};

protocol! {
    /// What a NodeManager offers ApplicationMasters (`org.apache.hadoop.yarn.api.ContainerManagementProtocol`).
    ///
    /// Failures of single containers are entries of the answer; an error refuses the whole call.
    ContainerManagementProtocol, ContainerManagementService =
        "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB", version 1;

    /// Accepts containers; they are localized and launched after the answer.
    StartContainers: start_containers =
        "startContainers"(StartContainersRequestProto) -> StartContainersResponseProto;

    /// Orders containers to end; their ends are reported later.
    StopContainers: stop_containers =
        "stopContainers"(StopContainersRequestProto) -> StopContainersResponseProto;

    /// Tells how containers are.
    GetContainerStatuses: get_container_statuses =
        "getContainerStatuses"(GetContainerStatusesRequestProto) -> GetContainerStatusesResponseProto;

    /// Older form of [`UpdateContainer`].
    IncreaseContainersResource: increase_containers_resource =
        "increaseContainersResource"(IncreaseContainersResourceRequestProto)
        -> IncreaseContainersResourceResponseProto;

    /// Changes the size or the execution type of containers to what a newer token says.
    UpdateContainer: update_container =
        "updateContainer"(ContainerUpdateRequestProto) -> ContainerUpdateResponseProto;

    /// Signals a container's processes; a container that does not exist is no error.
    SignalToContainer: signal_to_container =
        "signalToContainer"(SignalContainerRequestProto) -> SignalContainerResponseProto;

    /// Brings more files to a running container.
    Localize: localize = "localize"(ResourceLocalizationRequestProto) -> ResourceLocalizationResponseProto;

    /// Starts a container again in its place with another launch context.
    ReInitializeContainer: re_initialize_container =
        "reInitializeContainer"(ReInitializeContainerRequestProto) -> ReInitializeContainerResponseProto;

    /// Starts a container again in its place as it is.
    RestartContainer: restart_container = "restartContainer"(ContainerIdProto) -> RestartContainerResponseProto;

    /// Goes back to the launch context before the last re-initialization.
    RollbackLastReInitialization: rollback_last_re_initialization =
        "rollbackLastReInitialization"(ContainerIdProto) -> RollbackResponseProto;

    /// Gives up the way back from the last re-initialization.
    CommitLastReInitialization: commit_last_re_initialization =
        "commitLastReInitialization"(ContainerIdProto) -> CommitResponseProto;

    /// Tells which files of containers have arrived.
    GetLocalizationStatuses: get_localization_statuses =
        "getLocalizationStatuses"(GetLocalizationStatusesRequestProto) -> GetLocalizationStatusesResponseProto;
}
