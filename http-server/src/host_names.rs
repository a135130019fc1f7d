//! The check of the `Host` header against DNS rebinding.
//!
//! A page of a stranger can have its own name resolve to this server's address; a browser then lets
//! the page's script read answers from here, since for the browser they are of the same origin.
//! Such a request carries the stranger's name in `Host`, which a browser's script cannot change.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use hyper::header::HOST;
use hyper::{Request, StatusCode, Version};

/// Reason to refuse a request for its `Host` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRefusal {
    /// No usable host, which HTTP/1.1 requires.
    Missing,
    /// A host that is none of the server's names.
    Unknown,
}

impl HostRefusal {
    /// Returns the status to answer with: 400, or 421 (Misdirected Request).
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Missing => StatusCode::BAD_REQUEST,
            Self::Unknown => StatusCode::MISDIRECTED_REQUEST,
        }
    }
}

impl fmt::Display for HostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "The request must name one host in its Host header.",
            Self::Unknown => "This server does not answer to the host name in the request.",
        })
    }
}

/// Names that a server answers to.
///
/// Always known are `localhost` and every literal IP address: a page whose own address is literal
/// cannot be moved to another address by DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    names: BTreeSet<String>,
    any: bool,
}

impl HostNames {
    /// Makes the set of `names`, in any case, each together with its first label (`node-1` for
    /// `node-1.example.com`). The name `*` allows every host: no check.
    #[must_use]
    pub fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut all = Self::default();
        all.extend(names);
        all
    }

    /// Makes the set of `names`, as [`HostNames::new`] does, and the machine's own name.
    #[must_use]
    pub fn with_machine<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut all = Self::new(names);
        let machine = nix::unistd::gethostname().ok();
        all.extend(machine.and_then(|name| name.into_string().ok()));
        all
    }

    /// Adds names as [`HostNames::new`] takes them.
    pub fn extend<N: AsRef<str>>(&mut self, names: impl IntoIterator<Item = N>) {
        for name in names {
            let name = normal(name.as_ref().trim());
            if name == "*" {
                self.any = true;
            }
            if name.is_empty() || name.parse::<IpAddr>().is_ok() {
                continue;
            }
            if let Some((first, _)) = name.split_once('.') {
                self.names.insert(first.to_owned());
            }
            self.names.insert(name);
        }
    }

    /// Checks the host that a request names, in its target or in its header.
    ///
    /// HTTP/1.0 without a host passes: some load balancers check health so, and no browser does.
    ///
    /// # Errors
    /// [`HostRefusal`], if the request should not be answered.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), HostRefusal> {
        if self.any {
            return Ok(());
        }
        let mut headers = request.headers().get_all(HOST).iter();
        let host = match (headers.next(), headers.next()) {
            (Some(only), None) => only.to_str().map_err(|_| HostRefusal::Missing)?,
            (None, _) if request.version() == Version::HTTP_10 => return Ok(()),
            _ => return Err(HostRefusal::Missing),
        };
        let target = request.uri().host();
        if self.knows(without_port(host)) && target.is_none_or(|host| self.knows(host)) {
            Ok(())
        } else {
            Err(HostRefusal::Unknown)
        }
    }

    fn knows(&self, host: &str) -> bool {
        let unbracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        if unbracketed.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = normal(host);
        host == "localhost" || (!host.is_empty() && self.names.contains(&host))
    }
}

/// Returns a name in lower case without the dot of the root.
fn normal(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns `host:port` without its port; the colons of `[::1]` are none of a port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], hosts: &[&str]) -> Result<(), HostRefusal> {
        let mut request = Request::get("/");
        for host in hosts {
            request = request.header(HOST, *host);
        }
        HostNames::new(names).check(&request.body(()).unwrap())
    }

    #[test]
    fn own_names_addresses_and_localhost_are_known() {
        for host in [
            "node-1.example",
            "NODE-1.Example:8042",
            "node-1.example.",
            "node-1",
            "localhost:8042",
            "127.0.0.1:8042",
            "192.0.2.7",
            "[::1]:8042",
            "[2001:db8::1]",
        ] {
            assert_eq!(check(&["node-1.example"], &[host]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.example",
            "node-1.example.evil.example",
            "evil.example:8042",
            "node-2",
            "1.evil.example",
            "",
            ":8042",
        ] {
            let refused = check(&["node-1.example"], &[host]);
            assert_eq!(refused, Err(HostRefusal::Unknown), "{host}");
        }
    }

    #[test]
    fn one_host_is_required_but_in_the_oldest_requests() {
        assert_eq!(check(&["n"], &[]), Err(HostRefusal::Missing));
        assert_eq!(check(&["n"], &["n", "evil"]), Err(HostRefusal::Missing));
        let old = Request::get("/")
            .version(Version::HTTP_10)
            .body(())
            .unwrap();
        assert_eq!(HostNames::new(["n"]).check(&old), Ok(()));
    }

    #[test]
    fn a_target_with_a_host_of_its_own_is_checked_too() {
        let request = Request::get("http://evil.example/").header(HOST, "localhost");
        let refused = HostNames::default().check(&request.body(()).unwrap());
        assert_eq!(refused, Err(HostRefusal::Unknown));
    }

    #[test]
    fn a_star_turns_the_check_off() {
        assert_eq!(check(&["*"], &["evil.example"]), Ok(()));
        assert_eq!(check(&["*"], &[]), Ok(()));
    }
}
