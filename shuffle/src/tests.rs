//! A server on a real port and reducers that speak to it byte by byte.

mod tls;

use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use refusals::Reason;
use socket2::{Domain, Socket, Type};

use crate::testing::{Job, attempt, hash, request, target};
use crate::{Counts, RunningShuffle, ShuffleConfig, ShuffleServer};

/// Time after which a test gives up on a server that is silent.
const PATIENCE: Duration = Duration::from_secs(60);

fn serve(job: &Job, change: impl FnOnce(&mut ShuffleConfig)) -> RunningShuffle {
    let mut config = ShuffleConfig {
        port: 0,
        ..ShuffleConfig::default()
    };
    change(&mut config);
    let server = ShuffleServer::bind(config).unwrap();
    server.start(Arc::clone(&job.jobs), Arc::default()).unwrap()
}

fn connect(server: &RunningShuffle) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Opens a connection from one of this machine's addresses.
fn connect_from(address: Ipv4Addr, server: &RunningShuffle) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from((address, 0));
    socket.bind(&from.into()).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes and returns everything that comes until the server closes.
fn ask(server: &RunningShuffle, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    reply
}

fn text(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).into_owned()
}

/// Reads one reply of a connection that stays open: its head, and as many bytes as it says.
fn read_reply(stream: &mut impl Read) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = text(&head);
    let (_, length) = head.split_once("content-length: ").unwrap();
    let mut body = vec![0; length.trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head, body)
}

/// Asserts that exactly these refusals are counted.
fn assert_refused(server: &RunningShuffle, expected: &[(Reason, u64)]) {
    let counts = Reason::ALL.iter();
    let counts = counts.map(|reason| (*reason, server.refusals().of(*reason)));
    let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, expected);
}

/// Waits until the counts are as expected.
fn wait_counts(server: &RunningShuffle, expected: impl Fn(Counts) -> bool) {
    let counts = server.counts();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !expected(counts()) {
        assert!(std::time::Instant::now() < deadline, "{:?}", counts());
        std::thread::yield_now();
    }
}

/// The fetch recorded from Hadoop 3.4.2, but for the port, which is in both hashes.
#[test]
fn a_fetch_has_hadoops_bytes() {
    let job = Job::new();
    let m0: [&[u8]; 2] = [
        b"\x04\x04k000\0\0\0\0\xff\xffn\x83\xce8",
        b"\x04\x04k001\0\0\0\x01\xff\xff\xc96\xaf\xbb",
    ];
    let m1: [&[u8]; 2] = [
        b"\x04\x04k100\0\0\0\n\xff\xff\xaf\xbeKp",
        b"\xff\xff\xff\xff\0\0",
    ];
    job.write("l0", &attempt(0), &m0);
    job.write("l1", &attempt(1), &m1);
    let server = serve(&job, |_| {});
    let target = target("1", &format!("{},{}", attempt(0), attempt(1)));
    let request = request(server.port(), &target);
    let reply = ask(&server, request.as_bytes());
    let url_hash = hash(&format!("{}{target}", server.port()));
    let mut expected = format!(
        "HTTP/1.1 200 OK\r\nReplyHash: {}\r\nname: mapreduce\r\nversion: 1.0.0\r\n\
         Connection: close\r\ncontent-length: 104\r\n\r\n",
        hash(&url_hash)
    )
    .into_bytes();
    for (map, header, bytes) in [(0, b"\x10\x0c\x01", m0[1]), (1, b"\x06\x02\x01", m1[1])] {
        expected.push(0x25);
        expected.extend(attempt(map).as_bytes());
        expected.extend(header);
        expected.extend(bytes);
    }
    assert_eq!(text(&reply), text(&expected));
    assert_eq!(reply, expected);
    wait_counts(&server, |counts| {
        (counts.outputs_ok, counts.output_bytes, counts.connections) == (2, 104, 0)
    });
}

#[test]
fn a_large_output_arrives_whole_between_others() {
    let job = Job::new();
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    job.write("l0", "small", &[b"before", b"x"]);
    job.write("l1", "large", &[b"skipped", &large]);
    let server = serve(&job, |config| config.readahead_bytes = 0);
    let request = request(server.port(), &target("1", "small,large,small"));
    let reply = ask(&server, request.as_bytes());
    let body = reply
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    // A name with its length before it, a part length of one or four bytes, a raw length, a number.
    let small = 1 + 5 + 3;
    let start = body + small + 1 + 1 + 5 + 4 + 4 + 1;
    assert_eq!(reply[start..start + large.len()], large);
    assert_eq!(reply.len(), start + large.len() + small + 1);
}

