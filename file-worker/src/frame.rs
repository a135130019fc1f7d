//! Frames on a socket: a length in four bytes, then the message. A length beyond the limit ends the
//! connection before anything is allocated for it.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Moment by which an operation must be over; `None`: it may take for ever.
pub(crate) type Deadline = Option<Instant>;

/// Sends a message.
pub(crate) fn send(stream: &UnixStream, message: &[u8], deadline: Deadline) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(message.len().saturating_add(4));
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(message);
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(left(deadline)?)?;
        let written = match (&mut &*stream).write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => written,
            Err(error) => passed_by(error).map(|()| 0)?,
        };
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Receives a message of at most this many bytes into a buffer; `false`: the stream has ended
/// between two messages.
pub(crate) fn receive(
    stream: &UnixStream,
    buffer: &mut Vec<u8>,
    bytes_max: usize,
    deadline: Deadline,
) -> io::Result<bool> {
    let mut length = [0; 4];
    if !fill(stream, &mut length, deadline)? {
        return Ok(false);
    }
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > bytes_max {
        let text = format!("a message of {length} bytes, of which at most {bytes_max} are taken");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    buffer.clear();
    buffer.resize(length, 0);
    if !buffer.is_empty() && !fill(stream, buffer, deadline)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

/// Fills a buffer; `false`: the stream ended before the first byte.
fn fill(stream: &UnixStream, buffer: &mut [u8], deadline: Deadline) -> io::Result<bool> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        stream.set_read_timeout(left(deadline)?)?;
        match (&mut &*stream).read(rest) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) => passed_by(error)?,
        }
    }
    Ok(true)
}

/// Passes by an error after which the call is repeated; the deadline decides how often.
fn passed_by(error: io::Error) -> io::Result<()> {
    let is_passed_by = matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    );
    if is_passed_by { Ok(()) } else { Err(error) }
}

/// Returns the time that is left for a call of the kernel.
fn left(deadline: Deadline) -> io::Result<Option<Duration>> {
    let Some(deadline) = deadline else {
        return Ok(None);
    };
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::ErrorKind::TimedOut.into())
    } else {
        Ok(Some(left))
    }
}
