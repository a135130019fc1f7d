//! Charts as SVG: lines over an axis, and bars of arms side by side.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use crate::numbers::float_of;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 290.0;
/// Space between two lines of the legend.
const LEGEND: f64 = 20.0;

/// Colours that people with the usual deficiencies tell apart (Okabe and Ito, 2008), then the same
/// dashed.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888",
];

/// Line of a chart.
pub(crate) struct Line<'a> {
    pub(crate) label: &'a str,
    /// Points from left to right. On an axis of shares the second number is from 0 to 1.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Quantity of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vertical {
    /// Shares from 0 to 1, as percentages.
    Share,
    /// Numbers from 0 to the largest.
    Number,
}

/// Chart of lines.
pub(crate) struct Chart<'a> {
    /// Description of the chart, for readers who do not see it.
    pub(crate) title: &'a str,
    /// Unit of the horizontal axis.
    pub(crate) unit: &'a str,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) logarithmic: bool,
    pub(crate) vertical: Vertical,
}

/// Scale of an axis.
struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    fn horizontal(lines: &[Line<'_>], logarithmic: bool) -> Self {
        let all = || lines.iter().flat_map(|line| &line.points);
        let all = || all().map(|point| point.0);
        let largest = all().fold(0.0, f64::max);
        let to = if largest > 0.0 { largest } else { 1.0 };
        let smallest = all().filter(|x| *x > 0.0).fold(to, f64::min);
        // Four powers of ten tell apart what differs; what is shorter stands at the left end.
        let from = if logarithmic {
            smallest.max(to / 1e4)
        } else {
            0.0
        };
        Self {
            from,
            to,
            logarithmic,
        }
    }

    fn vertical(lines: &[Line<'_>], kind: Vertical) -> Self {
        let largest = lines.iter().flat_map(|line| &line.points);
        let largest = largest.map(|point| point.1).fold(0.0, f64::max);
        let to = match kind {
            Vertical::Number if largest > 0.0 => largest * 1.05,
            Vertical::Number | Vertical::Share => 1.0,
        };
        Self {
            from: 0.0,
            to,
            logarithmic: false,
        }
    }

    /// Returns the part of the axis before a value, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let (from, to, value) = if self.logarithmic {
            let value = value.max(self.from);
            (self.from.ln(), self.to.ln(), value.ln())
        } else {
            (self.from, self.to, value)
        };
        let span = (to - from).max(f64::EPSILON);
        ((value - from) / span).clamp(0.0, 1.0)
    }

    /// Returns some round values on the axis.
    fn marks(&self) -> Vec<f64> {
        let mut marks = Vec::new();
        if self.logarithmic {
            let mut power = 10.0_f64.powf(self.from.log10().floor());
            while power <= self.to {
                marks.extend([1.0, 2.0, 5.0].map(|factor| factor * power));
                power *= 10.0;
            }
        } else {
            let step = 10.0_f64.powf(self.to.log10().floor()) / 2.0;
            marks.extend((0..=20).map(|number| f64::from(number) * step));
        }
        marks.retain(|mark| (self.from..=self.to).contains(mark));
        // More than a dozen would run into each other.
        let step = marks.len().div_ceil(12).max(1);
        marks.into_iter().step_by(step).collect()
    }
}

fn x(scale: &Scale, value: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * scale.part(value)
}

fn y(scale: &Scale, value: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * scale.part(value)
}

/// Draws lines over a common axis.
pub(crate) fn lines(chart: &Chart<'_>, lines: &[Line<'_>]) -> Markup {
    let across = Scale::horizontal(lines, chart.logarithmic);
    let up = Scale::vertical(lines, chart.vertical);
    let legend_top = BOTTOM + 50.0;
    let height = legend_top + LEGEND * float_of(lines.len());
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height:.0}"))
            width=(WIDTH) role="img" aria-label=(chart.title) font-size="12" font-family="system-ui, sans-serif" {
            (grid(&across, &up, chart))
            @for (number, line) in lines.iter().enumerate() {
                @let (colour, dash) = look(number);
                @let y = legend_top + LEGEND * float_of(number);
                polyline fill="none" stroke=(colour) stroke-width="2" stroke-dasharray=(dash)
                    points=(points(&across, &up, line)) {}
                line x1=(LEFT) x2=(LEFT + 30.0) y1=(y - 4.0) y2=(y - 4.0) stroke=(colour)
                    stroke-width="3" stroke-dasharray=(dash) {}
                text x=(LEFT + 40.0) y=(y) { (line.label) }
            }
        }
    }
}

/// Returns colour and dashes of an arm.
fn look(number: usize) -> (&'static str, &'static str) {
    let dash = if number < COLOURS.len() {
        "none"
    } else {
        "6 3"
    };
    (COLOURS[number % COLOURS.len()], dash)
}

fn points(across: &Scale, up: &Scale, line: &Line<'_>) -> String {
    let mut text = String::new();
    for (along, value) in &line.points {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:.1},{:.1} ", x(across, *along), y(up, *value));
    }
    text
}

fn grid(across: &Scale, up: &Scale, chart: &Chart<'_>) -> Markup {
    let mut out = String::new();
    let heights: Vec<(f64, String)> = match chart.vertical {
        Vertical::Share => [0, 25, 50, 75, 100]
            .map(|percent| (f64::from(percent) / 100.0, format!("{percent} %")))
            .to_vec(),
        Vertical::Number => {
            let marks = up.marks().into_iter();
            marks.map(|mark| (mark, rounded(mark))).collect()
        }
    };
    for (value, text) in heights {
        let y = y(up, value);
        let _ = write!(
            out,
            r##"<line x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}" stroke="#8884"/><text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"##,
            LEFT - 6.0,
            y + 4.0
        );
    }
    for mark in across.marks() {
        let (x, unit) = (x(across, mark), chart.unit);
        let mark = rounded(mark);
        let _ = write!(
            out,
            r##"<line x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{BOTTOM}" stroke="#8882"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{mark} {unit}</text>"##,
            BOTTOM + 18.0
        );
    }
    PreEscaped(out)
}

