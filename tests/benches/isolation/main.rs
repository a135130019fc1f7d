//! Loss of a guaranteed job beside a node full of opportunistic containers, compared with Hadoop's
//! own NodeManager and its default executor, from one run.
//!
//! `cargo bench -p tests --bench isolation` prints the table. A job with a thread for each
//! processor runs alone, then beside containers that burn CPU time and containers that want more
//! memory than is left, so that the kernel keeps reclaiming it, in turn, several times. One job
//! computes, one writes to every page of its guaranteed memory. At best it loses nothing. No time
//! passes or fails the bench; a job that is killed ends it.
//!
//! Needs cgroups that this user may divide. `--no-java` leaves Hadoop's NodeManager out, as does a
//! missing Java. `--quick` measures everything for a second.

mod measure;
mod work;

use std::process::ExitCode;

use tests::cgroups::Hierarchy;
use tests::node::NodeKind;
use tests::requirements;

use crate::measure::{Effort, Figures, Kept};
use crate::work::Work;

/// Path of the agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("work", rest)) = arguments
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        let Some((work, file)) = Work::parse(rest) else {
            eprintln!("not a work: {rest:?}");
            return ExitCode::from(2);
        };
        work.run(file);
        return ExitCode::SUCCESS;
    }
    let mut java = true;
    let mut effort = Effort {
        seconds: 10,
        rounds: 3,
    };
    for argument in &arguments {
        match argument.as_str() {
            "--no-java" => java = false,
            "--quick" => {
                effort = Effort {
                    seconds: 1,
                    rounds: 1,
                }
            }
            // Cargo passes this to every bench.
            "--bench" => {}
            other => {
                eprintln!("unknown argument {other}; known are --no-java and --quick");
                return ExitCode::from(2);
            }
        }
    }
    // Dropped after the node.
    let hierarchy = match Hierarchy::new() {
        Ok(hierarchy) => hierarchy,
        Err(why) => {
            println!("without cgroups there is no isolation to measure: {why}");
            return ExitCode::SUCCESS;
        }
    };
    println!("measuring the agent");
    let kind = NodeKind::Agent(AGENT.into());
    let agent = Figures::measure(&kind, effort, |site| hierarchy.configure(site));
    let java = match requirements::hadoop() {
        Ok(()) if java => {
            println!("measuring Hadoop's NodeManager");
            // The load takes minutes to reach full strength beside itself, and its figures leave no
            // doubt.
            let effort = Effort {
                rounds: 1,
                ..effort
            };
            Some(Figures::measure(&NodeKind::MeasuredJava, effort, |_| {}))
        }
        Ok(()) => None,
        Err(why) => {
            println!("without Hadoop's NodeManager: {why}");
            None
        }
    };
    print(&agent, java.as_ref());
    ExitCode::SUCCESS
}

fn print(agent: &Figures, java: Option<&Figures>) {
    println!(
        "\nbeside {} opportunistic containers, per second, alone and beside them; limit: 100 % kept",
        agent.load
    );
    println!(
        "{:<44} {:>12} {:>12} {:>8} {:>10} {:>12}",
        "", "alone", "beside", "kept", "resident", "major faults"
    );
    row("nm-agent: arithmetic, million steps", agent.compute);
    row("nm-agent: pages of its memory written", agent.fill);
    if let Some(java) = java {
        row("Java NM: arithmetic, million steps", java.compute);
        row("Java NM: pages of its memory written", java.fill);
    }
}

fn row(what: &str, kept: Kept) {
    println!(
        "{what:<44} {:>12.0} {:>12.0} {:>6.1} % {:>8.1} % {:>12}",
        kept.alone,
        kept.loaded,
        kept.percent(),
        kept.resident_percent,
        kept.major_faults
    );
}
