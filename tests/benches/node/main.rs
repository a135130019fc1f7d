//! Cost of a node, compared with this machine's limits and with Hadoop's own NodeManager, from one
//! run.
//!
//! `cargo bench -p tests --bench node` prints the tables. Both nodes run as processes of their own,
//! one after the other, under the same load of the same ResourceManager and ApplicationMaster,
//! which share the machine with them. The machine's limits are measured before and after the agent,
//! and the better counts. Nothing passes or fails: the ratios are for reading.
//!
//! Hadoop's NodeManager runs with the JVM's own compilers and collector and `-Xmx512m`, is warmed
//! up, and has as many samples. `--classes` measures only the cost of cgroups and the start of
//! guaranteed containers on a full node, `--lives` only the CPU time of the agent for a container's
//! life, `--recovery` only what recovery costs and how long a killed agent is away; the other
//! arguments are those of every benchmark ([`tests::bench`]).

mod classes;
mod floor;
mod limits;
mod load;
mod measure;
mod recovery;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use tests::bench;
use tests::node::NodeKind;

use crate::classes::{Confined, GuaranteedStarts};
use crate::limits::Limits;
use crate::measure::{Effort, Figures};

/// Path of the agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

fn main() -> ExitCode {
    let arguments = match bench::start(&["--classes", "--lives", "--recovery"]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    if arguments.has("--lives") {
        measure_lives(arguments.quick);
        return ExitCode::SUCCESS;
    }
    if arguments.has("--recovery") {
        recovery::print(AGENT.as_ref(), arguments.quick);
        return ExitCode::SUCCESS;
    }
    if !arguments.has("--classes") {
        measure_nodes(arguments.quick, arguments.java);
    }
    measure_classes(arguments.quick, arguments.java);
    ExitCode::SUCCESS
}

fn agent() -> NodeKind {
    NodeKind::Agent(AGENT.into())
}

fn measure_nodes(quick: bool, with_java: bool) {
    println!("measuring the machine");
    let environment = measure::environment(&agent());
    let limits = Limits::measure(&environment, quick);
    println!("measuring the agent");
    let figures = Figures::measure(&agent(), &Effort::new(quick));
    println!("measuring the machine again");
    let limits = limits.or_better(Limits::measure(&environment, quick));
    let java = with_java.then(|| {
        println!("measuring Hadoop's NodeManager");
        Figures::measure(&NodeKind::MeasuredJava, &Effort::new(quick))
    });
    let text = table::render(&limits, &figures, java.as_ref());
    print!("\n{}\n{text}", table::render_machine(&limits));
}

/// Measures the agent and the machine's limit in turns, so that other work meets both.
fn measure_lives(quick: bool) {
    let environment = measure::environment(&agent());
    measure::rounds_of_lives(&agent(), &Effort::new(quick), |lives| {
        let limit_ms = floor::processor_ms(&environment, Duration::from_secs(3));
        println!(
            "{:.0} lives/s; CPU time for each {:.3} ms; files, process and removal alone {limit_ms:.3} ms; ratio {:.2}",
            lives.per_s,
            lives.processor_ms,
            lives.processor_ms / limit_ms,
        );
    });
}

fn measure_classes(quick: bool, with_java: bool) {
    println!("\nmeasuring the agent with opportunistic containers");
    let effort = classes::Effort::new(quick);
    let confined = Confined::measure(&agent(), &effort);
    let starts = GuaranteedStarts::measure(&agent(), &effort);
    let java = with_java.then(|| {
        println!("measuring Hadoop's NodeManager with opportunistic containers");
        GuaranteedStarts::measure(&NodeKind::MeasuredJava, &effort)
    });
    let text = table::render_classes(confined.as_ref(), &starts, java.as_ref());
    print!("\n{text}");
}
