//! Opportunistic containers on forty nodes of Hadoop's ResourceManager, beside what
//! `nm-agent simulate` foretells of them.
//!
//! `cargo bench -p tests --bench placement` prints the figures. The jobs are of `nm-agent shell`;
//! their masters share a node of their own, whose AMRMProxy places the containers on forty others
//! of four places each. First three equal jobs run at once, with tasks of 2, 4, 8 and 16 s by
//! turns. Then heavy jobs arrive at a load of 0.8, as in the simulation's workload of that name:
//! most are small, few are large, and the tasks of each have their own mean length. The simulation
//! has the same jobs, nodes and lists, and two delays that earlier runs on the same nodes have
//! shown: the time until a master makes its first call, and the pause between two of its calls.
//!
//! Then Hadoop's DistributedShell runs 300 containers of each type on the same nodes, with `look`.
//! Its master fails with the first container that a node turns away. At last a node is looked at
//! 100 times a second.
//!
//! Nothing passes or fails: the figures are for reading. Goals are refusals and sheds of at most
//! 0.01 per container under `look`, a makespan within 10 % of the foretold one, and job completion
//! times of the heavy jobs within 15 %. `--quick` has a quarter of the nodes and of the tasks,
//! `--heavy` the heavy jobs only, `--shell` DistributedShell only. Ten of the nodes are Hadoop's
//! NodeManagers in half of the runs, unless `--no-java` leaves them out. All nodes share one
//! machine, so that it must be idle: launches wait for each other where its processors do not
//! suffice.

mod cluster;
mod foretold;
mod looked_at;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use records::percentile;
use tests::bench;
use tests::distributed_shell::ContainerType;

use crate::cluster::{Cluster, Setting};
use crate::foretold::{Delays, Range, foretell};
use crate::workload::Workload;

/// Equal jobs, which run at once.
const JOBS: usize = 3;

/// Lengths of the tasks of a job, by turns, in seconds.
const LENGTHS_S: [u32; 4] = [2, 4, 8, 16];

/// Containers that a node runs at once.
const PLACES: u32 = 4;

/// Runs of the equal jobs: a choice of nodes, with the nodes on the ResourceManager's list.
const ARMS: [(&str, u32); 3] = [("look", 1), ("look", 10), ("spread", 10)];

/// Runs of the heavy jobs.
const HEAVY_ARMS: [(&str, u32); 2] = [("look", 10), ("reservations", 10)];

/// Seconds of a container of DistributedShell.
const TASK_S: u32 = 4;

/// Argument that leaves everything but the heavy jobs out.
const HEAVY_ONLY: &str = "--heavy";

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
    let arguments = match bench::start(&[HEAVY_ONLY, SHELL_ONLY]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let nodes = if arguments.quick { 10 } else { 40 };
    let java: &[u32] = if arguments.java {
        &[0, nodes / 4]
    } else {
        &[0]
    };
    let [heavy_only, shell_only] = [HEAVY_ONLY, SHELL_ONLY].map(|name| arguments.has(name));
    if !heavy_only && !shell_only {
        let tasks = if arguments.quick { 50 } else { 200 };
        println!(
            "\n{JOBS} jobs at once of {tasks} tasks of {LENGTHS_S:?} s on {nodes} nodes of {PLACES} \
             places, no other work"
        );
        run(&Workload::even(JOBS, tasks), &ARMS, nodes, java);
    }
    if !shell_only {
        let jobs = if arguments.quick {
            6
        } else {
            Workload::JOBS_MAX
        };
        let heavy = Workload::heavy(jobs, nodes);
        println!(
            "\n{jobs} heavy jobs of {} tasks, the largest of {}, that arrive in {:.0} s, on the same nodes",
            heavy.tasks(),
            heavy.largest(),
            heavy.last_ms() as f64 / 1_000.0
        );
        run(&heavy, &HEAVY_ARMS, nodes, java);
    }
    if !heavy_only {
        shell(nodes, if arguments.quick { 75 } else { 300 });
    }
    ExitCode::SUCCESS
}

/// Runs the jobs with each choice of nodes, and with so many nodes of Hadoop's.
fn run(workload: &Workload, arms: &[(&'static str, u32)], nodes: u32, java: &[u32]) {
    for java in java {
        for (placement, listed) in arms {
            let setting = Setting {
                placement,
                listed: *listed,
                nodes,
                java: *java,
            };
            let mut cluster = Cluster::start(&setting);
            let delays = cluster.delays(nodes as usize * 5 / 4);
            let seen = cluster.run(workload);
            print(&setting, workload, &seen, delays);
        }
    }
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

fn print(setting: &Setting, workload: &Workload, seen: &Seen, delays: Delays) {
    let Setting {
        placement,
        listed,
        java,
        ..
    } = setting;
    let foretold = foretell(setting, workload, delays);
    println!("\n{placement}, list of {listed}, {java} of the nodes Hadoop's:");
    // Then the longest job's time is the makespan.
    if workload.is_at_once() {
        compare("makespan", seen.makespan_s, foretold.longest_s);
    }
    let mut jobs_s = seen.jobs_s.clone();
    jobs_s.sort_by(f64::total_cmp);
    for (name, percent, foretold_s) in [
        ("JCT p50", 50, foretold.p50_s),
        ("JCT p95", 95, foretold.p95_s),
    ] {
        let seen_s = percentile::of_sorted(&jobs_s, percent).expect("there are jobs");
        compare(name, seen_s, foretold_s);
    }
    println!(
        "  refused or shed {:.3} per container, foretold {:.3}",
        seen.turned_away, foretold.turned_away.mean
    );
    println!(
        "  delays of the simulation: first call after {} ms, {} ms between calls",
        delays.start.as_millis(),
        delays.heartbeat.as_millis()
    );
}

fn compare(name: &str, seen_s: f64, foretold_s: Range) {
    println!(
        "  {name} {seen_s:.1} s, foretold {:.1} s ({:.1} to {:.1}): {:+.1} %",
        foretold_s.mean,
        foretold_s.least,
        foretold_s.most,
        (seen_s / foretold_s.mean - 1.0) * 100.0
    );
}
