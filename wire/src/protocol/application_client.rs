//! ApplicationClientProtocol: clients submit applications and ask about them and the cluster.
//! Served by the ResourceManager on `yarn.resourcemanager.address`. The five calls of the
//! reservation system are not here and are answered as unknown methods.

use crate::proto::hadoop_common::{
    CancelDelegationTokenRequestProto, CancelDelegationTokenResponseProto,
    GetDelegationTokenRequestProto, GetDelegationTokenResponseProto,
    RenewDelegationTokenRequestProto, RenewDelegationTokenResponseProto,
};
use crate::proto::hadoop_yarn::{
    FailApplicationAttemptRequestProto, FailApplicationAttemptResponseProto,
    GetAllResourceProfilesRequestProto, GetAllResourceProfilesResponseProto,
    GetAllResourceTypeInfoRequestProto, GetAllResourceTypeInfoResponseProto,
    GetApplicationAttemptReportRequestProto, GetApplicationAttemptReportResponseProto,
    GetApplicationAttemptsRequestProto, GetApplicationAttemptsResponseProto,
    GetApplicationReportRequestProto, GetApplicationReportResponseProto,
    GetApplicationsRequestProto, GetApplicationsResponseProto, GetAttributesToNodesRequestProto,
    GetAttributesToNodesResponseProto, GetClusterMetricsRequestProto,
    GetClusterMetricsResponseProto, GetClusterNodeAttributesRequestProto,
    GetClusterNodeAttributesResponseProto, GetClusterNodeLabelsRequestProto,
    GetClusterNodeLabelsResponseProto, GetClusterNodesRequestProto, GetClusterNodesResponseProto,
    GetContainerReportRequestProto, GetContainerReportResponseProto, GetContainersRequestProto,
    GetContainersResponseProto, GetLabelsToNodesRequestProto, GetLabelsToNodesResponseProto,
    GetNewApplicationRequestProto, GetNewApplicationResponseProto,
    GetNodesToAttributesRequestProto, GetNodesToAttributesResponseProto,
    GetNodesToLabelsRequestProto, GetNodesToLabelsResponseProto, GetQueueInfoRequestProto,
    GetQueueInfoResponseProto, GetQueueUserAclsInfoRequestProto, GetQueueUserAclsInfoResponseProto,
    GetResourceProfileRequestProto, GetResourceProfileResponseProto, KillApplicationRequestProto,
    KillApplicationResponseProto, MoveApplicationAcrossQueuesRequestProto,
    MoveApplicationAcrossQueuesResponseProto, SignalContainerRequestProto,
    SignalContainerResponseProto, SubmitApplicationRequestProto, SubmitApplicationResponseProto,
    UpdateApplicationPriorityRequestProto, UpdateApplicationPriorityResponseProto,
    UpdateApplicationTimeoutsRequestProto, UpdateApplicationTimeoutsResponseProto,
};

protocol! {
    /// Protocol of clients of a ResourceManager
    /// (`org.apache.hadoop.yarn.api.ApplicationClientProtocol`).
    ApplicationClientProtocol, ApplicationClientService =
        "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB", version 1;

    /// Allocates an application id, whether or not it will be used.
    GetNewApplication: get_new_application =
        "getNewApplication"(GetNewApplicationRequestProto) -> GetNewApplicationResponseProto;

    /// Submits an application; repeating the call has no further effect.
    SubmitApplication: submit_application =
        "submitApplication"(SubmitApplicationRequestProto) -> SubmitApplicationResponseProto;

    /// Fails an attempt, so that the next one starts.
    FailApplicationAttempt: fail_application_attempt =
        "failApplicationAttempt"(FailApplicationAttemptRequestProto) -> FailApplicationAttemptResponseProto;

    /// Kills an application; clients repeat the call until the answer says that it has ended.
    ForceKillApplication: force_kill_application =
        "forceKillApplication"(KillApplicationRequestProto) -> KillApplicationResponseProto;

    /// Moves an application to another queue.
    MoveApplicationAcrossQueues: move_application_across_queues =
        "moveApplicationAcrossQueues"(MoveApplicationAcrossQueuesRequestProto)
        -> MoveApplicationAcrossQueuesResponseProto;

    /// Changes an application's priority in its queue.
    UpdateApplicationPriority: update_application_priority =
        "updateApplicationPriority"(UpdateApplicationPriorityRequestProto)
        -> UpdateApplicationPriorityResponseProto;

    /// Changes the maximum run time of an application.
    UpdateApplicationTimeouts: update_application_timeouts =
        "updateApplicationTimeouts"(UpdateApplicationTimeoutsRequestProto)
        -> UpdateApplicationTimeoutsResponseProto;

    /// Signals a container's processes through its node.
    SignalToContainer: signal_to_container =
        "signalToContainer"(SignalContainerRequestProto) -> SignalContainerResponseProto;

