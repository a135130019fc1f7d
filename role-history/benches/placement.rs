//! Latency of a placement and size of a history, on 1,000 to 100,000 nodes with 20 roles.
//!
//! Units: time per ask for one more container, with its cancellation; bytes of resident memory per
//! entry; milliseconds to save and load a million entries. Goals: an ask within 50 µs at the 99th
//! percentile, 64 bytes per entry plus a tenth, 20 MB beyond the history while it is saved, 3 s to
//! load. A walk over the nodes for each ask would be a thousand times slower.

use std::hint::black_box;
use std::io::{self, BufWriter};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
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

/// Prints sizes and times of a million entries, each of one run: too slow to repeat.
fn million(_: &mut Criterion) {
    let values = saved(50_000);
    let before = status_kib("VmRSS");
    let begin = clock();
    let history = thawed(&values);
    let thaw = begin.elapsed();
    let resident = status_kib("VmRSS");
    let entries = u64::try_from(history.nodes().entries()).expect("a million");
    let bytes = (resident - before) * 1_024;
    println!(
        "{entries} entries: {:.1} bytes each, thawed in {thaw:?}",
        bytes as f64 / entries as f64
    );
    drop(values);

    let before = status_kib("VmRSS");
    let begin = clock();
    let snapshot = history.snapshot(NOW);
    let copy = begin.elapsed();
    let written = write_history(&snapshot.history, BufWriter::new(io::sink()));
    written.expect("a sink takes everything");
    println!(
        "copied in {copy:?}, written in {:?}, {} KiB beyond the history",
        begin.elapsed() - copy,
        status_kib("VmRSS").saturating_sub(before)
    );
    let mut bytes = Vec::new();
    write_history(&snapshot.history, &mut bytes).expect("memory takes everything");
    drop((history, snapshot));

    let begin = clock();
    let read = read_history(bytes.as_slice(), ReadLimits::default()).expect("just written");
    let reading = begin.elapsed();
    let history = thawed(&read.history);
    println!(
        "{} MB read in {reading:?}, read and thawed in {:?}",
        bytes.len() / 1_000_000,
        begin.elapsed()
    );
    black_box(history);
}

// Sizes first: later, freed memory would be used again and the sizes look smaller.
criterion_group!(benches, million, placement);
criterion_main!(benches);
