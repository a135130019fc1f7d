//! `nm-agent history show`: a file of a service's role history as a table, and its faults.
//!
//! In: the bytes of a file. Out: lines of text and an [`Outcome`]. Keeps a record at a time and the
//! names of the roles, however long the file is. Text from the file is escaped in one place,
//! `Lines`, so no control character of it reaches a terminal.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufRead, Write};

use node_view::overview::words::duration;
use records::{EpochMillis, error_chain};
use role_history::SavedEntry;
use role_history::avro::{HistoryReader, HistoryRecord, ReadHistoryError, ReadLimits, ReadWarning};
use time::OffsetDateTime;
use time::format_description::StaticFormatDescription;
use time::macros::format_description;

use crate::check::Outcome;

/// Form of a time: `2016-01-06 12:00:00`, always in UTC.
const TIME: StaticFormatDescription =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// Most columns of a role. Longer names are cut, since a line repeats the name for each entry.
const ROLE_CHARS_MAX: usize = 40;

/// Most problems of a check that are listed.
const PROBLEMS_LISTED_MAX: u64 = 20;

/// Prints a history as a table to `out`, and what is wrong with it to `problems`. The table goes as
/// far as the file can be read. A file that is only odd, as one with a wrong number in its footer,
/// is printed whole: a service loads it.
///
/// # Errors
/// Errors of `out` and `problems`.
pub fn show(
    input: impl BufRead,
    now: EpochMillis,
    out: impl Write,
    problems: impl Write,
) -> io::Result<Outcome> {
    let (mut out, mut problems) = (Lines(out), Lines(problems));
    let read = print_table(input, now, &mut out)?;
    // On a terminal the problems stand below the table.
    out.0.flush()?;
    match read {
        Ok(warnings) => {
            for warning in warnings {
                problems.line(&format!("warning: {warning}"))?;
            }
            Ok(Outcome::Sound)
        }
        Err(error) => {
            problems.line(&error_chain(&error))?;
            Ok(Outcome::Wrong)
        }
    }
}

fn print_table<W: Write>(
    input: impl BufRead,
    now: EpochMillis,
    out: &mut Lines<W>,
) -> io::Result<Result<Vec<ReadWarning>, ReadHistoryError>> {
    let mut reader = match HistoryReader::open(input, ReadLimits::default()) {
        Ok(reader) => reader,
        Err(error) => return Ok(Err(error)),
    };
    let mut table = Table::new(reader.saved());
    out.line(&table.saved_line(now))?;
    out.line(&format!("roles  {}", reader.roles()))?;
    loop {
        match reader.next_record() {
            Ok(Some(HistoryRecord::Mapping(names))) => table.name_roles(names, out)?,
            Ok(Some(HistoryRecord::Entry { host, entry })) => table.entry(host, entry, out)?,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    table.end(out)?;
    Ok(Ok(reader.warnings().to_vec()))
}

/// Prints what is wrong with a history, a line each, or that nothing is. The check goes on after a
/// record with a wrong field.
///
/// # Errors
/// Errors of `out`.
pub fn check(input: impl BufRead, out: impl Write) -> io::Result<Outcome> {
    let mut findings = Findings {
        out: Lines(out),
        count: 0,
    };
    let mut reader = match HistoryReader::open(input, ReadLimits::default()) {
        Ok(reader) => reader,
        Err(error) => {
            findings.add(&error_chain(&error))?;
            return findings.end("");
        }
    };
    let mut entries = 0_u64;
    let is_whole = loop {
        match reader.next_record() {
            Ok(Some(HistoryRecord::Mapping(_))) => {}
            Ok(Some(HistoryRecord::Entry { .. })) => entries += 1,
            Ok(None) => break true,
            Err(error) => {
                findings.add(&error_chain(&error))?;
                if !matches!(error, ReadHistoryError::Record { .. }) {
                    break false;
                }
            }
        }
    };
    // What the footer counts differs from what was read if a record was wrong: that is known.
    if is_whole && findings.count == 0 {
        for warning in reader.warnings() {
            findings.add(&format!("{warning}; a service loads it nevertheless"))?;
        }
    }
    findings.end(&format!("a complete history of {entries} entries"))
}

/// Lines of text in which characters that could steer a terminal are escaped.
struct Lines<W>(W);

impl<W: Write> Lines<W> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.0, "{}", printable(text))
    }
}

/// Escapes the characters of a text that could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '"' | '\'' | '\\' => line.push(char),
            _ => line.extend(char.escape_debug()),
        }
    }
    line
}

