//! What a node's AMRMProxy costs, beside what this machine can do at best and beside Hadoop's own, from one run.
//!
//! `cargo bench -p tests --bench proxy` prints the figures. A node runs as a process of its own, with distributed scheduling on.
//! The masters and a ResourceManager that answers at once are in this process and share the machine with it; what the
//! ResourceManager's own answer takes, without a proxy, is measured beside. The machine's limit is a byte's way to an echo on
//! the loopback address and back; a proxied call makes two such ways. Nothing here passes or fails: the figures are
//! for reading. Wanted are 0.2 ms (median) and 1 ms (99 of 100) above the ResourceManager's own time for a call without asks,
//! 2 ms for a hundred containers given out in one call, 20,000 calls a second on two processors with 500 masters, and
//! less than 20 KiB for a pipeline.
//!
//! Hadoop's NodeManager is left out with `--no-java`, and where there is no Java. `--quick` measures everything with a few
//! samples.

mod measure;

use std::process::ExitCode;

use tests::loopback;
use tests::node::NodeKind;
use tests::requirements;
use tests::samples::Samples;

use crate::measure::{Effort, Figures, measure};

fn main() -> ExitCode {
    let (mut quick, mut java) = (false, requirements::hadoop().is_ok());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => quick = true,
            "--no-java" => java = false,
            // Cargo says this to every bench.
            "--bench" => {}
            other => {
                eprintln!("unknown argument {other}; known are --quick and --no-java");
                return ExitCode::from(2);
            }
        }
    }
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    println!("load average before: {}", load_average());
    let limit = loopback::round_trips(3_000);
    let agent = NodeKind::Agent(env!("CARGO_BIN_EXE_agent-under-test").into());
    let ours = measure(&agent, &effort);
    let hadoops = java.then(|| measure(&NodeKind::Java, &effort));
    let limit = limit.or_shorter(loopback::round_trips(3_000));
    print(&effort, &limit, &ours, hadoops.as_ref());
    ExitCode::SUCCESS
}

/// One line: ours, Hadoop's, and how many times worse that is.
fn line(what: &str, unit: &str, ours: f64, hadoops: Option<f64>, is_rate: bool) {
    let (theirs, ratio) = hadoops.map_or(("-".to_owned(), "-".to_owned()), |hadoops| {
        let ratio = if is_rate {
            ours / hadoops
        } else {
            hadoops / ours
        };
        (format!("{hadoops:.3}"), format!("{ratio:.1}"))
    });
    println!("{what:<58} {ours:>12.3} {theirs:>12} {unit:<6} {ratio:>10}");
}

fn print(effort: &Effort, limit: &Samples, ours: &Figures, hadoops: Option<&Figures>) {
    println!(
        "this machine, loopback round trip: p50 {:.3} ms, p99 {:.3} ms",
        limit.p50(),
        limit.p99()
    );
    println!(
        "{} masters, {} samples of a call without asks, {} of one with 100\n",
        effort.masters,
        ours.empty.count(),
        ours.hundred.count()
    );
    println!(
        "{:<58} {:>12} {:>12} {:<6} {:>10}",
        "", "agent", "Java NM", "", "Java/ours"
    );
    for (what, figure) in TIMES {
        line(what, "ms", figure(ours), hadoops.map(figure), false);
    }
    let rate = |f: &Figures| f.calls_per_s;
    line(
        "calls of all masters at once, machine shared",
        "/s",
        rate(ours),
        hadoops.map(rate),
        true,
    );
    let processors = |f: &Figures| f.processors;
    let theirs = hadoops.map(processors);
    line(
        "  processors that the node used",
        "",
        processors(ours),
        theirs,
        false,
    );
    let on_two = |f: &Figures| 2.0 * f.calls_per_s / f.processors;
    let what = "  calls that two processors of the node's own would carry";
    line(what, "/s", on_two(ours), hadoops.map(on_two), true);
    if let Some((idle, registered)) = ours.pipeline_kib {
        line(
            "memory of a pipeline before its master speaks",
            "KiB",
            idle,
            None,
            false,
        );
        let what = "memory of a registered master, its connections included";
        line(what, "KiB", registered, None, false);
    }
}

/// What a line shows of a node.
type Figure = fn(&Figures) -> f64;

const TIMES: [(&str, Figure); 9] = [
    ("allocate without asks, without a proxy, p50", |f| {
        f.direct.p50()
    }),
    ("allocate without asks, without a proxy, p99", |f| {
        f.direct.p99()
    }),
    ("allocate without asks through the proxy, p50", |f| {
        f.empty.p50()
    }),
    ("allocate without asks through the proxy, p99", |f| {
        f.empty.p99()
    }),
    ("  above the ResourceManager's own, p50", |f| {
        f.empty.p50() - f.direct.p50()
    }),
    ("  above the ResourceManager's own, p99", |f| {
        f.empty.p99() - f.direct.p99()
    }),
    ("100 opportunistic containers in one call, p50", |f| {
        f.hundred.p50()
    }),
    ("100 opportunistic containers in one call, p99", |f| {
        f.hundred.p99()
    }),
    ("  above the ResourceManager's own, p50", |f| {
        f.hundred.p50() - f.hundred_direct.p50()
    }),
];

/// Other work on the machine makes every figure worse.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg").map_or_else(
        |error| error.to_string(),
        |text| text.split(' ').take(3).collect::<Vec<_>>().join(" "),
    )
}
