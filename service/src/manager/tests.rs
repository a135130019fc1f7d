use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

use tempfile::TempDir;

use super::*;
use crate::passed::address;
use crate::relay::tests::receive_all;

/// A service manager's socket.
pub(crate) struct Listening {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Listening {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, folder }
    }

    /// Returns the environment of a program that this manager starts.
    pub(crate) fn environment(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let path = self.folder.path().join("notify");
        let path = path.to_str().unwrap().to_owned();
        let more = more
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        more.chain([("NOTIFY_SOCKET".to_owned(), path)]).collect()
    }

    /// Returns the program's view of this manager.
    pub(crate) fn manager(&self, more: &[(&str, &str)]) -> Manager {
        Manager::of_environment(&self.environment(more)).unwrap()
    }

    /// Returns the next notification, which must be there, and its descriptors.
    pub(crate) fn receive(&self) -> (String, Vec<OwnedFd>) {
        self.try_receive().unwrap()
    }

    pub(crate) fn try_receive(&self) -> io::Result<(String, Vec<OwnedFd>)> {
        receive_all(self.socket.as_fd())
    }
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn with_kept(line: Line, kept: &[(&str, &TcpListener)]) -> Manager {
    let kept = kept.iter().map(|(name, socket)| {
        let socket = socket.try_clone().unwrap();
        ((*name).to_owned(), socket.into())
    });
    Manager::new(line, None, kept.collect())
}

#[test]
fn without_a_manager_nothing_happens() {
    let manager = Manager::of_environment(&BTreeMap::new()).unwrap();
    assert!(!manager.exists());
    manager.notify(Message::Ready);
    manager.keep("web", listener().as_fd());
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    assert!(manager.take_listener("web", any).is_none());
}

#[test]
fn a_manager_gets_notifications_and_sockets() {
    let listening = Listening::new();
    let manager = listening.manager(&[]);
    manager.notify(Message::Ready);
    assert_eq!(listening.receive().0, "READY=1");
    let socket = listener();
    manager.keep("web", socket.as_fd());
    let (text, sockets) = listening.receive();
    assert_eq!(text, "FDSTORE=1\nFDNAME=web\nFDPOLL=0");
    let kept = TcpListener::from(sockets.into_iter().next().unwrap());
    assert_ne!(kept.as_raw_fd(), socket.as_raw_fd());
    assert_eq!(kept.local_addr().unwrap(), socket.local_addr().unwrap());
}

#[test]
fn an_abstract_address_is_one() {
    let name = format!("nm-agent-test-{}", std::process::id());
    let address = UnixAddress::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    let environment = [("NOTIFY_SOCKET".to_owned(), format!("@{name}"))];
    let manager = Manager::of_environment(&environment.into()).unwrap();
    manager.notify(Message::Stopping);
    let mut text = [0; 64];
    let length = socket.recv(&mut text).unwrap();
    assert_eq!(&text[..length], b"STOPPING=1");
}

#[test]
fn an_address_of_another_kind_is_an_error_that_names_it() {
    let environment = [("NOTIFY_SOCKET".to_owned(), "vsock:2:9999".to_owned())];
    let error = Manager::of_environment(&environment.into()).unwrap_err();
    assert!(error.to_string().contains("vsock:2:9999"), "{error}");
}

#[test]
fn variables_for_another_process_are_not_for_this_one() {
    let listening = Listening::new();
    let own = std::process::id().to_string();
    let watchdog = |pid| {
        let environment = [("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", pid)];
        listening.manager(&environment).watchdog()
    };
    assert_eq!(watchdog(&own), Some(Duration::from_secs(3)));
    assert_eq!(watchdog("1"), None);
    // Whatever is open there is not touched.
    let environment = [("LISTEN_FDS", "5"), ("LISTEN_PID", "1")];
    let manager = listening.manager(&environment);
    manager.drop_rest();
    assert!(listening.try_receive().is_err());
}

#[test]
fn a_kept_socket_is_taken_once_and_by_its_address_only() {
    let listening = Listening::new();
    let (web, other) = (listener(), listener());
    let line = || Line::Direct(address(&listening.environment(&[])["NOTIFY_SOCKET"]).unwrap());
    let address = web.local_addr().unwrap();
    let kept = with_kept(line(), &[("web", &web), ("proxy", &other)]);
    assert!(kept.take_listener("shuffle", address).is_none());
    let taken = kept.take_listener("web", address).unwrap();
    assert_eq!(taken.local_addr().unwrap(), address);
    assert!(kept.take_listener("web", address).is_none());
    assert!(listening.try_receive().is_err(), "nothing was dropped");
    assert!(kept.take_listener("proxy", address).is_none());
    assert_eq!(listening.receive().0, "FDSTOREREMOVE=1\nFDNAME=proxy");
    let kept = with_kept(line(), &[("web", &web)]);
    let any_port = SocketAddr::new(address.ip(), 0);
    assert!(kept.take_listener("web", any_port).is_some());
}

#[test]
fn a_socket_that_does_not_listen_is_not_taken() {
    let listening = Listening::new();
    let web = listener();
    let peer = std::net::TcpStream::connect(web.local_addr().unwrap()).unwrap();
    let (accepted, _) = web.accept().unwrap();
    let line = Line::Direct(address(&listening.environment(&[])["NOTIFY_SOCKET"]).unwrap());
    let kept = Manager::new(line, None, vec![("web".to_owned(), accepted.into())]);
    let address = peer.peer_addr().unwrap();
    assert!(kept.take_listener("web", address).is_none());
}

#[test]
fn sockets_that_nobody_wants_are_dropped() {
    let listening = Listening::new();
    let line = Line::Direct(address(&listening.environment(&[])["NOTIFY_SOCKET"]).unwrap());
    let kept = with_kept(line, &[("old", &listener())]);
    kept.drop_rest();
    assert_eq!(listening.receive().0, "FDSTOREREMOVE=1\nFDNAME=old");
    kept.drop_rest();
    assert!(listening.try_receive().is_err());
}
