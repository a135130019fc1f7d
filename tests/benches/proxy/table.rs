//! The figures as a table of text.

use tests::samples::Samples;

use crate::measure::Figures;

/// Returns a row's value for one node.
type Figure = fn(&Figures) -> f64;

/// Kind of a figure, and what it is compared with.
#[derive(Clone, Copy)]
enum Kind {
    /// Milliseconds, of which the machine needs at least this many loopback round trips.
    Time { round_trips: f64 },
    /// Milliseconds of the node's CPU time.
    Processor,
    /// Number per second; higher is better.
    Rate,
    /// A number for reading.
    Plain(&'static str),
}

const CALL: Kind = Kind::Time { round_trips: 2.0 };
const HOP: Kind = Kind::Time { round_trips: 1.0 };

const LINES: [(&str, Kind, Figure); 26] = [
    (
        "ResourceManager alone, allocate without asks, p50",
        HOP,
        |f| f.direct.p50(),
    ),
    (
        "ResourceManager alone, allocate without asks, p99",
        HOP,
        |f| f.direct.p99(),
    ),
    (
        "ResourceManager alone, told of 100 containers, p50",
        HOP,
        |f| f.direct_hundred.p50(),
    ),
    ("one master: allocate without asks, p50", CALL, |f| {
        f.alone.empty.p50()
    }),
    ("one master: allocate without asks, p99", CALL, |f| {
        f.alone.empty.p99()
    }),
    ("  above the ResourceManager's own, p50", HOP, |f| {
        f.alone.empty.p50() - f.direct.p50()
    }),
    ("  above the ResourceManager's own, p99", HOP, |f| {
        f.alone.empty.p99() - f.direct.p99()
    }),
    ("  the node's processor time", Kind::Processor, |f| {
        f.alone.empty_processor_ms
    }),
    ("one master: 100 opportunistic containers, p50", CALL, |f| {
        f.alone.hundred.p50()
    }),
    ("one master: 100 opportunistic containers, p99", CALL, |f| {
        f.alone.hundred.p99()
    }),
    ("  above the ResourceManager's own, p50", HOP, |f| {
        f.alone.hundred.p50() - f.direct_hundred.p50()
    }),
    ("  the node's processor time", Kind::Processor, |f| {
        f.alone.hundred_processor_ms
    }),
    ("all connected: allocate without asks, p50", CALL, |f| {
        f.among_all.empty.p50()
    }),
    ("all connected: allocate without asks, p99", CALL, |f| {
        f.among_all.empty.p99()
    }),
    ("  above the ResourceManager's own, p50", HOP, |f| {
        f.among_all.empty.p50() - f.direct.p50()
    }),
    ("  above the ResourceManager's own, p99", HOP, |f| {
        f.among_all.empty.p99() - f.direct.p99()
    }),
    ("  the node's processor time", Kind::Processor, |f| {
        f.among_all.empty_processor_ms
    }),
    (
        "all connected: 100 opportunistic containers, p50",
        CALL,
        |f| f.among_all.hundred.p50(),
    ),
    (
        "all connected: 100 opportunistic containers, p99",
        CALL,
        |f| f.among_all.hundred.p99(),
    ),
    ("  above the ResourceManager's own, p50", HOP, |f| {
        f.among_all.hundred.p50() - f.direct_hundred.p50()
    }),
    ("  the node's processor time", Kind::Processor, |f| {
        f.among_all.hundred_processor_ms
    }),
    (
        "one after the other: allocate without asks, p50",
        CALL,
        |f| f.in_turn.p50(),
    ),
    (
        "one after the other: allocate without asks, p99",
        CALL,
        |f| f.in_turn.p99(),
    ),
    ("all at once, machine shared: calls", Kind::Rate, |f| {
        f.calls_per_s
    }),
    ("  processors that the node used", Kind::Plain(""), |f| {
        f.processors
    }),
    (
        "  calls that two processors of the node's own would carry",
        Kind::Rate,
        |f| 2.0 * f.calls_per_s / f.processors,
    ),
];

/// Writes the table to standard output.
pub(crate) fn print(limit: &Samples, ours: &Figures, hadoops: Option<&Figures>) {
    println!(
        "\nthis machine, loopback round trip: p50 {:.3} ms, p99 {:.3} ms",
        limit.p50(),
        limit.p99()
    );
    println!(
        "limit: one such way for the ResourceManager alone and for what a proxy adds, two for a proxied call"
    );
    let java = hadoops.map_or(0, |hadoops| hadoops.masters);
    println!(
        "masters connected: {} (Java NM: {java}); samples of the agent: {} of a call without asks, {} of one with 100\n",
        ours.masters,
        ours.alone.empty.count(),
        ours.alone.hundred.count()
    );
    println!(
        "{:<58} {:>9} {:>11} {:>8} {:>11} {:<3} {:>9}",
        "", "limit", "agent", "x limit", "Java NM", "", "Java/ours"
    );
    for (what, kind, figure) in LINES {
        line(what, kind, limit.p50(), figure(ours), hadoops.map(figure));
    }
    if let Some((idle, registered)) = ours.pipeline_kib {
        let memory = Kind::Plain("KiB");
        line(
            "memory of a pipeline before its master speaks",
            memory,
            0.0,
            idle,
            None,
        );
        let what = "memory of a registered master, its connections included";
        line(what, memory, 0.0, registered, None);
    }
}

/// Formats one line: the machine's limit, ours and its multiple of the limit, Hadoop's and how many
/// times worse it is than ours.
fn line(what: &str, kind: Kind, round_trip: f64, ours: f64, hadoops: Option<f64>) {
    let none = || "-".to_owned();
    let (limit, times) = match kind {
        Kind::Time { round_trips } => {
            let limit = round_trips * round_trip;
            (format!("{limit:.3}"), format!("{:.1}", ours / limit))
        }
        Kind::Processor | Kind::Rate | Kind::Plain(_) => (none(), none()),
    };
    let (unit, ratio) = match kind {
        Kind::Time { .. } | Kind::Processor => ("ms", hadoops.map(|hadoops| hadoops / ours)),
        Kind::Rate => ("/s", hadoops.map(|hadoops| ours / hadoops)),
        Kind::Plain(unit) => (unit, None),
    };
    let theirs = hadoops.map_or_else(none, |hadoops| format!("{hadoops:.3}"));
    let ratio = ratio.map_or_else(none, |ratio| format!("{ratio:.1}"));
    println!("{what:<58} {limit:>9} {ours:>11.3} {times:>8} {theirs:>11} {unit:<3} {ratio:>9}");
}
