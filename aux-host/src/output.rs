//! The host's output: each line goes to the agent's log, within bounds.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest line, in bytes; the rest of a longer one is dropped.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Lines in a second; the others are counted.
const LINES_MAX: u32 = 200;

/// Last line of a host, which often says why it has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastLine(Arc<Mutex<String>>);

impl LastLine {
    pub(crate) fn get(&self) -> String {
        let line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.clone()
    }

    fn set(&self, line: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.clone_into(&mut last);
    }
}

/// Starts the thread that logs an output until it is closed by all who have it.
pub(crate) fn follow(output: impl Read + Send + 'static) -> io::Result<LastLine> {
    let last = LastLine::default();
    let set = last.clone();
    let serve = move || {
        let mut lines = Lines::default();
        let mut output = BufReader::with_capacity(LINE_BYTES_MAX, output);
        while let Ok(Some(line)) = next_line(&mut output) {
            if !line.is_empty() {
                set.set(&line);
                lines.log(&line);
            }
        }
    };
    thread::Builder::new()
        .name("aux-host-log".to_owned())
        .spawn(serve)?;
    Ok(last)
}

/// Reads a line, without its end, of at most [`LINE_BYTES_MAX`] bytes; `None`: there is no more.
fn next_line(output: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let mut is_end = true;
    loop {
        let available = match output.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            filled => filled?,
        };
        if available.is_empty() {
            break;
        }
        is_end = false;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let room = LINE_BYTES_MAX - line.len();
        line.extend(&part[..part.len().min(room)]);
        let used = end.map_or(available.len(), |at| at + 1);
        output.consume(used);
        if end.is_some() {
            break;
        }
    }
    if is_end {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line);
    // Nothing that a terminal would obey reaches the log.
    let text = text
        .trim_end()
        .replace(|it: char| it.is_control() && it != '\t', " ");
    Ok(Some(text))
}

/// Lines of the present second.
#[derive(Default)]
struct Lines {
    since: Option<Instant>,
    count: u32,
    dropped: u64,
}

impl Lines {
    fn log(&mut self, line: &str) {
        let now = Instant::now();
        if self
            .since
            .is_none_or(|since| now - since >= Duration::from_secs(1))
        {
            if self.dropped > 0 {
                tracing::warn!(
                    lines = self.dropped,
                    "the host of auxiliary services wrote more"
                );
            }
            *self = Self {
                since: Some(now),
                ..Self::default()
            };
        }
        self.count += 1;
        if self.count > LINES_MAX {
            self.dropped += 1;
            return;
        }
        match line.split(' ').next() {
            Some("ERROR" | "FATAL") => tracing::error!(target: "aux_host", "{line}"),
            Some("WARN") => tracing::warn!(target: "aux_host", "{line}"),
            Some("DEBUG" | "TRACE") => tracing::debug!(target: "aux_host", "{line}"),
            _other => tracing::info!(target: "aux_host", "{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let text = format!("{}\nWARN \u{1b}[31mred\n\nlast", "x".repeat(100_000));
        let mut output = BufReader::with_capacity(100, text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut output).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines[0].len(), LINE_BYTES_MAX);
        assert_eq!(lines[1..], ["WARN  [31mred", "", "last"]);
    }
}
