//! Small charts of counts over time, as SVG that stretches to any width. Pure.
//!
//! One chart for each series, below each other on one scale of time, so that none needs a colour to
//! be told from another.

use std::fmt::Write as _;

use super::document::{CountsAt, Document};

/// Lengths of time that the charts may show, in seconds: the shortest that reaches back to the
/// agent's start, or the last.
pub(super) const WINDOWS_S: [u64; 4] = [60, 120, 300, 600];

/// Coordinates of a chart: its width, where its largest value is, its foot.
const WIDTH: f64 = 600.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 100.0;

/// Series of a chart.
struct Series {
    /// Name of the series in the ids of elements.
    name: &'static str,
    class: &'static str,
    title: &'static str,
    /// The limit of the queue is about it.
    limited: bool,
    value: fn(&CountsAt) -> u32,
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

/// The part of the time that is shown.
struct Window {
    begin_ms: f64,
    size_ms: f64,
}

/// Returns the number of seconds that the charts show.
pub(super) fn window_s(document: &Document) -> u64 {
    let reaches = |size: &u64| document.node.uptime_ms <= size * 1000;
    let last = WINDOWS_S[WINDOWS_S.len() - 1];
    WINDOWS_S.into_iter().find(reaches).unwrap_or(last)
}

/// Geometry of a chart with its series.
struct Drawing {
    peak: u32,
    /// The value at the upper edge, at least 1.
    top: u32,
    /// Limit of the queue, drawn as a dashed line; `None` without a limit.
    limit: Option<u32>,
}

/// Returns the charts of the page as HTML.
pub(super) fn all(document: &Document) -> String {
    let size_ms = window_s(document) as f64 * 1000.0;
    let window = Window {
        begin_ms: document.node.uptime_ms as f64 - size_ms,
        size_ms,
    };
    let peaks = SERIES.map(|series| peak(document, &window, series.value));
    let running = peaks[0].max(peaks[1]).max(1);
    let limit = shown_limit(document, peaks[2]);
    let tops = [running, running, peaks[2].max(limit.unwrap_or(0)).max(1)];
    let limits = [None, None, limit];
    let mut html = String::new();
    for (place, series) in SERIES.iter().enumerate() {
        let drawing = Drawing {
            peak: peaks[place],
            top: tops[place],
            limit: limits[place],
        };
        one(&mut html, document, &window, series, &drawing);
    }
    html
}

/// The limit, if it is near enough to what waits to stand in the chart.
fn shown_limit(document: &Document, peak: u32) -> Option<u32> {
    let limit = document
        .queue
        .limit_length
        .and_then(|limit| u32::try_from(limit).ok())?;
    (limit <= peak.max(2).saturating_mul(2)).then_some(limit)
}

fn peak(document: &Document, window: &Window, value: fn(&CountsAt) -> u32) -> u32 {
    let steps = &document.history.steps;
    let ends = steps.iter().skip(1).map(|step| step.second as f64 * 1000.0);
    steps
        .iter()
        .zip(ends.chain([f64::INFINITY]))
        .filter(|(_, end_ms)| *end_ms > window.begin_ms)
        .map(|(step, _)| value(step))
        .max()
        .unwrap_or(0)
}

fn one(
    html: &mut String,
    document: &Document,
    window: &Window,
    series: &Series,
    drawing: &Drawing,
) {
    let Series {
        name, class, title, ..
    } = series;
    let Drawing { peak, top, limit } = *drawing;
    let now = (series.value)(&document.history.now);
    let (line, begin) = line(document, window, series, top);
    let (mark, mark_words) = if series.limited {
        // Without a limit the line is there for the script, and outside.
        let at = limit.map_or(-10.0, |limit| y(limit, top));
        let words = limit.map_or_else(String::new, |limit| format!("dashed: limit {limit}"));
        (
            format!(
                "<line class=\"limit\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
            ),
            format!("<span data-text=\"limit_mark\">{words}</span>"),
        )
    } else {
        (String::new(), String::new())
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        html,
        "<figure class=\"chart {class}\" id=\"chart-{name}\"><figcaption>{title}\
         <span data-text=\"peak_{name}\">now {now}, peak {peak}</span>{mark_words}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {BOTTOM}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <path class=\"area\" d=\"{line}V{BOTTOM}H{begin:.1}Z\"/><path class=\"line\" d=\"{line}\"/>{mark}</svg></figure>"
    );
}

/// The line of a series, and where it begins.
fn line(document: &Document, window: &Window, series: &Series, top: u32) -> (String, f64) {
    let x = |step: &CountsAt| {
        let ms = step.second as f64 * 1000.0 - window.begin_ms;
        (ms / window.size_ms * WIDTH).max(0.0)
    };
    let mut steps = document.history.steps.iter();
    let Some(first) = steps.next() else {
        return (String::new(), 0.0);
    };
    let mut line = format!("M{:.1} {:.1}", x(first), y((series.value)(first), top));
    for step in steps {
        let _ = write!(line, "H{:.1}V{:.1}", x(step), y((series.value)(step), top));
    }
    let _ = write!(line, "H{WIDTH}");
    (line, x(first))
}

fn y(value: u32, top: u32) -> f64 {
    BOTTOM - (BOTTOM - TOP) * f64::from(value) / f64::from(top)
}
