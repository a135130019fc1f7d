//! Where to run: the addresses of ResourceManagers, who asks, and how patient to be. Hadoop's property names.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a ResourceManager that does not answer is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// After how much time to give up (`yarn.resourcemanager.connect.max-wait.ms`); `None`: never.
    pub give_up_after: Option<Duration>,
    /// No pause between two tries is longer (`yarn.resourcemanager.connect.retry-interval.ms`).
    pub interval_max: Duration,
}

impl Default for Patience {
    /// Hadoop's defaults.
    fn default() -> Self {
        Self {
            give_up_after: Some(Duration::from_secs(900)),
            interval_max: Duration::from_secs(30),
        }
    }
}

/// Where to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `host:port` of each ResourceManager for clients (`yarn.resourcemanager.address`); at least one.
    pub resource_managers: Vec<String>,
    /// `host:port` of each ResourceManager for masters (`yarn.resourcemanager.scheduler.address`), as the master's node
    /// reaches them; at least one. The address of an AMRMProxy may stand here.
    pub schedulers: Vec<String>,
    /// The user to submit as, which a cluster without Kerberos believes.
    pub user: String,
    /// The program that runs the master, by its path on the nodes.
    pub program: PathBuf,
    /// How patient to be.
    pub patience: Patience,
}

/// A property that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value:?}: {expected}")]
pub struct ClusterError {
    /// Its name.
    pub name: String,
    /// As it is set.
    pub value: String,
    /// What it should be.
    pub expected: &'static str,
}

const HOSTNAME: &str = "yarn.resourcemanager.hostname";
const CLIENT: (&str, u16) = ("yarn.resourcemanager.address", 8032);
const SCHEDULER: (&str, u16) = ("yarn.resourcemanager.scheduler.address", 8030);
const RM_IDS: &str = "yarn.resourcemanager.ha.rm-ids";

/// More ResourceManagers than any cluster has.
const RM_IDS_MAX: usize = 16;

impl Cluster {
    /// Reads a client's configuration. `lookup` gives the text of a property, `None` when it is not set.
    ///
    /// # Errors
    /// The first property that cannot be used.
    pub fn read(
        lookup: &dyn Fn(&str) -> Option<String>,
        user: String,
        program: PathBuf,
    ) -> Result<Self, ClusterError> {
        let security = text(lookup, "hadoop.security.authentication");
        if let Some(value) = security.filter(|value| !value.eq_ignore_ascii_case("simple")) {
            return Err(ClusterError {
                name: "hadoop.security.authentication".to_owned(),
                value,
                expected: "only simple authentication is there",
            });
        }
        let ids = rm_ids(lookup)?;
        Ok(Self {
            resource_managers: addresses(lookup, CLIENT, &ids)?,
            schedulers: addresses(lookup, SCHEDULER, &ids)?,
            user,
            program,
            patience: Patience {
                give_up_after: millis(
                    lookup,
                    "yarn.resourcemanager.connect.max-wait.ms",
                    Some(900_000),
                )?,
                interval_max: millis(
                    lookup,
                    "yarn.resourcemanager.connect.retry-interval.ms",
                    Some(30_000),
                )?
                .unwrap_or(Patience::default().interval_max),
            },
        })
    }
}

fn text(lookup: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    let text = lookup(name)?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The ids of ResourceManagers that stand in for each other; none when there is only one without an id.
fn rm_ids(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, ClusterError> {
    let is_enabled = text(lookup, "yarn.resourcemanager.ha.enabled");
    if !is_enabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(Vec::new());
    }
    let value = text(lookup, RM_IDS).unwrap_or_default();
    let ids: Vec<String> = value
        .split(',')
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
        .collect();
    if (1..=RM_IDS_MAX).contains(&ids.len()) {
        Ok(ids)
    } else {
        Err(ClusterError {
            name: RM_IDS.to_owned(),
            value,
            expected: "1 to 16 ids with commas between are expected",
        })
    }
}

fn addresses(
    lookup: &dyn Fn(&str) -> Option<String>,
    (name, port): (&str, u16),
    ids: &[String],
) -> Result<Vec<String>, ClusterError> {
    if ids.is_empty() {
        return Ok(vec![address(lookup, name, HOSTNAME, port)?]);
    }
    ids.iter()
        .map(|id| {
            address(
                lookup,
                &format!("{name}.{id}"),
                &format!("{HOSTNAME}.{id}"),
                port,
            )
        })
        .collect()
}

/// The address itself, or the host with the protocol's port.
fn address(
    lookup: &dyn Fn(&str) -> Option<String>,
    name: &str,
    hostname: &str,
    port: u16,
) -> Result<String, ClusterError> {
    let Some(value) = text(lookup, name) else {
        let host = text(lookup, hostname).unwrap_or_else(|| "0.0.0.0".to_owned());
        return Ok(format!("{host}:{port}"));
    };
    let expected = "host:port is expected";
    let Some((host, given)) = value.rsplit_once(':') else {
        return Ok(format!("{value}:{port}"));
    };
    let is_good = !host.is_empty() && given.parse::<u16>().is_ok_and(|port| port > 0);
    if is_good {
        Ok(value)
    } else {
        Err(ClusterError {
            name: name.to_owned(),
            value,
            expected,
        })
    }
}

/// Milliseconds; -1 is `None`, and what an unset property means is up to the caller.
fn millis(
    lookup: &dyn Fn(&str) -> Option<String>,
    name: &str,
    default: Option<u64>,
) -> Result<Option<Duration>, ClusterError> {
    let Some(value) = text(lookup, name) else {
        return Ok(default.map(Duration::from_millis));
    };
    match value.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(number) => match u64::try_from(number) {
            Ok(number) => Ok(Some(Duration::from_millis(number))),
            Err(_) => Err(not_millis(name, value)),
        },
        Err(_) => Err(not_millis(name, value)),
    }
}

fn not_millis(name: &str, value: String) -> ClusterError {
    ClusterError {
        name: name.to_owned(),
        value,
        expected: "a whole number of milliseconds, or -1, is expected",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<Cluster, ClusterError> {
        let properties: BTreeMap<&str, &str> = properties.iter().copied().collect();
        let lookup = |name: &str| properties.get(name).map(|&value| value.to_owned());
        Cluster::read(&lookup, "u".to_owned(), PathBuf::from("/p"))
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
            (CLIENT.0, "rm:0"),
            (CLIENT.0, ":1"),
            (SCHEDULER.0, "rm:x"),
            ("yarn.resourcemanager.connect.max-wait.ms", "-2"),
            ("yarn.resourcemanager.connect.retry-interval.ms", "soon"),
            ("hadoop.security.authentication", "kerberos"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert_eq!((error.name.as_str(), error.value.as_str()), (name, value));
        }
    }
}
