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
//! Then Hadoop's DistributedShell runs 300 containers of each type on the same nodes, with `look`.
//! Its master fails with the first container that a node turns away. At last a node is looked at
//! 100 times a second.
//!
//! Nothing passes or fails: the figures are for reading. Goals are refusals and sheds of at most
//! 0.01 per container under `look`, and a makespan within 10 % of the foretold one. `--quick` has a
//! quarter of the nodes and of the tasks, `--shell` DistributedShell only. Ten of the nodes are
//! Hadoop's NodeManagers in half of the runs, unless `--no-java` leaves them out. All nodes share
//! one machine, so that it must be idle: launches wait for each other where its processors do not
//! suffice.

mod cluster;
mod foretold;
mod looked_at;

use std::process::ExitCode;
use std::time::Duration;

use tests::bench;
use tests::distributed_shell::ContainerType;

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

/// Seconds of a container of DistributedShell.
const TASK_S: u32 = 4;

/// Argument that leaves everything before DistributedShell out.
const SHELL_ONLY: &str = "--shell";

/// Time for which a node is looked at.
const LOOKED_AT_FOR: Duration = Duration::from_secs(20);

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
    let arguments = match bench::start(&[SHELL_ONLY]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let nodes = if arguments.quick { 10 } else { 40 };
    let tasks = if arguments.quick { 50 } else { 200 };
    let java: &[u32] = match (arguments.has(SHELL_ONLY), arguments.java) {
        (true, _) => &[],
        (false, true) => &[0, nodes / 4],
        (false, false) => &[0],
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
    shell(nodes, if arguments.quick { 75 } else { 300 });
    ExitCode::SUCCESS
}

/// Runs Hadoop's DistributedShell with both types of containers, and looks at a node.
fn shell(nodes: u32, containers: u32) {
    let mut cluster = Cluster::start(&Setting {
        placement: "look",
        listed: 10,
        nodes,
        java: 0,
    });
    // The first runs warm the nodes up.
    let types = [ContainerType::Guaranteed, ContainerType::Opportunistic];
    for container_type in types {
        let _warm = cluster.distributed_shell(container_type, containers / 4, TASK_S);
    }
    println!("\nDistributedShell, {containers} containers of {TASK_S} s, look, list of 10:");
    for container_type in types.into_iter().cycle().take(6) {
        let (took_s, turned_away) = cluster.distributed_shell(container_type, containers, TASK_S);
        println!("  {container_type:?}: {took_s:.1} s, {turned_away:.0} refused or shed");
    }
    let waits = cluster.look_waits();
    let below: Vec<String> = waits
        .iter()
        .map(|(bound, calls)| format!("{calls:.0} up to {bound} s"))
        .collect();
    println!("  calls that waited for looks: {}", below.join(", "));
    let [idle, looked_at] = looked_at::cost(cluster.worker(), LOOKED_AT_FOR);
    println!(
        "  an idle node takes {idle:.2} % of a processor, {looked_at:.2} % with 100 looks a second"
    );
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
