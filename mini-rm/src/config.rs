//! What this ResourceManager is told: Hadoop's property names and defaults, as plain values.

mod reader;

use std::num::NonZeroU32;
use std::path::PathBuf;

use records::Resource;
use sched::{LoadComparator, NodeLoadConfig, QueueLimitConfig};
use thiserror::Error;

use self::reader::Reader;
use crate::tokens::RollTimes;

/// Where one service listens, or what it is called by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an address.
    pub host: String,
    /// 0 takes a free port.
    pub port: u16,
}

/// Opportunistic containers: whether they are given out, and how long queues may become.
#[derive(Clone, Debug, PartialEq)]
pub struct OpportunisticConfig {
    /// `yarn.resourcemanager.opportunistic-container-allocation.enabled`.
    pub is_enabled: bool,
    /// `yarn.nodemanager.distributed-scheduling.enabled`, which the ResourceManager reads too: whether nodes may give them
    /// out as well. Only if [`is_enabled`](Self::is_enabled).
    pub is_distributed: bool,
    /// Containers given out per call; `None` for no limit.
    pub max_per_heartbeat: Option<NonZeroU32>,
    /// How nodes are sorted and their queues limited.
    pub load: NodeLoadConfig,
}

/// Everything there is to tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For clients (8032).
    pub client: Address,
    /// For masters (8030).
    pub scheduler: Address,
    /// For nodes (8031).
    pub tracker: Address,
    /// For people (8088).
    pub web: Address,
    /// Milliseconds between two heartbeats of a node.
    pub heartbeat_ms: u64,
    /// Milliseconds of a node's silence after which it is lost.
    pub node_expiry_ms: u64,
    /// Milliseconds of a master's silence after which it has failed.
    pub master_expiry_ms: u64,
    /// Milliseconds in which a container must be started; also the life of its token.
    pub container_expiry_ms: u64,
    /// How often an application's master is started at most.
    pub master_attempts_max: u32,
    /// Containers are of this size or a multiple of it.
    pub allocation_min: Resource,
    /// No container is larger.
    pub allocation_max: Resource,
    /// Finished applications that are remembered.
    pub finished_max: usize,
    /// Stands in container ids, above the number. At least 1: an allocator on a node counts down from it.
    pub epoch: i32,
    /// The key of container tokens.
    pub container_keys: RollTimes,
    /// The key of NMTokens.
    pub nm_keys: RollTimes,
    /// The key of AMRMTokens.
    pub master_keys: RollTimes,
    /// Whether updates of containers go to their nodes by themselves (`yarn.resourcemanager.auto-update.containers`).
    pub updates_go_to_nodes: bool,
    /// The file that says which rack a node is in (`net.topology.table.file.name`), if
    /// `net.topology.node.switch.mapping.impl` says that there is one.
    pub rack_table: Option<PathBuf>,
    /// Opportunistic containers.
    pub opportunistic: OpportunisticConfig,
}

/// A property that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} is \"{value}\": {expected}")]
pub struct ConfigProblem {
    /// Its name.
    pub name: &'static str,
    /// As it is set.
    pub value: String,
    /// What it should be.
    pub expected: &'static str,
}

/// All that is wrong, one a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

impl Config {
    /// Reads the properties through `lookup`, which answers with a property's text if it is set. What is unset has
    /// Hadoop's default.
    ///
    /// # Errors
    /// Everything that is wrong, together.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigProblems> {
        let mut reader = Reader::new(lookup);
        let config = read_all(&mut reader);
        let mut problems = reader.into_problems();
        // Every ask would be refused; Hadoop does not start either.
        if !config.allocation_min.fits_in(config.allocation_max) {
            problems.push(ConfigProblem {
                name: "yarn.scheduler.minimum-allocation-mb and -vcores",
                value: config.allocation_min.to_string(),
                expected: "at most yarn.scheduler.maximum-allocation-mb and -vcores is expected",
            });
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigProblems(problems))
        }
    }
}

