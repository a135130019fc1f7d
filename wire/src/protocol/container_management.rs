//! ContainerManagementProtocol: ApplicationMasters start, watch, change and stop containers on a
//! node.
//!
//! Served by the NodeManager on `yarn.nodemanager.address`; callers hold an NMToken and are
//! application attempts.

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
    /// Protocol of ApplicationMasters with a NodeManager
    /// (`org.apache.hadoop.yarn.api.ContainerManagementProtocol`).
    ///
    /// Failures of single containers are entries of the answer; an error refuses the whole call.
    ContainerManagementProtocol, ContainerManagementService =
        "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB", version 1;

    /// Accepts containers; they are localized and launched after the answer.
    StartContainers: start_containers =
        "startContainers"(StartContainersRequestProto) -> StartContainersResponseProto;

    /// Stops containers; their completion is reported later.
    StopContainers: stop_containers =
        "stopContainers"(StopContainersRequestProto) -> StopContainersResponseProto;

    /// Returns the status of containers.
    GetContainerStatuses: get_container_statuses =
        "getContainerStatuses"(GetContainerStatusesRequestProto) -> GetContainerStatusesResponseProto;

    /// Older form of [`UpdateContainer`].
    IncreaseContainersResource: increase_containers_resource =
        "increaseContainersResource"(IncreaseContainersResourceRequestProto)
        -> IncreaseContainersResourceResponseProto;

    /// Changes the size or the execution type of containers to those of a newer token.
    UpdateContainer: update_container =
        "updateContainer"(ContainerUpdateRequestProto) -> ContainerUpdateResponseProto;

    /// Signals a container's processes; an unknown container is no error.
    SignalToContainer: signal_to_container =
        "signalToContainer"(SignalContainerRequestProto) -> SignalContainerResponseProto;

    /// Localizes more files for a running container.
    Localize: localize = "localize"(ResourceLocalizationRequestProto) -> ResourceLocalizationResponseProto;

    /// Restarts a container in its allocation with another launch context.
    ReInitializeContainer: re_initialize_container =
        "reInitializeContainer"(ReInitializeContainerRequestProto) -> ReInitializeContainerResponseProto;

    /// Restarts a container in its allocation with the same launch context.
    RestartContainer: restart_container = "restartContainer"(ContainerIdProto) -> RestartContainerResponseProto;

    /// Restores the launch context before the last re-initialization.
    RollbackLastReInitialization: rollback_last_re_initialization =
        "rollbackLastReInitialization"(ContainerIdProto) -> RollbackResponseProto;

    /// Commits the last re-initialization: it can no longer be rolled back.
    CommitLastReInitialization: commit_last_re_initialization =
        "commitLastReInitialization"(ContainerIdProto) -> CommitResponseProto;

    /// Returns which files of containers are localized.
    GetLocalizationStatuses: get_localization_statuses =
        "getLocalizationStatuses"(GetLocalizationStatusesRequestProto) -> GetLocalizationStatusesResponseProto;
}