#[test]
fn a_kept_connection_answers_one_request_after_the_other() {
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| config.keep_alive_timeout = PATIENCE);
    let kept = request(server.port(), &(target("0", "m") + "&keepAlive=TRUE"));
    let mut stream = connect(&server);
    // Pipelined, and with a body that is passed over.
    let with_body = kept.replace("Host:", "Content-Length: 5\r\nHost:") + "12345";
    stream.write_all((with_body + &kept).as_bytes()).unwrap();
    for _ in 0..2 {
        let (head, body) = read_reply(&mut stream);
        let keep_alive = "Connection: Keep-Alive\r\nKeep-Alive: timeout=60\r\n";
        assert!(head.contains(keep_alive), "{head}");
        assert_eq!(body, b"\x01m\x04\0\0aaaa");
    }
    let last = request(server.port(), &target("0", "m"));
    stream.write_all(last.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(text(&reply).contains("Connection: close\r\n"));
}

#[test]
fn a_kept_connection_closes_when_no_request_comes() {
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| {
        config.keep_alive = true;
        config.keep_alive_timeout = Duration::from_millis(1);
    });
    let reply = ask(
        &server,
        request(server.port(), &target("0", "m")).as_bytes(),
    );
    assert!(
        text(&reply).contains("Connection: Keep-Alive"),
        "{}",
        text(&reply)
    );
}

#[test]
fn a_connection_without_a_whole_request_is_closed() {
    let job = Job::new();
    let server = serve(&job, |config| {
        config.request_timeout = Duration::from_millis(1)
    });
    for sent in ["", "GET /mapOut"] {
        let mut stream = connect(&server);
        // The server may have closed already.
        let _sent_or_not = stream.write_all(sent.as_bytes());
        let mut reply = Vec::new();
        let _closed_or_reset = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"", "{sent}");
    }
}

#[test]
fn a_refusal_arrives_whole_although_the_request_was_not_read() {
    let job = Job::new();
    let server = serve(&job, |_| {});
    for (sent, status) in [
        ("x".repeat(100_000), "HTTP/1.1 400 "),
        (
            format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(20_000)),
            "HTTP/1.1 431 ",
        ),
        ("HEAD / HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 405 "),
        (
            request(server.port(), "/mapOutput?job=other&reduce=0&map=m"),
            "HTTP/1.1 401 ",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (
            format!(
                "GET / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{}",
                "x".repeat(100_000)
            ),
            "HTTP/1.1 413 ",
        ),
    ] {
        let reply = text(&ask(&server, sent.as_bytes()));
        assert!(reply.starts_with(status), "{status}: {reply}");
    }
    let refused = [
        (Reason::Malformed, 3),
        (Reason::Unauthorized, 1),
        (Reason::TooLarge, 2),
    ];
    assert_refused(&server, &refused);
}

#[test]
fn a_reducer_beyond_the_limit_gets_429_before_it_asks_and_a_place_later() {
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| {
        config.connections_max = 1;
        config.keep_alive_timeout = PATIENCE;
    });
    let kept = request(server.port(), &(target("0", "m") + "&keepAlive=true"));
    // Large enough that the sockets' buffers cannot hold it: its reducer holds its place.
    let large = vec![7; 64 << 20];
    job.write("l1", "large", &[&large]);
    let mut first = connect(&server);
    let slow = request(server.port(), &target("0", "large"));
    first.write_all(slow.as_bytes()).unwrap();
    let mut begun = [0; 1];
    first.read_exact(&mut begun).unwrap();
    let refused = text(&ask(&server, kept.as_bytes()));
    assert!(
        refused.starts_with("HTTP/1.1 429 TOO MANY REQUESTS\r\n"),
        "{refused}"
    );
    assert!(refused.contains("Retry-After: 1000\r\n"), "{refused}");
    assert_refused(&server, &[(Reason::NoPlace, 1)]);
    first.shutdown(Shutdown::Both).unwrap();
    drop(first);
    wait_counts(&server, |counts| counts.connections == 0);
    wait_counts(&server, |counts| counts.outputs_failed == 1);
    let mut second = connect(&server);
    second.write_all(kept.as_bytes()).unwrap();
    assert!(read_reply(&mut second).0.starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn requests_without_the_secret_from_two_addresses_keep_no_reducer_out() {
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| config.connections_max = 16);
    let fetch = request(server.port(), &target("0", "m"));
    let wrong = fetch.replace("UrlHash: ", "UrlHash: A");
    let crowd: Vec<_> = (0..16)
        .map(|number| {
            let mut stream = connect_from([127, 0, 0, 2 + number % 2].into(), &server);
            stream.write_all(wrong.as_bytes()).unwrap();
            let (head, _) = read_reply(&mut stream);
            assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
            // Stays open: the server waits for its end.
            stream
        })
        .collect();
    let reply = ask(&server, fetch.as_bytes());
    assert!(reply.ends_with(b"aaaa"), "{}", text(&reply));
    let refused = [Reason::Unauthorized, Reason::NoPlace].map(|it| server.refusals().of(it));
    assert_eq!(refused, [16, 0]);
    drop(crowd);
}

