//! The name that this node registers with: the canonical name of the address that it is reached at,
//! as in Hadoop.
//!
//! ```text
//!  yarn.nodemanager.address ─┬─ a name or an address ─▶ its first IPv4 address ─┐
//!                            └─ a wildcard ─▶ machine's name ─▶ likewise, or 127.0.0.1
//!                                                                               ▼
//!     the reverse name, if that leads back to the address; else the address as text
//! ```
//!
//! The ResourceManager compares this name with include lists and labels, and AMs compare it with
//! the hosts of their data, so each step is Java's, the detour over a loopback address included
//! (`ContainerManagerImpl.buildNodeId`, `NetUtils.getConnectAddress`,
//! `InetAddress.getCanonicalHostName`; IPv4 first, as Hadoop's scripts set
//! `java.net.preferIPv4Stack`). `bind-host` changes where the node listens, not its name.

use std::net::{IpAddr, Ipv4Addr};

use hadoop_conf::HostPort;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::dial::RESOLVE_TIMEOUT;

use super::IdentityError;

/// The machine's name service, both ways. Answers may take a while.
pub(super) trait Names: Clone + Send + 'static {
    /// Returns the addresses of a name or of an address as text, in the order of preference; none
    /// if the name is unknown.
    fn addresses(&self, name: &str) -> Vec<IpAddr>;

    /// Returns the first name of an address.
    fn name(&self, address: IpAddr) -> Option<String>;
}

/// `getaddrinfo` and `getnameinfo`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemNames;

impl Names for SystemNames {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = dns_lookup::lookup_host(name);
        found.map(Iterator::collect).unwrap_or_default()
    }

    fn name(&self, address: IpAddr) -> Option<String> {
        // Without a name it is the address as text.
        dns_lookup::lookup_addr(&address).ok()
    }
}

/// Returns the name to register with, for the address that is configured and the name that the
/// kernel has for the machine. Each of up to three look-ups may take [`RESOLVE_TIMEOUT`].
///
/// # Errors
/// [`IdentityError::Slow`], or [`IdentityError::NoAddress`] for a configured name.
pub(super) async fn canonical_host(
    names: impl Names,
    configured: &HostPort,
    machine: String,
) -> Result<String, IdentityError> {
    let address = if configured.is_wildcard() {
        let found = addresses(&names, machine.clone()).await?;
        let found = found.into_iter().find(IpAddr::is_ipv4);
        // Java's last resort for a machine whose own name is unknown.
        found.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    } else {
        let found = addresses(&names, configured.host.clone()).await?;
        let preferred = found.iter().find(|address| address.is_ipv4());
        let found = preferred.or(found.first()).copied();
        found.ok_or_else(|| IdentityError::NoAddress {
            host: configured.host.clone(),
        })?
    };
    let reverse = {
        let names = names.clone();
        ask(&address.to_string(), move || names.name(address)).await?
    };
    let Some(name) = reverse else {
        return Ok(address_text(address));
    };
    // A reverse that anybody may have written does not count.
    let leads_back = addresses(&names, name.clone()).await?.contains(&address);
    Ok(if leads_back {
        name
    } else {
        address_text(address)
    })
}

async fn addresses(names: &impl Names, name: String) -> Result<Vec<IpAddr>, IdentityError> {
    let names = names.clone();
    let asked = name.clone();
    ask(&name, move || names.addresses(&asked)).await
}

/// Asks the name service about `subject` on a thread of its own.
async fn ask<T: Send + Default + 'static>(
    subject: &str,
    look_up: impl FnOnce() -> T + Send + 'static,
) -> Result<T, IdentityError> {
    match timeout(RESOLVE_TIMEOUT, spawn_blocking(look_up)).await {
        // A look-up that panicked has found nothing.
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(_late) => Err(IdentityError::Slow {
            subject: subject.to_owned(),
        }),
    }
}

