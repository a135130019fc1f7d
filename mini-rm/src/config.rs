//! Configuration of this ResourceManager: Hadoop's properties and defaults, as plain values.

mod keys;

use std::num::NonZeroU32;
use std::path::PathBuf;

use hadoop_conf::site_xml::Properties;
use hadoop_conf::{
    ConfigProblems, Expected, HostPort, PropertyReader, only_resource_manager, shared,
};
use records::Resource;
use sched::{LoadComparator, NodeLoadConfig, QueueLimitConfig};
use wire::protection::Protections;

use self::keys::TABLE;
use wire::secrets::RollTimes;

const NODE_EXPIRY: &str = "yarn.nm.liveness-monitor.expiry-interval-ms";
const MASTER_EXPIRY: &str = "yarn.am.liveness-monitor.expiry-interval-ms";
const OPPORTUNISTIC: &str = "yarn.resourcemanager.opportunistic-container-allocation.enabled";
const COMPARATOR: &str = "yarn.resourcemanager.nm-container-queuing.load-comparator";

/// Allocation of opportunistic containers, by this ResourceManager and by the nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct OpportunisticConfig {
    /// Whether opportunistic containers are allocated at all
    /// (`yarn.resourcemanager.opportunistic-container-allocation.enabled`).
    pub is_enabled: bool,
    /// Whether nodes may allocate them as well (`yarn.nodemanager.distributed-scheduling.enabled`,
    /// which the ResourceManager reads too). Only if [`is_enabled`](Self::is_enabled).
    pub is_distributed: bool,
    /// Maximum of containers allocated in one call; `None`: unlimited.
    pub max_per_heartbeat: Option<NonZeroU32>,
    /// Sorting of nodes by load, and the limit of their queues.
    pub load: NodeLoadConfig,
}

impl OpportunisticConfig {
    /// Reads this part alone from properties, for a program that is no ResourceManager.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every value of this part that cannot be used.
    pub fn read(properties: &Properties) -> Result<Self, ConfigProblems> {
        let mut reader = PropertyReader::new(properties, &TABLE);
        let config = read_opportunistic(&mut reader);
        reader.check(config)
    }
}

/// The whole configuration, valid as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address of the service for clients; Hadoop's port is 8032.
    pub client: HostPort,
    /// Address of the service for ApplicationMasters; Hadoop's port is 8030.
    pub scheduler: HostPort,
    /// Address of the service for nodes; Hadoop's port is 8031.
    pub tracker: HostPort,
    /// Address of the web pages; Hadoop's port is 8088.
    pub web: HostPort,
    /// Levels of protection of calls that carry a token, the preferred one first
    /// (`hadoop.rpc.protection`).
    pub protections: Protections,
    /// Milliseconds between two heartbeats of a node.
    pub heartbeat_ms: u64,
    /// Milliseconds without a heartbeat after which a node is lost.
    pub node_expiry_ms: u64,
    /// Milliseconds without a call after which a master has failed.
    pub master_expiry_ms: u64,
    /// Milliseconds within which a container must be started; also the lifetime of its token.
    pub container_expiry_ms: u64,
    /// Maximum of attempts of an application, each with a master of its own.
    pub master_attempts_max: u32,
    /// Size of the smallest container; every container is a multiple of it.
    pub allocation_min: Resource,
    /// Size of the largest container.
    pub allocation_max: Resource,
    /// Maximum of finished applications that are kept for clients.
    pub finished_max: usize,
    /// Upper part of each container id, above its number. Allocators on nodes count down from it,
    /// so their ids are negative in epoch 0.
    pub epoch: i32,
    /// Rolling of the key that signs container tokens.
    pub container_keys: RollTimes,
    /// Rolling of the key that signs NMTokens.
    pub nm_keys: RollTimes,
    /// Rolling of the key that signs AMRMTokens.
    pub master_keys: RollTimes,
    /// Whether updates of containers are sent to their nodes without a call of the master
    /// (`yarn.resourcemanager.auto-update.containers`).
    pub updates_go_to_nodes: bool,
    /// File that maps nodes to racks (`net.topology.table.file.name`), if
    /// `net.topology.node.switch.mapping.impl` asks for such a table.
    pub rack_table: Option<PathBuf>,
    /// Allocation of opportunistic containers.
    pub opportunistic: OpportunisticConfig,
}

