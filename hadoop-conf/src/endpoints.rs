//! The addresses of the ResourceManagers, one or several that stand in for each other (Hadoop: `HAUtil`).

use crate::{Expected, HostPort, PropertyReader};

/// ResourceManagers of one cluster; nobody has more than a handful, and each is tried in turn.
const RM_IDS_MAX: usize = 16;

const RM_HOSTNAME: &str = "yarn.resourcemanager.hostname";
const RM_IDS: &str = "yarn.resourcemanager.ha.rm-ids";

/// One ResourceManager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmEndpoint {
    /// Its id among `yarn.resourcemanager.ha.rm-ids`; `None` without high availability.
    pub id: Option<String>,
    /// Registration and heartbeats, 8031.
    pub resource_tracker: HostPort,
    /// ApplicationMasters, 8030.
    pub scheduler: HostPort,
    /// Clients, 8032.
    pub client: HostPort,
    /// Web pages, 8088.
    pub webapp: HostPort,
}

/// What a ResourceManager serves, each at an address of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmService {
    /// Registration and heartbeats of nodes.
    ResourceTracker,
    /// Calls of ApplicationMasters.
    Scheduler,
    /// Calls of clients.
    Client,
    /// Web pages.
    Webapp,
}

impl RmService {
    /// The property of its address; followed by a dot and an id where several ResourceManagers stand in for each other.
    #[must_use]
    pub const fn property(self) -> &'static str {
        match self {
            Self::ResourceTracker => "yarn.resourcemanager.resource-tracker.address",
            Self::Scheduler => "yarn.resourcemanager.scheduler.address",
            Self::Client => "yarn.resourcemanager.address",
            Self::Webapp => "yarn.resourcemanager.webapp.address",
        }
    }

    /// Hadoop's port for it.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::ResourceTracker => 8031,
            Self::Scheduler => 8030,
            Self::Client => 8032,
            Self::Webapp => 8088,
        }
    }

    /// The property of its address at the ResourceManager of this id, or at the only one.
    #[must_use]
    pub fn property_of(self, id: Option<&str>) -> String {
        match id {
            Some(id) => format!("{}.{id}", self.property()),
            None => self.property().to_owned(),
        }
    }
}

/// Reads the addresses of all ResourceManagers, in the order of their ids; never empty.
///
/// `called` are the services that the caller calls, the most important first: where there are several ResourceManagers,
/// each must have an address for them, or a host name. The rest may be left out and then stands beside the first.
pub fn resource_managers(reader: &mut PropertyReader<'_>, called: &[RmService]) -> Vec<RmEndpoint> {
    let alone = only_resource_manager(reader);
    let ids = reader.list(RM_IDS);
    if !reader.flag("yarn.resourcemanager.ha.enabled") {
        return vec![alone];
    }
    if ids.is_empty() {
        reader.missing(RM_IDS.to_owned(), "yarn.resourcemanager.ha.enabled is true");
        return vec![alone];
    }
    if ids.len() > RM_IDS_MAX {
        reader.problem(RM_IDS, Expected::AtMost(RM_IDS_MAX));
        return vec![alone];
    }
    let endpoints = ids.into_iter().filter_map(|id| one_of(reader, called, id));
    let endpoints: Vec<RmEndpoint> = endpoints.collect();
    // Then a problem says why.
    if endpoints.is_empty() {
        vec![alone]
    } else {
        endpoints
    }
}

/// Reads the addresses of a ResourceManager without high availability.
pub fn only_resource_manager(reader: &mut PropertyReader<'_>) -> RmEndpoint {
    // The defaults of the addresses refer to it, so it is asked for only to say that it is honoured.
    let _ = reader.resolved_text(RM_HOSTNAME);
    let mut address = |service: RmService| reader.address(service.property(), service.port());
    RmEndpoint {
        id: None,
        resource_tracker: address(RmService::ResourceTracker),
        scheduler: address(RmService::Scheduler),
        client: address(RmService::Client),
        webapp: address(RmService::Webapp),
    }
}

/// One of several; `None` after a problem.
fn one_of(reader: &mut PropertyReader<'_>, called: &[RmService], id: String) -> Option<RmEndpoint> {
    let mut host: Option<String> = None;
    for service in called {
        let Some(address) = address_of(reader, *service, &id) else {
            let hostname = format!("{RM_HOSTNAME}.{id}");
            reader.missing(hostname, "yarn.resourcemanager.ha.rm-ids names this one");
            return None;
        };
        host.get_or_insert(address.host);
    }
    let host = host.unwrap_or_else(|| "0.0.0.0".to_owned());
    let mut address = |service: RmService| {
        let own = address_of(reader, service, &id);
        own.unwrap_or_else(|| HostPort::new(&host, service.port()))
    };
    Some(RmEndpoint {
        resource_tracker: address(RmService::ResourceTracker),
        scheduler: address(RmService::Scheduler),
        client: address(RmService::Client),
        webapp: address(RmService::Webapp),
        id: Some(id),
    })
}

/// An address of one ResourceManager: its own, else its host name with the usual port.
fn address_of(reader: &mut PropertyReader<'_>, service: RmService, id: &str) -> Option<HostPort> {
    let own = service.property_of(Some(id));
    if reader.resolved_text(&own).is_some() {
        return Some(reader.address(&own, service.port()));
    }
    let hostname = format!("{RM_HOSTNAME}.{id}");
    reader.resolved_text(&hostname)?;
    Some(reader.address(&hostname, service.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::TABLE;

    fn read(called: &[RmService], set: &[(&str, &str)]) -> (Vec<RmEndpoint>, usize) {
        let properties = TABLE.properties(set);
        let mut reader = PropertyReader::new(&properties, &TABLE);
        let endpoints = resource_managers(&mut reader, called);
        let (problems, ..) = reader.finish();
        (endpoints, problems.len())
    }

    const TWO: [(&str, &str); 2] = [
        ("yarn.resourcemanager.ha.enabled", "true"),
        (RM_IDS, "a, b"),
    ];

    #[test]
    fn the_only_one_is_at_the_host_name_and_hadoops_ports() {
        let (endpoints, problems) = read(&[RmService::Client], &[(RM_HOSTNAME, "rm")]);
        assert_eq!((endpoints.len(), problems), (1, 0));
        assert_eq!(endpoints[0].client, HostPort::new("rm", 8032));
        assert_eq!(endpoints[0].webapp, HostPort::new("rm", 8088));
    }

    #[test]
    fn what_a_program_calls_needs_an_address_and_the_rest_stands_beside_it() {
        let set = [
            TWO[0],
            TWO[1],
            ("yarn.resourcemanager.hostname.a", "one"),
            ("yarn.resourcemanager.address.b", "two:1"),
        ];
        let (endpoints, problems) = read(&[RmService::Client], &set);
        assert_eq!((endpoints.len(), problems), (2, 0));
        assert_eq!(endpoints[1].client, HostPort::new("two", 1));
        assert_eq!(endpoints[1].scheduler, HostPort::new("two", 8030));
        let (endpoints, problems) = read(&[RmService::ResourceTracker], &set);
        assert_eq!((endpoints.len(), problems), (1, 1));
    }
}
