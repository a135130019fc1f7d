//! The report of a check: what was found, as lines for people and as JSON for programs.
//!
//! For people it begins with the verdict, then has what they can act on, the properties that files
//! set, and last, if they ask, Hadoop's defaults.

use std::io;

use hadoop_conf::site_xml::Origin;
use node_manager::config::{Loaded, keys};
use serde::Serialize;

use super::ProbeError;

/// Verdict of a report: whether an agent could run with a configuration on this machine, or a
/// service with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Nothing is wrong; there may be warnings.
    Sound,
    /// A problem: what the report is on cannot be used.
    Wrong,
}

impl Outcome {
    /// Exit status of the process: 0, or 2 for a problem.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Sound => 0,
            Self::Wrong => 2,
        }
    }
}

/// Findings of a check.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub(super) findings: Findings,
    /// Properties that files set.
    set: Vec<Shown>,
    /// Properties that no file sets.
    defaults: Vec<Shown>,
}

/// Lines to print, in the order found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    /// Problems that keep an agent from running.
    pub(super) problems: Vec<String>,
    /// Features that the configuration asks for and jobs would miss.
    pub(super) missing: Vec<String>,
    /// Settings that work otherwise than they may be meant.
    pub(super) warnings: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// A property as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    name: String,
    /// Value in force, hidden if it may be a secret, on one line.
    value: String,
    /// File and line; absent for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl Findings {
    /// Adds a finding for the paths that failed: a warning if some of the paths tried are usable,
    /// since the agent goes on with those, and a problem if none is.
    pub(super) fn add(&mut self, name: &str, tried: usize, errors: &[ProbeError]) {
        let texts = errors.iter().map(|error| format!("{name}: {error}"));
        if errors.len() < tried {
            self.warnings.extend(texts);
        } else {
            self.problems.extend(texts);
        }
    }
}

impl Report {
    /// Returns the report of a configuration, from its files alone.
    pub(super) fn of(loaded: &Loaded) -> Self {
        let from_files = |name: &&str| loaded.properties.origin(name) != Some(&Origin::Default);
        let (set, defaults): (Vec<&str>, Vec<&str>) =
            loaded.properties.names().partition(from_files);
        let show = |names: Vec<&str>| {
            names
                .into_iter()
                .filter_map(|it| shown(loaded, it))
                .collect()
        };
        let mut findings = Findings::default();
        for warning in &loaded.warnings {
            let lines = match warning.is_missing_feature() {
                true => &mut findings.missing,
                false => &mut findings.warnings,
            };
            lines.push(warning.to_string());
        }
        Self {
            findings,
            set: show(set),
            defaults: show(defaults),
        }
    }

    /// Returns what keeps an agent from running.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.findings.problems
    }

    /// Returns the features that the configuration asks for and jobs would miss.
    #[must_use]
    pub fn missing(&self) -> &[String] {
        &self.findings.missing
    }

    /// Returns the verdict. A strict one takes each warning and each missing feature for a problem.
    pub fn outcome(&self, is_strict: bool) -> Outcome {
        let Findings {
            problems,
            missing,
            warnings,
            notes: _,
        } = &self.findings;
        let is_sound =
            problems.is_empty() && (!is_strict || missing.is_empty() && warnings.is_empty());
        if is_sound {
            Outcome::Sound
        } else {
            Outcome::Wrong
        }
    }

    /// Writes the report for people, with the defaults if they want `all`.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write_text(
        &self,
        outcome: Outcome,
        all: bool,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let findings = &self.findings;
        match outcome {
            Outcome::Sound => writeln!(out, "The configuration can be used.\n")?,
            Outcome::Wrong if findings.problems.is_empty() => {
                writeln!(
                    out,
                    "The configuration can be used, with warnings, which --strict does not allow.\n"
                )?;
            }
            Outcome::Wrong => writeln!(out, "The configuration cannot be used.\n")?,
        }
        lines("Problems", &findings.problems, out)?;
        lines(
            "Asked for and not there: jobs that need it would miss it",
            &findings.missing,
            out,
        )?;
        lines("Warnings", &findings.warnings, out)?;
        lines("Notes", &findings.notes, out)?;
        values("Set by files", &self.set, out)?;
        if all {
            return values("Defaults", &self.defaults, out);
        }
        writeln!(
            out,
            "{} properties have defaults; --all shows them.",
            self.defaults.len()
        )
    }

    /// Writes the report as a JSON object in one line: `usable`, the lists `problems`, `missing`,
    /// `warnings` and `notes` of texts, and `set` and `defaults` with `name`, `value` and `source`.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Document<'a> {
            usable: bool,
            #[serde(flatten)]
            report: &'a Report,
        }
        let document = Document {
            usable: self.findings.problems.is_empty(),
            report: self,
        };
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)
    }
}

fn shown(loaded: &Loaded, name: &str) -> Option<Shown> {
    // One whose value cannot be expanded is told as a problem.
    let value = loaded.properties.get(name).ok()??;
    let text = loaded.secrets.show(name, &value);
    let source = match &value.origin {
        Origin::Default => None,
        Origin::File { .. } => Some(value.origin.to_string()),
    };
    Some(Shown {
        name: name.to_owned(),
        value: with_unit(name, &on_one_line(text)),
        source,
    })
}

fn values(title: &str, properties: &[Shown], out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{title} ({}):", properties.len())?;
    for Shown {
        name,
        value,
        source,
    } in properties
    {
        match source {
            None => writeln!(out, "  {name} = {value}")?,
            Some(source) => writeln!(out, "  {name} = {value}  ({source})")?,
        }
    }
    writeln!(out)
}

/// Numbers get their unit; other texts say what they are.
fn with_unit(name: &str, text: &str) -> String {
    let suffix = keys::find(name).map_or("", |key| key.unit.suffix());
    if suffix.is_empty() || text.parse::<f64>().is_err() {
        text.to_owned()
    } else {
        format!("{text} {suffix}")
    }
}

/// Replaces control characters, so that text from a file cannot move the terminal's cursor.
fn on_one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c == ' ');
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn lines(title: &str, texts: &[String], out: &mut dyn io::Write) -> io::Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title} ({}):", texts.len())?;
    for text in texts {
        writeln!(out, "  {}", on_one_line(text))?;
    }
    writeln!(out)
}
