//! Numbers of the fields that the proxy reads, by message, from Hadoop's `.proto` files.

/// Fields of `AllocateRequestProto`.
pub(crate) mod allocate_request {
    pub(crate) const ASK: u32 = 1;
    pub(crate) const RELEASE: u32 = 2;
    pub(crate) const BLACKLIST: u32 = 3;
    pub(crate) const RESPONSE_ID: u32 = 4;
    pub(crate) const UPDATE_REQUESTS: u32 = 7;
    pub(crate) const SCHEDULING_REQUESTS: u32 = 10;
    pub(crate) const TRACKING_URL: u32 = 11;
}

/// Fields of `AllocateResponseProto`.
pub(crate) mod allocate_response {
    pub(crate) const RESPONSE_ID: u32 = 2;
    pub(crate) const ALLOCATED_CONTAINERS: u32 = 3;
    pub(crate) const COMPLETED_CONTAINERS: u32 = 4;
    pub(crate) const UPDATED_NODES: u32 = 6;
    pub(crate) const NUM_CLUSTER_NODES: u32 = 7;
    pub(crate) const NM_TOKENS: u32 = 9;
    pub(crate) const AM_RM_TOKEN: u32 = 12;
    pub(crate) const UPDATE_ERRORS: u32 = 15;
    pub(crate) const UPDATED_CONTAINERS: u32 = 16;
    pub(crate) const REJECTED_SCHEDULING_REQUESTS: u32 = 18;
}

/// Fields of `RegisterApplicationMasterRequestProto`.
pub(crate) mod register_request {
    pub(crate) const TRACKING_URL: u32 = 3;
}

/// Fields of `RegisterApplicationMasterResponseProto`.
pub(crate) mod register_response {
    pub(crate) const CONTAINERS_FROM_PREVIOUS_ATTEMPTS: u32 = 4;
    pub(crate) const NM_TOKENS: u32 = 6;
}

/// Fields of `FinishApplicationMasterResponseProto`.
pub(crate) mod finish_response {
    pub(crate) const IS_UNREGISTERED: u32 = 1;
}

/// Fields of `ResourceBlacklistRequestProto`.
pub(crate) mod blacklist_request {
    pub(crate) const ADDITIONS: u32 = 1;
    pub(crate) const REMOVALS: u32 = 2;
}

/// Fields of `SchedulingRequestProto`.
pub(crate) mod scheduling_request {
    pub(crate) const RESOURCE_SIZING: u32 = 5;
}

/// Fields of `ResourceSizingProto`.
pub(crate) mod resource_sizing {
    pub(crate) const NUM_ALLOCATIONS: u32 = 1;
}

/// Fields of `ResourceRequestProto`.
pub(crate) mod resource_request {
    pub(crate) const RESOURCE_NAME: u32 = 2;
    pub(crate) const CAPABILITY: u32 = 3;
    pub(crate) const NUM_CONTAINERS: u32 = 4;
    pub(crate) const RELAX_LOCALITY: u32 = 5;
    pub(crate) const EXECUTION_TYPE_REQUEST: u32 = 7;
}

/// Fields of `UpdateContainerRequestProto`.
pub(crate) mod update_container_request {
    pub(crate) const CONTAINER_VERSION: u32 = 1;
}

/// Fields of `ContainerStatusProto`.
pub(crate) mod container_status {
    pub(crate) const EXIT_STATUS: u32 = 4;
}

/// Fields of `ExecutionTypeRequestProto`.
pub(crate) mod execution_type_request {
    pub(crate) const EXECUTION_TYPE: u32 = 1;
}

/// Fields of `RegisterDistributedSchedulingAMResponseProto`.
pub(crate) mod distributed_register_response {
    pub(crate) const REGISTER_RESPONSE: u32 = 1;
    pub(crate) const NODES: u32 = 7;
}

/// Fields of `DistributedSchedulingAllocateRequestProto`.
pub(crate) mod distributed_allocate_request {
    pub(crate) const ALLOCATE_REQUEST: u32 = 1;
    pub(crate) const ALLOCATED_CONTAINERS: u32 = 2;
}

/// Fields of `DistributedSchedulingAllocateResponseProto`.
pub(crate) mod distributed_allocate_response {
    pub(crate) const ALLOCATE_RESPONSE: u32 = 1;
    pub(crate) const NODES: u32 = 2;
}
