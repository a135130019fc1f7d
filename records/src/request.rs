//! An ApplicationMaster's request to the scheduler: number, size and placement of containers, and
//! how binding the placement is.

use std::fmt;

use crate::{ExecutionType, Resource};

/// Resource name of the line for any place (Hadoop: `ResourceRequest.ANY`).
const ANY: &str = "*";

/// Urgency of an ask among those of its application (Hadoop: `Priority`). Ordered by number, and
/// the smaller number is the more urgent: 0 is served before 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Placement of an ask (Hadoop: the resource name of a `ResourceRequest`, a text).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceName {
    /// Any place; the count of this line is the total of the ask. `*` on the wire.
    Any,
    /// Rack, by its path, which begins with `/`.
    Rack(String),
    /// Host, by the name that its node registered with. Several nodes may share it.
    Host(String),
}

impl ResourceName {
    /// Returns Hadoop's text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => ANY,
            Self::Rack(name) | Self::Host(name) => name,
        }
    }
}

impl From<String> for ResourceName {
    /// Reads Hadoop's text form and never fails: any text except `*` and those that begin with `/`
    /// is a host.
    fn from(name: String) -> Self {
        if name == ANY {
            Self::Any
        } else if name.starts_with('/') {
            Self::Rack(name)
        } else {
            Self::Host(name)
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Execution type that an ask wants (Hadoop: `ExecutionTypeRequest`). Default, and meaning of an
/// unset field: guaranteed, not enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecutionTypeRequest {
    /// Requested execution type.
    pub execution_type: ExecutionType,
    /// Whether only a container of this type satisfies the ask.
    pub enforce_execution_type: bool,
}

/// A line of an application's request (Hadoop: `ResourceRequest`, the "ask"). Asks are absolute:
/// the last count for a priority, allocation request id, size and place replaces the one before it,
/// and 0 withdraws it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Urgency among the asks of the application.
    pub priority: Priority,
    /// Place that the count applies to.
    pub resource_name: ResourceName,
    /// Size of each container.
    pub capability: Resource,
    /// Number of containers. The wire's type is signed; requests with a negative count are rejected
    /// before this type is built.
    pub num_containers: u32,
    /// At a host or rack: whether any node there may satisfy its count. At `*`: whether containers
    /// may go to places that no line names. The default on the wire is true.
    pub relax_locality: bool,
    /// Number that the application gave the ask, repeated with every container that satisfies it.
    /// -1 if unset.
    pub allocation_request_id: i64,
    /// Execution type of the containers.
    pub execution_type_request: ExecutionTypeRequest,
    /// Node partition; `None` if unset, which means the default partition.
    pub node_label_expression: Option<String>,
}

impl ResourceRequest {
    /// Returns an ask for guaranteed containers on any node of the default partition, without an
    /// allocation request id.
    #[must_use]
    pub fn on_any_node(priority: Priority, capability: Resource, num_containers: u32) -> Self {
        Self {
            priority,
            resource_name: ResourceName::Any,
            capability,
            num_containers,
            relax_locality: true,
            allocation_request_id: -1,
            execution_type_request: ExecutionTypeRequest::default(),
            node_label_expression: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_hadoop_reads_them_and_keep_their_text() {
        for (text, name) in [
            ("*", ResourceName::Any),
            ("/rack-1", ResourceName::Rack("/rack-1".to_owned())),
            ("node-1", ResourceName::Host("node-1".to_owned())),
            ("", ResourceName::Host(String::new())),
            ("**", ResourceName::Host("**".to_owned())),
        ] {
            assert_eq!(ResourceName::from(text.to_owned()), name);
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn an_unset_execution_type_request_is_guaranteed_and_not_enforced() {
        let unset = ExecutionTypeRequest::default();
        assert_eq!(unset.execution_type, ExecutionType::Guaranteed);
        assert!(!unset.enforce_execution_type);
    }

    #[test]
    fn the_smaller_number_comes_first() {
        assert!(Priority(0) < Priority(1));
        assert_eq!(Priority(-3).to_string(), "-3");
    }
}
