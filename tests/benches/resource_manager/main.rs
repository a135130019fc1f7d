//! Throughput of the small ResourceManager (`nm-agent rm`), compared with this machine's limit.
//!
//! `cargo bench -p tests --bench resource_manager` prints the figures. The ResourceManager runs as
//! a process of its own. Nodes and masters are simulated in this one, each on a connection of its
//! own, and share the machine with it. The machine's limit is the round trip of a byte to an echo
//! on the loopback address, which no call can beat. Nothing passes or fails: the figures are for
//! reading. Goals are 5,000 containers per second, and less than one processor for the heartbeats
//! of a thousand nodes. `--quick` measures everything for a few seconds. There is no figure of
//! Hadoop's ResourceManager.

mod cluster;
mod measure;

use std::process::ExitCode;
use std::time::Duration;

use tests::samples::Samples;
use tests::{bench, loopback};
use wire::proto::hadoop_yarn::ExecutionTypeProto;

use crate::cluster::{Cluster, NODES};
use crate::measure::{Rate, Way, allocation_rate, heartbeat_load};

fn main() -> ExitCode {
    let quick = match bench::start(&[]) {
        Ok(arguments) => arguments.quick,
        Err(code) => return code,
    };
    let period = Duration::from_secs(if quick { 3 } else { 10 });
    let runtime = tokio::runtime::Runtime::new().expect("threads can be made");
    let limit = loopback::round_trips(3_000);
    println!("{NODES} nodes register");
    let mut cluster = runtime.block_on(Cluster::start());
    let idle = runtime.block_on(heartbeat_load(&cluster, period));
    let ways = [
        (Way::Scheduler(ExecutionTypeProto::Guaranteed), 1),
        (Way::Scheduler(ExecutionTypeProto::Guaranteed), 8),
        (Way::Scheduler(ExecutionTypeProto::Opportunistic), 1),
        (Way::Scheduler(ExecutionTypeProto::Opportunistic), 8),
        (Way::Node, 8),
    ];
    let rates: Vec<(Way, usize, Rate)> = ways
        .into_iter()
        .map(|(way, masters)| {
            let rate = runtime.block_on(allocation_rate(&mut cluster, way, masters, period));
            (way, masters, rate)
        })
        .collect();
    let held = runtime.block_on(cluster.fill());
    let full = runtime.block_on(heartbeat_load(&cluster, period));
    let limit = limit.or_shorter(loopback::round_trips(3_000));
    print(&limit, &rates);
    println!("\nheartbeats of {NODES} nodes, one a second each, for {period:?}:");
    for (what, load) in [
        ("idle".to_owned(), idle),
        (format!("{held} containers"), full),
    ] {
        println!(
            "  {what:<40} {:>7.3} processors, {:>6.0} heartbeats/s, p50 {:.3} ms, p99 {:.3} ms",
            load.processors,
            load.per_s,
            load.answers.p50(),
            load.answers.p99()
        );
    }
    println!("resident memory at the end: {:.1} MiB", cluster.memory_mb());
    ExitCode::SUCCESS
}

fn print(limit: &Samples, rates: &[(Way, usize, Rate)]) {
    println!(
        "this machine, loopback round trip: p50 {:.3} ms, p99 {:.3} ms\n",
        limit.p50(),
        limit.p99()
    );
    println!(
        "{:<34} {:>8} {:>13} {:>10} {:>10} {:>14} {:>11}",
        "allocation",
        "masters",
        "containers/s",
        "call p50",
        "call p99",
        "x round trip",
        "processors"
    );
    for (way, masters, rate) in rates {
        println!(
            "{:<34} {:>8} {:>13.0} {:>7.3} ms {:>7.3} ms {:>14.1} {:>11.2}",
            way.to_string(),
            masters,
            rate.containers_per_s,
            rate.calls.p50(),
            rate.calls.p99(),
            rate.calls.p50() / limit.p50(),
            rate.processors,
        );
    }
}
