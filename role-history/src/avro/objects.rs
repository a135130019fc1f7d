//! Cuts a stream into JSON objects, without looking at what is inside.

use std::io::BufRead;

use super::error::ReadHistoryError;

/// Objects of a stream, one at a time in a reused buffer. Memory is bounded by the longest object
/// allowed. White space may be anywhere, and an object may span lines.
#[derive(Debug)]
pub(super) struct Objects<R> {
    input: R,
    object: Vec<u8>,
    object_bytes_max: usize,
    line: u64,
}

/// Place in the text, as far as it decides where an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Between,
    Inside { depth: usize },
    String { depth: usize },
    Escape { depth: usize },
    Complete,
}

impl<R: BufRead> Objects<R> {
    pub(super) const fn new(input: R, object_bytes_max: usize) -> Self {
        Self {
            input,
            object: Vec::new(),
            object_bytes_max,
            line: 1,
        }
    }

    /// Returns the line that is being read.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next object and the line at which it begins; `None` at the end of the stream.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], u64)>, ReadHistoryError> {
        self.object.clear();
        let mut place = Place::Between;
        let mut begin = self.line;
        while place != Place::Complete {
            let line = self.line;
            let read = |source| ReadHistoryError::Read { line, source };
            let chunk = self.input.fill_buf().map_err(read)?;
            if chunk.is_empty() {
                return if place == Place::Between {
                    Ok(None)
                } else {
                    Err(ReadHistoryError::Truncated { line: begin })
                };
            }
            let (mut from, mut used) = (0, 0);
            for &byte in chunk {
                let was = place;
                place = place
                    .after(byte)
                    .ok_or(ReadHistoryError::NotAnObject { line: self.line })?;
                if was == Place::Between && place != was {
                    (from, begin) = (used, self.line);
                }
                used += 1;
                self.line += u64::from(byte == b'\n');
                if place == Place::Complete {
                    break;
                }
            }
            if place != Place::Between {
                if self.object.len() + used - from > self.object_bytes_max {
                    let max = self.object_bytes_max;
                    return Err(ReadHistoryError::RecordTooLong { line: begin, max });
                }
                self.object.extend_from_slice(&chunk[from..used]);
            }
            self.input.consume(used);
        }
        Ok(Some((&self.object, begin)))
    }
}

impl Place {
    /// Returns the place after a byte, or `None` for a byte that may not stand between objects.
    const fn after(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Between, b' ' | b'\t' | b'\r' | b'\n') => Self::Between,
            (Self::Between, b'{') => Self::Inside { depth: 1 },
            (Self::Between | Self::Complete, _) => return None,
            (Self::Inside { depth }, b'"') => Self::String { depth },
            (Self::Inside { depth }, b'{') => Self::Inside { depth: depth + 1 },
            (Self::Inside { depth: 1 }, b'}') => Self::Complete,
            (Self::Inside { depth }, b'}') => Self::Inside { depth: depth - 1 },
            (Self::String { depth }, b'\\') => Self::Escape { depth },
            (Self::String { depth }, b'"') => Self::Inside { depth },
            (Self::Escape { depth }, _) => Self::String { depth },
            (Self::Inside { .. } | Self::String { .. }, _) => self,
        })
    }
}
