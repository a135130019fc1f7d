//! Bytes of a trace with their place, in bounded lines or as a stream for the reader of JSON.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::TraceError;

/// Longest line of a text, in bytes: a job of the `.tr` format has all its tasks on one.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Longest object of JSON, in bytes.
pub const RECORD_BYTES_MAX: u64 = 128 << 20;

/// Place in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Byte, from 0.
    pub byte: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, byte {}", self.line, self.byte)
    }
}

/// Lines of a text, each within [`LINE_BYTES_MAX`].
pub(crate) struct Lines<R> {
    input: R,
    /// Place of the next line.
    next: Place,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        let next = Place { line: 1, byte: 0 };
        let line = Vec::new();
        Self { input, next, line }
    }

    /// Returns the next line that is not blank, without its end, and its place.
    pub(crate) fn next_line(&mut self) -> Result<Option<(Place, &str)>, TraceError> {
        loop {
            let place = self.next;
            if !self.read(place)? {
                return Ok(None);
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                let text = std::str::from_utf8(&self.line);
                let text = text.map_err(|error| {
                    let byte = place.byte + error.valid_up_to() as u64;
                    TraceError::new(Place { byte, ..place }, "not UTF-8")
                })?;
                return Ok(Some((place, text.trim_end_matches(['\n', '\r']))));
            }
        }
    }

    /// Reads a line with its end; false: there is none.
    fn read(&mut self, place: Place) -> Result<bool, TraceError> {
        self.line.clear();
        let failed = |error: &io::Error| TraceError::new(place, error.to_string());
        loop {
            let ready = match self.input.fill_buf() {
                Ok(ready) => ready,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(&error)),
            };
            if ready.is_empty() {
                break;
            }
            let end = ready.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(ready.len(), |end| end + 1);
            if self.line.len() + taken > LINE_BYTES_MAX {
                let reason = format!("a line of more than {LINE_BYTES_MAX} bytes");
                return Err(TraceError::new(place, reason));
            }
            self.line.extend_from_slice(&ready[..taken]);
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.next.line += 1;
        self.next.byte += self.line.len() as u64;
        Ok(!self.line.is_empty())
    }
}

/// How far a [`Counted`] input has been read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) place: Place,
    /// Place of the first byte of the present object; `None` before it, among spaces and ends of
    /// lines.
    begin: Option<Place>,
    /// Bytes that the present object may still have.
    left: u64,
}

impl Progress {
    const fn at(place: Place, left: u64) -> Self {
        Self {
            place,
            begin: None,
            left,
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.begin.is_none() && !byte.is_ascii_whitespace() {
                self.begin = Some(self.place);
            }
            self.place.byte += 1;
            self.place.line += u64::from(*byte == b'\n');
        }
        self.left -= bytes.len() as u64;
    }
}

/// Input that counts its bytes and lines, and ends an object that is too long with an error.
pub(crate) struct Counted<R> {
    input: R,
    progress: Rc<Cell<Progress>>,
}

/// View of a [`Counted`] input that somebody else reads.
pub(crate) struct Watch {
    progress: Rc<Cell<Progress>>,
    bytes_max: u64,
}

impl Watch {
    pub(crate) fn place(&self) -> Place {
        self.progress.get().place
    }

    /// Returns the place of the present object's first byte.
    pub(crate) fn object_place(&self) -> Place {
        let progress = self.progress.get();
        progress.begin.unwrap_or(progress.place)
    }

    /// Lets the next object begin.
    pub(crate) fn begin(&self) {
        self.progress
            .set(Progress::at(self.place(), self.bytes_max));
    }
}

impl<R: BufRead> Counted<R> {
    pub(crate) fn new(input: R, bytes_max: u64) -> (Self, Watch) {
        let place = Place { line: 1, byte: 0 };
        let progress = Rc::new(Cell::new(Progress::at(place, bytes_max)));
        let watch = Watch {
            progress: Rc::clone(&progress),
            bytes_max,
        };
        (Self { input, progress }, watch)
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut progress = self.progress.get();
        let ready = self.input.fill_buf()?;
        let left = usize::try_from(progress.left).unwrap_or(usize::MAX);
        let taken = ready.len().min(out.len()).min(left);
        if taken == 0 && !ready.is_empty() && !out.is_empty() {
            return Err(io::Error::other("an object that is too long"));
        }
        out[..taken].copy_from_slice(&ready[..taken]);
        self.input.consume(taken);
        progress.pass(&out[..taken]);
        self.progress.set(progress);
        Ok(taken)
    }
}
