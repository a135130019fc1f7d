//! What looks cost the node that is looked at.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tests::node::Node;

/// Looks of a second.
const LOOKS_PER_S: u32 = 100;

/// Connections that the looks use by turns, as proxies of several nodes do.
const CONNECTIONS: usize = 8;

/// Returns the part of a processor that a node takes while nothing else happens, for so long
/// without looks and for so long with [`LOOKS_PER_S`], in percent.
pub(crate) fn cost(node: &Node, time: Duration) -> [f64; 2] {
    let idle = used(node, time, || std::thread::sleep(time));
    let looked_at = used(node, time, || look(node, time));
    [idle, looked_at]
}

fn used(node: &Node, time: Duration, during: impl FnOnce()) -> f64 {
    let cpu_s = || {
        node.metric("process_cpu_seconds_total ")
            .expect("the node tells it")
    };
    let before = cpu_s();
    during();
    (cpu_s() - before) / time.as_secs_f64() * 100.0
}

fn look(node: &Node, time: Duration) {
    let host = &node.site.host;
    let port = node.site.ports.web;
    let connect = || BufReader::new(TcpStream::connect((host.as_str(), port)).expect("it listens"));
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| connect()).collect();
    let question = format!(
        "GET /jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics HTTP/1.1\r\n\
         Host: {host}:{port}\r\n\r\n"
    );
    let begin = Instant::now();
    let looks = LOOKS_PER_S * u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    for number in 0..looks {
        let due = begin + Duration::from_secs(1) / LOOKS_PER_S * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let connection = &mut connections[number as usize % CONNECTIONS];
        let sent = connection.get_mut().write_all(question.as_bytes());
        sent.expect("the connection is kept");
        read_answer(connection);
    }
}

fn read_answer(connection: &mut BufReader<TcpStream>) {
    let mut length = 0;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).expect("an answer comes");
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length is a number");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).expect("the body comes");
    assert!(length > 0, "the answer has a body");
}