impl Config {
    /// Reads the configuration from properties; an unset one has Hadoop's default.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every value that cannot be used.
    pub fn read(properties: &Properties) -> Result<Self, ConfigProblems> {
        let mut reader = PropertyReader::new(properties, &TABLE);
        let config = read_all(&mut reader);
        // Every ask would be refused; Hadoop does not start either.
        if !config.allocation_min.fits_in(config.allocation_max) {
            let rule =
                "must, like -vcores, be at most yarn.scheduler.maximum-allocation-mb, and -vcores";
            reader.problem(
                "yarn.scheduler.minimum-allocation-mb",
                Expected::Rule(rule.into()),
            );
        }
        reader.check(config)
    }

    /// Makes the configuration of a program that reads no file, from the properties that it sets
    /// itself and Hadoop's defaults.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every value that cannot be used.
    pub fn of(set: &[(&str, &str)]) -> Result<Self, ConfigProblems> {
        Self::read(&TABLE.properties(set))
    }
}

/// Refuses a configuration whose callers would have to prove who they are.
fn simple_authentication(reader: &mut PropertyReader<'_>) {
    const AUTHENTICATION: &str = "hadoop.security.authentication";
    let method = reader.text(AUTHENTICATION);
    if method.is_some_and(|method| !method.eq_ignore_ascii_case("simple")) {
        let only = "this ResourceManager has simple authentication only";
        reader.problem(AUTHENTICATION, Expected::Unsupported(only));
    }
}

fn read_all(reader: &mut PropertyReader<'_>) -> Config {
    let node_expiry_ms = reader.u64(NODE_EXPIRY, 1);
    let master_expiry_ms = reader.u64(MASTER_EXPIRY, 1);
    let endpoint = only_resource_manager(reader);
    simple_authentication(reader);
    // A word that is no level is a problem by then.
    let protections = Protections::from_names(shared::rpc_protections(reader));
    Config {
        protections: protections.unwrap_or_default(),
        client: endpoint.client,
        scheduler: endpoint.scheduler,
        tracker: endpoint.resource_tracker,
        web: endpoint.webapp,
        heartbeat_ms: reader.u64("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", 1),
        node_expiry_ms,
        master_expiry_ms,
        container_expiry_ms: reader.u64(
            "yarn.resourcemanager.rm.container-allocation.expiry-interval-ms",
            1,
        ),
        master_attempts_max: reader.u32("yarn.resourcemanager.am.max-attempts", 1),
        allocation_min: Resource::new(
            reader.u64("yarn.scheduler.minimum-allocation-mb", 1),
            reader.u32("yarn.scheduler.minimum-allocation-vcores", 1),
        ),
        allocation_max: Resource::new(
            reader.u64("yarn.scheduler.maximum-allocation-mb", 1),
            reader.u32("yarn.scheduler.maximum-allocation-vcores", 1),
        ),
        finished_max: count(reader.integer(
            "yarn.resourcemanager.max-completed-applications",
            0..=i64::from(u16::MAX),
        )),
        epoch: bound(reader.integer("yarn.resourcemanager.epoch", 0..=(1 << 20) - 1)),
        container_keys: roll_times(
            reader,
            "yarn.resourcemanager.container-tokens.master-key-rolling-interval-secs",
            (NODE_EXPIRY, node_expiry_ms),
        ),
        nm_keys: roll_times(
            reader,
            "yarn.resourcemanager.nm-tokens.master-key-rolling-interval-secs",
            (NODE_EXPIRY, node_expiry_ms),
        ),
        master_keys: roll_times(
            reader,
            "yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs",
            (MASTER_EXPIRY, master_expiry_ms),
        ),
        updates_go_to_nodes: reader.flag("yarn.resourcemanager.auto-update.containers"),
        rack_table: read_rack_table(reader),
        opportunistic: read_opportunistic(reader),
    }
}

/// Converts a number that the reader has checked not to be negative.
fn count(value: i64) -> usize {
    usize::try_from(value).unwrap_or_default()
}

