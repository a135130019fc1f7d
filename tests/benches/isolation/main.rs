//! Loss of a guaranteed job beside a node full of opportunistic containers, compared with Hadoop's
//! own NodeManager, from one run.
//!
//! `cargo bench -p tests --bench isolation` prints the table. A job with a thread for each
//! processor runs alone, then beside containers that burn CPU time and containers that want more
//! memory than is left, so that the kernel keeps reclaiming it, then alone again. A round counts if
//! the job was as fast after the load as before; the bench repeats rounds a few times until enough
//! of them count, and says so when it gives up. One job computes, one writes to every page of its
//! guaranteed memory. At best a job loses nothing. No time passes or fails the bench; a job that is
//! killed ends it.
//!
//! Hadoop's NodeManager is measured twice, with as many rounds: with the shares and limits that its
//! LinuxContainerExecutor writes to cgroups, which here the bench writes around its containers
//! ([`executor_groups`]), and with its default executor, which has no cgroups.
//!
//! Needs cgroups that this user may divide. The arguments are those of every benchmark
//! ([`tests::bench`]).

mod executor_groups;
mod measure;
mod work;

use std::process::ExitCode;

use tests::bench::{self, Row, Table, Unit};
use tests::cgroups::Hierarchy;
use tests::node::NodeKind;

use crate::executor_groups::ExecutorGroups;
use crate::measure::{Confinement, Effort, Figures, Kept};
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
    let arguments = match bench::start(&[]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    // Dropped after the node.
    let hierarchy = match Hierarchy::new() {
        Ok(hierarchy) => hierarchy,
        Err(why) => {
            println!("without cgroups there is no isolation to measure: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let effort = Effort::new(arguments.quick);
    println!("measuring the agent");
    let kind = NodeKind::Agent(AGENT.into());
    let agent = Figures::measure(&kind, effort, &Confinement::ByNode, |site| {
        hierarchy.configure(site);
    });
    print_rates("nm-agent", &agent);
    let mut table = Table::default();
    if !arguments.java {
        add(&mut table, "", &agent, None);
    } else {
        for (executor, figures) in hadoops(effort) {
            print_rates(&format!("Java NM, {executor}"), &figures);
            add(
                &mut table,
                &format!(" (Java: {executor})"),
                &agent,
                Some(&figures),
            );
        }
    }
    println!(
        "\nbeside {} opportunistic containers; alone and beside them: speed per second; idle: speed \
         alone after the load, of that before\n\n{}",
        agent.load,
        table.render()
    );
    ExitCode::SUCCESS
}

/// Measures Hadoop's NodeManager with each executor; returns the executor's name with the figures.
fn hadoops(effort: Effort) -> Vec<(&'static str, Figures)> {
    fn measure(effort: Effort, confinement: &Confinement<'_>) -> Figures {
        Figures::measure(&NodeKind::MeasuredJava, effort, confinement, |_| {})
    }
    let mut all = Vec::new();
    match ExecutorGroups::new() {
        Ok(groups) => {
            println!(
                "measuring Hadoop's NodeManager with LinuxContainerExecutor's cgroup settings"
            );
            let figures = measure(effort, &Confinement::ByBench(&groups));
            all.push(("`LinuxContainerExecutor`'s cgroups", figures));
        }
        Err(why) => println!("without LinuxContainerExecutor's cgroup settings: {why}"),
    }
    println!("measuring Hadoop's NodeManager with its default executor");
    all.push(("default executor", measure(effort, &Confinement::ByNode)));
    all
}

fn add(table: &mut Table, beside: &str, agent: &Figures, java: Option<&Figures>) {
    type Job = fn(&Figures) -> Kept;
    let jobs: [(&str, Job); 2] = [
        (
            "speed that a computing job keeps beside a full load",
            |figures| figures.compute,
        ),
        ("speed that a job using all its memory keeps", |figures| {
            figures.fill
        }),
    ];
    for (what, job) in jobs {
        let java = java.map(|java| job(java).percent());
        let row = Row::new(
            format!("{what}{beside}"),
            Unit::PercentKept,
            job(agent).percent(),
        );
        table.push(row.limit(100.0).java(java).in_readme());
    }
}

fn print_rates(node: &str, figures: &Figures) {
    let jobs = [
        ("million steps", figures.compute),
        ("pages written", figures.fill),
    ];
    for (unit, kept) in jobs {
        println!(
            "{node}, {unit}: alone {:.0}, beside the load {:.0}; resident {:.1} %, major faults {}; \
             idle {:.1} % after {} rounds{}",
            kept.alone,
            kept.loaded,
            kept.resident_percent,
            kept.major_faults,
            kept.idle_percent,
            kept.rounds,
            if kept.gave_up() {
                ": GAVE UP, the machine was busy with something else"
            } else {
                ""
            }
        );
    }
}
