//! Addresses that the agent listens on.

use hadoop_conf::HostPort;

/// Addresses that the agent listens on.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressConfig {
    /// Container management (`yarn.nodemanager.address`). Its host names the node unless it is a
    /// wildcard.
    pub node: HostPort,
    /// `yarn.nodemanager.bind-host`: listen on this host instead of those in the addresses.
    pub bind_host: Option<String>,
    /// Web pages, REST and metrics (`yarn.nodemanager.webapp.address`, or over TLS
    /// `yarn.nodemanager.webapp.https.address`).
    pub web: HostPort,
    /// Serve them over TLS alone (`yarn.http.policy` = `HTTPS_ONLY`).
    pub web_over_tls: bool,
    /// Port of `/metrics` alone, whatever the bind host is
    /// (`yarn.nodemanager.agent.metrics.address`); `None`: there is none.
    pub metrics: Option<HostPort>,
    /// Kept free for localizers (`yarn.nodemanager.localizer.address`).
    pub localizer: HostPort,
}

impl AddressConfig {
    /// Property of the web port without TLS.
    pub(super) const PLAIN_WEB: &str = "yarn.nodemanager.webapp.address";
    /// Property of the web port with TLS.
    pub(super) const TLS_WEB: &str = "yarn.nodemanager.webapp.https.address";
    /// Property of the port of `/metrics` alone.
    pub const METRICS: &str = "yarn.nodemanager.agent.metrics.address";

    /// Returns the property of the web port.
    #[must_use]
    pub const fn web_property(&self) -> &'static str {
        if self.web_over_tls {
            Self::TLS_WEB
        } else {
            Self::PLAIN_WEB
        }
    }

    /// Returns the address that container management listens on: the bind host, if there is one,
    /// with the address's port.
    #[must_use]
    pub fn node_bind(&self) -> HostPort {
        self.bound(&self.node)
    }

    /// Returns the address that the AMRMProxy listens on, given its configured `address`.
    #[must_use]
    pub fn proxy_bind(&self, address: &HostPort) -> HostPort {
        self.bound(address)
    }

    /// Returns the address that the web server listens on.
    #[must_use]
    pub fn web_bind(&self) -> HostPort {
        self.bound(&self.web)
    }

    fn bound(&self, address: &HostPort) -> HostPort {
        match &self.bind_host {
            Some(host) => HostPort::new(host, address.port),
            None => address.clone(),
        }
    }
}
