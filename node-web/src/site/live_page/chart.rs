//! Small charts of counts over time, as SVG that stretches to any width. Pure.
//!
//! One chart for each series, below each other on one scale of time, so that none needs a colour to
//! be told from another.

use std::fmt::Write as _;

use maud::{Markup, html};
use node_view::overview::Step;
use node_view::snapshot::Counts;

use crate::overview::Overview;

/// Lengths of time that the charts may show, in seconds: the shortest that reaches back to the
/// agent's start, or the last.
pub(super) const WINDOWS_S: [u64; 4] = [60, 120, 300, 600];

/// Coordinates of a chart: its width, where its largest value is, its foot.
const WIDTH: f64 = 600.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 100.0;

/// End of every line, outside of the chart: while time goes on without a change, the script moves
/// the chart to the left.
const END: f64 = 2.0 * WIDTH;

/// Series of a chart.
struct Series {
    /// Name of the series in the ids of elements.
    name: &'static str,
    class: &'static str,
    title: &'static str,
    /// The limit of the queue is about it.
    limited: bool,
    value: fn(&Counts) -> u32,
}

const SERIES: [Series; 3] = [
    Series {
        name: "running_guaranteed",
        class: "guaranteed",
        title: "Running, guaranteed",
        limited: false,
        value: |counts| counts.running_guaranteed,
    },
    Series {
        name: "running_opportunistic",
        class: "opportunistic",
        title: "Running, opportunistic",
        limited: false,
        value: |counts| counts.running_opportunistic,
    },
    Series {
        name: "waiting",
        class: "waiting",
        title: "Waiting",
        limited: true,
        value: |counts| counts.waiting,
    },
];

/// Steps of the part of the time that the charts show.
struct Window<'a> {
    steps: &'a [Step],
    begin_ms: f64,
    size_ms: f64,
}

/// Geometry of a chart with its series.
struct Drawing {
    peak: u32,
    /// The value at the upper edge, at least 1.
    top: u32,
    /// Limit of the queue, drawn as a dashed line; `None` without a limit.
    limit: Option<u32>,
}

/// Returns the number of seconds that the charts show.
fn window_s(overview: &Overview) -> u64 {
    let reaches = |size: &u64| overview.uptime_ms() <= size * 1000;
    let last = WINDOWS_S[WINDOWS_S.len() - 1];
    WINDOWS_S.into_iter().find(reaches).unwrap_or(last)
}

/// Returns the part of the page with the charts.
pub(super) fn section(overview: &Overview) -> Markup {
    let minutes = window_s(overview) / 60;
    html! {
        section aria-labelledby="history" {
            h2 id="history" data-text="window" {
                @if minutes == 1 { "Last minute" } @else { "Last " (minutes) " minutes" }
            }
            (charts(overview))
            p.axis {
                span data-text="axis_begin" { (minutes) " min ago" }
                span { "now" }
            }
        }
    }
}

fn charts(overview: &Overview) -> Markup {
    let size_ms = window_s(overview) as f64 * 1000.0;
    let window = Window {
        steps: &overview.node.history.steps(overview.now.mono),
        begin_ms: overview.now.mono.0 as f64 - size_ms,
        size_ms,
    };
    let peaks = SERIES.map(|series| window.peak(series.value));
    let running = peaks[0].max(peaks[1]).max(1);
    let limit = shown_limit(overview, peaks[2]);
    let tops = [running, running, peaks[2].max(limit.unwrap_or(0)).max(1)];
    let drawings = [0, 1, 2].map(|place| Drawing {
        peak: peaks[place],
        top: tops[place],
        limit: limit.filter(|_| SERIES[place].limited),
    });
    html! {
        @for (series, drawing) in SERIES.iter().zip(&drawings) {
            (chart(overview, &window, series, drawing))
        }
    }
}

/// Returns the limit, if it is near enough to what waits to stand in the chart.
fn shown_limit(overview: &Overview, peak: u32) -> Option<u32> {
    let limit = u32::try_from(overview.node.numbers.limit_length()?).ok()?;
    (limit <= peak.max(2).saturating_mul(2)).then_some(limit)
}

fn chart(overview: &Overview, window: &Window<'_>, series: &Series, drawing: &Drawing) -> Markup {
    let Series {
        name, class, title, ..
    } = series;
    let Drawing { peak, top, limit } = *drawing;
    let now = (series.value)(&overview.node.numbers.counts);
    let (line, begin) = window.line(series, top);
    // Without a limit the line is outside.
    let mark = limit.map_or(-10.0, |limit| y(limit, top));
    html! {
        figure class={ "chart " (class) } id={ "chart-" (name) } {
            figcaption {
                (title)
                span data-text={ "peak_" (name) } { "now " (now) ", peak " (peak) }
                @if series.limited {
                    span data-text="limit_mark" {
                        @if let Some(limit) = limit { "dashed: limit " (limit) }
                    }
                }
            }
            svg viewBox=(format_args!("0 0 {WIDTH} {BOTTOM}")) preserveAspectRatio="none"
                aria-hidden="true" data-window-ms=(window.size_ms) {
                path.area d=(format_args!("{line}V{BOTTOM}H{begin:.1}Z")) {}
                path.line d=(line) {}
                @if series.limited {
                    line.limit x1="0" x2=(END) y1=(format_args!("{mark:.1}")) y2=(format_args!("{mark:.1}")) {}
                }
            }
        }
    }
}

impl Window<'_> {
    fn peak(&self, value: fn(&Counts) -> u32) -> u32 {
        let ends = self
            .steps
            .iter()
            .skip(1)
            .map(|step| step.second as f64 * 1000.0);
        self.steps
            .iter()
            .zip(ends.chain([f64::INFINITY]))
            .filter(|(_, end_ms)| *end_ms > self.begin_ms)
            .map(|(step, _)| value(&step.counts))
            .max()
            .unwrap_or(0)
    }

    /// Returns the line of a series, and where it begins.
    fn line(&self, series: &Series, top: u32) -> (String, f64) {
        let x = |step: &Step| {
            let ms = step.second as f64 * 1000.0 - self.begin_ms;
            (ms / self.size_ms * WIDTH).max(0.0)
        };
        let y = |step: &Step| y((series.value)(&step.counts), top);
        let Some((first, rest)) = self.steps.split_first() else {
            return (String::new(), 0.0);
        };
        let mut line = format!("M{:.1} {:.1}", x(first), y(first));
        for step in rest {
            // Writing to a string does not fail.
            let _ = write!(line, "H{:.1}V{:.1}", x(step), y(step));
        }
        let _ = write!(line, "H{END}");
        (line, x(first))
    }
}

fn y(value: u32, top: u32) -> f64 {
    BOTTOM - (BOTTOM - TOP) * f64::from(value) / f64::from(top)
}
