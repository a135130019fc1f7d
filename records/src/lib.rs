//! YARN's value types: ids, resources, asks, execution types, exit statuses, times.
//!
//! Plain values with Hadoop's text forms. No I/O, no clock, no protobuf: conversions from and to
//! the wire format live in `wire`.

mod container;
mod ids;
mod request;
mod resource;
mod time;

pub use container::{ContainerExitStatus, ContainerState, ContainerSubState, ExecutionType};
pub use ids::{ApplicationAttemptId, ApplicationId, ContainerId, NodeId, ParseIdError};
pub use request::{ExecutionTypeRequest, Priority, ResourceName, ResourceRequest};
pub use resource::Resource;
pub use time::{EpochMillis, MonoMillis, Now};
