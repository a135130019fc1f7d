//! Addresses in Hadoop's form.

use std::fmt;

use thiserror::Error;

/// Host and port in Hadoop's form of an address (`host:port`). The host is not resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Host name or IP address; IPv6 addresses without their brackets.
    pub host: String,
    /// Port number; 0 asks the kernel for a free port when listening.
    pub port: u16,
}

/// Text that is not a `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseHostPortError {
    /// Text that starts with the port.
    #[error("has no host")]
    NoHost,
    /// Host with a character that host names cannot have.
    #[error("has a host with characters that no host name has")]
    BadHost,
    /// Port that is not a number from 0 to 65535.
    #[error("has a port that is not a number from 0 to 65535")]
    BadPort,
}

impl HostPort {
    /// Returns an address of a host and a port.
    #[must_use]
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// Parses an address as `NetUtils.createSocketAddr` does: `host`, `host:port`, or `[v6]:port`;
    /// ignores a URI scheme before it.
    ///
    /// # Errors
    /// A text without a usable host or port.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, ParseHostPortError> {
        let text = text.trim();
        let authority = match text.split_once("://") {
            Some((_, rest)) => rest.strip_suffix('/').unwrap_or(rest),
            None => text,
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(ParseHostPortError::BadHost)?;
                let v6 = host.parse::<std::net::Ipv6Addr>();
                v6.map_err(|_| ParseHostPortError::BadHost)?;
                let port = match after.strip_prefix(':') {
                    Some(port) => port,
                    None if after.is_empty() => "",
                    None => return Err(ParseHostPortError::BadPort),
                };
                (host, port)
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        if host.is_empty() {
            return Err(ParseHostPortError::NoHost);
        }
        let in_names = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if !host.chars().all(in_names) {
            return Err(ParseHostPortError::BadHost);
        }
        let port = match port {
            "" => default_port,
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().map_err(|_| ParseHostPortError::BadPort)?
            }
            _ => return Err(ParseHostPortError::BadPort),
        };
        Ok(Self::new(host, port))
    }

    /// Returns whether the host is the wildcard for every interface of this machine.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.host == "0.0.0.0" || self.host == "::"
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts the readings of Hadoop 3.4.2's `Configuration.getSocketAddr` with default port 7.
    #[test]
    fn addresses_are_read_as_hadoop_reads_them() {
        for (text, host, port) in [
            ("h:1", "h", 1),
            ("h", "h", 7),
            ("h:", "h", 7),
            (" h:1 ", "h", 1),
            ("http://h:1", "h", 1),
            ("[::1]:5", "::1", 5),
            ("0.0.0.0:0", "0.0.0.0", 0),
        ] {
            assert_eq!(
                HostPort::parse(text, 7),
                Ok(HostPort::new(host, port)),
                "{text}"
            );
        }
        for text in [
            "", ":1", "h:99999", "::1", "::1:5", "h:1/x", "a b:1", "h:-1", "h:abc", "h_x:1",
            "[::1", "[x]:1", "[::1]5",
        ] {
            assert!(HostPort::parse(text, 7).is_err(), "{text}");
        }
    }

    #[test]
    fn a_v6_address_prints_with_brackets_so_that_it_reads_back() {
        let address = HostPort::new("::1", 5);
        assert_eq!(HostPort::parse(&address.to_string(), 7), Ok(address));
    }
}
