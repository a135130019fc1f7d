//! What an ApplicationMaster asks the scheduler for: how many containers of which size, where, and how binding that is.

use std::fmt;

use crate::{ExecutionType, Resource};

/// The name that stands for any place at all (Hadoop: `ResourceRequest.ANY`).
const ANY: &str = "*";

/// How urgent an ask is among those of its application (Hadoop: `Priority`). The order of the type is that of the
/// number, and the smaller number is the more urgent: 0 is served before 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where containers are wanted (Hadoop: the resource name of a `ResourceRequest`, a text).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceName {
    /// Anywhere; the count here is the total of the ask. `*` on the wire.
    Any,
    /// On a rack, by its path, which begins with `/`.
    Rack(String),
    /// On a host, by the name its node registered with. Several nodes may share it.
    Host(String),
}

impl ResourceName {
    /// Hadoop's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Any => ANY,
            Self::Rack(name) | Self::Host(name) => name,
        }
    }
}

impl From<String> for ResourceName {
    /// Reads Hadoop's text, which is never wrong: what is neither `*` nor begins with `/` is a host.
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

/// Which execution type is asked for (Hadoop: `ExecutionTypeRequest`). Unset on the wire it is the default: guaranteed,
/// not enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecutionTypeRequest {
    /// The type asked for.
    pub execution_type: ExecutionType,
    /// Whether another type is no answer to the ask.
    pub enforce_execution_type: bool,
}

/// One line of what an application wants (Hadoop: `ResourceRequest`, the "ask"). Asks are absolute: the last count for
/// a priority, allocation request id, size and place replaces the one before it, and 0 takes it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// How urgent.
    pub priority: Priority,
    /// Where.
    pub resource_name: ResourceName,
    /// How large each container.
    pub capability: Resource,
    /// How many. The wire's type is signed; a negative count is an invalid request and never gets here.
    pub num_containers: u32,
    /// At a host or rack: whether its count may be met there. At `*`: whether containers may go where no line names
    /// the place. The default on the wire is true.
    pub relax_locality: bool,
    /// The application's own number for the ask, repeated with every container that answers it. -1 if it gave none.
    pub allocation_request_id: i64,
    /// Guaranteed or opportunistic.
    pub execution_type_request: ExecutionTypeRequest,
    /// The node partition; `None` if unset, which is the default partition.
    pub node_label_expression: Option<String>,
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
