//! The configurations of the embedded ResourceManager and of each agent. They come from this file
//! and the defaults alone: no site file and no environment variable is read.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hadoop_conf::{ConfigProblems, HostPort, RmEndpoint};
use node_manager::config::{Config, MemoryCapacity, VcoreCapacity};

use super::plan;

/// Address of every listener. Loopback only: a peer that reaches the ResourceManager can run
/// programs.
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// How long a peer on the same machine is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest pause between two tries to reach a peer on the same machine.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The pages' ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// Any free port.
    Free,
    /// This one for the ResourceManager's pages, and those that follow for the nodes'.
    From(u16),
}

impl Ports {
    /// The port of the ResourceManager's pages; 0 takes a free one.
    pub(super) const fn resource_manager(self) -> u16 {
        match self {
            Self::Free => 0,
            Self::From(first) => first,
        }
    }

    /// The port of a node's pages, nodes counted from 0. The command line sees to it that it
    /// exists.
    pub(super) fn node(self, index: usize) -> u16 {
        match self {
            Self::Free => 0,
            Self::From(first) => u16::try_from(index)
                .ok()
                .and_then(|index| first.checked_add(index)?.checked_add(1))
                .unwrap_or(0),
        }
    }
}

/// Returns the configuration of the ResourceManager.
///
/// # Errors
/// None that this file does not make.
pub(super) fn resource_manager(
    nodes: u16,
    ports: Ports,
) -> Result<mini_rm::config::Config, ConfigProblems> {
    let free = format!("{HOST}:0");
    let queuing = "yarn.resourcemanager.nm-container-queuing.";
    let allocation = "yarn.resourcemanager.opportunistic-container-allocation.";
    let properties = [
        ("yarn.resourcemanager.address".to_owned(), free.clone()),
        (
            "yarn.resourcemanager.scheduler.address".to_owned(),
            free.clone(),
        ),
        (
            "yarn.resourcemanager.resource-tracker.address".to_owned(),
            free,
        ),
        (
            "yarn.resourcemanager.webapp.address".to_owned(),
            format!("{HOST}:{}", ports.resource_manager()),
        ),
        (
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms".to_owned(),
            plan::HEARTBEAT.as_millis().to_string(),
        ),
        (
            "yarn.resourcemanager.am.max-attempts".to_owned(),
            "1".to_owned(),
        ),
        (
            "yarn.scheduler.minimum-allocation-mb".to_owned(),
            plan::MASTER_MEMORY_MB.to_string(),
        ),
        (format!("{allocation}enabled"), "true".to_owned()),
        (format!("{allocation}nodes-used"), nodes.to_string()),
        (
            format!("{queuing}sorting-nodes-interval-ms"),
            plan::SORTING_INTERVAL.as_millis().to_string(),
        ),
        (
            format!("{queuing}min-queue-length"),
            plan::QUEUE_LIMIT_MIN.to_string(),
        ),
        (
            format!("{queuing}max-queue-length"),
            plan::QUEUE_LENGTH_MAX.to_string(),
        ),
    ];
    let set: Vec<(&str, &str)> = properties
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    mini_rm::config::Config::of(&set)
}

