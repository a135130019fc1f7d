//! Cost of a node's AMRMProxy, compared with this machine's limits and with Hadoop's own, from one
//! run.
//!
//! `cargo bench -p tests --bench proxy` prints the figures, with 500 masters connected. A node runs
//! as a process of its own, with distributed scheduling on. The masters and a ResourceManager that
//! answers at once are in this process and share the machine with it. The ResourceManager's own
//! time without a proxy is measured too: for a call of a master, and for the same message, to the
//! byte, in which the node reported a hundred containers. The difference is what the proxy adds.
//! The machine's limit is the round trip of a byte to an echo on the loopback address; a proxied
//! call makes two.
//!
//! Nothing passes or fails: the figures are for reading. Goals are 0.2 ms (median) and 1 ms (99th
//! percentile) above the ResourceManager's own time for a call without asks, 2 ms for a hundred
//! containers allocated in one call, 20,000 calls per second on two processors with 500 masters,
//! and less than 20 KiB for a pipeline.
//!
//! `--no-java` leaves Hadoop's NodeManager out, as does a missing Java. It starts containers
//! slowly, so it gets 200 masters. `--quick` takes few samples, with 100 masters, and 20 for
//! Hadoop's.

mod masters;
mod measure;
mod table;

use std::process::ExitCode;

use tests::loopback;
use tests::node::NodeKind;
use tests::requirements;

use crate::measure::{Effort, measure};

fn main() -> ExitCode {
    let (mut quick, mut java) = (false, requirements::hadoop().is_ok());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => quick = true,
            "--no-java" => java = false,
            // Cargo passes this to every bench.
            "--bench" => {}
            other => {
                eprintln!("unknown argument {other}; known are --quick and --no-java");
                return ExitCode::from(2);
            }
        }
    }
    println!("load average before: {}", load_average());
    let limit = loopback::round_trips(3_000);
    println!("measuring the agent");
    let agent = NodeKind::Agent(env!("CARGO_BIN_EXE_agent-under-test").into());
    let ours = measure(&agent, &Effort::agent(quick));
    let hadoops = java.then(|| {
        println!("measuring Hadoop's NodeManager");
        measure(&NodeKind::MeasuredJava, &Effort::java(quick))
    });
    let limit = limit.or_shorter(loopback::round_trips(3_000));
    table::print(&limit, &ours, hadoops.as_ref());
    ExitCode::SUCCESS
}

/// Warns of other work on the machine, which makes every figure worse.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |error| error.to_string(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
