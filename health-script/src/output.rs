//! What a script prints: a line that begins with `ERROR` is a fault, and the text is the report.
//! Pure.

use std::fmt::Write as _;

/// Beginning of a line that reports a fault (Hadoop: `NodeHealthScriptRunner.ERROR_PATTERN`).
const FAULT: &[u8] = b"ERROR";

/// Bytes of the output that are kept. The report goes to the ResourceManager with every heartbeat.
const KEPT_MAX: usize = 4096;

/// Bytes kept of a line that reports a fault behind these.
const LINE_KEPT_MAX: usize = 512;

/// Output of a run as it comes, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Beginning of the output.
    kept: Vec<u8>,
    /// Bytes of the output.
    length: usize,
    /// Beginning of the line that the output is in now.
    line: Vec<u8>,
    /// First line that reports a fault, and where it begins.
    fault: Option<(usize, Vec<u8>)>,
}

impl Output {
    /// Takes the next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let room = KEPT_MAX.saturating_sub(self.kept.len());
        self.kept.extend(bytes.iter().take(room));
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, behind) = rest.split_at(end);
            self.add_to_line(line);
            self.end_line();
            self.length += 1;
            rest = behind.get(1..).unwrap_or_default();
        }
        self.add_to_line(rest);
    }

    fn add_to_line(&mut self, bytes: &[u8]) {
        let room = LINE_KEPT_MAX.saturating_sub(self.line.len());
        self.line.extend(bytes.iter().take(room));
        self.length += bytes.len();
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if self.fault.is_none() && line.starts_with(FAULT) {
            self.fault = Some((self.length, line));
        }
    }

    /// Returns the report at the end of the output; `None` if no line reports a fault. It is the
    /// whole output, as in Hadoop, or its beginning with the first such line.
    pub(crate) fn report(mut self) -> Option<String> {
        self.end_line();
        let (end, line) = self.fault?;
        let mut report = String::from_utf8_lossy(&self.kept).into_owned();
        if self.length > self.kept.len() {
            let cut = self.length - self.kept.len();
            // Writing to a string does not fail.
            let _ = write!(report, "\n[{cut} more bytes]");
            if end > self.kept.len() {
                let _ = write!(report, "\n{}", String::from_utf8_lossy(&line));
            }
        }
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(parts: &[&[u8]]) -> Option<String> {
        let mut output = Output::default();
        for part in parts {
            output.add(part);
        }
        output.report()
    }

    #[test]
    fn only_a_line_that_begins_with_the_word_is_a_fault() {
        for healthy in ["", "fine\n", " ERROR\n", "no ERROR\n", "Error\n", "ERRO\nR"] {
            assert_eq!(report(&[healthy.as_bytes()]), None, "{healthy:?}");
        }
        for faulty in ["ERROR", "ERROR disk\n", "fine\nERRORS\nfine\n", "\nERROR"] {
            let found = report(&[faulty.as_bytes()]);
            assert_eq!(found.as_deref(), Some(faulty));
        }
    }

    #[test]
    fn a_line_may_come_in_pieces() {
        let pieces: [&[u8]; 4] = [b"ok\nER", b"RO", b"R disk", b"\nmore"];
        assert_eq!(report(&pieces).as_deref(), Some("ok\nERROR disk\nmore"));
        assert_eq!(report(&[b"ok", b"ERROR"]), None);
    }

    #[test]
    fn a_long_output_is_cut_and_its_fault_is_kept() {
        let long = vec![b'x'; KEPT_MAX];
        let found = report(&[&long, b"yyy\n", b"ERROR behind\nrest\n"]).unwrap();
        let (beginning, end) = found.split_at(KEPT_MAX);
        assert!(beginning.bytes().all(|byte| byte == b'x'));
        assert_eq!(end, "\n[22 more bytes]\nERROR behind");
        let early = report(&[b"ERROR early\n", &long]).unwrap();
        assert_eq!(early.matches("ERROR early").count(), 1);
    }

    #[test]
    fn memory_is_bounded_whatever_is_printed() {
        let mut output = Output::default();
        let endless = vec![b'E'; 1 << 16];
        for _ in 0..100 {
            output.add(&endless);
        }
        assert!(output.kept.capacity() + output.line.capacity() < 4 * KEPT_MAX);
        output.add(b"\nERROR\xff\n");
        let report = output.report().unwrap();
        assert!(report.len() < 2 * KEPT_MAX && report.ends_with("ERROR\u{fffd}"));
    }
}
