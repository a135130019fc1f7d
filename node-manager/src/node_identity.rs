//! This node's name and hardware, read from the machine once, at the start.

use std::net::{IpAddr, SocketAddr};

use hadoop_conf::HostPort;
use thiserror::Error;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::dial::{DialError, Dialer, RESOLVE_TIMEOUT};

use crate::config::{AddressConfig, Hardware};

/// Reason for which the node's identity is unknown.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The kernel does not report the machine's name, or the name is not UTF-8.
    #[error("asking for the machine's host name")]
    HostName(#[source] std::io::Error),
    /// The name service does not say the machine's canonical name in time. Not a reason to go by
    /// another name: the ResourceManager would take the node for a new one.
    #[error(
        "the name service has not told the canonical name of {name} within {} s; name this node in \
         yarn.nodemanager.hostname to do without",
        RESOLVE_TIMEOUT.as_secs()
    )]
    Slow {
        /// Name that the kernel has for the machine.
        name: String,
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

/// Returns the host name for the node's id: the configured one, or for a wildcard the machine's
/// canonical name (Hadoop: `NetUtils.getConnectAddress` and `InetAddress.getCanonicalHostName`).
/// Asking for that one may take [`RESOLVE_TIMEOUT`].
///
/// # Errors
/// [`IdentityError::HostName`], [`IdentityError::Slow`].
pub async fn node_host(configured: &HostPort) -> Result<String, IdentityError> {
    if !configured.is_wildcard() {
        return Ok(configured.host.clone());
    }
    canonical_or(machine_name()?, canonical_name).await
}

/// Returns what `look_up` says of a name, or the name itself if that is nothing.
async fn canonical_or(
    name: String,
    look_up: impl FnOnce(&str) -> Option<String> + Send + 'static,
) -> Result<String, IdentityError> {
    let asked = name.clone();
    let looking = spawn_blocking(move || look_up(&asked));
    match timeout(RESOLVE_TIMEOUT, looking).await {
        Ok(found) => Ok(found.ok().flatten().unwrap_or(name)),
        Err(_late) => Err(IdentityError::Slow { name }),
    }
}

/// Returns the name by which other nodes know the machine: the reverse of the address that its
/// short name resolves to. Without a reverse the short name is used, as in Java.
fn canonical_name(name: &str) -> Option<String> {
    let mut addresses = dns_lookup::lookup_host(name).ok()?;
    let address: IpAddr = addresses.find(|address| !address.is_loopback())?;
    dns_lookup::lookup_addr(&address).ok()
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

/// The machine that containers run on, as their statuses name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name that the kernel has for the machine.
    pub name: String,
    /// Address that the name resolves to, or the name again if it does not resolve.
    pub address: String,
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_machine_goes_by_its_canonical_name_or_else_by_its_own() {
        for (told, expected) in [(Some("n1.example"), "n1.example"), (None, "n1")] {
            let look_up = move |_: &str| told.map(str::to_owned);
            let host = canonical_or("n1".to_owned(), look_up).await;
            assert_eq!(host.unwrap(), expected);
        }
        let configured = HostPort::new("n2", 8041);
        assert_eq!(node_host(&configured).await.unwrap(), "n2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_service_that_does_not_answer_ends_the_start_with_advice() {
        let (release, held) = mpsc::channel::<()>();
        let look_up = move |_: &str| {
            let _released = held.recv();
            None
        };
        let asking = tokio::spawn(canonical_or("n1".to_owned(), look_up));
        tokio::task::yield_now().await;
        // Paused time does not pass by itself while a thread works.
        tokio::time::advance(RESOLVE_TIMEOUT + Duration::from_millis(1)).await;
        let error = asking.await.unwrap().unwrap_err().to_string();
        assert!(
            error.contains("n1") && error.contains("hostname"),
            "{error}"
        );
        drop(release);
    }
}
