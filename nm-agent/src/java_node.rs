//! A Java NodeManager's registration, as the ResourceManager's REST pages tell it. The node itself
//! tells nobody whether it is registered.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use hadoop_conf::HostPort;
use records::error_chain;
use serde_json::Value;

/// Time for an answer, the connection included.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of an answer at most; real ones have 2,000.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Returns whether the node with these pages is registered at one of the ResourceManagers with
/// those pages: RUNNING there, by a heartbeat that is younger than the node's process.
///
/// # Errors
/// The reason that it cannot be told, such as a ResourceManager that shows its pages to users with
/// a ticket only.
pub(crate) fn is_registered(node: &HostPort, managers: &[HostPort]) -> Result<bool, String> {
    let info = get(node, "/ws/v1/node/info")?.1;
    let info = &info["nodeInfo"];
    let id = info["id"].as_str().filter(|id| is_id(id));
    let (Some(id), Some(started_ms)) = (id, info["nmStartupTime"].as_i64()) else {
        return Err(format!("{node} tells no id and start of a node"));
    };
    let mut why = "no ResourceManager is configured".to_owned();
    for manager in managers {
        match get(manager, &format!("/ws/v1/cluster/nodes/{id}")) {
            Ok((200, found)) => return Ok(is_running(&found["node"], started_ms)),
            Ok((404, _)) => return Ok(false),
            Ok((status, _)) => why = format!("{manager} answers with status {status}"),
            Err(error) => why = error,
        }
    }
    Err(why)
}

fn is_running(node: &Value, started_ms: i64) -> bool {
    let heard_ms = node["lastHealthUpdate"].as_i64();
    node["state"] == "RUNNING" && heard_ms.is_some_and(|heard_ms| heard_ms >= started_ms)
}

/// Whether a text may stand in a path: what answers may be anybody.
fn is_id(text: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".:-_[]".contains(c);
    text.len() <= 300 && text.chars().all(is_allowed)
}

/// Returns status and document of a page; the document is null unless the status is 200.
fn get(address: &HostPort, path: &str) -> Result<(u16, Value), String> {
    let end = Instant::now() + ANSWER_LIMIT;
    let failed = |error: std::io::Error| format!("{address}: {}", error_chain(&error));
    let host = match address.host.as_str() {
        "0.0.0.0" | "::" => "localhost",
        host => host,
    };
    let addresses = (host, address.port).to_socket_addrs().map_err(failed)?;
    let mut result = Err(format!("{address} has no address"));
    for address in addresses {
        result = TcpStream::connect_timeout(&address, left(end)).map_err(failed);
        if result.is_ok() {
            break;
        }
    }
    let mut stream = result?;
    stream.set_write_timeout(Some(left(end))).map_err(failed)?;
    // HTTP/1.0, so that the end of the answer is that of the connection.
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: {host}:{}\r\nAccept: application/json\r\n\r\n",
        address.port
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        stream.set_read_timeout(Some(left(end))).map_err(failed)?;
        let count = stream.read(&mut bytes).map_err(failed)?;
        answer.extend_from_slice(&bytes[..count]);
        if count == 0 {
            break;
        }
        if answer.len() > ANSWER_BYTES_MAX || Instant::now() >= end {
            return Err(format!("{address}: the answer is too long or too slow"));
        }
    }
    parse(&answer).ok_or_else(|| format!("{address} does not answer as a page of Hadoop's"))
}

/// Returns what is left until then, and never nothing, which no socket takes.
fn left(end: Instant) -> Duration {
    let left = end.saturating_duration_since(Instant::now());
    left.max(Duration::from_millis(1))
}

fn parse(answer: &[u8]) -> Option<(u16, Value)> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.strip_prefix("HTTP/1.")?.split_ascii_whitespace();
    let status = words.nth(1)?.parse().ok()?;
    match status {
        200 => Some((status, serde_json::from_str(body).ok()?)),
        _ => Some((status, Value::Null)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// Serves these answers, one for each connection, and returns where.
    fn serve(answers: Vec<String>) -> HostPort {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 4096];
                let count = stream.read(&mut request).unwrap();
                assert!(request[..count].starts_with(b"GET /ws/v1/"));
                // A peer that has gone away read enough.
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        HostPort::new("127.0.0.1", port)
    }

    fn page(document: &Value) -> String {
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{document}")
    }

    fn status(status: u16) -> String {
        format!("HTTP/1.1 {status} x\r\n\r\n{{}}")
    }

    #[test]
    fn a_node_is_registered_once_a_heartbeat_is_younger_than_its_process() {
        let info = json!({"nodeInfo": {"id": "host:8041", "nmStartupTime": 1_000}});
        let node = |state: &str, heard_ms: i64| {
            page(&json!({"node": {"state": state, "lastHealthUpdate": heard_ms}}))
        };
        for (answer, expected) in [
            (node("RUNNING", 1_500), Ok(true)),
            // The agent's, and the Java node's from before.
            (node("RUNNING", 999), Ok(false)),
            (node("SHUTDOWN", 1_500), Ok(false)),
            (status(404), Ok(false)),
        ] {
            let pages = serve(vec![page(&info)]);
            // A standby sends to the other one.
            let managers = [serve(vec![status(307)]), serve(vec![answer.clone()])];
            assert_eq!(is_registered(&pages, &managers), expected, "{answer}");
        }
        let pages = serve(vec![page(&info)]);
        let why = is_registered(&pages, &[serve(vec![status(401)])]).unwrap_err();
        assert!(why.contains("status 401"), "{why}");
    }

    #[test]
    fn what_is_no_page_of_hadoops_tells_nothing() {
        let long = format!("{}{}", status(200), "x".repeat(2 * ANSWER_BYTES_MAX));
        for bad in [
            String::new(),
            "HTTP/1.1 200 OK\r\n\r\n{".to_owned(),
            "SSH-2.0-x\r\n\r\n".to_owned(),
            page(&json!({"nodeInfo": {"id": "a/../b c", "nmStartupTime": 1}})),
            page(&json!({"nodeInfo": {"id": "host:1"}})),
            page(&json!([])),
            long,
        ] {
            assert!(is_registered(&serve(vec![bad]), &[]).is_err());
        }
    }
}
