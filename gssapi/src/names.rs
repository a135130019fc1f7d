//! Names of hosts as Java has them (`InetAddress.getCanonicalHostName`), for `_HOST`.

use std::net::{IpAddr, Ipv4Addr};

/// Returns the reverse name of an address, in lower case and without a dot at its end, if the name
/// leads back to the address; else the address as text. Asks the name service and waits.
#[must_use]
pub fn canonical_host(address: IpAddr) -> String {
    let name = dns_lookup::lookup_addr(&address).ok().filter(|name| {
        let found = dns_lookup::lookup_host(name);
        found.is_ok_and(|mut found| found.any(|other| other == address))
    });
    let name = name.unwrap_or_else(|| address.to_string());
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the canonical name of this machine: that of the first address of the kernel's name for
/// it, an IPv4 one if it has any. Asks the name service and waits.
#[must_use]
pub fn local_host() -> String {
    let name = nix::unistd::gethostname().ok();
    let name = name.and_then(|name| name.into_string().ok());
    let found = name.and_then(|name| dns_lookup::lookup_host(&name).ok());
    let address = found.and_then(|found| {
        let found: Vec<_> = found.collect();
        let ipv4 = found.iter().find(|address| address.is_ipv4());
        ipv4.or(found.first()).copied()
    });
    canonical_host(address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}
