//! The numbers of the fields that the proxy looks at, by message, as Hadoop's `.proto` files have them.

/// `AllocateRequestProto`.
pub(crate) mod allocate_request {
    pub(crate) const ASK: u32 = 1;
    pub(crate) const BLACKLIST: u32 = 3;
    pub(crate) const RESPONSE_ID: u32 = 4;
    pub(crate) const UPDATE_REQUESTS: u32 = 7;
}

/// `AllocateResponseProto`.
pub(crate) mod allocate_response {
    pub(crate) const ALLOCATED_CONTAINERS: u32 = 3;
    pub(crate) const COMPLETED_CONTAINERS: u32 = 4;
    pub(crate) const NM_TOKENS: u32 = 9;
    pub(crate) const AM_RM_TOKEN: u32 = 12;
    pub(crate) const UPDATE_ERRORS: u32 = 15;
    pub(crate) const UPDATED_CONTAINERS: u32 = 16;
}

/// `ResourceRequestProto`.
pub(crate) mod resource_request {
    pub(crate) const NUM_CONTAINERS: u32 = 4;
    pub(crate) const EXECUTION_TYPE_REQUEST: u32 = 7;
}

/// `ExecutionTypeRequestProto`.
pub(crate) mod execution_type_request {
    pub(crate) const EXECUTION_TYPE: u32 = 1;
}

/// `RegisterDistributedSchedulingAMResponseProto`.
pub(crate) mod distributed_register_response {
    pub(crate) const REGISTER_RESPONSE: u32 = 1;
}

/// `DistributedSchedulingAllocateRequestProto`.
pub(crate) mod distributed_allocate_request {
    pub(crate) const ALLOCATE_REQUEST: u32 = 1;
    pub(crate) const ALLOCATED_CONTAINERS: u32 = 2;
}

/// `DistributedSchedulingAllocateResponseProto`.
pub(crate) mod distributed_allocate_response {
    pub(crate) const ALLOCATE_RESPONSE: u32 = 1;
    pub(crate) const NODES: u32 = 2;
}