#[test]
fn slow_reducers_of_one_user_from_two_addresses_keep_no_other_users_out() {
    let job = Job::new();
    job.write("l0", "large", &[&vec![7; 64 << 20]]);
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| config.connections_max = 16);
    let port = server.port();
    let slow = request(port, &target("0", "large"));
    let mut begin = |number: u8| {
        let mut stream = connect_from([127, 0, 0, 2 + number % 2].into(), &server);
        stream.write_all(slow.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        (stream, text(&status))
    };
    let slow_ones: Vec<_> = (0..14).map(&mut begin).collect();
    assert!(slow_ones.iter().all(|(_, status)| status == "HTTP/1.1 200"));
    let (refused, status) = begin(14);
    assert_eq!(status, "HTTP/1.1 429");
    job.register_as("ann");
    let reply = ask(&server, request(port, &target("0", "m")).as_bytes());
    assert!(reply.ends_with(b"aaaa"), "{}", text(&reply));
    assert_refused(&server, &[(Reason::NoPlace, 1)]);
    drop((slow_ones, refused));
}

#[test]
fn a_connection_counts_for_the_user_of_its_last_request() {
    let job = Job::new();
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| {
        config.connections_max = 8;
        config.keep_alive_timeout = PATIENCE;
    });
    let fetch = request(server.port(), &(target("0", "m") + "&keepAlive=true"));
    let ask_again = |stream: &mut TcpStream| {
        stream.write_all(fetch.as_bytes()).unwrap();
        read_reply(stream).0.starts_with("HTTP/1.1 200 OK")
    };
    let mut kept: Vec<_> = (0..7)
        .map(|number: u8| connect_from([127, 0, 0, 2 + number % 2].into(), &server))
        .collect();
    assert!(kept.iter_mut().all(ask_again));
    // All seven are joe's, so it gets no eighth before one is somebody else's.
    assert!(!ask_again(&mut connect(&server)));
    job.register_as("ann");
    assert!(kept.iter_mut().take(4).all(ask_again));
    job.register_as("joe");
    assert!(ask_again(&mut connect(&server)));
}

#[test]
fn an_output_that_is_cut_while_it_is_sent_closes_the_connection_early() {
    let job = Job::new();
    job.write("l0", "large", &[&vec![7; 64 << 20]]);
    let server = serve(&job, |config| config.manage_os_cache = false);
    let mut stream = connect(&server);
    let request = request(server.port(), &target("0", "large"));
    stream.write_all(request.as_bytes()).unwrap();
    let mut begun = [0; 1];
    stream.read_exact(&mut begun).unwrap();
    let path = job.outputs("l0").join("large/file.out");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(0).unwrap();
    let mut rest = Vec::new();
    // Closed or reset, and short of the length that the head promised.
    let _closed = stream.read_to_end(&mut rest);
    assert!(rest.len() < 64 << 20, "{}", rest.len());
    wait_counts(&server, |counts| counts.outputs_failed == 1);
}

#[test]
fn a_reducer_that_takes_nothing_is_cut_and_holds_up_nobody() {
    let job = Job::new();
    job.write("l0", "large", &[&vec![7; 64 << 20]]);
    job.write("l0", "m", &[b"aaaa"]);
    let server = serve(&job, |config| {
        config.threads = 1;
        config.stall_timeout = Duration::from_secs(2);
    });
    let slow = request(server.port(), &target("0", "large"));
    let stalled: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(slow.as_bytes()).unwrap();
            stream
        })
        .collect();
    let reply = ask(
        &server,
        request(server.port(), &target("0", "m")).as_bytes(),
    );
    assert!(reply.ends_with(b"aaaa"));
    wait_counts(&server, |counts| counts.outputs_failed == 20);
    drop(stalled);
}
