//! Opportunistic containers on forty nodes of Hadoop's ResourceManager, beside what
//! `nm-agent simulate` foretells of them.
//!
//! `cargo bench -p tests --bench placement` prints the figures. Three jobs of `nm-agent shell` run
//! at once; their masters share a node of their own, whose AMRMProxy places the containers on forty
//! others of four places each. The lengths of the tasks are 2, 4, 8 and 16 s by turns. The
//! simulation has the same jobs, nodes and lists, and two delays that an earlier run on the same
//! nodes has shown: the time until a master makes its first call, and the pause between two of its
//! calls.
//!
//! Nothing passes or fails: the figures are for reading. Goals are refusals and sheds of at most
//! 0.01 per container under `look`, and a makespan within 10 % of the foretold one. `--quick` has a
//! quarter of the nodes and of the tasks. Ten of the nodes are Hadoop's NodeManagers in half of the
//! runs, unless `--no-java` leaves them out. All nodes share one machine, so that it must be idle:
//! launches wait for each other where its processors do not suffice.

mod cluster;
mod foretold;

use std::process::ExitCode;

use tests::bench;

use crate::cluster::{Cluster, Setting};
use crate::foretold::{Delays, Foretold, foretell};

/// Jobs that run at once.
const JOBS: u32 = 3;

/// Lengths of the tasks of a job, by turns, in seconds.
const LENGTHS_S: [u32; 4] = [2, 4, 8, 16];

/// Containers that a node runs at once.
const PLACES: u32 = 4;

/// Runs: a choice of nodes, with the nodes on the ResourceManager's list.
const ARMS: [(&str, u32); 3] = [("look", 1), ("look", 10), ("spread", 10)];

/// Figures of the jobs of one run.
#[derive(Clone, Debug)]
struct Seen {
    /// From the start of the first job to the end of the last, in seconds.
    makespan_s: f64,
    /// Completion time of each job, in seconds.
    jobs_s: Vec<f64>,
    /// Containers that nodes refused or shed, per container.
    turned_away: f64,
}

fn main() -> ExitCode {
    let arguments = match bench::start(&[]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let nodes = if arguments.quick { 10 } else { 40 };
    let tasks = if arguments.quick { 50 } else { 200 };
    let java: &[u32] = if arguments.java {
        &[0, nodes / 4]
    } else {
        &[0]
    };
    println!(
        "{JOBS} jobs of {tasks} tasks of {LENGTHS_S:?} s on {nodes} nodes of {PLACES} places, no \
         other work"
    );
    for java in java {
        for (placement, listed) in ARMS {
            let setting = Setting {
                placement,
                listed,
                nodes,
                java: *java,
            };
            let mut cluster = Cluster::start(&setting);
            let delays = cluster.delays(tasks / 4);
            let seen = cluster.run(tasks);
            print(&setting, &seen, &foretell(&setting, tasks, delays), delays);
        }
    }
    ExitCode::SUCCESS
}

fn print(setting: &Setting, seen: &Seen, foretold: &Foretold, delays: Delays) {
    let Setting {
        placement,
        listed,
        java,
        ..
    } = setting;
    println!("\n{placement}, list of {listed}, {java} of the nodes Hadoop's:");
    println!(
        "  makespan {:.1} s, foretold {:.1} s ({:.1} to {:.1}): {:+.1} %",
        seen.makespan_s,
        foretold.makespan_s.mean,
        foretold.makespan_s.least,
        foretold.makespan_s.most,
        (seen.makespan_s / foretold.makespan_s.mean - 1.0) * 100.0
    );
    let jobs: Vec<String> = seen.jobs_s.iter().map(|job| format!("{job:.1}")).collect();
    println!(
        "  jobs {} s, foretold p50 {:.1} s; refused or shed {:.3} per container, foretold {:.3}",
        jobs.join(", "),
        foretold.p50_s.mean,
        seen.turned_away,
        foretold.turned_away.mean
    );
    println!(
        "  delays of the simulation: first call after {} ms, {} ms between calls",
        delays.start.as_millis(),
        delays.heartbeat.as_millis()
    );
}
