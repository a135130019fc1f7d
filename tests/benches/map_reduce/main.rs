//! MapReduce on one node: a sort of a gigabyte, and the localization of a job whose files the node
//! has.
//!
//! `cargo bench -p tests --bench map_reduce` prints the table. Hadoop's `terasort` runs on either
//! node in turn, under the same ResourceManager, with the same settings, input and disks; the input
//! is generated once. Its time is that of the client, from its start to its end. CPU time and
//! memory are those of the node's own process, without the containers'. Nothing passes or fails:
//! the figures are for reading. Goals are 0.9 of the time on Hadoop's NodeManager, a third of its
//! CPU time, 60 MiB at the peak, and a millisecond for the localization of a container.
//!
//! `--quick` sorts 20 MB once. A gigabyte takes six where the files are. `--no-sort` measures
//! localization alone.

mod cached;
mod terasort;

use std::process::ExitCode;

use tests::bench::{self, Row, Table, Unit};
use tests::node::NodeKind;
use tests::requirements;

use crate::terasort::Effort;

/// Path of the agent, built as it is released.
const AGENT: &str = env!("CARGO_BIN_EXE_agent-under-test");

fn main() -> ExitCode {
    let arguments = match bench::start(&["--no-sort"]) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let mut table = Table::default();
    if !arguments.has("--no-sort") {
        match requirements::hadoop() {
            Ok(()) => sort(&mut table, arguments.quick, arguments.java),
            Err(why) => println!("no sort without Hadoop's jobs: {why}"),
        }
    }
    cached::measure(&mut table, arguments.quick, arguments.java);
    print!("\n{}", table.render());
    ExitCode::SUCCESS
}

fn sort(table: &mut Table, quick: bool, java: bool) {
    let kinds = [NodeKind::Agent(AGENT.into()), NodeKind::MeasuredJava];
    let kinds = &kinds[..if java { 2 } else { 1 }];
    let effort = Effort::new(quick);
    let mut sorts = terasort::measure(kinds, &effort).into_iter();
    let ours = sorts.next().expect("the agent is measured");
    let java = sorts.next();
    let what = format!("terasort of {} MB on one node", effort.megabytes());
    table.push(
        Row::new(what.clone(), Unit::Seconds, &ours.seconds)
            .java(java.as_ref().map(|java| &java.seconds)),
    );
    let processor = java.as_ref().map(|java| java.processor_s);
    let name = format!("{what}: CPU time of the node");
    table.push(Row::new(name, Unit::Seconds, ours.processor_s).java(processor));
    let peak = java.as_ref().map(|java| java.peak_mib);
    let name = format!("{what}: peak resident memory of the node");
    table.push(Row::new(name, Unit::Mib, ours.peak_mib).java(peak));
}
