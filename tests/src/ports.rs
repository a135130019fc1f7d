//! Ports that are free on the loopback address and stay reserved until their server starts.
//!
//! They lie below the kernel's range for outgoing connections. Otherwise a server that is down for
//! a while (a ResourceManager between kill and restart) could lose its port to an outgoing
//! connection, and a client that retries could even connect to itself.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Lowest port considered: above the usual servers.
const LOWEST: u16 = 12_000;

/// Upper bound when the kernel's range cannot be read: the default range begins here.
const EPHEMERAL_BEGIN_DEFAULT: u16 = 32_768;

/// A free port; no other process can listen on it until [`Port::release`] or drop.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    number: u16,
}

impl Port {
    /// Reserves a port.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn reserve() -> Self {
        let (begin, end) = (LOWEST, ephemeral_begin().max(LOWEST + 1));
        for _ in begin..end {
            let number = next_candidate(begin, end);
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, number)) {
                return Self { listener, number };
            }
        }
        panic!("no port from {begin} to {end} is free");
    }

    /// Returns the port's number; it stays reserved.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Frees the port for its server; returns the number.
    #[must_use]
    pub fn release(self) -> u16 {
        drop(self.listener);
        self.number
    }
}

/// Returns the next port to try. The first differs between processes, so that they rarely try the
/// same port.
fn next_candidate(begin: u16, end: u16) -> u16 {
    static STEP: AtomicU16 = AtomicU16::new(0);
    let width = u32::from(end - begin);
    let start = std::process::id().wrapping_mul(97) % width;
    let offset = (start + u32::from(STEP.fetch_add(1, Ordering::Relaxed))) % width;
    begin + u16::try_from(offset).expect("an offset within a range of ports is a port's size")
}

fn ephemeral_begin() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(EPHEMERAL_BEGIN_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_cannot_be_bound_by_another() {
        let port = Port::reserve();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).is_err());
    }

    #[test]
    fn two_reserved_ports_differ() {
        let (first, second) = (Port::reserve(), Port::reserve());
        assert_ne!(first.number(), second.number());
    }

    #[test]
    fn a_released_port_can_be_bound() {
        let number = Port::reserve().release();
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok());
    }
}
