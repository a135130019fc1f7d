//! Charts of quantities over time, as one SVG picture: a panel for each quantity, below each other
//! on one scale of time. Pure.

use std::fmt::Write as _;

/// Coordinates of the picture and of a panel in it.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 880.0;
const HEAD: f64 = 40.0;
const PANEL: f64 = 110.0;
const CHART: f64 = 70.0;

/// Quantity over time, one value for each sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name with unit.
    pub name: &'static str,
    /// Values in the order of time.
    pub values: Vec<f64>,
}

impl Series {
    /// Returns a quantity without values.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let values = Vec::new();
        Self { name, values }
    }

    /// Returns the means of the second and of the last quarter of the values: what grows for ever
    /// is larger in the last. The first quarter is for what has to settle.
    #[must_use]
    pub fn quarters(&self) -> (f64, f64) {
        let quarter = self.values.len() / 4;
        let second = self.values.get(quarter..2 * quarter).unwrap_or_default();
        let last = self.values.get(3 * quarter..).unwrap_or_default();
        (mean(second), mean(last))
    }

    /// Returns whether the last quarter is at most `percent` above the second, or at most `slack`
    /// above it.
    #[must_use]
    pub fn is_flat(&self, percent: f64, slack: f64) -> bool {
        let (second, last) = self.quarters();
        last <= second * (1.0 + percent / 100.0) || last <= second + slack
    }

    fn peak(&self) -> f64 {
        self.values.iter().copied().fold(0.0, f64::max)
    }
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Draws quantities, whose samples are `every` apart, in the unit of the texts on the time axis.
#[must_use]
pub fn svg(title: &str, unit: &str, every: f64, all: &[Series]) -> String {
    let mut picture = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut picture, title, (unit, every), all);
    picture
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn draw(
    out: &mut String,
    title: &str,
    (unit, every): (&str, f64),
    all: &[Series],
) -> std::fmt::Result {
    let height = HEAD + PANEL * all.len() as f64 + 20.0;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">
<rect width="{WIDTH}" height="{height}" fill="white"/>
<text x="{LEFT}" y="20" font-size="14">{}</text>"#,
        escaped(title)
    )?;
    for (number, series) in all.iter().enumerate() {
        let top = HEAD + PANEL * number as f64 + 16.0;
        panel(out, series, top)?;
    }
    let samples = all.iter().map(|series| series.values.len()).max();
    let length = every * samples.unwrap_or(0).saturating_sub(1) as f64;
    let foot = height - 10.0;
    writeln!(
        out,
        r#"<text x="{LEFT}" y="{foot}">0</text><text x="{RIGHT}" y="{foot}" text-anchor="end">{length:.0} {}</text>
</svg>"#,
        escaped(unit)
    )
}

#[expect(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn panel(out: &mut String, series: &Series, top: f64) -> std::fmt::Result {
    let (bottom, peak) = (top + CHART, series.peak());
    let (second, last) = series.quarters();
    writeln!(
        out,
        r##"<text x="{LEFT}" y="{}">{}: second quarter {second:.1}, last quarter {last:.1}</text>
<line x1="{LEFT}" y1="{bottom}" x2="{RIGHT}" y2="{bottom}" stroke="#999"/>
<text x="{}" y="{}" text-anchor="end">{peak:.0}</text><text x="{}" y="{bottom}" text-anchor="end">0</text>"##,
        top - 6.0,
        escaped(series.name),
        LEFT - 6.0,
        top + 10.0,
        LEFT - 6.0,
    )?;
    write!(out, r##"<polyline fill="none" stroke="#1f5fa8" points=""##)?;
    let step = (RIGHT - LEFT) / series.values.len().saturating_sub(1).max(1) as f64;
    for (number, value) in series.values.iter().enumerate() {
        let x = LEFT + step * number as f64;
        let y = bottom - CHART * value / peak.max(1.0);
        write!(out, "{x:.1},{y:.1} ")?;
    }
    writeln!(out, r#""/>"#)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: Vec<f64>) -> Series {
        let name = "a < b";
        Series { name, values }
    }

    #[test]
    fn what_grows_is_not_flat_and_what_settles_is() {
        let growing = series((0..100).map(f64::from).collect());
        assert_eq!(growing.quarters(), (37.0, 87.0));
        assert!(!growing.is_flat(25.0, 1.0) && growing.is_flat(25.0, 50.0));
        let settled = series((0..100).map(|n| f64::from(n.min(20))).collect());
        assert!(settled.is_flat(0.0, 0.0));
        assert!(series(Vec::new()).is_flat(0.0, 0.0));
    }

    #[test]
    fn each_value_is_a_point_of_its_panel() {
        let all = [series(vec![0.0, 5.0, 10.0]), series(vec![1.0])];
        let picture = svg("a & b", "min", 2.0, &all);
        assert!(
            picture.contains(r#"points="90.0,126.0 485.0,91.0 880.0,56.0 ""#),
            "{picture}"
        );
        assert_eq!(picture.matches("<polyline").count(), 2);
        assert!(picture.contains("a &amp; b") && picture.contains("a &lt; b"));
        assert!(picture.contains(">4 min<"), "{picture}");
    }
}