fn read_all(reader: &mut Reader<'_>) -> Config {
    let node_expiry_ms = reader.millis("yarn.nm.liveness-monitor.expiry-interval-ms", 600_000);
    let master_expiry_ms = reader.millis("yarn.am.liveness-monitor.expiry-interval-ms", 900_000);
    // Both count until everybody who is alive has heard of the new one.
    let node_overlap = node_expiry_ms.saturating_mul(3) / 2;
    let master_overlap = master_expiry_ms.saturating_mul(3) / 2;
    Config {
        client: reader.address("yarn.resourcemanager.address", 8032),
        scheduler: reader.address("yarn.resourcemanager.scheduler.address", 8030),
        tracker: reader.address("yarn.resourcemanager.resource-tracker.address", 8031),
        web: reader.address("yarn.resourcemanager.webapp.address", 8088),
        heartbeat_ms: reader.millis(
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
            1000,
        ),
        node_expiry_ms,
        master_expiry_ms,
        container_expiry_ms: reader.millis(
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
            600_000,
        ),
        master_attempts_max: reader.positive("yarn.resourcemanager.am.max-attempts", 2),
        allocation_min: Resource::new(
            reader.positive("yarn.scheduler.minimum-allocation-mb", 1024),
            reader.positive("yarn.scheduler.minimum-allocation-vcores", 1),
        ),
        allocation_max: Resource::new(
            reader.positive("yarn.scheduler.maximum-allocation-mb", 8192),
            reader.positive("yarn.scheduler.maximum-allocation-vcores", 4),
        ),
        finished_max: usize::from(reader.value(
            "yarn.resourcemanager.max-completed-applications",
            1000_u16,
            "a whole number up to 65535 is expected",
            |text| text.parse().ok(),
        )),
        epoch: reader.value(
            "yarn.resourcemanager.epoch",
            1,
            "a whole number from 1 to 1048575 is expected",
            |text| {
                text.parse()
                    .ok()
                    .filter(|epoch| (1..1 << 20).contains(epoch))
            },
        ),
        container_keys: reader.roll_times(
            "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
            node_overlap,
        ),
        nm_keys: reader.roll_times(
            "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs",
            node_overlap,
        ),
        master_keys: reader.roll_times(
            "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
            master_overlap,
        ),
        updates_go_to_nodes: reader.flag("yarn.resourcemanager.auto-update.containers"),
        rack_table: read_rack_table(reader),
        opportunistic: read_opportunistic(reader),
    }
}

/// Hadoop's default is a script, which is none while its property is not set.
fn read_rack_table(reader: &Reader<'_>) -> Option<PathBuf> {
    let mapping = reader.text("net.topology.node.switch.mapping.impl")?;
    let is_table = mapping == "org.apache.hadoop.net.TableMapping";
    let file = reader.text("net.topology.table.file.name");
    file.filter(|_| is_table).map(PathBuf::from)
}

/// Nodes allocate only where there are opportunistic containers at all, as Hadoop has it too.
fn read_is_distributed(reader: &mut Reader<'_>, is_enabled: bool) -> bool {
    reader.value(
        "yarn.nodemanager.distributed-scheduling.enabled",
        false,
        "true or false is expected, and true only if \
         yarn.resourcemanager.opportunistic-container-allocation.enabled is true",
        |text| {
            let flag = text.to_ascii_lowercase().parse::<bool>().ok()?;
            (is_enabled || !flag).then_some(flag)
        },
    )
}

