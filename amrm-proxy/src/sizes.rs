//! Resource types beside memory and virtual cores in the size of an ask. Pure.

use wire::convert::{MEMORY_NAME, VCORES_NAME};
use wire::proto::hadoop_yarn::ResourceRequestProto;

/// Returns whether an ask is for more than memory and virtual cores, for example GPUs.
/// Opportunistic containers have no other resources, and the nodes offered for them are not known
/// to have any.
pub(crate) fn wants_other_resources(ask: &ResourceRequestProto) -> bool {
    let size = ask.capability.as_ref();
    size.is_some_and(|size| {
        let mut others = size.resource_value_map.iter();
        others.any(|each| each.value() != 0 && each.key != MEMORY_NAME && each.key != VCORES_NAME)
    })
}

#[cfg(test)]
mod tests {
    use wire::proto::hadoop_yarn::{ResourceInformationProto, ResourceProto};

    use super::*;

    #[test]
    fn other_resources_are_more_than_memory_and_cores() {
        let ask = |key: &str, value| ResourceRequestProto {
            capability: Some(ResourceProto {
                resource_value_map: vec![ResourceInformationProto {
                    key: key.to_owned(),
                    value: Some(value),
                    ..ResourceInformationProto::default()
                }],
                ..ResourceProto::default()
            }),
            ..ResourceRequestProto::default()
        };
        assert!(wants_other_resources(&ask("yarn.io/gpu", 1)));
        assert!(!wants_other_resources(&ask("yarn.io/gpu", 0)));
        assert!(!wants_other_resources(&ask(MEMORY_NAME, 1024)));
        assert!(!wants_other_resources(&ResourceRequestProto::default()));
    }
}
