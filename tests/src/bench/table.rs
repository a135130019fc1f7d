//! Figures as a table in Markdown, as README.md and docs/measuring.md show them.

use crate::samples::Samples;

/// Mark at the start of each line that belongs into README.md's table.
const README: &str = "README";

/// Names of the columns. The first names the figure.
const HEADER: [&str; 5] = ["", "Limit", "nm-agent", "Java NodeManager", "Java / ours"];

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds; lower is better.
    Ms,
    /// Seconds; lower is better.
    Seconds,
    /// Number per second; higher is better.
    PerSecond,
    /// Mebibytes; lower is better.
    Mib,
    /// Kibibytes; lower is better.
    Kib,
    /// Processors in use; lower is better.
    Processors,
    /// Percent of a job's speed that is left; higher is better.
    PercentKept,
}

impl Unit {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Ms => " ms",
            Self::Seconds => " s",
            Self::PerSecond => " /s",
            Self::Mib => " MiB",
            Self::Kib => " KiB",
            Self::Processors => "",
            Self::PercentKept => " %",
        }
    }

    const fn is_better_when_higher(self) -> bool {
        match self {
            Self::PerSecond | Self::PercentKept => true,
            Self::Ms | Self::Seconds | Self::Mib | Self::Kib | Self::Processors => false,
        }
    }
}

/// A cell of a table.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A number, in the unit of the line.
    Amount(f64),
    /// Median and 99th percentile of samples, with their number.
    Times(&'a Samples),
}

impl From<f64> for Value<'_> {
    fn from(amount: f64) -> Self {
        Self::Amount(amount)
    }
}

impl<'a> From<&'a Samples> for Value<'a> {
    fn from(samples: &'a Samples) -> Self {
        Self::Times(samples)
    }
}

impl Value<'_> {
    fn text(self, unit: Unit) -> String {
        match self {
            Self::Amount(amount) => format!("{}{}", number(amount), unit.suffix()),
            Self::Times(samples) => {
                let longest = if samples.have_p99() { "" } else { "max " };
                format!(
                    "{} / {longest}{}{} ({})",
                    number(samples.p50()),
                    number(samples.p99()),
                    unit.suffix(),
                    samples.count()
                )
            }
        }
    }

    /// Returns the numbers that can be compared: amount, or median and 99th percentile. A maximum
    /// cannot: it grows with the number of samples.
    fn comparable(self) -> Vec<f64> {
        match self {
            Self::Amount(amount) => vec![amount],
            Self::Times(samples) if samples.have_p99() => vec![samples.p50(), samples.p99()],
            Self::Times(samples) => vec![samples.p50()],
        }
    }
}

/// A line of a table under construction: each method adds one cell.
#[derive(Debug)]
pub struct Row {
    what: String,
    unit: Unit,
    limit: String,
    agent: Vec<f64>,
    java: Vec<f64>,
    texts: [String; 2],
    in_readme: bool,
}

impl Row {
    /// Makes a line with the agent's figure.
    #[must_use]
    pub fn new<'a>(what: impl Into<String>, unit: Unit, agent: impl Into<Value<'a>>) -> Self {
        let agent = agent.into();
        Self {
            what: what.into(),
            unit,
            limit: String::new(),
            agent: agent.comparable(),
            java: Vec::new(),
            texts: [agent.text(unit), String::new()],
            in_readme: false,
        }
    }

    /// Adds the machine's limit.
    #[must_use]
    pub fn limit<'a>(mut self, limit: impl Into<Value<'a>>) -> Self {
        self.limit = limit.into().text(self.unit);
        self
    }

    /// Adds the figure of Hadoop's NodeManager, if it was measured.
    #[must_use]
    pub fn java<'a>(mut self, java: Option<impl Into<Value<'a>>>) -> Self {
        if let Some(java) = java.map(Into::into) {
            self.java = java.comparable();
            self.texts[1] = java.text(self.unit);
        }
        self
    }

    /// Shows the line in README.md too.
    #[must_use]
    pub fn in_readme(mut self) -> Self {
        self.in_readme = true;
        self
    }

    fn cells(&self) -> [String; 5] {
        let ratios = self.agent.iter().zip(&self.java).map(|(agent, java)| {
            let ratio = if self.unit.is_better_when_higher() {
                agent / java
            } else {
                java / agent
            };
            // A difference that is lost in the noise has no ratio.
            let is_one = ratio.is_finite() && ratio > 0.0;
            if is_one {
                number_short(ratio)
            } else {
                "-".to_owned()
            }
        });
        let [agent, java] = self.texts.clone();
        [
            self.what.clone(),
            self.limit.clone(),
            agent,
            java,
            ratios.collect::<Vec<_>>().join(" / "),
        ]
    }
}

