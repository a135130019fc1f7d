//! Collectors that take spans, that are silent, slow, or refuse: real sockets, paused time only
//! where nothing is sent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use test_support::ids::container;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// A collector that answers each request with this status, and passes the requests on.
struct Collector {
    endpoint: Endpoint,
    requests: mpsc::UnboundedReceiver<(String, Value)>,
    _serves: JoinHandle<()>,
}

async fn listener() -> (TcpListener, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, format!("http://{address}").parse().unwrap())
}

impl Collector {
    async fn start(status: &'static str) -> Self {
        let (listener, endpoint) = listener().await;
        let (sender, requests) = mpsc::unbounded_channel();
        let serves = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        Self {
            endpoint,
            requests,
            _serves: serves,
        }
    }
}

/// Reads a whole request; returns its head and its document.
async fn read(stream: &mut TcpStream) -> (String, Value) {
    let mut text = Vec::new();
    loop {
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&bytes[..count]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = whole.split_once("\r\n\r\n")
            && let Ok(document) = serde_json::from_str(body)
        {
            return (head.to_owned(), document);
        }
    }
}

fn exported(endpoint: &Endpoint) -> (Traces, CancellationToken, JoinHandle<()>) {
    let (export, traces) = Export::new(endpoint.clone(), "node-1.example".to_owned());
    let stop = CancellationToken::new();
    let runs = tokio::spawn(export.run(stop.clone()));
    (traces, stop, runs)
}

/// Tells of a container that is accepted, launched and over: three spans.
fn tell(traces: &Traces, number: i64) {
    let id = container(number);
    let took = Duration::from_millis(5);
    traces.tell(Step::Accepted(id));
    traces.tell(Step::Launched { id, took });
    traces.tell(Step::Completed { id, exit_status: 3 });
}

async fn wait_reading(traces: &Traces, wanted: impl Fn(Reading) -> bool) -> Reading {
    let end = Instant::now() + DEADLINE;
    loop {
        let reading = traces.reading();
        if wanted(reading) {
            return reading;
        }
        assert!(Instant::now() < end, "{reading:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_collector_gets_spans_in_otlps_form() {
    let mut collector = Collector::start("200 OK").await;
    let (traces, stop, runs) = exported(&collector.endpoint);
    tell(&traces, 1);
    let (head, document) = collector.requests.recv().await.unwrap();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let resource = &document["resourceSpans"][0];
    let host = &resource["resource"]["attributes"][2];
    assert_eq!(host["value"]["stringValue"], "node-1.example");
    let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
    let names: Vec<_> = spans.iter().map(|span| &span["name"]).collect();
    assert_eq!(names, ["launch", "run", "container"]);
    let (launch, whole) = (&spans[0], &spans[2]);
    assert_eq!(whole["traceId"].as_str().unwrap().len(), 32);
    assert_eq!(launch["traceId"], whole["traceId"]);
    assert_eq!(launch["parentSpanId"], whole["spanId"]);
    assert_eq!(whole["parentSpanId"], "");
    assert_eq!(
        (&launch["status"]["code"], &whole["status"]["code"]),
        (&1.into(), &2.into())
    );
    let times = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| {
        let text = launch[name].as_str().unwrap();
        text.parse::<u64>().unwrap()
    });
    assert_eq!(times[1] - times[0], 5_000_000);
    let id = container(1).to_string();
    assert_eq!(launch["attributes"][0]["value"]["stringValue"], id);
    wait_reading(&traces, |reading| {
        reading
            == Reading {
                sent: 3,
                dropped: 0,
            }
    })
    .await;
    // What waits is sent at the end.
    tell(&traces, 2);
    stop.cancel();
    runs.await.unwrap();
    assert_eq!(
        traces.reading(),
        Reading {
            sent: 6,
            dropped: 0
        }
    );
}

#[tokio::test]
async fn a_collector_that_refuses_or_is_not_there_costs_the_spans_and_nothing_else() {
    let refusing = Collector::start("503 Service Unavailable").await;
    let (closed, nobody) = listener().await;
    drop(closed);
    for endpoint in [&refusing.endpoint, &nobody] {
        let (traces, stop, runs) = exported(endpoint);
        tell(&traces, 1);
        let reading = wait_reading(&traces, |reading| reading.dropped > 0).await;
        assert_eq!(
            reading,
            Reading {
                sent: 0,
                dropped: 3
            }
        );
        stop.cancel();
        runs.await.unwrap();
    }
}

#[tokio::test]
async fn a_silent_collector_gets_a_bounded_queue_and_steps_never_wait() {
    // Nobody accepts: the kernel takes the connection and the request.
    let (_listener, endpoint) = listener().await;
    let (traces, stop, runs) = exported(&endpoint);
    let told = i64::try_from(QUEUE_SPANS).unwrap();
    let traces = Arc::new(traces);
    let teller = Arc::clone(&traces);
    // A thread without a runtime: telling cannot wait for anything.
    let tells = std::thread::spawn(move || (1..=told).for_each(|number| tell(&teller, number)));
    tokio::task::spawn_blocking(move || tells.join().unwrap())
        .await
        .unwrap();
    let all = 3 * QUEUE_SPANS as u64;
    let queued = all - traces.reading().dropped;
    let bound = (QUEUE_SPANS + 2 * BATCH_SPANS) as u64;
    assert!(queued <= bound, "{queued}");
    let begin = Instant::now();
    stop.cancel();
    runs.await.unwrap();
    assert!(begin.elapsed() < DEADLINE);
    assert_eq!(
        traces.reading(),
        Reading {
            sent: 0,
            dropped: all
        }
    );
}
