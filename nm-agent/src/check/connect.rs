//! Peers and ports of a configuration, tried as an agent would use them: `nm-agent check
//! --connect`.

use hadoop_conf::HostPort;
use node_manager::config::{AddressConfig, Config};
use program::holder;

use super::{Findings, Machine};

/// Tries the ResourceManagers, the default file system, and the ports that an agent listens on.
pub(super) fn probe(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    resource_managers(config, machine, findings);
    match machine.file_system(config) {
        Ok(()) => {
            let root = &config.file_systems.default_fs;
            findings.notes.push(format!("fs.defaultFS: {root} answers"));
        }
        Err(error) => findings.problems.push(format!("fs.defaultFS: {error}")),
    }
    for (name, address) in ports(config) {
        // A port of 0 is chosen by the system.
        if address.port != 0
            && let Err(error) = machine.may_listen(&address)
        {
            findings.problems.push(format!("{name}: {error}"));
        }
    }
}

/// Calls each service of each ResourceManager. One that stands by does not listen, so a service is
/// a problem only where no ResourceManager serves it.
fn resource_managers(config: &Config, machine: &dyn Machine, findings: &mut Findings) {
    let endpoints = &config.rm.endpoints;
    let tracker: Vec<_> = endpoints.iter().map(|it| &it.resource_tracker).collect();
    let mut services = vec![("yarn.resourcemanager.resource-tracker.address", tracker)];
    if config.amrm_proxy.enabled {
        let scheduler = endpoints.iter().map(|it| &it.scheduler).collect();
        services.push(("yarn.resourcemanager.scheduler.address", scheduler));
    }
    for (name, addresses) in services {
        let mut errors = Vec::new();
        for &address in &addresses {
            match machine.connects(address) {
                Ok(()) => findings.notes.push(format!("{name}: {address} listens")),
                Err(error) => errors.push(error),
            }
        }
        findings.add(name, addresses.len(), &errors);
    }
}

/// Returns the addresses that an agent listens on, with their properties.
pub(crate) fn ports(config: &Config) -> Vec<(String, HostPort)> {
    let addresses = &config.addresses;
    let mut ports = vec![
        ("yarn.nodemanager.address".to_owned(), addresses.node_bind()),
        (addresses.web_property().to_owned(), addresses.web_bind()),
    ];
    if let Some(metrics) = &addresses.metrics {
        ports.push((AddressConfig::METRICS.to_owned(), metrics.clone()));
    }
    if config.amrm_proxy.enabled {
        let address = addresses.proxy_bind(&config.amrm_proxy.address);
        ports.push(("yarn.nodemanager.amrmproxy.address".to_owned(), address));
    }
    for service in &config.aux_services {
        if let Some((port, property)) = service.port() {
            let address = HostPort::new("0.0.0.0", port);
            ports.push((format!("{} ({property})", service.name), address));
        }
    }
    ports
}

/// Returns a line for each of these addresses whose port another process has.
pub(crate) fn taken(ports: &[(String, HostPort)]) -> Vec<String> {
    let own = i32::try_from(std::process::id()).ok();
    let line = |(name, address): &(String, HostPort)| {
        let holder = holder::of_port(address.port)?;
        let is_other = Some(holder.pid) != own;
        is_other.then(|| format!("{name}: port {} is taken by {holder}", address.port))
    };
    ports.iter().filter_map(line).collect()
}
