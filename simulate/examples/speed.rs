//! Cost of a simulation: 10,000 nodes of 8 places and 1,000,000 containers under one arm, or 1,000
//! nodes and 100,000 containers at level *agents*, as CPU time and peak memory.
//!
//! ```text
//! cargo run --release -p simulate --example speed -- look
//! cargo run --release -p simulate --example speed -- spread 1000
//! cargo run --release -p simulate --example speed -- spread 1000 1000 agents
//! ```
//!
//! Takes a policy, the nodes on the list that it reads, the number of jobs of 100 tasks, and the
//! level.

#![expect(
    clippy::disallowed_methods,
    reason = "a program: it reads a file of the kernel and measures its cost"
)]

use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use simulate::runner::run;
use simulate::scenario::Scenario;

fn main() {
    let mut words = std::env::args().skip(1);
    let policy = words.next().unwrap_or_else(|| "look".to_owned());
    let list = words.next().unwrap_or_else(|| "10".to_owned());
    let jobs = words.next().unwrap_or_else(|| "10000".to_owned());
    let level = words.next().unwrap_or_else(|| "decisions".to_owned());
    let cluster = match level.as_str() {
        "agents" => {
            "cluster = { nodes = 1000, places = 8, resource-manager = \"embedded\" }\n\
             masters = { container = true, share-percent = 100 }"
        }
        _ => "cluster = { nodes = 10000, places = 8 }",
    };
    let text = format!(
        "title = \"speed\"\n\
         {cluster}\n\
         workload = {{ jobs = \"two\", count = {jobs}, load = 0.8 }}\n\
         run = {{ seeds = 1, level = \"{level}\" }}\n\
         arm = [{{ policy = \"{policy}\", nodes-used = {list} }}]\n"
    );
    let scenario = match Scenario::read(&text) {
        Ok(scenario) => scenario,
        Err(error) => return eprintln!("speed: {error}"),
    };
    let begin = Instant::now();
    let results = run(&scenario, 1, &AtomicBool::new(false), &mut |_| ());
    let wall_s = begin.elapsed().as_secs_f64();
    let Some(figures) = results.runs.iter().flatten().flatten().next() else {
        return eprintln!("speed: no run");
    };
    println!(
        "{policy}, list of {list}, level {level}: {} containers in {} s of virtual time: {:.1} s of CPU, {wall_s:.1} s, \
         peak {} MiB; p50 {:.2} s, use {:.3}",
        scenario.workload.containers_about(),
        figures.ended_ms / 1_000,
        cpu_s(),
        peak_mib(),
        figures.value("jct_p50_s"),
        figures.value("used"),
    );
}

/// Returns the CPU time of the process in seconds (`proc_pid_stat(5)`, in hundredths).
fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.map(|field| field.parse::<f64>().unwrap_or(0.0));
    ticks.sum::<f64>() / 100.0
}

/// Returns the peak of the resident memory (`VmHWM`).
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1_024
}
