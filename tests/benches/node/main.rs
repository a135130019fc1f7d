//! What a node costs, beside what this machine can do at best and beside Hadoop's own NodeManager, from one run.
//!
//! `cargo bench -p tests --bench node` prints the table. Both nodes run as processes of their own, one after the other, under
//! the same load of the same ResourceManager and ApplicationMaster, which share the machine with them. The machine's
//! limits are measured before and after the agent, and the better counts. Nothing here passes or fails: the ratios are for reading.
//!
//! Hadoop's NodeManager is left out with `--no-java`, and where there is no Java; `--java` insists on it. It runs with the
//! options of the harness (`-Xmx512m`, serial collector, C1 only): they favour its start and memory. `--quick` measures
//! everything with a few samples.

mod limits;
mod measure;
mod table;

use std::process::ExitCode;

use tests::node::NodeKind;
use tests::requirements;

use crate::limits::Limits;
use crate::measure::{Effort, Figures};

/// The agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// What the arguments ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Java {
    Required,
    WhenThere,
    LeftOut,
}

fn main() -> ExitCode {
    let mut java = Java::WhenThere;
    let mut quick = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--java" => java = Java::Required,
            "--no-java" => java = Java::LeftOut,
            "--quick" => quick = true,
            // Cargo says this to every bench.
            "--bench" => {}
            other => {
                eprintln!("unknown argument {other}; known are --java, --no-java and --quick");
                return ExitCode::from(2);
            }
        }
    }
    let with_java = match (java, requirements::hadoop()) {
        (Java::LeftOut, _) => false,
        (Java::Required | Java::WhenThere, Ok(())) => true,
        (Java::WhenThere, Err(why)) => {
            println!("without Hadoop's NodeManager: {why}");
            false
        }
        (Java::Required, Err(why)) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    println!("processors: {}", processors());
    println!("load average before: {}", load_average());
    println!("measuring the machine");
    let limits = Limits::measure(quick);
    println!("measuring the agent");
    let agent = Figures::measure(&NodeKind::Agent(AGENT.into()), &Effort::agent(quick));
    println!("measuring the machine again");
    let limits = limits.or_better(Limits::measure(quick));
    let java = with_java.then(|| {
        println!("measuring Hadoop's NodeManager");
        Figures::measure(&NodeKind::Java, &Effort::java(quick))
    });
    print!("\n{}", table::render(&limits, &agent, java.as_ref()));
    ExitCode::SUCCESS
}

fn processors() -> String {
    std::thread::available_parallelism().map_or_else(|error| error.to_string(), |n| n.to_string())
}

/// Other work on the machine makes every figure worse, though not all of them alike.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |error| error.to_string(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
