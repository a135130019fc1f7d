//! Cost of a node's AMRMProxy, compared with this machine's limits and with Hadoop's own, from one
//! run.
//!
//! `cargo bench -p tests --bench proxy` prints the figures, with 500 masters connected to either
//! node. A node runs as a process of its own, with distributed scheduling on, and ours with its
//! throttle. The masters and a ResourceManager that answers at once are in this process and share
//! the machine with it. Each call that is measured is made twice, through the proxy and on a second
//! connection to the ResourceManager itself; a hundred containers there are the same message, to
//! the byte, in which the node reported them. The difference within a pair is what the proxy adds.
//! The machine's limit is the round trip of a byte to an echo on the loopback address; a proxied
//! call makes two.
//!
//! Nothing passes or fails: the figures are for reading. Goals are 0.2 ms (median) and 1 ms (99th
//! percentile) above the ResourceManager's own time for a call without asks, 2 ms for a hundred
//! containers allocated in one call, 20,000 calls per second on two processors with 500 masters,
//! less than 20 KiB for a pipeline, and 2 % of a processor for 200 reservations a second.
//!
//! The arguments are those of every benchmark ([`tests::bench`]).

mod masters;
mod measure;
mod reserved;
mod scraped;
mod table;

use std::process::ExitCode;

use tests::node::NodeKind;
use tests::{bench, loopback};

use crate::measure::{Effort, measure};
use crate::table::Measured;

/// Round trips of a byte, before and after.
const ROUND_TRIPS: usize = 3_000;

fn main() -> ExitCode {
    let arguments = match bench::start(&[]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let effort = Effort::new(arguments.quick);
    let limit = loopback::round_trips(ROUND_TRIPS);
    println!("measuring the agent");
    let agent = NodeKind::Agent(env!("CARGO_BIN_EXE_agent-under-test").into());
    let ours = measure(&agent, &effort);
    let hadoops = arguments.java.then(|| {
        println!("measuring Hadoop's NodeManager");
        measure(&NodeKind::MeasuredJava, &effort)
    });
    let measured = Measured {
        round_trip: limit.or_shorter(loopback::round_trips(ROUND_TRIPS)),
        ours,
        hadoops,
    };
    print!("{}", measured.render());
    ExitCode::SUCCESS
}
