//! A port whose server may be down without another process taking the port.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, SockAddr, Socket, Type};

/// A port of 127.0.0.1 that belongs to the test for as long as this value lives, whether a server
/// listens on it or not.
///
/// A test that releases a port and binds it again later races with every outgoing connection and
/// every bind to port 0 of the machine. Here a socket stays bound and never listens: the kernel
/// then gives the port to neither, refuses connections while no server listens, and lets a server
/// bind that names the port and sets `SO_REUSEADDR`, as `tokio` and `std` do (socket(7)).
#[derive(Debug)]
pub struct HeldPort {
    address: SocketAddr,
    _bound: Socket,
}

impl HeldPort {
    /// Holds a free port.
    ///
    /// # Panics
    /// When no port is free.
    #[must_use]
    pub fn free() -> Self {
        Self::at(0)
    }

    /// Holds this port, or any free one for 0.
    ///
    /// # Panics
    /// When the port is taken.
    #[must_use]
    pub fn at(port: u16) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let hold = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SockAddr::from(address))?;
            let bound = socket.local_addr()?.as_socket();
            Ok::<_, std::io::Error>((socket, bound.unwrap_or(address)))
        };
        let (bound, address) =
            hold().unwrap_or_else(|error| panic!("cannot hold {address}: {error}"));
        Self {
            address,
            _bound: bound,
        }
    }

    /// Address of the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_held_port_refuses_connections_until_its_server_listens() {
        let port = HeldPort::free();
        for _ in 0..2 {
            let refused = TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let server = TcpListener::bind(port.address()).unwrap();
            assert!(TcpStream::connect(port.address()).is_ok());
            drop(server);
        }
    }
}
