//! Cost of a node, compared with this machine's limits and with Hadoop's own NodeManager, from one
//! run.
//!
//! `cargo bench -p tests --bench node` prints the table. Both nodes run as processes of their own,
//! one after the other, under the same load of the same ResourceManager and ApplicationMaster,
//! which share the machine with them. The machine's limits are measured before and after the agent,
//! and the better counts. Nothing passes or fails: the ratios are for reading.
//!
//! `--no-java` leaves Hadoop's NodeManager out, as does a missing Java; `--java` insists on it. It
//! runs with the JVM's own compilers and collector and `-Xmx512m`, and with as many samples.
//! `--quick` measures everything with a few samples. `--classes` measures only the cost of cgroups
//! and the start of guaranteed containers on a full node.

mod classes;
mod limits;
mod measure;
mod table;

use std::process::ExitCode;

use tests::node::NodeKind;
use tests::requirements;

use crate::classes::{Confined, GuaranteedStarts};
use crate::limits::Limits;
use crate::measure::{Effort, Figures};

/// Path of the agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// Whether Hadoop's NodeManager is measured, from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Java {
    Required,
    WhenThere,
    LeftOut,
}

fn main() -> ExitCode {
    let mut java = Java::WhenThere;
    let (mut quick, mut only_classes) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--java" => java = Java::Required,
            "--no-java" => java = Java::LeftOut,
            "--quick" => quick = true,
            "--classes" => only_classes = true,
            // Cargo passes this to every bench.
            "--bench" => {}
            other => {
                eprintln!(
                    "unknown argument {other}; known are --java, --no-java, --quick and --classes"
                );
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
    if !only_classes {
        measure_nodes(quick, with_java);
    }
    measure_classes(quick, with_java);
    ExitCode::SUCCESS
}

fn agent() -> NodeKind {
    NodeKind::Agent(AGENT.into())
}

fn measure_nodes(quick: bool, with_java: bool) {
    println!("measuring the machine");
    let limits = Limits::measure(quick);
    println!("measuring the agent");
    let figures = Figures::measure(&agent(), &Effort::new(quick));
    println!("measuring the machine again");
    let limits = limits.or_better(Limits::measure(quick));
    let java = with_java.then(|| {
        println!("measuring Hadoop's NodeManager");
        Figures::measure(&NodeKind::MeasuredJava, &Effort::new(quick))
    });
    print!("\n{}", table::render(&limits, &figures, java.as_ref()));
}

fn measure_classes(quick: bool, with_java: bool) {
    println!("\nmeasuring the agent with opportunistic containers");
    let effort = classes::Effort::new(quick);
    let confined = Confined::measure(&agent(), &effort);
    let starts = GuaranteedStarts::measure(&agent(), &effort);
    let java = with_java.then(|| {
        println!("measuring Hadoop's NodeManager with opportunistic containers");
        GuaranteedStarts::measure(&NodeKind::MeasuredJava, &classes::Effort::new(quick))
    });
    let text = table::render_classes(confined.as_ref(), &starts, java.as_ref());
    print!("\n{text}");
}

fn processors() -> String {
    std::thread::available_parallelism().map_or_else(|error| error.to_string(), |n| n.to_string())
}

/// Returns the load average: other work on the machine makes every figure worse, though not all
/// alike.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |error| error.to_string(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