/// Converts a number that the reader has checked to be in the range of the type.
fn bound(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Reads how a key rolls. The old and the new key are both valid for 1.5 times the expiry of their
/// users: by then each of them has received the new key or is lost.
fn roll_times(
    reader: &mut PropertyReader<'_>,
    name: &str,
    (expiry, expiry_ms): (&str, u64),
) -> RollTimes {
    let overlap = expiry_ms.saturating_mul(3) / 2;
    let interval = reader.u64(name, 1).saturating_mul(1000);
    if interval <= overlap {
        let least = overlap / 1000;
        let rule = format!("must be more than {least} s, one and a half times {expiry}");
        reader.problem(name, Expected::Rule(rule.into()));
    }
    RollTimes { interval, overlap }
}

/// Reads the file of racks. Hadoop's default is a script, which does nothing while its property is
/// unset.
fn read_rack_table(reader: &mut PropertyReader<'_>) -> Option<PathBuf> {
    let mapping = reader.text("net.topology.node.switch.mapping.impl")?;
    let is_table = mapping == "org.apache.hadoop.net.TableMapping";
    let file = reader.text("net.topology.table.file.name");
    file.filter(|_| is_table).map(PathBuf::from)
}

/// Reads whether nodes allocate; only where opportunistic containers are enabled, as in Hadoop.
fn read_is_distributed(reader: &mut PropertyReader<'_>, is_enabled: bool) -> bool {
    const NAME: &str = "yarn.nodemanager.distributed-scheduling.enabled";
    let is_distributed = reader.flag(NAME);
    if is_distributed && !is_enabled {
        reader.problem(NAME, Expected::Needs(OPPORTUNISTIC.to_owned()));
    }
    is_distributed && is_enabled
}

fn read_opportunistic(reader: &mut PropertyReader<'_>) -> OpportunisticConfig {
    let nodes_used = reader
        .u32_or_minus_one("yarn.resourcemanager.opportunistic-container-allocation.nodes-used");
    let is_enabled = reader.flag(OPPORTUNISTIC);
    let comparator = read_comparator(reader);
    OpportunisticConfig {
        is_enabled,
        is_distributed: read_is_distributed(reader, is_enabled),
        max_per_heartbeat: reader
            .u32_or_minus_one(
                "yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat",
            )
            .and_then(NonZeroU32::new),
        load: NodeLoadConfig {
            comparator,
            sorting_interval_ms: reader.u64(
                "yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms",
                1,
            ),
            nodes_used: nodes_used.map_or(usize::MAX, |count| {
                usize::try_from(count).unwrap_or(usize::MAX)
            }),
            queue_limit: read_queue_limit(reader, comparator),
        },
    }
}

fn read_comparator(reader: &mut PropertyReader<'_>) -> LoadComparator {
    let word = |comparator: LoadComparator| (comparator.as_str(), comparator);
    reader.choice(
        COMPARATOR,
        word(LoadComparator::QueueLength),
        &[
            word(LoadComparator::QueueWaitTime),
            word(LoadComparator::QueueLengthThenResources),
        ],
    )
}

fn read_queue_limit(
    reader: &mut PropertyReader<'_>,
    comparator: LoadComparator,
) -> QueueLimitConfig {
    let mut of = |what: &str| {
        let name = format!("yarn.resourcemanager.nm-container-queuing.{what}");
        bound(reader.integer(&name, 0..=i64::from(i32::MAX)))
    };
    let lengths = (of("min-queue-length"), of("max-queue-length"));
    let waits = (of("min-queue-wait-time-ms"), of("max-queue-wait-time-ms"));
    let (min, max) = match comparator {
        LoadComparator::QueueLength | LoadComparator::QueueLengthThenResources => lengths,
        LoadComparator::QueueWaitTime => waits,
    };
    let sigma = reader.number(
        "yarn.resourcemanager.nm-container-queuing.queue-limit-stdev",
        0.0..=f64::from(f32::MAX),
    );
    #[expect(
        clippy::cast_possible_truncation,
        reason = "within the range of the type"
    )]
    let sigma = sigma as f32;
    QueueLimitConfig { sigma, min, max }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<Config, ConfigProblems> {
        Config::of(properties)
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
        assert_eq!(config.epoch, 0);
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
            ("yarn.resourcemanager.epoch", "-1"),
            (
                "yarn.resourcemanager.nm-container-queuing.load-comparator",
                "LUCK",
            ),
            ("hadoop.security.authentication", "kerberos"),
        ])
        .unwrap_err();
        assert_eq!(problems.list().len(), 4, "{problems}");
        assert!(
            problems.to_string().contains("= LUCK: must be one of"),
            "{problems}"
        );
    }

    #[test]
    fn a_smallest_container_above_the_largest_is_refused() {
        let set = [("yarn.scheduler.minimum-allocation-mb", "9000")];
        let problems = read(&set).unwrap_err().to_string();
        assert!(problems.contains("maximum-allocation-mb"), "{problems}");
    }
}
