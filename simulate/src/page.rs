//! Results as one HTML page that needs nothing else: figures, charts, and the scenario itself.

pub(crate) mod chart;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::chart::{Bar, Chart, Line, Vertical, bars, lines};
use crate::figures::{FIGURES, column};
use crate::numbers::{float, float_of};
use crate::runner::Results;
use crate::scenario::Scenario;
use crate::summary::{ArmSummary, RunFigures, Settling};
use crate::table::headline;

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; }
pre { background: #8881; padding: 1rem; overflow-x: auto; }
.note { color: #b45309; } .small { color: GrayText; }
svg { max-width: 100%; height: auto; } svg text { fill: CanvasText; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.5rem; }
";

/// Returns the page. `source` is the text of the scenario.
#[must_use]
pub fn page(scenario: &Scenario, source: &str, results: &Results, arms: &[ArmSummary]) -> String {
    let mut headline = headline(scenario);
    let summary = headline.split_off(scenario.title.len());
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (scenario.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (scenario.title) }
                p { (summary.trim()) "." }
                @if !results.is_complete() {
                    p.note { "Partial: the simulation was interrupted, and not every run has ended." }
                }
                (figures(arms))
                (charts(arms, results))
                h2 { "What the figures mean" }
                (meanings())
                h2 { "The scenario" }
                pre { (source) }
            }
        }
    };
    markup.into_string()
}