/// Returns a mark's text without what is left of its making from powers of ten.
fn rounded(mark: f64) -> String {
    let text = format!("{mark:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Bar of an arm.
pub(crate) struct Bar<'a> {
    pub(crate) label: &'a str,
    pub(crate) value: f64,
    /// Half width of the interval around the value.
    pub(crate) half_width: Option<f64>,
    /// Text of the value.
    pub(crate) text: String,
}

/// Draws bars below each other, on one scale from 0.
pub(crate) fn bars(title: &str, bars: &[Bar<'_>]) -> Markup {
    let reach = bars.iter().map(reach).fold(0.0, f64::max);
    drawn_bars(title, bars, reach, 0.0, &html! {})
}

/// Bars longer than so many times the median of all of them are cut off.
const LONGEST: f64 = 4.0;

/// Draws bars as a picture of its own, on white, below their title. A bar that is much longer than
/// the others is cut off at the end of the scale.
pub(crate) fn standalone_bars(title: &str, bars: &[Bar<'_>]) -> String {
    let mut reaches: Vec<f64> = bars.iter().map(reach).collect();
    reaches.sort_by(f64::total_cmp);
    let median = reaches.get(reaches.len() / 2).copied().unwrap_or(0.0);
    let longest = reaches.last().copied().unwrap_or(0.0);
    let end = longest.min(LONGEST * median);
    let head = html! {
        rect width="100%" height="100%" fill="white" {}
        text x="10" y="18" font-weight="600" { (title) }
    };
    let mut text = drawn_bars(title, bars, end, 26.0, &head).into_string();
    text.push('\n');
    text
}

fn reach(bar: &Bar<'_>) -> f64 {
    bar.value + bar.half_width.unwrap_or(0.0)
}

/// Draws bars from a height on; the scale ends at a value.
fn drawn_bars(title: &str, bars: &[Bar<'_>], end: f64, top: f64, head: &Markup) -> Markup {
    const ROW: f64 = 22.0;
    const BEGIN: f64 = 300.0;
    const END: f64 = 780.0;
    let length = |value: f64| {
        let part = if end > 0.0 { value / end } else { 0.0 };
        (END - BEGIN) * part.clamp(0.0, 1.0)
    };
    let height = top + ROW * float_of(bars.len());
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height:.0}"))
            width=(WIDTH) role="img" aria-label=(title) font-size="12" font-family="system-ui, sans-serif" {
            (head)
            @for (number, bar) in bars.iter().enumerate() {
                @let top = top + ROW * float_of(number);
                @let middle = top + ROW / 2.0;
                text x=(BEGIN - 8.0) y=(middle + 4.0) text-anchor="end" { (bar.label) }
                rect x=(BEGIN) y=(top + 3.0) width=(format!("{:.1}", length(bar.value))) height=(ROW - 6.0)
                    fill=(look(number).0) {}
                @if let Some(half) = bar.half_width {
                    line x1=(format!("{:.1}", BEGIN + length(bar.value - half)))
                        x2=(format!("{:.1}", BEGIN + length(bar.value + half)))
                        y1=(middle) y2=(middle) stroke="currentColor" stroke-width="2" {}
                }
                text x=(format!("{:.1}", BEGIN + length(reach(bar)) + 6.0)) y=(middle + 4.0) {
                    (bar.text)
                    @if reach(bar) > end { " (cut off)" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: Chart<'static> = Chart {
        title: "title",
        unit: "s",
        logarithmic: true,
        vertical: Vertical::Share,
    };

    #[test]
    fn marks_are_round_and_on_the_axis() {
        let scale = |from, to, logarithmic| Scale {
            from,
            to,
            logarithmic,
        };
        assert_eq!(scale(6.0, 60.0, true).marks(), [10.0, 20.0, 50.0]);
        assert_eq!(scale(0.0, 100.0, false).marks(), [0.0, 50.0, 100.0]);
        assert_eq!(rounded(10.0_f64.powf(-3.0) * 2.0), "0.002");
    }

    #[test]
    fn a_label_is_escaped() {
        let line = Line {
            label: "<b>",
            points: vec![(1.0, 0.5)],
        };
        let drawn = lines(&CHART, &[line]).into_string();
        assert!(
            drawn.contains("&lt;b&gt;") && !drawn.contains("<b>"),
            "{drawn}"
        );
    }

    #[test]
    fn numbers_reach_nearly_to_the_top_and_bars_to_their_end() {
        let line = Line {
            label: "queue",
            points: vec![(1.0, 0.0), (100.0, 105.0)],
        };
        let chart = Chart {
            logarithmic: false,
            vertical: Vertical::Number,
            ..CHART
        };
        let drawn = lines(&chart, &[line]).into_string();
        assert!(
            drawn.contains("points=\"68.2,290.0 880.0,23.3 \""),
            "{drawn}"
        );
        let bar = |value, half_width| Bar {
            label: "arm",
            value,
            half_width,
            text: "x".to_owned(),
        };
        let drawn = bars("title", &[bar(1.0, None), bar(3.0, Some(1.0))]).into_string();
        assert!(
            drawn.contains("width=\"120.0\"") && drawn.contains("width=\"360.0\""),
            "{drawn}"
        );
        assert!(drawn.contains("x1=\"540.0\" x2=\"780.0\""), "{drawn}");
    }
}
