//! Growth of a history with the nodes, from 1,000 to 100,000 with 20 roles each: latency of a
//! placement, memory, time to load and to save. 50,000 nodes are a million entries.
//!
//! Units: time per ask for one more container, with its cancellation; bytes of resident memory per
//! entry; milliseconds to load and save; MiB of memory beyond the history at the peak of a save.
//! Goals: an ask within 50 µs at the 99th percentile, 64 bytes per entry plus a tenth; for a
//! million entries 20 MB beyond the history while it is saved, and 3 s to load. A walk over the
//! nodes for each ask would be a thousand times slower.
//!
//! Each row of sizes is measured in a process of its own, since memory that was freed before would
//! be used again and make the sizes look smaller.

use std::hint::black_box;
use std::io::{self, BufWriter};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group};
use records::{EpochMillis, MonoMillis, Now, Resource};
use role_history::avro::{ReadLimits, read_history, write_history};
use role_history::{Role, RoleHistory, RoleHistoryConfig, RoleId, SavedEntry, SavedHistory};

const ROLES: i32 = 20;
const SAVED: i64 = 1_452_081_600_000;
const NOW: Now = Now {
    mono: MonoMillis(0),
    wall: EpochMillis(SAVED + 60_000),
};

/// Creates a saved history in which every role ran on every node.
fn saved(nodes: i64) -> SavedHistory {
    let mut history = SavedHistory::new(EpochMillis(SAVED), ROLES, None);
    for node in 0..nodes {
        let host = format!("node-{node:06}.example.org");
        for role in 0..ROLES {
            // Spread over an hour, in another order for each role.
            let last_used = SAVED - (node * 7_919 + i64::from(role) * 104_729) % 3_600_000;
            let entry = SavedEntry {
                role,
                active: false,
                last_used: EpochMillis(last_used),
            };
            history.push(&host, entry);
        }
    }
    history
}

fn thawed(saved: &SavedHistory) -> RoleHistory {
    let roles = (0..ROLES).map(|role| {
        let id = RoleId::new(role).expect("a small number");
        Role::new(id, format!("role-{role}"), Resource::new(256, 1))
    });
    let mut history =
        RoleHistory::new(RoleHistoryConfig::default(), roles, NOW).expect("roles with names");
    history.thaw(saved);
    history
}

/// Asks for one more container of a role, and returns how long that took. The ask is withdrawn, so
/// that the next finds the same state.
fn ask(history: &mut RoleHistory, role: RoleId) -> Duration {
    let mut actions = Vec::new();
    let begin = clock();
    let asked = history.set_desired(role, 1, NOW, &mut actions);
    let took = begin.elapsed();
    asked.expect("a known role");
    assert_eq!(black_box(&actions).len(), 1);
    let withdrawn = history.set_desired(role, 0, NOW, &mut actions);
    withdrawn.expect("a known role");
    took
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; the crate that it measures does not"
)]
fn clock() -> Instant {
    Instant::now()
}

fn placement(c: &mut Criterion) {
    let mut group = c.benchmark_group("ask and withdraw");
    for nodes in [1_000, 10_000, 100_000] {
        let mut history = thawed(&saved(nodes));
        let mut roles = (0..ROLES).filter_map(RoleId::new).cycle();
        let mut times: Vec<_> = (&mut roles)
            .take(100_000)
            .map(|role| ask(&mut history, role))
            .collect();
        times.sort_unstable();
        println!(
            "{nodes} nodes: ask p50 {:?}, p99 {:?}, p99.9 {:?}",
            times[50_000], times[99_000], times[99_900]
        );
        group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
            b.iter(|| ask(&mut history, roles.next().expect("an endless cycle")));
        });
    }
    group.finish();
}

/// Returns a line of this process's status, in KiB.
fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let digits = line.and_then(|line| line.split_whitespace().nth(1));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the MiB by which the peak of the resident memory exceeds the memory before an operation,
/// and the time that the operation takes.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures its process; the crate that it measures has no files"
)]
fn peak_mib<T>(operation: impl FnOnce() -> T) -> (f64, Duration, T) {
    // Sets the peak to the present (proc_pid_clear_refs(5)).
    std::fs::write("/proc/self/clear_refs", "5").expect("the kernel knows the peak");
    let before = status_kib("VmRSS");
    let begin = clock();
    let result = operation();
    let took = begin.elapsed();
    let beyond = status_kib("VmHWM").saturating_sub(before);
    (beyond as f64 / 1_024.0, took, result)
}

/// Prints sizes and times for this many nodes, each of one run: too slow to repeat.
fn print_sizes(nodes: i64) {
    let values = saved(nodes);
    let before = status_kib("VmRSS");
    let history = thawed(&values);
    let resident = status_kib("VmRSS") - before;
    let entries = history.nodes().entries();
    let bytes = (resident * 1_024) as f64 / entries as f64;
    drop(values);

    let (beyond, saving, ()) = peak_mib(|| {
        let snapshot = history.snapshot(NOW);
        let written = write_history(&snapshot.history, BufWriter::new(io::sink()));
        written.expect("a sink takes everything");
    });
    let mut file = Vec::new();
    write_history(&history.snapshot(NOW).history, &mut file).expect("memory takes everything");
    drop(history);

    let begin = clock();
    let read = read_history(file.as_slice(), ReadLimits::default()).expect("just written");
    let loaded = thawed(&read.history);
    let loading = begin.elapsed();
    println!(
        "{nodes} nodes, {entries} entries: {bytes:.1} bytes each; saved in {} ms with {beyond:.1} MiB beyond, {} MB; loaded in {} ms",
        saving.as_millis(),
        file.len() / 1_000_000,
        loading.as_millis(),
    );
    black_box(loaded);
}

/// Variable with the number of nodes of a process that prints a row of sizes.
const NODES_VARIABLE: &str = "ROLE_HISTORY_BENCH_NODES";

/// Prints the rows of sizes.
fn sizes(_: &mut Criterion) {
    let program = std::env::current_exe().expect("this program has a path");
    for nodes in [1_000, 10_000, 50_000, 100_000] {
        let mut row = std::process::Command::new(&program);
        let status = row.env(NODES_VARIABLE, nodes.to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "{nodes} nodes");
    }
}

criterion_group!(benches, placement, sizes);

fn main() {
    if let Ok(nodes) = std::env::var(NODES_VARIABLE) {
        return print_sizes(nodes.parse().expect("a number of nodes"));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
