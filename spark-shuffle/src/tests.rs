//! A server on a socket: what its bounds do to clients that mean no good, and that others are
//! served meanwhile.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use refusals::Reason;

use crate::testing::{Lab, REGISTER, REGISTERED, bytes, connect, framed, rpc, text};
use crate::{RunningSparkShuffle, SparkShuffleConfig};

/// Sends bytes and returns the next so many bytes of the answer.
fn exchange(stream: &mut TcpStream, request: &[u8], length: usize) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).unwrap();
    answer
}

/// Reads to the end of the connection, however it ends.
fn read_rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        rest.extend_from_slice(&buffer[..count]);
    }
    rest
}

/// Asserts that the server answers as ever.
fn assert_serves(server: &RunningSparkShuffle) {
    let answer = exchange(&mut connect(server), &bytes(REGISTER), 21);
    assert_eq!(answer, bytes(REGISTERED));
}

/// The messages of a fetch of two chunks: the request of a stream, and both chunks of the stream
/// of this number.
fn open_two() -> Vec<u8> {
    let names = [text("rdd_4_0"), text("rdd_4_1")].concat();
    let head = [text("application_1700000000000_0009"), text("1")].concat();
    rpc(1, &[&[0][..], &head, &2_u32.to_be_bytes(), &names].concat())
}

fn chunk(stream: &[u8], index: u32) -> Vec<u8> {
    framed(&[&[0][..], stream, &index.to_be_bytes()].concat())
}

#[test]
fn requests_may_come_in_pieces_and_several_at_once() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig::default());
    let mut client = connect(&server);
    for byte in bytes(REGISTER) {
        client.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; 21];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..], bytes(REGISTERED));
    let handle = exchange(&mut client, &open_two(), 34);
    let stream = &handle[22..30];
    let both = [chunk(stream, 0), chunk(stream, 1)].concat();
    let answer = exchange(&mut client, &both, 2 * 25);
    assert_eq!(
        (&answer[21..25], &answer[46..]),
        (&b"m5r0"[..], &b"more"[..])
    );
    // Counted before the next request is answered.
    exchange(&mut client, &bytes(REGISTER), 21);
    let counts = server.counts()();
    assert_eq!((counts.blocks_ok, counts.blocks_failed), (2, 0));
    assert_eq!((counts.block_bytes, counts.executors), (8, 1));
}

#[test]
fn a_stream_is_its_connections_alone() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig::default());
    let (mut owner, mut other) = (connect(&server), connect(&server));
    exchange(&mut owner, &bytes(REGISTER), 21);
    let handle = exchange(&mut owner, &open_two(), 34);
    let stream = &handle[22..30];
    let refused = exchange(&mut other, &chunk(stream, 0), 25);
    assert_eq!(refused[8], 2);
    let number = i64::from_be_bytes(stream.try_into().unwrap());
    let named = framed(&[&[6][..], &text(&format!("{number}_0"))].concat());
    let mut other = connect(&server);
    assert_eq!(exchange(&mut other, &named, 9)[8], 8);
    assert_eq!(
        exchange(&mut owner, &chunk(stream, 0), 25)[21..],
        b"m5r0"[..]
    );
}

#[test]
fn what_is_no_frame_ends_the_connection_without_a_word() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig::default());
    for (frame, reason) in [
        (bytes("0000000000000008"), Reason::Malformed),
        (bytes("ffffffffffffffff 03"), Reason::Malformed),
        (bytes("0000000080000007 03"), Reason::TooLarge),
        (bytes("000000000000000a 63 00"), Reason::Malformed),
        (bytes("000000000000000a 00 00"), Reason::Malformed),
        (
            framed(&[&[6][..], &text(&"x".repeat(200))].concat()),
            Reason::Malformed,
        ),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Reason::TooLarge),
    ] {
        let before = server.refusals().of(reason);
        let mut client = connect(&server);
        client.write_all(&frame).unwrap();
        assert_eq!(read_rest(&mut client), b"", "{frame:?}");
        assert_eq!(server.refusals().of(reason), before + 1, "{frame:?}");
    }
    assert_serves(&server);
}

#[test]
fn who_does_not_prove_itself_gets_nothing_and_soon_no_connection() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig {
        authenticates: true,
        request_timeout: Duration::from_millis(300),
        ..SparkShuffleConfig::default()
    });
    lab.bring(Some("0123456789abcdef"));
    for request in [
        bytes(REGISTER),
        open_two(),
        chunk(&[0; 8], 0),
        framed(&[&[6][..], &text("5_0")].concat()),
    ] {
        let mut client = connect(&server);
        client.write_all(&request).unwrap();
        let answer = read_rest(&mut client);
        assert!([2, 5, 8].contains(&answer[8]), "{answer:?}");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains("Expected SaslMessage"), "{answer}");
    }
    assert_eq!(lab.applications.executors(), 0);
    // More than a handshake needs.
    let mut client = connect(&server);
    client.write_all(&rpc(1, &[0xea; 4 << 10])).unwrap();
    assert_eq!(read_rest(&mut client), b"");
    assert!(server.refusals().of(Reason::TooLarge) > 0);
    // Nothing at all.
    assert_eq!(read_rest(&mut connect(&server)), b"");
}

#[test]
fn declared_bytes_take_no_memory_before_they_come() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig {
        request_timeout: Duration::from_millis(300),
        ..SparkShuffleConfig::default()
    });
    // 64 connections that each declare a request of 15 MiB; all of them together would take more
    // than the service has.
    let mut clients: Vec<_> = (0..64).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write_all(&bytes("0000000000f00000 03")).unwrap();
    }
    assert_serves(&server);
    for client in &mut clients {
        assert_eq!(read_rest(client), b"");
    }
    assert!(server.refusals().of(Reason::Late) >= 64);
    assert_eq!(server.refusals().of(Reason::NoMemory), 0);
}

#[test]
fn requests_of_all_together_take_no_more_memory_than_there_is() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig::default());
    let part = vec![0; 15 << 20];
    let mut clients = Vec::new();
    while server.refusals().of(Reason::NoMemory) == 0 {
        let mut client = connect(&server);
        client.write_all(&bytes("0000000000ffffff 03")).unwrap();
        // The server may have closed it already.
        let _refused = client.write_all(&part);
        clients.push(client);
        assert!(clients.len() < 64, "memory without a bound");
    }
    // What is small is answered all the same.
    assert_serves(&server);
    for client in &clients {
        let _closed = client.shutdown(Shutdown::Both);
    }
}

#[test]
fn chunks_beyond_the_bound_end_their_connection() {
    let lab = Lab::new();
    let server = lab.serve(SparkShuffleConfig {
        chunks_max: Some(0),
        ..SparkShuffleConfig::default()
    });
    let mut client = connect(&server);
    exchange(&mut client, &bytes(REGISTER), 21);
    let handle = exchange(&mut client, &open_two(), 34);
    client.write_all(&chunk(&handle[22..30], 0)).unwrap();
    assert_eq!(read_rest(&mut client), b"");
}