/// Problems of a check: the first ones are listed, all are counted.
struct Findings<W> {
    out: Lines<W>,
    count: u64,
}

impl<W: Write> Findings<W> {
    fn add(&mut self, text: &str) -> io::Result<()> {
        self.count += 1;
        if self.count > PROBLEMS_LISTED_MAX {
            return Ok(());
        }
        self.out.line(text)
    }

    /// Prints the number of problems that are not listed, or `sound` if there is no problem.
    fn end(mut self, sound: &str) -> io::Result<Outcome> {
        if self.count == 0 {
            self.out.line(sound)?;
            return Ok(Outcome::Sound);
        }
        if let Some(more @ 1..) = self.count.checked_sub(PROBLEMS_LISTED_MAX) {
            self.out.line(&format!("and {more} more"))?;
        }
        Ok(Outcome::Wrong)
    }
}

/// Table of entries, printed as they are read.
struct Table {
    saved: EpochMillis,
    names: BTreeMap<i32, String>,
    /// Columns of the longest name of a role.
    role_width: usize,
    entries: u64,
    running: u64,
}

impl Table {
    const fn new(saved: EpochMillis) -> Self {
        Self {
            saved,
            names: BTreeMap::new(),
            // That of `role 1234`, for files without names.
            role_width: 9,
            entries: 0,
            running: 0,
        }
    }

    fn saved_line(&self, now: EpochMillis) -> String {
        let age = match since(now, self.saved) {
            Some(age) => format!("{age} ago"),
            None => "in the future".to_owned(),
        };
        format!("saved  {}, {age}", utc(self.saved))
    }

    /// Prints and remembers the names of roles.
    fn name_roles<W: Write>(
        &mut self,
        names: BTreeMap<String, i32>,
        out: &mut Lines<W>,
    ) -> io::Result<()> {
        for (name, role) in names {
            out.line(&format!("role   {role} is {name}"))?;
            let name: String = name.chars().take(ROLE_CHARS_MAX).collect();
            self.role_width = self.role_width.max(name.chars().count());
            self.names.insert(role, name);
        }
        Ok(())
    }

    fn entry<W: Write>(
        &mut self,
        host: &str,
        entry: SavedEntry,
        out: &mut Lines<W>,
    ) -> io::Result<()> {
        if self.entries == 0 {
            out.line("")?;
            self.row("LAST USED (UTC)", "AGE AT SAVE", "ROLE", "NODE", out)?;
        }
        self.entries += 1;
        self.running += u64::from(entry.active);
        let last_used = match entry.last_used {
            EpochMillis(0) => "never".to_owned(),
            time => utc(time),
        };
        let age = match since(self.saved, entry.last_used) {
            _ if entry.active => "running".to_owned(),
            _ if entry.last_used == EpochMillis(0) => "-".to_owned(),
            Some(age) => age,
            None => "after save".to_owned(),
        };
        let role = match self.names.get(&entry.role) {
            Some(name) => name.clone(),
            None => format!("role {}", entry.role),
        };
        self.row(&last_used, &age, &role, host, out)
    }

    /// Prints a row. The node is last, so that no row waits for the longest name of a node.
    fn row<W: Write>(
        &self,
        last_used: &str,
        age: &str,
        role: &str,
        node: impl Display,
        out: &mut Lines<W>,
    ) -> io::Result<()> {
        let width = self.role_width;
        out.line(&format!(
            "{last_used:<19}  {age:<11}  {role:<width$}  {node}"
        ))
    }

    fn end<W: Write>(&self, out: &mut Lines<W>) -> io::Result<()> {
        let Self {
            entries, running, ..
        } = self;
        out.line("")?;
        out.line(&format!(
            "{entries} entries, {running} of them running at the save"
        ))
    }
}

/// Returns the duration from `earlier` to `now`; `None` if `earlier` is later.
fn since(now: EpochMillis, earlier: EpochMillis) -> Option<String> {
    let millis = now.0.checked_sub(earlier.0)?;
    u64::try_from(millis).ok().map(duration)
}

/// Returns a time for people; the number itself for a time outside of the calendar.
fn utc(time: EpochMillis) -> String {
    let date = OffsetDateTime::from_unix_timestamp(time.0.div_euclid(1_000));
    let text = date.ok().and_then(|date| date.format(&TIME).ok());
    text.unwrap_or_else(|| time.0.to_string())
}

#[cfg(test)]
mod tests;
