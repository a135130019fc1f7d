//! This node's name and hardware, read from the machine once, at the start.

mod host;

use std::net::SocketAddr;

use hadoop_conf::HostPort;
use node_core::Machine;
use thiserror::Error;
use wire::dial::{DialError, Dialer, RESOLVE_TIMEOUT};

use crate::config::{AddressConfig, Hardware};

/// Reason for which the node's identity is unknown.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The kernel does not report the machine's name, or the name is not UTF-8.
    #[error("asking for the machine's host name")]
    HostName(#[source] std::io::Error),
    /// The name service does not answer in time. Not a reason to go by another name: the
    /// ResourceManager would take the node for a new one.
    #[error(
        "the name service has not answered about {subject} within {} s, from which this node's \
         name follows; a line for it in /etc/hosts does without",
        RESOLVE_TIMEOUT.as_secs()
    )]
    Slow {
        /// Name or address that was asked about.
        subject: String,
    },
    /// The configured name of this node has no address.
    #[error("{host}, the name of this node in yarn.nodemanager.address, has no address")]
    NoAddress {
        /// Name as configured.
        host: String,
    },
    /// An address to listen on does not resolve.
    #[error("resolving {address}, which this node is to listen on")]
    Resolve {
        /// Address as configured.
        address: HostPort,
        /// Reason for which it does not resolve.
        source: DialError,
    },
}

/// Returns the user that this process runs as: the name, or the number of a user without one.
#[must_use]
pub fn own_user() -> String {
    let id = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(id).ok().flatten();
    user.map_or_else(|| id.to_string(), |user| user.name)
}

/// Returns the primary group of a user, as the machine knows it.
pub(crate) fn primary_group(user: &str) -> Option<String> {
    let user = nix::unistd::User::from_name(user).ok().flatten()?;
    let group = nix::unistd::Group::from_gid(user.gid).ok().flatten()?;
    Some(group.name)
}

/// Returns the host name for the node's id, for the address that is configured
/// (`yarn.nodemanager.address`).
///
/// # Errors
/// [`IdentityError::HostName`], [`IdentityError::NoAddress`], [`IdentityError::Slow`].
pub async fn node_host(configured: &HostPort) -> Result<String, IdentityError> {
    host::canonical_host(host::SystemNames, configured, machine_name()?).await
}

/// Returns the canonical name of this machine, for `_HOST` in principals
/// (`SecurityUtil.getLocalHostName`).
///
/// # Errors
/// [`IdentityError::HostName`], [`IdentityError::Slow`].
pub(crate) async fn host_of_machine() -> Result<String, IdentityError> {
    node_host(&HostPort::new("0.0.0.0", 0)).await
}

/// Returns the names under which web clients may know the node, besides the machine's own: those
/// configured, and the one that the node is registered with.
pub(crate) fn web_names<'a>(addresses: &'a AddressConfig, host: &'a str) -> [&'a str; 3] {
    [&addresses.node.host, &addresses.web.host, host]
}

/// Returns the first socket address that a configured address resolves to.
///
/// # Errors
/// [`IdentityError::Resolve`].
pub async fn resolve(address: &HostPort) -> Result<SocketAddr, IdentityError> {
    let dialer = Dialer::default();
    let found = dialer.resolve_first(&address.host, address.port).await;
    found.map_err(|source| IdentityError::Resolve {
        address: address.clone(),
        source,
    })
}

/// Returns the name and address of this machine, whatever address the node listens on (Hadoop:
/// `ContainerExecutor.getLocalIpAndHost`).
///
/// # Errors
/// [`IdentityError::HostName`].
pub async fn machine() -> Result<Machine, IdentityError> {
    let name = machine_name()?;
    let address = resolve(&HostPort::new(&name, 0)).await;
    let address = address.map_or_else(|_| name.clone(), |address| address.ip().to_string());
    Ok(Machine { name, address })
}

fn machine_name() -> Result<String, IdentityError> {
    nix::unistd::gethostname()
        .map_err(|errno| IdentityError::HostName(errno.into()))?
        .into_string()
        .map_err(|_| IdentityError::HostName(std::io::Error::other("it is not UTF-8")))
}

/// Returns the machine's memory and processors according to `/proc`; at least one of each.
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