fn read_opportunistic(reader: &mut Reader<'_>) -> OpportunisticConfig {
    let nodes_used = reader.count(
        "yarn.resourcemanager.opportunistic-container-allocation.nodes-used",
        Some(10),
    );
    let comparator = reader.value(
        "yarn.resourcemanager.nm-container-queuing.load-comparator",
        LoadComparator::QueueLength,
        "QUEUE_LENGTH, QUEUE_WAIT_TIME or QUEUE_LENGTH_THEN_RESOURCES is expected",
        |text| text.parse().ok(),
    );
    let lengths = (
        reader.bound(
            "yarn.resourcemanager.nm-container-queuing.min-queue-length",
            5,
        ),
        reader.bound(
            "yarn.resourcemanager.nm-container-queuing.max-queue-length",
            15,
        ),
    );
    let waits = (
        reader.bound(
            "yarn.resourcemanager.nm-container-queuing.min-queue-wait-time-ms",
            10,
        ),
        reader.bound(
            "yarn.resourcemanager.nm-container-queuing.max-queue-wait-time-ms",
            100,
        ),
    );
    let (min, max) = match comparator {
        LoadComparator::QueueLength | LoadComparator::QueueLengthThenResources => lengths,
        LoadComparator::QueueWaitTime => waits,
    };
    let sigma = reader.value(
        "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
        1.0,
        "a number of at least 0 is expected",
        |text| {
            let sigma = text.parse::<f32>().ok()?;
            (sigma.is_finite() && sigma >= 0.0).then_some(sigma)
        },
    );
    let is_enabled = reader.flag("yarn.resourcemanager.opportunistic-container-allocation.enabled");
    OpportunisticConfig {
        is_enabled,
        is_distributed: read_is_distributed(reader, is_enabled),
        max_per_heartbeat: reader
            .count(
                "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat",
                None,
            )
            .and_then(NonZeroU32::new),
        load: NodeLoadConfig {
            comparator,
            sorting_interval_ms: reader.millis(
                "yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms",
                1000,
            ),
            nodes_used: nodes_used.map_or(usize::MAX, |count| {
                usize::try_from(count).unwrap_or(usize::MAX)
            }),
            queue_limit: QueueLimitConfig { sigma, min, max },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
        Config::read(&|name| {
            let found = properties.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_is_hadoops_defaults_on_hadoops_ports() {
        let config = read(&[]).unwrap();
        let ports = [
            &config.scheduler,
            &config.tracker,
            &config.client,
            &config.web,
        ];
        assert_eq!(ports.map(|address| address.port), [8030, 8031, 8032, 8088]);
        assert_eq!(config.allocation_min, Resource::new(1024, 1));
        assert!(!config.opportunistic.is_enabled);
        assert_eq!(config.epoch, 1);
    }

    #[test]
    fn the_hostname_stands_in_for_addresses_that_are_not_set() {
        let config = read(&[
            ("yarn.resourcemanager.hostname", "rm"),
            ("yarn.resourcemanager.address", "other:1"),
        ])
        .unwrap();
        assert_eq!(config.scheduler.host, "rm");
        assert_eq!(
            (config.client.host.as_str(), config.client.port),
            ("other", 1)
        );
    }

    #[test]
    fn nodes_allocate_only_where_opportunistic_containers_are_given_out() {
        let nodes = ("yarn.nodemanager.distributed-scheduling.enabled", "true");
        let central = (
            "yarn.resourcemanager.opportunistic-container-allocation.enabled",
            "true",
        );
        let problems = read(&[nodes]).unwrap_err();
        assert!(problems.to_string().contains(central.0), "{problems}");
        assert!(!read(&[central]).unwrap().opportunistic.is_distributed);
        assert!(
            read(&[nodes, central])
                .unwrap()
                .opportunistic
                .is_distributed
        );
    }

    #[test]
    fn a_table_of_racks_is_read_where_tables_are_asked_for() {
        let file = ("net.topology.table.file.name", "/racks");
        let table = (
            "net.topology.node.switch.mapping.impl",
            "org.apache.hadoop.net.TableMapping",
        );
        assert_eq!(read(&[file]).unwrap().rack_table, None);
        assert_eq!(read(&[table]).unwrap().rack_table, None);
        let config = read(&[file, table]).unwrap();
        assert_eq!(config.rack_table, Some(PathBuf::from("/racks")));
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_name() {
        let problems = read(&[
            ("yarn.resourcemanager.address", "rm:many"),
            ("yarn.resourcemanager.epoch", "0"),
            (
                "yarn.resourcemanager.nm-container-queuing.load-comparator",
                "LUCK",
            ),
        ])
        .unwrap_err();
        assert_eq!(problems.0.len(), 3, "{problems}");
        assert!(problems.to_string().contains("\"LUCK\""), "{problems}");
    }

    #[test]
    fn a_smallest_container_above_the_largest_is_refused() {
        let lookup = |name: &str| {
            (name == "yarn.scheduler.minimum-allocation-mb").then(|| "9000".to_owned())
        };
        let problems = Config::read(&lookup).unwrap_err().to_string();
        assert!(problems.contains("maximum-allocation-mb"), "{problems}");
    }
}
