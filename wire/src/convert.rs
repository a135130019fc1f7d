//! From messages to [`records`] values and back.
//!
//! Reading a message checks what the type promises and names the field that violates it; writing a
//! value always works. Enum fields are read by the generated functions (`token.execution_type()`),
//! which return the default for an absent or unknown number, as in Java.
//!
//! Two rules mirror Java:
//! - memory and virtual cores are those of `ResourceProto`'s own fields; its map repeats them for
//!   readers that know other resource types, and is ignored for these two;
//! - an absent amount is 0.

use records::{
    ApplicationAttemptId, ApplicationId, ContainerId, ContainerState, ContainerSubState,
    ExecutionType, ExecutionTypeRequest, NodeId, Priority, Resource, ResourceName, ResourceRequest,
};
use thiserror::Error;

use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::proto::hadoop_yarn::{
    ApplicationAttemptIdProto, ApplicationIdProto, ContainerIdProto, ContainerStateProto,
    ContainerSubStateProto, ExecutionTypeProto, ExecutionTypeRequestProto, NodeIdProto,
    PriorityProto, ResourceInformationProto, ResourceProto, ResourceRequestProto,
    ResourceTypesProto, SerializedExceptionProto, StringStringMapProto,
};

/// Name of the resource type memory (Hadoop: `ResourceInformation.MEMORY_URI`).
pub const MEMORY_NAME: &str = "memory-mb";

/// Unit of memory in messages, mebibytes.
pub const MEMORY_UNIT: &str = "Mi";

/// Name of the resource type virtual cores (Hadoop: `ResourceInformation.VCORES_URI`). Without
/// unit.
pub const VCORES_NAME: &str = "vcores";

/// A message that does not represent a valid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConvertError {
    /// A required field that is absent.
    #[error("{message} has no {field}")]
    Missing {
        /// Name of the message in Hadoop.
        message: &'static str,
        /// Name of the field in Hadoop.
        field: &'static str,
    },
    /// A number outside the field's range.
    #[error("{message} has {value} as its {field}")]
    OutOfRange {
        /// Name of the message in Hadoop.
        message: &'static str,
        /// Name of the field in Hadoop.
        field: &'static str,
        /// Number as received.
        value: i64,
    },
}

impl From<ConvertError> for RemoteException {
    /// Maps to `YarnException`, because a retry does not help.
    fn from(error: ConvertError) -> Self {
        Self::new(HadoopException::YarnException, error.to_string())
    }
}

/// Returns the value of a field, or an error that names the field.
///
/// # Errors
/// [`ConvertError::Missing`] if the field is absent.
pub const fn required<T: Copy>(
    value: Option<T>,
    message: &'static str,
    field: &'static str,
) -> Result<T, ConvertError> {
    match value {
        Some(value) => Ok(value),
        None => Err(ConvertError::Missing { message, field }),
    }
}

/// Checks that a number is not negative.
fn not_negative<T: Copy + Into<i64>>(
    value: T,
    message: &'static str,
    field: &'static str,
) -> Result<T, ConvertError> {
    let wide = value.into();
    if wide < 0 {
        return Err(ConvertError::OutOfRange {
            message,
            field,
            value: wide,
        });
    }
    Ok(value)
}

impl From<ApplicationId> for ApplicationIdProto {
    fn from(id: ApplicationId) -> Self {
        Self {
            id: Some(id.id),
            cluster_timestamp: Some(id.cluster_timestamp),
        }
    }
}

impl TryFrom<&ApplicationIdProto> for ApplicationId {
    type Error = ConvertError;

    fn try_from(proto: &ApplicationIdProto) -> Result<Self, Self::Error> {
        const MESSAGE: &str = "ApplicationIdProto";
        let cluster_timestamp = required(proto.cluster_timestamp, MESSAGE, "cluster_timestamp")?;
        let id = required(proto.id, MESSAGE, "id")?;
        Ok(Self {
            cluster_timestamp: not_negative(cluster_timestamp, MESSAGE, "cluster_timestamp")?,
            id: not_negative(id, MESSAGE, "id")?,
        })
    }
}

impl From<ApplicationAttemptId> for ApplicationAttemptIdProto {
    fn from(id: ApplicationAttemptId) -> Self {
        Self {
            application_id: Some(id.application_id.into()),
            attempt_id: Some(id.attempt_id),
        }
    }
}

impl TryFrom<&ApplicationAttemptIdProto> for ApplicationAttemptId {
    type Error = ConvertError;

    fn try_from(proto: &ApplicationAttemptIdProto) -> Result<Self, Self::Error> {
        const MESSAGE: &str = "ApplicationAttemptIdProto";
        let application_id = required(proto.application_id.as_ref(), MESSAGE, "application_id")?;
        let attempt_id = required(proto.attempt_id, MESSAGE, "attemptId")?;
        Ok(Self {
            application_id: application_id.try_into()?,
            attempt_id: not_negative(attempt_id, MESSAGE, "attemptId")?,
        })
    }
}