fn figures(arms: &[ArmSummary]) -> Markup {
    html! {
        h2 { "Figures" }
        div.wide tabindex="0" role="region" aria-label="Figures of all arms" {
            table {
                thead {
                    tr {
                        th scope="col" { "arm" }
                        @for figure in FIGURES {
                            th scope="col" title=(figure.meaning) { (figure.heading) }
                        }
                    }
                }
                tbody {
                    @for arm in arms {
                        tr {
                            td {
                                (arm.label) " (" (arm.nature) ")"
                                @if arm.settling != Settling::Settles {
                                    br; span.note { (arm.settling.as_str()) }
                                }
                            }
                            @for (figure, estimate) in FIGURES.iter().zip(&arm.figures) {
                                td {
                                    (format!("{:.*}", figure.decimals, estimate.mean))
                                    @if let Some(width) = estimate.half_width {
                                        span.small { (format!(" ± {:.*}", figure.decimals, width)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        p.small { "Means over the seeds, with 95 % intervals. Times are in seconds." }
    }
}

fn first_runs<'a>(
    arms: &'a [ArmSummary],
    results: &'a Results,
) -> impl Iterator<Item = (&'a str, &'a RunFigures)> {
    let runs = results.runs.iter().map(|runs| runs.iter().flatten().next());
    let labels = arms.iter().map(|arm| arm.label.as_str());
    labels
        .zip(runs)
        .filter_map(|(label, run)| Some((label, run?)))
}

/// Figures that stand side by side as bars, with their headings.
const BARS: [(&str, &str); 5] = [
    ("jct_p50_s", "Median of the job completion times, s"),
    ("jct_p95_s", "Their 95th percentile, s"),
    ("used", "Share of the places that are used"),
    (
        "wasted",
        "Share of the places that are free while work waits",
    ),
    ("shed", "Containers shed from queues, per container"),
];

fn side_by_side(arms: &[ArmSummary]) -> Markup {
    html! {
        @for (name, heading) in BARS {
            @if let Some(column) = column(name) {
                h3 { (heading) }
                (bars(heading, &bars_of(arms, column)))
            }
        }
    }
}

fn bars_of(arms: &[ArmSummary], column: usize) -> Vec<Bar<'_>> {
    let bar = |arm: &ArmSummary| {
        let estimate = arm.figures[column];
        let (value, decimals) = (estimate.mean, FIGURES[column].decimals);
        (value, estimate.half_width, format!("{value:.decimals$}"))
    };
    let all = arms.iter().map(|arm| (arm.label.as_str(), bar(arm)));
    all.map(|(label, (value, half_width, text))| Bar {
        label,
        value,
        half_width,
        text,
    })
    .collect()
}

/// Draws a distribution of each arm, given as its hundredths in seconds.
fn distribution(
    title: &str,
    arms: &[ArmSummary],
    results: &Results,
    of: fn(&RunFigures) -> &[f64],
) -> Markup {
    let chart = Chart {
        title,
        unit: "s",
        logarithmic: true,
        vertical: Vertical::Share,
    };
    line_of_each_arm(&chart, arms, results, |run| {
        let hundredths = of(run);
        let hundred = float_of(hundredths.len().saturating_sub(1).max(1));
        let points = hundredths.iter().enumerate();
        points
            .map(|(part, seconds)| (*seconds, float_of(part) / hundred))
            .collect()
    })
}

/// Draws a quantity of each arm over time, one value for each second from a begin in seconds.
fn over_time(
    title: &str,
    vertical: Vertical,
    arms: &[ArmSummary],
    results: &Results,
    of: fn(&RunFigures) -> (f64, &[f64]),
) -> Markup {
    let chart = Chart {
        title,
        unit: "s",
        logarithmic: false,
        vertical,
    };
    line_of_each_arm(&chart, arms, results, |run| {
        let (begin, values) = of(run);
        // No more points than a picture can show.
        let step = values.len().div_ceil(400).max(1);
        let parts = values.chunks(step).enumerate();
        let point = |(number, part): (usize, &[f64])| {
            let mean = part.iter().sum::<f64>() / float_of(part.len());
            (begin + float_of(number * step), mean)
        };
        parts.map(point).collect()
    })
}

/// Draws the points of each arm's first run as a line.
fn line_of_each_arm(
    chart: &Chart<'_>,
    arms: &[ArmSummary],
    results: &Results,
    points: impl Fn(&RunFigures) -> Vec<(f64, f64)>,
) -> Markup {
    let runs = first_runs(arms, results);
    let all: Vec<Line<'_>> = runs
        .map(|(label, run)| Line {
            label,
            points: points(run),
        })
        .collect();
    lines(chart, &all)
}

fn queues_begin(run: &RunFigures) -> f64 {
    float(run.lines.queues_from_ms) / 1_000.0
}

fn charts(arms: &[ArmSummary], results: &Results) -> Markup {
    html! {
        h2 { "Arms side by side" }
        p.small { "Means over the seeds; the line at the end of a bar is the 95 % interval." }
        (side_by_side(arms))
        h2 { "How long jobs take" }
        p.small { "Share of the jobs that have ended within a time; the further left, the better. This and the following are of the first seed." }
        (distribution("Distribution of job completion times", arms, results, |run| &run.distribution))
        h2 { "How long tasks wait" }
        p.small { "At their master: from the wish for a container until one is given. A container that was refused or shed begins another wait." }
        (distribution("Distribution of waits at the master", arms, results, |run| &run.am_waits))
        p.small { "On a node: from the container's arrival until its launch, or until it was shed." }
        (distribution("Distribution of waits on nodes", arms, results, |run| &run.node_waits))
        h2 { "How much of the cluster is used" }
        p.small { "Share of the places in which a process runs." }
        (over_time("Use of the places over time", Vertical::Share, arms, results,
            |run| (0.0, &run.lines.used)))
        h2 { "How long the queues are" }
        p.small { "Mean over all nodes, while it is measured." }
        (over_time("Mean length of the queues over time", Vertical::Number, arms, results,
            |run| (queues_begin(run), &run.lines.queue_means)))
        p.small { "Standard deviation over the nodes: what is even is near 0." }
        (over_time("Spread of the queues over time", Vertical::Number, arms, results,
            |run| (queues_begin(run), &run.lines.queue_stdevs)))
    }
}

fn meanings() -> Markup {
    html! {
        dl {
            @for figure in FIGURES {
                dt { (figure.heading) " (" (figure.name) ")" }
                dd { (figure.meaning) }
            }
        }
    }
}
