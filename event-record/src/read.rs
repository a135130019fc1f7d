//! Reading a file of events within bounds: it may be a stranger's.

use std::io::{self, BufRead, Read as _};

use records::Now;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::form::{Begin, FORMAT, Step, VERSION};

/// Longest line in bytes. The state of a scheduler that is full (20,000 containers) takes 8 MB.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Longest file in bytes. The agent's are shorter by default.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// Latest time that is read, in milliseconds: 2^53.
const TIME_MAX: u64 = 1 << 53;

/// Error for a file that is not one of events.
#[derive(Debug, Error)]
#[error("line {line}: {reason}")]
pub struct ReadError {
    /// Line, from 1.
    pub line: u64,
    /// Description of the fault.
    pub reason: String,
}

/// Reader of a file. Holds one line at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Lines read so far.
    lines: u64,
    bytes: u64,
    is_cut: bool,
}

impl<R: BufRead> Reader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// [`ReadError`]: the first line is not the begin of a file of this version.
    pub fn new(input: R) -> Result<(Self, Begin), ReadError> {
        let mut reader = Self {
            input,
            lines: 0,
            bytes: 0,
            is_cut: false,
        };
        let Some(line) = reader.next_line()? else {
            return Err(reader.fault("the first line is missing or cut off".to_owned()));
        };
        // A later version may have other fields, so the version comes first.
        let named: Named = reader.parse(&line)?;
        if named.format != FORMAT {
            return Err(reader.fault(format!("not {FORMAT:?}")));
        }
        if named.version != VERSION {
            let version = named.version;
            return Err(reader.fault(format!("version {version}; this program reads {VERSION}")));
        }
        let begin: Begin = reader.parse(&line)?;
        reader.check(begin.at)?;
        Ok((reader, begin))
    }

    /// Reads the next step; `None`: there is none. A last line without an end was cut off when the
    /// agent or the machine stopped, and counts as none ([`Self::is_cut`]).
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn next_step(&mut self) -> Result<Option<Step>, ReadError> {
        let Some(line) = self.next_line()? else {
            return Ok(None);
        };
        let step: Step = self.parse(&line)?;
        self.check(step.at)?;
        Ok(Some(step))
    }

    /// Returns whether the last line was cut off.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the number of the last line that was read, from 1.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.lines
    }

    fn fault(&self, reason: String) -> ReadError {
        let line = self.lines.max(1);
        ReadError { line, reason }
    }

    fn check(&self, at: Now) -> Result<(), ReadError> {
        if at.mono.0 > TIME_MAX || at.wall.0.unsigned_abs() > TIME_MAX {
            return Err(self.fault("a time later than any".to_owned()));
        }
        Ok(())
    }

    fn parse<T: DeserializeOwned>(&self, line: &[u8]) -> Result<T, ReadError> {
        serde_json::from_slice(line).map_err(|error| {
            // A text may quote what it met.
            let text: String = error.to_string().chars().take(300).collect();
            self.fault(text)
        })
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64 + 1;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut line);
        let read = read.map_err(|error: io::Error| self.fault(error.to_string()))?;
        if read == 0 {
            return Ok(None);
        }
        self.lines += 1;
        self.bytes += read as u64;
        if line.pop() != Some(b'\n') {
            if read > LINE_BYTES_MAX {
                let reason = format!("a line of more than {LINE_BYTES_MAX} bytes");
                return Err(self.fault(reason));
            }
            self.is_cut = true;
            return Ok(None);
        }
        if self.bytes > FILE_BYTES_MAX {
            return Err(self.fault(format!("a file of more than {FILE_BYTES_MAX} bytes")));
        }
        Ok(Some(line))
    }
}

/// Fields that every version has.
#[derive(serde::Deserialize)]
struct Named {
    format: String,
    version: u32,
}