impl From<ContainerId> for ContainerIdProto {
    /// Writes the application only within the attempt, as Java does.
    fn from(id: ContainerId) -> Self {
        Self {
            app_id: None,
            app_attempt_id: Some(id.attempt.into()),
            id: Some(id.id),
        }
    }
}

impl TryFrom<&ContainerIdProto> for ContainerId {
    type Error = ConvertError;

    /// Accepts negative numbers: Java's node-side allocator counts down from the ResourceManager's
    /// epoch, which begins at 0.
    fn try_from(proto: &ContainerIdProto) -> Result<Self, Self::Error> {
        const MESSAGE: &str = "ContainerIdProto";
        let attempt = required(proto.app_attempt_id.as_ref(), MESSAGE, "app_attempt_id")?;
        Ok(Self {
            attempt: attempt.try_into()?,
            id: required(proto.id, MESSAGE, "id")?,
        })
    }
}

impl From<&NodeId> for NodeIdProto {
    fn from(id: &NodeId) -> Self {
        Self {
            host: Some(id.host.clone()),
            port: Some(id.port.into()),
        }
    }
}

impl From<NodeId> for NodeIdProto {
    fn from(id: NodeId) -> Self {
        Self {
            host: Some(id.host),
            port: Some(id.port.into()),
        }
    }
}

impl TryFrom<&NodeIdProto> for NodeId {
    type Error = ConvertError;

    fn try_from(proto: &NodeIdProto) -> Result<Self, Self::Error> {
        proto.clone().try_into()
    }
}

impl TryFrom<NodeIdProto> for NodeId {
    type Error = ConvertError;

    /// Refuses an empty host, and port 0, which no server listens on.
    fn try_from(proto: NodeIdProto) -> Result<Self, Self::Error> {
        const MESSAGE: &str = "NodeIdProto";
        let host = proto.host.filter(|host| !host.is_empty());
        let host = host.ok_or(ConvertError::Missing {
            message: MESSAGE,
            field: "host",
        })?;
        let port = required(proto.port, MESSAGE, "port")?;
        let out_of_range = ConvertError::OutOfRange {
            message: MESSAGE,
            field: "port",
            value: port.into(),
        };
        match u16::try_from(port) {
            Ok(0) | Err(_) => Err(out_of_range),
            Ok(port) => Ok(Self { host, port }),
        }
    }
}

impl From<Resource> for ResourceProto {
    /// Writes the map too, as Java does: a token's identifier is compared by its bytes. Amounts
    /// beyond the fields' range are written as its maximum.
    fn from(resource: Resource) -> Self {
        let memory = i64::try_from(resource.memory_mb).unwrap_or(i64::MAX);
        let virtual_cores = i32::try_from(resource.vcores).unwrap_or(i32::MAX);
        let information = |key: &str, value: i64, units: &str| ResourceInformationProto {
            key: key.to_owned(),
            value: Some(value),
            units: Some(units.to_owned()),
            r#type: Some(ResourceTypesProto::Countable.into()),
            tags: Vec::new(),
            attributes: Vec::new(),
        };
        Self {
            memory: Some(memory),
            virtual_cores: Some(virtual_cores),
            resource_value_map: vec![
                information(MEMORY_NAME, memory, MEMORY_UNIT),
                information(VCORES_NAME, virtual_cores.into(), ""),
            ],
        }
    }
}

impl TryFrom<&ResourceProto> for Resource {
    type Error = ConvertError;

    fn try_from(proto: &ResourceProto) -> Result<Self, Self::Error> {
        let out_of_range = |field, value| ConvertError::OutOfRange {
            message: "ResourceProto",
            field,
            value,
        };
        let (memory, virtual_cores) = (proto.memory(), proto.virtual_cores());
        Ok(Self {
            memory_mb: u64::try_from(memory).map_err(|_| out_of_range("memory", memory))?,
            vcores: u32::try_from(virtual_cores)
                .map_err(|_| out_of_range("virtual_cores", virtual_cores.into()))?,
        })
    }
}

impl TryFrom<&ResourceRequestProto> for ResourceRequest {
    type Error = ConvertError;

