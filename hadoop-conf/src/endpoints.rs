//! Addresses of the ResourceManagers: one, or several for high availability (Hadoop: `HAUtil`).

use crate::{Expected, HostPort, PropertyReader};

/// Limit on the ResourceManagers of one cluster. Real clusters have a handful, and each is tried in
/// turn.
const RM_IDS_MAX: usize = 16;

const RM_HOSTNAME: &str = "yarn.resourcemanager.hostname";
const RM_IDS: &str = "yarn.resourcemanager.ha.rm-ids";

/// Addresses of one ResourceManager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmEndpoint {
    /// Id in `yarn.resourcemanager.ha.rm-ids`; `None` without high availability.
    pub id: Option<String>,
    /// Address for registration and heartbeats of nodes, port 8031 by default.
    pub resource_tracker: HostPort,
    /// Address for ApplicationMasters, port 8030 by default.
    pub scheduler: HostPort,
    /// Address for clients, port 8032 by default.
    pub client: HostPort,
    /// Address of the web pages, port 8088 by default.
    pub webapp: HostPort,
}

/// Service of a ResourceManager, each at an address of its own.
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
    /// Returns the property of the service's address, to which a dot and an id are added with high
    /// availability.
    #[must_use]
    pub const fn property(self) -> &'static str {
        match self {
            Self::ResourceTracker => "yarn.resourcemanager.resource-tracker.address",
            Self::Scheduler => "yarn.resourcemanager.scheduler.address",
            Self::Client => "yarn.resourcemanager.address",
            Self::Webapp => "yarn.resourcemanager.webapp.address",
        }
    }

    /// Returns Hadoop's default port of the service.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::ResourceTracker => 8031,
            Self::Scheduler => 8030,
            Self::Client => 8032,
            Self::Webapp => 8088,
        }
    }

    /// Returns the property of the service's address at the ResourceManager of this id, or at the
    /// only one.
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
/// `called` lists the services that the caller calls, the most important first: with several
/// ResourceManagers, each must have an address for them, or a host name. The other addresses may be
/// missing and default to the host of the first.
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
    // Empty only after a problem, which states the reason.
    if endpoints.is_empty() {
        vec![alone]
    } else {
        endpoints
    }
}

/// Reads the addresses of a ResourceManager without high availability.
pub fn only_resource_manager(reader: &mut PropertyReader<'_>) -> RmEndpoint {
    // The defaults of the addresses refer to this property, so it is read only to mark it as
    // honoured.
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

/// Reads the addresses of one of several ResourceManagers; `None` after a problem.
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

/// Reads an address of one ResourceManager: the configured one, else its host name with the default
/// port.
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
