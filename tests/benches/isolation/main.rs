//! What a guaranteed job loses to a node full of opportunistic containers, beside what it loses on Hadoop's own NodeManager with
//! its default executor, from one run.
//!
//! `cargo bench -p tests --bench isolation` prints the table. A job with a thread for each processor runs alone, then
//! beside containers that burn processor time and containers that want more memory than is left, so that the kernel keeps taking
//! theirs back, in turn, several times. One job computes, one writes to every page of the memory that it was promised. The limit is that
//! it loses nothing. Nothing here passes or fails by a time; a job that is killed ends the bench.
//!
//! Needs cgroups that this user may divide. Hadoop's NodeManager is left out with `--no-java`, and where there is no Java.
//! `--quick` measures everything for a second.

mod measure;
mod work;

use std::process::ExitCode;

use tests::cgroups::Hierarchy;
use tests::node::NodeKind;
use tests::requirements;

use crate::measure::{Effort, Figures, Kept};
use crate::work::Work;

/// The agent, built as it is released.
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
            // Cargo says this to every bench.
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
            // Its load takes minutes to come to full strength beside itself, and its figures leave no doubt.
            let effort = Effort {
                rounds: 1,
                ..effort
            };
            Some(Figures::measure(&NodeKind::Java, effort, |_| {}))
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
