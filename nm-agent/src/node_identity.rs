//! What this node is called and what it has: asked of the machine once, at the start.

use std::net::{IpAddr, SocketAddr};

use records::NodeId;
use thiserror::Error;

use crate::config::{Hardware, HostPort};

/// Why the node's identity cannot be told.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The kernel does not say the machine's name, or it is no text.
    #[error("asking for the machine's host name")]
    HostName(#[source] std::io::Error),
    /// An address of the configuration does not resolve.
    #[error("resolving {address}, which this node is to listen on")]
    Resolve {
        /// As configured.
        address: HostPort,
        /// What the resolver says.
        #[source]
        source: std::io::Error,
    },
}

/// The user that this process runs as: its name, or its number where it has none.
#[must_use]
pub fn own_user() -> String {
    let id = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    user.map_or_else(|| id.to_string(), |user| user.name)
}

/// The host name for the node's id: the configured one, or for a wildcard the machine's canonical name (Hadoop:
/// `NetUtils.getConnectAddress` and `InetAddress.getCanonicalHostName`).
///
/// # Errors
/// [`IdentityError::HostName`].
pub fn node_host(configured: &HostPort) -> Result<String, IdentityError> {
    if !configured.is_wildcard() {
        return Ok(configured.host.clone());
    }
    let name = nix::unistd::gethostname()
        .map_err(|errno| IdentityError::HostName(errno.into()))?
        .into_string()
        .map_err(|_| IdentityError::HostName(std::io::Error::other("it is not UTF-8")))?;
    // The name that other nodes know: the reverse of the address that the short name resolves to. Without one the short
    // name has to do, as in Java.
    let canonical = dns_lookup::lookup_host(&name)
        .ok()
        .and_then(|mut addresses| addresses.find(|address| !address.is_loopback()))
        .and_then(|address: IpAddr| dns_lookup::lookup_addr(&address).ok());
    Ok(canonical.unwrap_or(name))
}

/// The first socket address that a configured address resolves to.
///
/// # Errors
/// [`IdentityError::Resolve`].
pub async fn resolve(address: &HostPort) -> Result<SocketAddr, IdentityError> {
    let failed = |source| IdentityError::Resolve {
        address: address.clone(),
        source,
    };
    let mut found = tokio::net::lookup_host((address.host.as_str(), address.port))
        .await
        .map_err(failed)?;
    found
        .next()
        .ok_or_else(|| failed(std::io::Error::other("the name has no address")))
}

/// This node's address as container statuses show it; its name where that does not resolve.
pub async fn address_of(node: &NodeId) -> String {
    let address = HostPort::new(&node.host, node.port);
    resolve(&address)
        .await
        .map_or_else(|_| node.host.clone(), |address| address.ip().to_string())
}

/// What the machine has, as far as `/proc` tells; at least one of each.
#[must_use]
pub fn hardware() -> Hardware {
    use procfs::{CpuInfo, Current, Meminfo};
    let memory_mb = Meminfo::current().map_or(1, |memory| (memory.mem_total >> 20).max(1));
    let logical = std::thread::available_parallelism()
        .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let cores = CpuInfo::current().map_or(logical, |cpus| {
        let cores: std::collections::BTreeSet<(u32, u32)> = (0..cpus.num_cores())
            .filter_map(|n| {
                let field = |name: &str| cpus.get_field(n, name)?.parse().ok();
                Some((field("physical id")?, field("core id")?))
            })
            .collect();
        if cores.is_empty() {
            logical
        } else {
            u32::try_from(cores.len()).unwrap_or(logical)
        }
    });
    Hardware {
        memory_mb,
        cores,
        logical_processors: logical,
    }
}
