//! What this ResourceManager is told: Hadoop's property names and defaults, as plain values.

use std::num::NonZeroU32;

use records::Resource;
use sched::{LoadComparator, NodeLoadConfig, QueueLimitConfig};
use thiserror::Error;

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

/// A hundred years, in milliseconds: people write the largest number there is to say "never".
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600_000;

struct Reader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<ConfigProblem>,
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let text = (self.lookup)(name)?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// What `read` makes of the text, or the default when it is unset. A text that it cannot read is a problem.
    fn value<T>(
        &mut self,
        name: &'static str,
        default: T,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        read(&text).unwrap_or_else(|| {
            self.problems.push(ConfigProblem {
                name,
                value: text,
                expected,
            });
            default
        })
    }

    fn millis(&mut self, name: &'static str, default: u64) -> u64 {
        let expected = "a whole number of milliseconds above 0 is expected";
        self.value(name, default, expected, |text| {
            let value = text.parse::<i64>().ok().filter(|value| *value > 0)?;
            u64::try_from(value.min(MILLIS_MAX)).ok()
        })
    }

    fn flag(&mut self, name: &'static str) -> bool {
        self.value(name, false, "true or false is expected", |text| {
            text.to_ascii_lowercase().parse().ok()
        })
    }

    /// -1 says "no limit".
    fn count(&mut self, name: &'static str, default: Option<u32>) -> Option<u32> {
        let expected = "a whole number of at least 0, or -1 for no limit, is expected";
        self.value(name, default, expected, |text| {
            match text.parse::<i32>().ok()? {
                -1 => Some(None),
                value => Some(Some(u32::try_from(value).ok()?)),
            }
        })
    }

    fn bound(&mut self, name: &'static str, default: i32) -> i32 {
        self.value(
            name,
            default,
            "a whole number of at least 0 is expected",
            |text| text.parse().ok().filter(|value| *value >= 0),
        )
    }

    fn positive<T: Copy + PartialOrd + From<u8> + std::str::FromStr>(
        &mut self,
        name: &'static str,
        default: T,
    ) -> T {
        self.value(
            name,
            default,
            "a whole number above 0 is expected",
            |text| text.parse().ok().filter(|value| *value >= T::from(1)),
        )
    }

    fn address(&mut self, name: &'static str, port: u16) -> Address {
        let host = self
            .text("yarn.resourcemanager.hostname")
            .unwrap_or_else(|| "0.0.0.0".to_owned());
        self.value(
            name,
            Address { host, port },
            "host:port is expected",
            |text| {
                let (host, port) = match text.rsplit_once(':') {
                    Some((host, port)) => (host, port.parse().ok()?),
                    None => (text, port),
                };
                let host = host.trim_start_matches('[').trim_end_matches(']');
                (!host.is_empty()).then(|| Address {
                    host: host.to_owned(),
                    port,
                })
            },
        )
    }

    fn roll_times(&mut self, name: &'static str, overlap: u64) -> RollTimes {
        let expected = "a number of seconds of more than the time both keys count is expected";
        let default = 86_400_000;
        let interval = self.value(name, default, expected, |text| {
            let seconds = text.parse::<u64>().ok()?;
            let interval = seconds.checked_mul(1000)?;
            (interval > overlap).then_some(interval)
        });
        RollTimes { interval, overlap }
    }
}

impl Config {
    /// Reads the properties through `lookup`, which answers with a property's text if it is set. What is unset has
    /// Hadoop's default.
    ///
    /// # Errors
    /// Everything that is wrong, together.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigProblems> {
        let mut reader = Reader {
            lookup,
            problems: Vec::new(),
        };
        let config = read_all(&mut reader);
        if reader.problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigProblems(reader.problems))
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
        opportunistic: read_opportunistic(reader),
    }
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
    OpportunisticConfig {
        is_enabled: reader.flag("yarn.resourcemanager.opportunistic-container-allocation.enabled"),
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
}
