//! Time for which a container ran, in the status of its end.
//!
//! Hadoop's status has no field for it. It has attributes, which a ResourceManager passes on as
//! they are and of which a Java ApplicationMaster reads those that it knows. So a node of ours adds
//! one, and a proxy of ours reads it, whatever the ResourceManager between them.

use crate::proto::hadoop_yarn::{ContainerStatusProto, StringStringMapProto};

/// Name of the attribute: milliseconds with a process that was neither frozen nor being killed.
const NAME: &str = "NM_AGENT_RAN_MS";

/// Returns the attribute for a container that ran for so many milliseconds.
#[must_use]
pub fn attribute(ran_ms: u64) -> StringStringMapProto {
    StringStringMapProto {
        key: Some(NAME.to_owned()),
        value: Some(ran_ms.to_string()),
    }
}

/// Returns for how many milliseconds a container ran; `None`: its node does not say.
#[must_use]
pub fn of(status: &ContainerStatusProto) -> Option<u64> {
    let mut attributes = status.container_attributes.iter();
    let ran = attributes.find(|attribute| attribute.key() == NAME)?;
    ran.value().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_time_is_read_as_written_and_anything_else_is_none() {
        let status = |attributes| ContainerStatusProto {
            container_attributes: attributes,
            ..ContainerStatusProto::default()
        };
        let foreign = |key: &str, value: &str| StringStringMapProto {
            key: Some(key.to_owned()),
            value: Some(value.to_owned()),
        };
        assert_eq!(
            of(&status(vec![foreign("HOST", "n1"), attribute(7)])),
            Some(7)
        );
        assert_eq!(of(&status(Vec::new())), None);
        assert_eq!(of(&status(vec![foreign(NAME, "-1")])), None);
    }
}
