use socket2::{Domain, Socket, Type};
use test_support::HeldPort;
use tokio::net::TcpListener;

use super::*;

fn dialer(addresses: &[SocketAddr]) -> Dialer {
    Dialer::new(Arc::new(addresses.to_vec()))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address that answers no SYN: its queue of connections is full, and Linux then drops further
/// ones.
struct BlackHole {
    address: SocketAddr,
    _socket: Socket,
    _queued: Vec<Socket>,
}

fn black_hole() -> BlackHole {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap();
    let queued = (0..3).map(|_| {
        let queued = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        queued.set_nonblocking(true).unwrap();
        // Under way, done, or dropped by the kernel: all the same here.
        let _ = queued.connect(&address);
        queued
    });
    BlackHole {
        _queued: queued.collect(),
        address: address.as_socket().unwrap(),
        _socket: socket,
    }
}

#[tokio::test]
async fn a_first_address_that_refuses_is_passed_over() {
    let refusing = HeldPort::free();
    let (_listener, alive) = listener().await;
    let connected = dialer(&[refusing.address(), alive])
        .connect("h", 1, soon())
        .await;
    assert_eq!(connected.unwrap().0, alive);
}

#[tokio::test]
async fn a_first_address_that_does_not_answer_costs_a_stagger_and_not_the_deadline() {
    let hole = black_hole();
    let (_listener, alive) = listener().await;
    let began = Instant::now();
    let connected = dialer(&[hole.address, alive]).connect("h", 1, soon()).await;
    assert_eq!(connected.unwrap().0, alive);
    assert!(began.elapsed() >= STAGGER && began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_slow_first_address_keeps_its_chance_when_the_others_refuse() {
    let refusing = HeldPort::free();
    let hole = black_hole();
    let deadline = Instant::now() + STAGGER * 2;
    let error = dialer(&[hole.address, refusing.address()])
        .connect("h", 1, deadline)
        .await
        .unwrap_err();
    let DialError::Connect { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    assert!(Instant::now() >= deadline);
}

#[tokio::test]
async fn the_last_refusal_is_the_error() {
    let port = HeldPort::free();
    let refusing = port.address();
    let error = dialer(&[refusing, refusing]).connect("h", 1, soon()).await;
    let DialError::Connect { address, source } = error.unwrap_err() else {
        panic!("the name has addresses");
    };
    assert_eq!(address, refusing);
    assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
}

#[derive(Debug)]
struct DeadNameServer;

impl Resolver for DeadNameServer {
    fn lookup<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_includes_the_look_up() {
    let dialer = Dialer::new(Arc::new(DeadNameServer));
    let deadline = soon();
    let error = dialer.connect("h", 1, deadline).await.unwrap_err();
    let DialError::Resolve { host, source } = error else {
        panic!("{error}");
    };
    assert_eq!(
        (host.as_str(), source.kind()),
        ("h", io::ErrorKind::TimedOut)
    );
    assert_eq!(Instant::now(), deadline);
}

#[tokio::test]
async fn an_address_needs_no_name_server() {
    let dialer = Dialer::new(Arc::new(DeadNameServer));
    let v6 = dialer.resolve("::1", 7, soon()).await.unwrap();
    assert_eq!(v6, ["[::1]:7".parse().unwrap()]);
}

#[tokio::test]
async fn a_name_without_an_address_is_an_error() {
    let error = dialer(&[]).resolve("h", 1, soon()).await.unwrap_err();
    assert!(matches!(error, DialError::Resolve { .. }), "{error}");
}

#[test]
fn families_take_turns_beginning_with_the_resolvers_first() {
    let all = |texts: &[&str]| -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let found = all(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1"]);
    let expected = all(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "[::3]:1"]);
    assert_eq!(interleaved(found), expected);
    let found = all(&["1.1.1.1:1", "2.2.2.2:1", "[::1]:1", "[::2]:1"]);
    let expected = all(&["1.1.1.1:1", "[::1]:1", "2.2.2.2:1", "[::2]:1"]);
    assert_eq!(interleaved(found), expected);
}

#[test]
fn host_and_port_are_split_as_people_write_them() {
    assert_eq!(split_host_port("rm:8031").unwrap(), ("rm", 8031));
    assert_eq!(split_host_port("[::1]:8031").unwrap(), ("::1", 8031));
    for text in ["", "rm", "rm:", "rm:65536", "rm:x"] {
        assert!(split_host_port(text).is_err(), "{text}");
    }
}
