//! The figures as a table of text.

use std::fmt::Write as _;

use tests::samples::Samples;

use crate::classes::{Confined, GuaranteedStarts};
use crate::limits::Limits;
use crate::measure::Figures;

/// A line with a figure of the machine, of the agent, of Hadoop's NodeManager.
struct Row {
    what: &'static str,
    limit: Option<f64>,
    agent: f64,
    java: Option<f64>,
    unit: &'static str,
    /// Whether higher values are better.
    rate: bool,
}

/// Returns the table, with its columns explained above it.
pub(crate) fn render(limits: &Limits, agent: &Figures, java: Option<&Figures>) -> String {
    let mut text = String::new();
    let true_life = limits.true_life.p50();
    let round_trip = limits.round_trip.p50();
    line(
        &mut text,
        format_args!(
            "this machine, p50: fork+exec of /bin/true to its end {true_life:.2} ms, of `bash -c :` {:.2} ms; loopback round \
             trip {:.3} ms",
            limits.bash_life.p50(),
            round_trip
        ),
    );
    line(&mut text, format_args!("samples: {}", counts(agent, java)));
    line(
        &mut text,
        format_args!(
            "limit: exec and three round trips; bash that executes bash; pairs of those on all processors; SIGTERM to `sleep`\n"
        ),
    );
    line(
        &mut text,
        format_args!(
            "{:<52} {:>11} {:>11} {:>8} {:>11} {:>8}",
            "", "limit", "agent", "x limit", "Java NM", "Java/ours"
        ),
    );
    for row in rows(limits, agent, java) {
        row.write(&mut text);
    }
    text
}

/// Returns the table of the cost of cgroups and of guaranteed starts on a full node.
pub(crate) fn render_classes(
    confined: Option<&Confined>,
    starts: &GuaranteedStarts,
    java: Option<&GuaranteedStarts>,
) -> String {
    let mut text = String::new();
    if let Some(confined) = confined {
        let (plain, inside) = (&confined.plain, &confined.confined);
        line(
            &mut text,
            format_args!(
                "startContainers to first instruction without and with cgroups, p50: {:.2} ms, {:.2} ms (+{:.2} ms; goal 1)",
                plain.first_instruction.p50(),
                inside.first_instruction.p50(),
                inside.first_instruction.p50() - plain.first_instruction.p50(),
            ),
        );
        line(
            &mut text,
            format_args!(
                "whole lives of containers, 32 at once, without and with: {:.0} /s, {:.0} /s (x {:.2}; goal 300 /s)",
                plain.per_s,
                inside.per_s,
                inside.per_s / plain.per_s,
            ),
        );
    }
    line(
        &mut text,
        format_args!(
            "\nguaranteed start on a node that opportunistic containers hold, ms (a kill waits 250 ms for the deaf; max: fewer than 100 samples)\n{:<52} {:>8} \
             {:>11} {:>11}",
            "", "samples", "p50", "p99"
        ),
    );
    for (what, samples) in start_rows(confined, starts, java) {
        line(
            &mut text,
            format_args!(
                "{what:<52} {:>8} {:>11.1} {:>11.1}{}",
                samples.count(),
                samples.p50(),
                samples.p99(),
                if samples.have_p99() { "" } else { " (max)" }
            ),
        );
    }
    text
}

/// Returns each kind of guaranteed start with its name.
fn start_rows<'a>(
    confined: Option<&'a Confined>,
    starts: &'a GuaranteedStarts,
    java: Option<&'a GuaranteedStarts>,
) -> impl Iterator<Item = (&'static str, &'a Samples)> {
    confined
        .into_iter()
        .flat_map(|confined| {
            [
                (
                    "nm-agent freezes one that sleeps (p99 goal 50)",
                    &confined.freezing,
                ),
                (
                    "nm-agent freezes one of eight that burn (goal 50)",
                    &confined.freezing_burners,
                ),
                (
                    "nm-agent kills one in a cgroup that ignores SIGTERM",
                    &confined.killing_deaf,
                ),
            ]
        })
        .chain([
            ("nm-agent kills one that sleeps", &starts.killing),
            (
                "nm-agent kills one that ignores SIGTERM",
                &starts.killing_deaf,
            ),
        ])
        .chain(java.into_iter().flat_map(|java| {
            [
                ("Java NM kills one that sleeps", &java.killing),
                ("Java NM kills one that ignores SIGTERM", &java.killing_deaf),
            ]
        }))
}

