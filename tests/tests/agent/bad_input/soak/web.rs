//! Attacks on the web port.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::polite::Log;
use super::strangers::{ELSEWHERE, connect};
use super::{Attack, Field, attack};

/// Requests that are none, or that no peer should make.
const BAD: [&[u8]; 6] = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
];

/// Reads of each slow reader in a round, of which each takes 1 KiB.
const SLOW_READS: usize = 10;

pub(super) fn attacks(log: &Log) -> Vec<Attack> {
    let path = log.path.clone();
    vec![
        attack("idle web connections", |field| {
            let open = open(field, 100, b"").len();
            field.pause(Duration::from_secs(1));
            open as u64
        }),
        attack("unfinished HTTP heads", |field| {
            let open = open(field, 100, b"GET / HTTP/1.1\r\nX: ").len();
            field.pause(Duration::from_secs(1));
            open as u64
        }),
        attack("slow readers of a log", move |field| {
            slow_readers(field, &path)
        }),
        attack("bad HTTP", |field| {
            let answered = BAD.iter().filter(|bytes| answer(field, bytes).is_some());
            answered.count() as u64
        }),
        attack("rebinding Hosts", |field| {
            let hosts = ["evil.example", "127.0.0.1.evil.example", "localhost@evil"];
            let refused = hosts.iter().filter(|host| {
                let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
                let answer = answer(field, request.as_bytes());
                answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 4"))
            });
            refused.count() as u64
        }),
    ]
}

fn open(field: &Field<'_>, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    (0..count)
        .filter_map(|_| connect(field, ELSEWHERE, field.web_port).ok())
        .filter(|mut stream| stream.write_all(bytes).is_ok())
        .collect()
}

fn slow_readers(field: &Field<'_>, path: &str) -> u64 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let mut readers = open(field, 30, request.as_bytes());
    for _ in 0..SLOW_READS {
        // Those that are evicted stay out.
        readers.retain_mut(|stream| stream.read(&mut [0; 1024]).is_ok_and(|length| length > 0));
        field.pause(Duration::from_millis(200));
    }
    readers.len() as u64
}

/// Sends bytes and returns the start of the answer, empty if the connection is closed without one;
/// `None` if nothing comes.
fn answer(field: &Field<'_>, bytes: &[u8]) -> Option<String> {
    let mut stream = connect(field, ELSEWHERE, field.web_port).ok()?;
    stream.write_all(bytes).ok()?;
    let mut answer = [0; 1024];
    let length = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..length]).into_owned())
}