/// A table under construction.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// Adds a line at the end.
    pub fn push(&mut self, row: Row) {
        self.0.push(row);
    }

    /// Returns the table, then the lines for README.md, each with a mark in front.
    #[must_use]
    pub fn render(&self) -> String {
        let header = HEADER.map(str::to_owned);
        let cells: Vec<[String; 5]> = self.0.iter().map(Row::cells).collect();
        let width = |column: usize| {
            let lengths = cells.iter().map(|row| row[column].chars().count());
            lengths.max().unwrap_or(0).max(HEADER[column].len())
        };
        let widths = [0, 1, 2, 3, 4].map(width);
        let line = |cells: &[String; 5]| {
            let padded = cells.iter().zip(widths);
            let padded = padded.map(|(cell, width)| format!("{cell:<width$}"));
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let mut text = line(&header);
        text += "|---|---|---|---|---|\n";
        text.extend(cells.iter().map(line));
        let in_readme = self.0.iter().zip(&cells).filter(|(row, _)| row.in_readme);
        text.extend(in_readme.map(|(_, cells)| format!("{README} | {} |\n", cells.join(" | "))));
        text
    }
}

/// Returns a number with three digits that matter, thousands apart.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    grouped(&format!("{value:.decimals$}"))
}

fn number_short(value: f64) -> String {
    let decimals = usize::from(value < 10.0);
    grouped(&format!("{value:.decimals$}"))
}

/// Puts commas between the thousands of a number.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_samples_have_a_maximum_and_no_ratio_of_it() {
        let few: Samples = [1.0, 2.0, 30.0].into_iter().collect();
        let many: Samples = (1..=200).map(f64::from).collect();
        let row = Row::new("x", Unit::Ms, &few).java(Some(&many));
        let cells = row.cells();
        assert_eq!(cells[2], "2.00 / max 30.0 ms (3)");
        assert_eq!(cells[3], "100 / 198 ms (200)");
        assert_eq!(cells[4], "50");
    }

    #[test]
    fn ratios_say_how_many_times_worse_java_is() {
        let ratio = |unit, agent: f64, java: f64| {
            let [.., ratio] = Row::new("x", unit, agent).java(Some(java)).cells();
            ratio
        };
        assert_eq!(ratio(Unit::Ms, 2.0, 9.0), "4.5");
        assert_eq!(ratio(Unit::PerSecond, 20_000.0, 10.0), "2,000");
        assert_eq!(ratio(Unit::Ms, -0.1, 1.0), "-");
    }

    #[test]
    fn lines_of_readme_are_repeated_with_a_mark() {
        let mut table = Table::default();
        table.push(Row::new("lives", Unit::PerSecond, 1234.5).limit(2.0));
        table.push(Row::new("memory", Unit::Mib, 9.5).in_readme());
        let text = table.render();
        assert!(text.contains("| lives  | 2.00 /s | 1,234 /s |"), "{text}");
        assert!(
            text.ends_with("\nREADME | memory |  | 9.50 MiB |  |  |\n"),
            "{text}"
        );
    }
}