    /// Refuses an absent name or size and a negative count; the other fields have defaults.
    fn try_from(proto: &ResourceRequestProto) -> Result<Self, Self::Error> {
        const MESSAGE: &str = "ResourceRequestProto";
        let count = proto.num_containers();
        let num_containers = u32::try_from(count).map_err(|_| ConvertError::OutOfRange {
            message: MESSAGE,
            field: "num_containers",
            value: count.into(),
        })?;
        let capability = required(proto.capability.as_ref(), MESSAGE, "capability")?;
        let name = required(proto.resource_name.as_ref(), MESSAGE, "resource_name")?;
        let kind = proto.execution_type_request.unwrap_or_default();
        Ok(Self {
            priority: Priority(proto.priority.map_or(0, |priority| priority.priority())),
            resource_name: ResourceName::from(name.clone()),
            capability: Resource::try_from(capability)?,
            num_containers,
            relax_locality: proto.relax_locality(),
            allocation_request_id: proto.allocation_request_id(),
            execution_type_request: ExecutionTypeRequest {
                execution_type: kind.execution_type().into(),
                enforce_execution_type: kind.enforce_execution_type(),
            },
            node_label_expression: proto.node_label_expression.clone(),
        })
    }
}

impl From<&ResourceRequest> for ResourceRequestProto {
    /// Writes counts beyond the field's range as its maximum.
    fn from(request: &ResourceRequest) -> Self {
        let kind = request.execution_type_request;
        Self {
            priority: Some(request.priority.0.into()),
            resource_name: Some(request.resource_name.as_str().to_owned()),
            capability: Some(request.capability.into()),
            num_containers: Some(i32::try_from(request.num_containers).unwrap_or(i32::MAX)),
            relax_locality: Some(request.relax_locality),
            node_label_expression: request.node_label_expression.clone(),
            execution_type_request: Some(ExecutionTypeRequestProto {
                execution_type: Some(ExecutionTypeProto::from(kind.execution_type).into()),
                enforce_execution_type: Some(kind.enforce_execution_type),
            }),
            allocation_request_id: Some(request.allocation_request_id),
        }
    }
}

impl From<ExecutionType> for ExecutionTypeProto {
    fn from(execution_type: ExecutionType) -> Self {
        match execution_type {
            ExecutionType::Guaranteed => Self::Guaranteed,
            ExecutionType::Opportunistic => Self::Opportunistic,
        }
    }
}

impl From<ExecutionTypeProto> for ExecutionType {
    fn from(proto: ExecutionTypeProto) -> Self {
        match proto {
            ExecutionTypeProto::Guaranteed => Self::Guaranteed,
            ExecutionTypeProto::Opportunistic => Self::Opportunistic,
        }
    }
}

impl From<ContainerState> for ContainerStateProto {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Running => Self::CRunning,
            ContainerState::Complete => Self::CComplete,
        }
    }
}

impl From<ContainerStateProto> for ContainerState {
    /// Reads `C_NEW` as running: a container is either running or complete.
    fn from(proto: ContainerStateProto) -> Self {
        match proto {
            ContainerStateProto::CNew | ContainerStateProto::CRunning => Self::Running,
            ContainerStateProto::CComplete => Self::Complete,
        }
    }
}

impl From<ContainerSubState> for ContainerSubStateProto {
    fn from(state: ContainerSubState) -> Self {
        match state {
            ContainerSubState::Scheduled => Self::CssScheduled,
            ContainerSubState::Running => Self::CssRunning,
            ContainerSubState::Paused => Self::CssPaused,
            ContainerSubState::Completing => Self::CssCompleting,
            ContainerSubState::Done => Self::CssDone,
        }
    }
}

impl From<ContainerSubStateProto> for ContainerSubState {
    fn from(proto: ContainerSubStateProto) -> Self {
        match proto {
            ContainerSubStateProto::CssScheduled => Self::Scheduled,
            ContainerSubStateProto::CssRunning => Self::Running,
            ContainerSubStateProto::CssPaused => Self::Paused,
            ContainerSubStateProto::CssCompleting => Self::Completing,
            ContainerSubStateProto::CssDone => Self::Done,
        }
    }
}

impl From<i32> for PriorityProto {
    fn from(priority: i32) -> Self {
        Self {
            priority: Some(priority),
        }
    }
}

impl<K: Into<String>, V: Into<String>> From<(K, V)> for StringStringMapProto {
    fn from((key, value): (K, V)) -> Self {
        Self {
            key: Some(key.into()),
            value: Some(value.into()),
        }
    }
}

impl From<RemoteException> for SerializedExceptionProto {
    /// Writes the failure of one item of a request; clients rebuild the exception from the class
    /// name and the message.
    fn from(error: RemoteException) -> Self {
        Self {
            message: Some(error.message),
            trace: None,
            class_name: Some(error.class_name),
            cause: None,
        }
    }
}

impl From<SerializedExceptionProto> for RemoteException {
    /// Reads the outermost exception, as if the call had failed with it. Without a class it is a
    /// `YarnException`.
    fn from(proto: SerializedExceptionProto) -> Self {
        Self {
            class_name: proto
                .class_name
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| HadoopException::YarnException.as_class_name().to_owned()),
            message: proto.message.unwrap_or_default(),
            code: RpcErrorCode::Application,
        }
    }
}

#[cfg(test)]
mod tests;