/// Returns an address as Java writes it: all eight parts of an IPv6 address.
fn address_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let parts = address.segments().map(|part| format!("{part:x}"));
            parts.join(":")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;

    use super::*;

    /// Name service of an `/etc/hosts` without DNS, with or without IPv6.
    #[derive(Clone)]
    struct Hosts(&'static str);

    impl Hosts {
        fn lines(&self) -> impl Iterator<Item = (IpAddr, Vec<&'static str>)> {
            self.0.lines().map(|line| {
                let mut words = line.split_whitespace();
                let address = words.next().unwrap().parse().unwrap();
                (address, words.collect())
            })
        }
    }

    impl Names for Hosts {
        fn addresses(&self, name: &str) -> Vec<IpAddr> {
            if let Ok(address) = name.parse() {
                return vec![address];
            }
            let names = |known: &&str| known.eq_ignore_ascii_case(name);
            let found = self.lines().filter(|(_, known)| known.iter().any(names));
            found.map(|(address, _)| address).collect()
        }

        fn name(&self, address: IpAddr) -> Option<String> {
            let mut lines = self.lines();
            let (_, names) = lines.find(|(known, _)| *known == address)?;
            names.first().map(|name| (*name).to_owned())
        }
    }

    async fn name(hosts: &'static str, configured: &str) -> Result<String, IdentityError> {
        let configured = HostPort::parse(&format!("{configured}:0"), 0).unwrap();
        canonical_host(Hosts(hosts), &configured, "node".to_owned()).await
    }

    #[tokio::test]
    async fn every_shape_of_the_hosts_file_has_javas_name() {
        const LAN: &str = "127.0.0.1 localhost\n10.0.0.7 node.site node other.site";
        for (hosts, configured, expected) in [
            // Debian's own, the usual one, and a short name first.
            (
                "127.0.0.1 localhost\n127.0.1.1 node.site node",
                "0.0.0.0",
                "node.site",
            ),
            (LAN, "0.0.0.0", "node.site"),
            ("10.0.0.7 node node.site", "0.0.0.0", "node"),
            ("127.0.0.1 localhost node", "0.0.0.0", "localhost"),
            ("10.0.0.7 NODE.Site node", "0.0.0.0", "NODE.Site"),
            // No line for the machine, and one that only IPv6 has.
            ("127.0.0.1 localhost", "0.0.0.0", "localhost"),
            ("10.0.0.7 other", "0.0.0.0", "127.0.0.1"),
            (
                "127.0.0.1 localhost\nfe80::1 node.site node",
                "0.0.0.0",
                "localhost",
            ),
            (
                "fe80::1 six.site node\n10.0.0.7 four.site node",
                "0.0.0.0",
                "four.site",
            ),
            // A name or an address that is configured, however it is written.
            (LAN, "other.site", "node.site"),
            (LAN, "NODE", "node.site"),
            (LAN, "10.0.0.7", "node.site"),
            (LAN, "localhost", "localhost"),
            (LAN, "10.0.0.8", "10.0.0.8"),
            ("2001:db8::1 node.site", "[2001:db8::1]", "node.site"),
            ("10.0.0.7 node", "[2001:db8::1]", "2001:db8:0:0:0:0:0:1"),
        ] {
            let found = name(hosts, configured).await.unwrap();
            assert_eq!(found, expected, "{configured} with {hosts:?}");
        }
        let error = name(LAN, "nowhere").await.unwrap_err();
        assert!(matches!(error, IdentityError::NoAddress { .. }), "{error}");
    }

    /// Name service whose reverse names what it likes.
    #[derive(Clone)]
    struct Forged;

    impl Names for Forged {
        fn addresses(&self, name: &str) -> Vec<IpAddr> {
            let address = if name == "victim.site" {
                "10.0.0.1"
            } else {
                "10.0.0.7"
            };
            vec![address.parse().unwrap()]
        }

        fn name(&self, _: IpAddr) -> Option<String> {
            Some("victim.site".to_owned())
        }
    }

    #[tokio::test]
    async fn a_reverse_name_that_does_not_lead_back_is_not_taken() {
        let configured = HostPort::new("node", 0);
        let found = canonical_host(Forged, &configured, String::new()).await;
        assert_eq!(found.unwrap(), "10.0.0.7");
    }

    #[derive(Clone)]
    struct Silent(Arc<Mutex<mpsc::Receiver<()>>>);

    impl Names for Silent {
        fn addresses(&self, _: &str) -> Vec<IpAddr> {
            let _released = self.0.lock().unwrap().recv();
            Vec::new()
        }

        fn name(&self, _: IpAddr) -> Option<String> {
            None
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_service_that_does_not_answer_ends_the_start_with_advice() {
        let (release, held) = mpsc::channel::<()>();
        let names = Silent(Arc::new(Mutex::new(held)));
        let wildcard = HostPort::new("0.0.0.0", 0);
        let asking =
            tokio::spawn(async move { canonical_host(names, &wildcard, "n1".to_owned()).await });
        tokio::task::yield_now().await;
        // Paused time does not pass by itself while a thread works.
        tokio::time::advance(RESOLVE_TIMEOUT + Duration::from_millis(1)).await;
        let error = asking.await.unwrap().unwrap_err().to_string();
        assert!(
            error.contains("n1") && error.contains("/etc/hosts"),
            "{error}"
        );
        drop(release);
    }
}