/// Returns a row's value for one node.
type Figure = fn(&Figures) -> f64;

fn rows(limits: &Limits, agent: &Figures, java: Option<&Figures>) -> Vec<Row> {
    let figures: Vec<(&'static str, Option<f64>, Figure, &'static str)> =
        times(limits).into_iter().chain(amounts(limits)).collect();
    figures
        .into_iter()
        .map(|(what, limit, figure, unit)| Row {
            what,
            limit,
            agent: figure(agent),
            java: java.map(figure),
            unit,
            rate: unit == "/s",
        })
        .collect()
}

fn times(limits: &Limits) -> [(&'static str, Option<f64>, Figure, &'static str); 7] {
    let registration = limits.true_life.p50() + 3.0 * limits.round_trip.p50();
    let first = &limits.first_instruction;
    let stop = Some(limits.stop.p50());
    let of = |what, limit, figure: Figure| (what, limit, figure, "ms");
    [
        of(
            "process start to registered, p50",
            Some(registration),
            |f| f.registration.p50(),
        ),
        of(
            "startContainers to first instruction, p50",
            Some(first.p50()),
            |f| f.first_instruction.p50(),
        ),
        of(
            "startContainers to first instruction, p99",
            Some(first.p99()),
            |f| f.first_instruction.p99(),
        ),
        of("  40 in one call, p50", None, |f| f.burst.p50()),
        of("  40 in one call, p99", None, |f| f.burst.p99()),
        of("orderly stop, idle, p50", stop, |f| f.stop_idle.p50()),
        of("orderly stop, 50 running and 950 queued", stop, |f| {
            f.stop_full_ms
        }),
    ]
}

fn amounts(limits: &Limits) -> [(&'static str, Option<f64>, Figure, &'static str); 4] {
    let lives = Some(limits.lives_per_s);
    let of = |what, figure: Figure| (what, None, figure, "MiB");
    [
        (
            "whole lives of containers, 32 at once",
            lives,
            |f| f.launches_per_s,
            "/s",
        ),
        of("resident memory, idle", |f| f.rss_idle_mb),
        of("resident memory, after the launches above", |f| {
            f.rss_used_mb
        }),
        of("resident memory, 50 running and 950 queued", |f| {
            f.rss_full_mb
        }),
    ]
}

impl Row {
    fn write(&self, text: &mut String) {
        let value = |value: f64| format!("{value:.1} {}", self.unit);
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        // Both give how many times worse the second is.
        let ratio = |better: f64, worse: f64| {
            if self.rate {
                better / worse
            } else {
                worse / better
            }
        };
        let over_limit = self
            .limit
            .map(|limit| format!("{:.1}", ratio(limit, self.agent)));
        let java_over_agent = self
            .java
            .map(|java| format!("{:.1}", ratio(self.agent, java)));
        line(
            text,
            format_args!(
                "{:<52} {:>11} {:>11} {:>8} {:>11} {:>8}",
                self.what,
                or_none(self.limit.map(value)),
                value(self.agent),
                or_none(over_limit),
                or_none(self.java.map(value)),
                or_none(java_over_agent),
            ),
        );
    }
}

fn counts(agent: &Figures, java: Option<&Figures>) -> String {
    let count = |figures: &Figures| {
        format!(
            "{} starts, {} launches, {} in bursts",
            figures.registration.count(),
            figures.first_instruction.count(),
            figures.burst.count()
        )
    };
    match java {
        None => count(agent),
        Some(java) => format!("agent {}; Java NM {}", count(agent), count(java)),
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}
