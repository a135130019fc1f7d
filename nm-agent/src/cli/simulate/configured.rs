//! The arm of a Hadoop configuration: what the cluster does as it is configured.

use hadoop_conf::parse;
use hadoop_conf::site_xml::Properties;
use mini_rm::config::OpportunisticConfig;
use node_manager::config::Loaded;
use simulate::scenario::{Arm, Order, Policy, Settings};

const QUEUE_LENGTH: &str = "yarn.nodemanager.opportunistic-containers-max-queue-length";
const QUEUE_ORDER: &str = "yarn.nodemanager.agent.queue.order";
const BOUND_FACTOR: &str = "yarn.nodemanager.agent.queue.bound-factor";
const USE_PAUSE: &str = "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption";
const PAUSE_MAX_MS: &str = "yarn.nodemanager.agent.pause.max-ms";
const PAUSE_CEILING_MB: &str = "yarn.nodemanager.agent.pause.memory-ceiling-mb";
const MEMORY_MB: &str = "yarn.nodemanager.resource.memory-mb";
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
    let queue_length = integer(properties, QUEUE_LENGTH)?.unwrap_or(0);
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
            ..of_nodes(properties)?
        },
    })
}

/// Returns the settings with those of queues and of frozen containers.
fn of_nodes(properties: &Properties) -> Result<Settings, String> {
    let mut settings = pausing(properties)?;
    if let Some(word) = text(properties, QUEUE_ORDER)? {
        settings.queue_order =
            Order::named(&word).ok_or_else(|| format!("{QUEUE_ORDER}: {word:?} is no order"))?;
    }
    if let Some(factor) = integer(properties, BOUND_FACTOR)? {
        let factor = u32::try_from(factor).ok().filter(|factor| *factor > 0);
        settings.queue_bound_factor =
            factor.ok_or_else(|| format!("{BOUND_FACTOR}: must be at least 1"))?;
    }
    Ok(settings)
}

/// Returns the settings with those of frozen containers. The ceiling counts as a share of the
/// node's memory, where both are set; else it depends on the machine, and the default stays.
fn pausing(properties: &Properties) -> Result<Settings, String> {
    let mut settings = Settings::default();
    if let Some(value) = text(properties, USE_PAUSE)? {
        let flag = parse::flag(&value);
        settings.pause =
            flag.ok_or_else(|| format!("{USE_PAUSE}: {value:?} is neither true nor false"))?;
    }
    if let Some(max_ms) = integer(properties, PAUSE_MAX_MS)? {
        let max_ms = u64::try_from(max_ms).ok().filter(|max_ms| *max_ms > 0);
        let max_ms = max_ms.ok_or_else(|| format!("{PAUSE_MAX_MS}: must be at least 1"))?;
        settings.pause_max_s = max_ms.div_ceil(1_000);
    }
    let mebibytes = |name| {
        let mb = integer(properties, name)?;
        Ok::<_, String>(mb.and_then(|mb| u64::try_from(mb).ok()))
    };
    if let (Some(ceiling), Some(memory)) = (mebibytes(PAUSE_CEILING_MB)?, mebibytes(MEMORY_MB)?) {
        let beside = ceiling.saturating_sub(memory).saturating_mul(100);
        settings.pause_memory_percent = beside
            .checked_div(memory)
            .unwrap_or(settings.pause_memory_percent);
    }
    Ok(settings)
}

fn integer(properties: &Properties, name: &str) -> Result<Option<i64>, String> {
    let Some(value) = text(properties, name)? else {
        return Ok(None);
    };
    let number = parse::integer(&value);
    number
        .map(Some)
        .ok_or_else(|| format!("{name}: {value:?} is not a whole number"))
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
    fn the_order_of_queues_is_that_of_the_files() {
        let arm = arm_of(&[ENABLED, (QUEUE_ORDER, "least-left"), (BOUND_FACTOR, "3")]).unwrap();
        assert_eq!(arm.settings.queue_order, Order::LeastLeft);
        assert_eq!(arm.settings.queue_bound_factor, 3);
        for wrong in [(QUEUE_ORDER, "longest"), (BOUND_FACTOR, "0")] {
            let error = arm_of(&[ENABLED, wrong]).unwrap_err();
            assert!(error.starts_with(wrong.0), "{error}");
        }
    }

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
    fn containers_are_frozen_as_the_files_say() {
        let killed = arm_of(&[ENABLED]).unwrap().settings;
        assert!(!killed.pause);
        let frozen = arm_of(&[
            ENABLED,
            (USE_PAUSE, "true"),
            (PAUSE_MAX_MS, "20500"),
            (MEMORY_MB, "8192"),
            (PAUSE_CEILING_MB, "12288"),
        ]);
        let frozen = frozen.unwrap().settings;
        assert!(frozen.pause);
        assert_eq!((frozen.pause_max_s, frozen.pause_memory_percent), (21, 50));
        let of_the_machine = arm_of(&[ENABLED, (MEMORY_MB, "8192"), (PAUSE_CEILING_MB, "-1")]);
        assert_eq!(
            of_the_machine.unwrap().settings.pause_memory_percent,
            killed.pause_memory_percent
        );
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named() {
        for (name, value) in [
            (USE_PAUSE, "maybe"),
            (PAUSE_MAX_MS, "0"),
            (MEMORY_MB, "much"),
        ] {
            let properties = [ENABLED, (name, value), (PAUSE_CEILING_MB, "1")];
            let error = arm_of(&properties).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        let error = arm_of(&[ENABLED, (QUEUE_LENGTH, "many")]).unwrap_err();
        assert!(
            error.contains(QUEUE_LENGTH) && error.contains("many"),
            "{error}"
        );
    }
}
