//! YARN's value types: ids, resources, asks, execution types, exit statuses, times.
//!
//! Plain values with Hadoop's text forms, and two helpers that many crates need: the text of an
//! error with its causes, and [`percentile`]. No I/O, no clock, no protobuf: conversions from and
//! to the wire format live in `wire`.

mod container;
mod error_chain;
mod ids;
mod per_execution_type;
pub mod percentile;
mod request;
mod resource;
mod time;

pub use container::{ContainerExitStatus, ContainerState, ContainerSubState, ExecutionType};
pub use error_chain::error_chain;
pub use ids::{
    ApplicationAttemptId, ApplicationId, ContainerId, ContainerName, NodeId, ParseIdError,
};
pub use per_execution_type::PerExecutionType;
pub use request::{ExecutionTypeRequest, Priority, ResourceName, ResourceRequest};
pub use resource::Resource;
pub use time::{EpochMillis, MonoMillis, Now};
