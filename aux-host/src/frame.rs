//! Frames: a length and as many bytes. Memory follows the bytes that have arrived.

use std::io::{self, Read};

/// Longest frame, in bytes.
pub(crate) const FRAME_BYTES_MAX: u32 = 16 << 20;

/// Reads a frame; `None`: the other side has closed the socket between two frames.
///
/// # Errors
/// The socket fails or closes within a frame, or a frame is empty or too long.
pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    let first = loop {
        match from.read(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[first..])?;
    let length = u32::from_be_bytes(length);
    if length == 0 || length > FRAME_BYTES_MAX {
        let text = format!("a frame of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut frame = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut frame)?;
    if frame.len() as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame))
}

/// Fields of a frame, written one after the other.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(message: u8) -> Self {
        Self(vec![0, 0, 0, 0, message])
    }

    pub(crate) fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub(crate) fn int(&mut self, number: i32) {
        self.0.extend(number.to_be_bytes());
    }

    pub(crate) fn long(&mut self, number: i64) {
        self.0.extend(number.to_be_bytes());
    }

    /// Writes a number of entries or bytes, which is small.
    pub(crate) fn count(&mut self, count: usize) {
        self.int(i32::try_from(count).unwrap_or(i32::MAX));
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Returns the frame, or the number of bytes that are too many.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, usize> {
        let length = self.0.len() - 4;
        let length = u32::try_from(length).map_err(|_| length)?;
        if length > FRAME_BYTES_MAX {
            return Err(length as usize);
        }
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        Ok(self.0)
    }
}
