//! Names of hosts as Java has them (`InetAddress.getCanonicalHostName`), for `_HOST`.

use std::net::IpAddr;

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