    /// Returns the report of an application.
    GetApplicationReport: get_application_report =
        "getApplicationReport"(GetApplicationReportRequestProto) -> GetApplicationReportResponseProto;

    /// Lists applications.
    GetApplications: get_applications =
        "getApplications"(GetApplicationsRequestProto) -> GetApplicationsResponseProto;

    /// Returns the report of an attempt.
    GetApplicationAttemptReport: get_application_attempt_report =
        "getApplicationAttemptReport"(GetApplicationAttemptReportRequestProto)
        -> GetApplicationAttemptReportResponseProto;

    /// Lists the attempts of an application.
    GetApplicationAttempts: get_application_attempts =
        "getApplicationAttempts"(GetApplicationAttemptsRequestProto) -> GetApplicationAttemptsResponseProto;

    /// Returns the report of a container.
    GetContainerReport: get_container_report =
        "getContainerReport"(GetContainerReportRequestProto) -> GetContainerReportResponseProto;

    /// Lists the containers of an attempt.
    GetContainers: get_containers = "getContainers"(GetContainersRequestProto) -> GetContainersResponseProto;

    /// Counts nodes by state.
    GetClusterMetrics: get_cluster_metrics =
        "getClusterMetrics"(GetClusterMetricsRequestProto) -> GetClusterMetricsResponseProto;

    /// Lists nodes.
    GetClusterNodes: get_cluster_nodes =
        "getClusterNodes"(GetClusterNodesRequestProto) -> GetClusterNodesResponseProto;

    /// Returns the state and capacity of a queue.
    GetQueueInfo: get_queue_info = "getQueueInfo"(GetQueueInfoRequestProto) -> GetQueueInfoResponseProto;

    /// Returns the caller's permissions in each queue.
    GetQueueUserAcls: get_queue_user_acls =
        "getQueueUserAcls"(GetQueueUserAclsInfoRequestProto) -> GetQueueUserAclsInfoResponseProto;

    /// Lists the labels of each node.
    GetNodeToLabels: get_node_to_labels =
        "getNodeToLabels"(GetNodesToLabelsRequestProto) -> GetNodesToLabelsResponseProto;

    /// Lists the nodes of each label.
    GetLabelsToNodes: get_labels_to_nodes =
        "getLabelsToNodes"(GetLabelsToNodesRequestProto) -> GetLabelsToNodesResponseProto;

    /// Lists the labels of the cluster.
    GetClusterNodeLabels: get_cluster_node_labels =
        "getClusterNodeLabels"(GetClusterNodeLabelsRequestProto) -> GetClusterNodeLabelsResponseProto;

    /// Lists the attributes of the cluster.
    GetClusterNodeAttributes: get_cluster_node_attributes =
        "getClusterNodeAttributes"(GetClusterNodeAttributesRequestProto) -> GetClusterNodeAttributesResponseProto;

    /// Lists the nodes of each attribute.
    GetAttributesToNodes: get_attributes_to_nodes =
        "getAttributesToNodes"(GetAttributesToNodesRequestProto) -> GetAttributesToNodesResponseProto;

    /// Lists the attributes of each node.
    GetNodesToAttributes: get_nodes_to_attributes =
        "getNodesToAttributes"(GetNodesToAttributesRequestProto) -> GetNodesToAttributesResponseProto;

    /// Lists the named container sizes. A ResourceManager without them answers
    /// `org.apache.hadoop.yarn.exceptions.YARNFeatureNotEnabledException`.
    GetResourceProfiles: get_resource_profiles =
        "getResourceProfiles"(GetAllResourceProfilesRequestProto) -> GetAllResourceProfilesResponseProto;

    /// Returns the size of a named container size.
    GetResourceProfile: get_resource_profile =
        "getResourceProfile"(GetResourceProfileRequestProto) -> GetResourceProfileResponseProto;

    /// Lists the resource types of the cluster.
    GetResourceTypeInfo: get_resource_type_info =
        "getResourceTypeInfo"(GetAllResourceTypeInfoRequestProto) -> GetAllResourceTypeInfoResponseProto;

    /// Issues a delegation token to an authenticated client.
    GetDelegationToken: get_delegation_token =
        "getDelegationToken"(GetDelegationTokenRequestProto) -> GetDelegationTokenResponseProto;

    /// Renews a delegation token.
    RenewDelegationToken: renew_delegation_token =
        "renewDelegationToken"(RenewDelegationTokenRequestProto) -> RenewDelegationTokenResponseProto;

    /// Cancels a delegation token.
    CancelDelegationToken: cancel_delegation_token =
        "cancelDelegationToken"(CancelDelegationTokenRequestProto) -> CancelDelegationTokenResponseProto;
}
