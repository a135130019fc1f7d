//! The arm of a Hadoop configuration: what the cluster does as it is configured.

use hadoop_conf::parse;
use hadoop_conf::site_xml::Properties;
use mini_rm::config::OpportunisticConfig;
use node_manager::config::Loaded;
use simulate::scenario::{Arm, Policy, Settings};

const QUEUE_LENGTH: &str = "yarn.nodemanager.opportunistic-containers-max-queue-length";
const PLACEMENT: &str = "yarn.nodemanager.agent.amrmproxy.placement";

/// Returns the arm of a configuration. Reads what concerns opportunistic containers and no more, so
/// a configuration that could not start a node here can be simulated.
///
/// # Errors
/// A text with every value that cannot be used.
pub(super) fn arm(loaded: &Loaded) -> Result<Arm, String> {
    let properties = &loaded.properties;
    let read = OpportunisticConfig::read(properties);
    let opportunistic = read.map_err(|problems| problems.to_string())?;
    let policy = match (opportunistic.is_enabled, opportunistic.is_distributed) {
        (false, _) => Policy::GuaranteedFifo,
        (true, false) => Policy::Central,
        (true, true) => match text(properties, PLACEMENT)?.as_deref() {
            Some("list-order") => Policy::ListOrder,
            Some("spread") => Policy::Spread,
            _ => Policy::Look,
        },
    };
    let queue_length = text(properties, QUEUE_LENGTH)?;
    let queue_length = match queue_length.as_deref() {
        None => 0,
        Some(value) => parse::integer(value)
            .ok_or_else(|| format!("{QUEUE_LENGTH}: {value:?} is not a whole number"))?,
    };
    let load = opportunistic.load;
    Ok(Arm {
        policy,
        name: format!(
            "as configured: {}, list of {}",
            policy.as_str(),
            load.nodes_used
        ),
        settings: Settings {
            nodes_used: load.nodes_used,
            queue_length: usize::try_from(queue_length).unwrap_or(0),
            sorting_interval_ms: load.sorting_interval_ms,
            comparator: load.comparator.into(),
            limit_stdev: load.queue_limit.sigma,
            limit_min: Some(load.queue_limit.min),
            limit_max: Some(load.queue_limit.max),
            ..Settings::default()
        },
    })
}

fn text(properties: &Properties, name: &str) -> Result<Option<String>, String> {
    let value = properties.get(name);
    let value = value.map_err(|error| format!("{name}: {error}"))?;
    Ok(value.map(|value| value.text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use simulate::scenario::Comparator;

    fn arm_of(site: &[(&str, &str)]) -> Result<Arm, String> {
        let folder = tempfile::tempdir().unwrap();
        let properties = site.iter().map(|(name, value)| {
            format!("<property><name>{name}</name><value>{value}</value></property>")
        });
        let text: String = properties.collect();
        let file = folder.path().join("yarn-site.xml");
        fs::write(file, format!("<configuration>{text}</configuration>")).unwrap();
        arm(&Loaded::read(&[folder.path().to_owned()], &BTreeMap::new()))
    }

    const ENABLED: (&str, &str) = (
        "yarn.resourcemanager.opportunistic-container-allocation.enabled",
        "true",
    );

    #[test]
    fn the_policy_and_its_settings_are_those_of_the_files() {
        let arm = arm_of(&[
            ENABLED,
            ("yarn.nodemanager.distributed-scheduling.enabled", "true"),
            (
                "yarn.resourcemanager.opportunistic-container-allocation.nodes-used",
                "25",
            ),
            (
                "yarn.resourcemanager.nm-container-queuing.load-comparator",
                "QUEUE_LENGTH_THEN_RESOURCES",
            ),
            (QUEUE_LENGTH, "20"),
        ])
        .unwrap();
        assert_eq!(arm.policy, Policy::Look);
        assert_eq!(arm.settings.nodes_used, 25);
        assert_eq!(arm.settings.queue_length, 20);
        assert_eq!(
            arm.settings.comparator,
            Comparator::QueueLengthThenResources
        );
        let by_lists = arm_of(&[
            ENABLED,
            ("yarn.nodemanager.distributed-scheduling.enabled", "true"),
            (PLACEMENT, "spread"),
        ]);
        assert_eq!(by_lists.unwrap().policy, Policy::Spread);
        assert_eq!(arm_of(&[ENABLED]).unwrap().policy, Policy::Central);
        assert_eq!(arm_of(&[]).unwrap().policy, Policy::GuaranteedFifo);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named() {
        let error = arm_of(&[ENABLED, (QUEUE_LENGTH, "many")]).unwrap_err();
        assert!(
            error.contains(QUEUE_LENGTH) && error.contains("many"),
            "{error}"
        );
    }
}
