//! The cluster to run on: addresses of ResourceManagers, the user, and for how long to retry.

use std::path::PathBuf;
use std::time::Duration;

use hadoop_conf::site_xml::{Origin, Properties};
use hadoop_conf::{
    ConfigProblems, Expected, HostPort, PropertyReader, RmEndpoint, RmService, resource_managers,
    shared,
};
use serde::{Deserialize, Serialize};
pub use wire::protection::Protections;

/// Limits of the retries of a ResourceManager that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// Time after which to give up (`yarn.resourcemanager.connect.max-wait.ms`); `None`: never.
    pub give_up_after: Option<Duration>,
    /// Longest pause between two tries (`yarn.resourcemanager.connect.retry-interval.ms`).
    pub interval_max: Duration,
}

impl Default for Patience {
    /// Returns Hadoop's defaults of the two properties.
    fn default() -> Self {
        Self {
            give_up_after: Some(Duration::from_secs(900)),
            interval_max: Duration::from_secs(30),
        }
    }
}

/// A cluster to run a job on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `host:port` of each ResourceManager for clients (`yarn.resourcemanager.address`); never
    /// empty.
    pub resource_managers: Vec<String>,
    /// Whether a file says where the ResourceManager is. Without one, the address is a default of
    /// Hadoop's that fits this machine at best, and nobody should wait for it.
    pub is_named: bool,
    /// `host:port` of each ResourceManager for masters (`yarn.resourcemanager.scheduler.address`),
    /// as the master's node reaches them; never empty. May be the address of an AMRMProxy.
    pub schedulers: Vec<String>,
    /// User to submit as; a cluster without Kerberos does not verify it.
    pub user: String,
    /// Path of the program that runs the master, on the nodes.
    pub program: PathBuf,
    /// Limits of the retries of both services.
    pub patience: Patience,
    /// Levels of protection of the master's calls, the preferred one first
    /// (`hadoop.rpc.protection`).
    pub protections: Protections,
}

const HOSTNAME: &str = "yarn.resourcemanager.hostname";
const RM_IDS: &str = "yarn.resourcemanager.ha.rm-ids";
const MAX_WAIT: &str = "yarn.resourcemanager.connect.max-wait.ms";
const RETRY_INTERVAL: &str = "yarn.resourcemanager.connect.retry-interval.ms";
const AUTHENTICATION: &str = "hadoop.security.authentication";

impl Cluster {
    /// Reads a client's configuration.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every value that cannot be used.
    pub fn read(
        properties: &Properties,
        user: String,
        program: PathBuf,
    ) -> Result<Self, ConfigProblems> {
        let mut reader = PropertyReader::new(properties, &shared::TABLE);
        let security = reader.text(AUTHENTICATION);
        if security.is_some_and(|value| !value.eq_ignore_ascii_case("simple")) {
            reader.problem(
                AUTHENTICATION,
                Expected::Unsupported("only simple authentication is"),
            );
        }
        let called = [RmService::Client, RmService::Scheduler];
        let endpoints = resource_managers(&mut reader, &called);
        for endpoint in &endpoints {
            check_port(&mut reader, RmService::Client, endpoint, &endpoint.client);
            check_port(
                &mut reader,
                RmService::Scheduler,
                endpoint,
                &endpoint.scheduler,
            );
        }
        // A word that is no level is a problem by then.
        let protections = Protections::from_names(shared::rpc_protections(&mut reader));
        let give_up_after = reader.u64_or_minus_one(MAX_WAIT);
        let interval_max = reader.u64(RETRY_INTERVAL, 0);
        let texts = |of: fn(&RmEndpoint) -> &HostPort| {
            endpoints
                .iter()
                .map(|endpoint| of(endpoint).to_string())
                .collect()
        };
        let named = [HOSTNAME, RM_IDS, RmService::Client.property()];
        let is_named = named
            .iter()
            .any(|key| reader.origin(key) != Origin::Default);
        let cluster = Self {
            is_named,
            resource_managers: texts(|endpoint| &endpoint.client),
            schedulers: texts(|endpoint| &endpoint.scheduler),
            user,
            program,
            patience: Patience {
                give_up_after: give_up_after.map(Duration::from_millis),
                interval_max: Duration::from_millis(interval_max),
            },
            protections: protections.unwrap_or_default(),
        };
        reader.check(cluster)
    }
}

/// Reports an address with port 0, which asks for a free port when listening and cannot be called.
fn check_port(
    reader: &mut PropertyReader<'_>,
    service: RmService,
    endpoint: &RmEndpoint,
    address: &HostPort,
) {
    if address.port == 0 {
        let property = service.property_of(endpoint.id.as_deref());
        reader.problem(&property, Expected::Rule("must have a port above 0".into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Cluster, ConfigProblems> {
        let properties = shared::TABLE.properties(set);
        Cluster::read(&properties, "u".to_owned(), PathBuf::from("/p"))
    }

    #[test]
    fn addresses_default_to_the_hostname_and_hadoops_ports() {
        let cluster = read(&[(HOSTNAME, "rm")]).unwrap();
        assert_eq!(cluster.resource_managers, ["rm:8032"]);
        assert_eq!(cluster.schedulers, ["rm:8030"]);
        assert_eq!(cluster.patience, Patience::default());
    }

    #[test]
    fn each_of_several_resource_managers_has_its_addresses() {
        let cluster = read(&[
            ("yarn.resourcemanager.ha.enabled", "true"),
            (RM_IDS, "a, b"),
            ("yarn.resourcemanager.hostname.a", "one"),
            ("yarn.resourcemanager.address.b", "two:1"),
            ("yarn.resourcemanager.scheduler.address.b", "localhost:8049"),
        ])
        .unwrap();
        assert_eq!(cluster.resource_managers, ["one:8032", "two:1"]);
        assert_eq!(cluster.schedulers, ["one:8030", "localhost:8049"]);
    }

    #[test]
    fn minus_one_waits_for_ever() {
        let cluster = read(&[("yarn.resourcemanager.connect.max-wait.ms", "-1")]).unwrap();
        assert_eq!(cluster.patience.give_up_after, None);
    }

    #[test]
    fn values_that_cannot_be_used_are_named() {
        for (name, value) in [
            (RmService::Client.property(), "rm:0"),
            (RmService::Client.property(), ":1"),
            (RmService::Scheduler.property(), "rm:x"),
            ("yarn.resourcemanager.connect.max-wait.ms", "-2"),
            ("yarn.resourcemanager.connect.retry-interval.ms", "soon"),
            ("hadoop.security.authentication", "kerberos"),
        ] {
            let problems = read(&[(name, value)]).unwrap_err().to_string();
            assert!(
                problems.contains(&format!("{name} = {value}: ")),
                "{problems}"
            );
        }
    }
}