/// Returns the configuration of the agent whose files are in `folder` and whose pages are on
/// `web_port`.
///
/// # Errors
/// None that this file does not make.
pub(super) fn node(
    folder: &Path,
    web_port: u16,
    rm: &mini_rm::Addresses,
) -> Result<Config, ConfigProblems> {
    let mut config = Config::load(&[], &BTreeMap::new())?;
    config.addresses.node = HostPort::new(HOST.to_string(), 0);
    config.addresses.web = HostPort::new(HOST.to_string(), web_port);
    config.addresses.bind_host = None;
    config.rm.endpoints = vec![RmEndpoint {
        id: None,
        resource_tracker: host_port(rm.tracker),
        scheduler: host_port(rm.scheduler),
        client: host_port(rm.client),
        webapp: host_port(rm.web),
    }];
    config.rm.heartbeat_interval_ms = millis(plan::HEARTBEAT);
    config.rm.connect_max_wait_ms = Some(millis(PATIENCE));
    config.rm.connect_retry_interval_ms = millis(RETRY_INTERVAL);
    config.capacity.memory = MemoryCapacity::Fixed {
        memory_mb: plan::NODE.memory_mb,
    };
    config.capacity.vcores = VcoreCapacity::Fixed {
        vcores: plan::NODE.vcores,
    };
    config.scheduler.opportunistic_queue_length_max = plan::QUEUE_LENGTH_MAX;
    // As paths and not as text: a comma in the name of the temporary folder separates nothing.
    config.dirs.local_dirs = vec![folder.join("local")];
    config.dirs.log_dirs = vec![log_dir(folder)];
    // A trial may run on a laptop whose disk is nearly full.
    config.health.disks = None;
    config.recovery.dir = folder.join("recovery");
    config.admin.socket = Some(folder.join("admin.sock"));
    config.admin.is_required = false;
    config.admin.group = None;
    // No cgroup: what a container is allowed is a story here, nodes of one process would share one
    // hierarchy, and nothing outside the folder is to be touched.
    config.cgroups.mount_path = Some(folder.join("no-cgroups"));
    Ok(config)
}

/// Returns the folder for container logs of the agent whose files are in `folder`.
pub(super) fn log_dir(folder: &Path) -> PathBuf {
    folder.join("logs")
}

/// Returns the cluster that jobs are submitted to; `program` runs their ApplicationMasters.
pub(super) fn cluster(rm: &mini_rm::Addresses, user: String, program: PathBuf) -> shell::Cluster {
    shell::Cluster {
        is_named: true,
        resource_managers: vec![rm.client.to_string()],
        schedulers: vec![rm.scheduler.to_string()],
        user,
        program,
        patience: shell::cluster::Patience {
            give_up_after: Some(PATIENCE),
            interval_max: RETRY_INTERVAL,
        },
        protections: shell::cluster::Protections::default(),
    }
}

/// The environment that containers may see something of: this process's, without what would lead
/// them to another cluster.
pub(super) fn environment(own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_foreign = |name: &str| {
        name == "JAVA_HOME" || name.starts_with("HADOOP_") || name.starts_with("YARN_")
    };
    let kept = own.iter().filter(|(name, _)| !is_foreign(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn host_port(address: SocketAddr) -> HostPort {
    HostPort::new(address.ip().to_string(), address.port())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_configurations_are_valid_and_follow_the_plan() {
        let rm = resource_manager(3, Ports::From(7000)).unwrap();
        assert_eq!((rm.web.port, rm.client.port), (7000, 0));
        assert!(rm.opportunistic.is_enabled);
        assert_eq!(rm.opportunistic.load.nodes_used, 3);
        assert!(plan::URGENT.fits_in(rm.allocation_max));
        let address = SocketAddr::from((HOST, 9));
        let addresses = mini_rm::Addresses {
            client: address,
            scheduler: address,
            tracker: address,
            web: address,
        };
        let node = node(Path::new("/a, b/node-1"), 7001, &addresses).unwrap();
        assert_eq!(node.dirs.local_dirs, [Path::new("/a, b/node-1/local")]);
        assert_eq!(node.addresses.web_bind().port, 7001);
        assert_eq!(node.scheduler.opportunistic_queue_length_max, 24);
    }

    #[test]
    fn pages_follow_each_other_from_the_port_that_was_chosen() {
        let ports = Ports::From(65_532);
        let all: Vec<u16> = (0..3).map(|index| ports.node(index)).collect();
        assert_eq!(all, [65_533, 65_534, 65_535]);
        assert_eq!(Ports::Free.node(2), 0);
    }

    #[test]
    fn containers_are_not_led_to_another_cluster() {
        let own = [
            ("PATH", "/bin"),
            ("HADOOP_CONF_DIR", "/x"),
            ("JAVA_HOME", "/j"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let kept = environment(&own.into());
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), ["PATH"]);
    }
}
