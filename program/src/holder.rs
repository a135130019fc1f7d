//! Finds the process that listens on a port, from the machine's sockets and their owners.

use std::fmt;

use procfs::process::{FDTarget, Process};

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: i32,
    /// Command name from `/proc/PID/comm`, at most 15 characters.
    pub name: String,
}

impl fmt::Display for Holder {
    /// Formats as `nm-agent (process 17)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Returns the process that listens on this TCP port. `None` when no process does, or when the
/// process's files are not readable for this user.
#[must_use]
pub fn of_port(port: u16) -> Option<Holder> {
    let inodes: Vec<u64> = [procfs::net::tcp(), procfs::net::tcp6()]
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            entry.local_address.port() == port && entry.state == procfs::net::TcpState::Listen
        })
        .map(|entry| entry.inode)
        .collect();
    if inodes.is_empty() {
        return None;
    }
    // Processes come and go while this looks, and most are none of this user's business.
    let mut processes = procfs::process::all_processes().ok()?.flatten();
    let holder = processes.find(|process| holds_one(process, &inodes))?;
    Some(Holder {
        pid: holder.pid,
        name: holder.stat().ok()?.comm,
    })
}

fn holds_one(process: &Process, inodes: &[u64]) -> bool {
    process.fd().is_ok_and(|mut descriptors| {
        descriptors.any(|descriptor| {
            descriptor.is_ok_and(|descriptor| match descriptor.target {
                FDTarget::Socket(inode) => inodes.contains(&inode),
                FDTarget::Path(_)
                | FDTarget::Net(_)
                | FDTarget::Pipe(_)
                | FDTarget::AnonInode(_)
                | FDTarget::MemFD(_)
                | FDTarget::Other(..)
                | FDTarget::Unknown(..) => false,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use super::*;

    #[tokio::test]
    async fn the_process_that_listens_is_found_and_nobody_on_a_port_that_is_only_bound() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        // Before it listens, not afterwards: a child that another test starts has this process's
        // listener, too, until it executes its program.
        assert_eq!(of_port(port), None);
        let _listener = socket.listen(1).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(of_port(port).map(|holder| holder.pid), Some(own));
    }
}
