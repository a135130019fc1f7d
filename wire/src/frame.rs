//! Frames of Hadoop IPC version 9, as functions over bytes.
//!
//! A connection starts with a seven-byte [`Preamble`] from the client; after it each side sends
//! frames, a big-endian 32-bit length and that many bytes. A frame holds protobuf messages, each
//! prefixed by its own varint length.
//!
//! [`FrameDecoder`] owns the bytes received so far. A length that a peer declares is compared with
//! a limit and otherwise only remembered: memory grows with the bytes received, never with the
//! length declared.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// Version of Hadoop's IPC that this crate speaks.
pub const IPC_VERSION: u8 = 9;

/// First bytes of a connection.
pub const MAGIC: [u8; 4] = *b"hrpc";

/// Length of a preamble, in bytes.
pub const PREAMBLE_LENGTH: usize = 7;

/// Longest frame, in bytes without its length, from a peer that has not authenticated itself yet.
/// The longest frame of a handshake carries a token identifier twice in base64, well below 8 KiB.
pub const FRAME_LENGTH_MAX_UNAUTHENTICATED: usize = 16 * 1024;

/// Longest frame, in bytes without its length, from an authenticated peer; Hadoop's
/// `ipc.maximum.data.length` and `ipc.maximum.response.length`.
pub const FRAME_LENGTH_MAX: usize = 128 * 1024 * 1024;

/// Size of a frame's length prefix, in bytes.
const LENGTH_BYTES: usize = 4;

/// Buffer space reserved for one read from the socket, in bytes. Most frames fit; every idle
/// connection keeps this much.
const READ_CHUNK_BYTES: usize = 2 * 1024;

/// Factor by which the buffer grows while a long frame is incomplete.
const GROWTH: usize = 4;

/// Longest frame whose memory the buffer may reuse, in bytes.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// Auth byte of a client that authenticates by SASL (-33).
const AUTH_SASL: u8 = 0xdf;

/// Result of decoding bytes that may still be incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decoded<T> {
    /// Too few bytes so far; none was taken.
    Incomplete,
    /// A whole item, taken from the buffer.
    Complete(T),
}

/// Authentication that a client announces in the preamble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthProtocol {
    /// Simple: the client only claims a user name.
    None,
    /// SASL frames before the first call.
    Sasl,
}

/// The first bytes of a connection, from client to server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Quality-of-service class; 0 unless configured. Ignored here.
    pub service_class: u8,
    /// Authentication that the client wants.
    pub auth: AuthProtocol,
}

impl Preamble {
    /// Makes a preamble of service class 0.
    #[must_use]
    pub const fn new(auth: AuthProtocol) -> Self {
        Self {
            service_class: 0,
            auth,
        }
    }

    /// Returns the preamble's bytes.
    #[must_use]
    pub fn encode(self) -> [u8; PREAMBLE_LENGTH] {
        let [m0, m1, m2, m3] = MAGIC;
        let auth = match self.auth {
            AuthProtocol::None => 0,
            AuthProtocol::Sasl => AUTH_SASL,
        };
        [m0, m1, m2, m3, IPC_VERSION, self.service_class, auth]
    }
}

/// First bytes that are not a supported preamble. The server answers each in a form that such a
/// client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// An HTTP request on the RPC port.
    #[error("an HTTP request on an RPC port")]
    HttpGet,
    /// Not Hadoop's magic, or Hadoop with another version.
    #[error("not Hadoop IPC, or a version other than {IPC_VERSION}: version byte {version}")]
    Version {
        /// Byte at the version's position.
        version: u8,
    },
    /// An unknown authentication protocol.
    #[error("unknown authentication protocol {auth}")]
    UnknownAuth {
        /// Auth byte as received.
        auth: u8,
    },
}

/// A frame whose length cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is negative as a signed 32-bit number.
    #[error("negative frame length {length}")]
    NegativeLength {
        /// Length as declared.
        length: i32,
    },
    /// The length is over the limit in force.
    #[error("frame of {length} bytes, limit {limit}")]
    TooLong {
        /// Length as declared, in bytes.
        length: usize,
        /// Limit in force, in bytes.
        limit: usize,
    },
}

/// The bytes received on one connection; yields the preamble and frames.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    length_max: usize,
}

impl FrameDecoder {
    /// Makes an empty decoder that accepts frames of up to `length_max` bytes.
    #[must_use]
    pub fn new(length_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            length_max,
        }
    }

    /// Changes the longest frame accepted, once the peer has authenticated itself.
    pub const fn set_length_max(&mut self, length_max: usize) {
        self.length_max = length_max;
    }

    /// Returns the buffer for the next read, with space for at least one chunk, and for the rest of
    /// a long frame up to a few times what has been received of it. So a long frame takes few reads
    /// and amortised constant work per byte, and a frame that is only announced takes no memory.
    pub fn read_buffer(&mut self) -> &mut BytesMut {
        let capacity = self.next_capacity();
        self.buffer.reserve(capacity - self.buffer.len());
        &mut self.buffer
    }

    /// Returns the bytes that the buffer has once [`read_buffer`](Self::read_buffer) has been
    /// called: its present ones while they suffice.
    #[must_use]
    pub fn next_capacity(&self) -> usize {
        let (received, capacity) = (self.buffer.len(), self.buffer.capacity());
        let whole = self
            .declared_length()
            .map_or(0, |length| length.saturating_add(LENGTH_BYTES));
        // The last bytes of a long frame get no chunk of their own, which would double the buffer.
        let is_enough = whole > READ_CHUNK_BYTES && whole <= capacity && received < capacity;
        if is_enough || capacity - received >= READ_CHUNK_BYTES / 2 {
            return capacity;
        }
        // The last step is never less than double: a Vec would double then and exceed the frame.
        let grown = if whole / 2 <= GROWTH * received {
            whole
        } else {
            GROWTH * received
        };
        grown.max(received + READ_CHUNK_BYTES)
    }

    /// Returns the length that the peer declares for the next frame, once received. May exceed the
    /// limit.
    #[must_use]
    pub fn declared_length(&self) -> Option<usize> {
        let length = i32::from_be_bytes(*self.buffer.first_chunk::<LENGTH_BYTES>()?);
        usize::try_from(length).ok()
    }

    /// Returns the number of bytes received but not taken yet.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Takes the preamble.
    ///
    /// # Errors
    /// [`PreambleError`]; an HTTP request is recognised after four bytes, the rest after seven.
    pub fn preamble(&mut self) -> Result<Decoded<Preamble>, PreambleError> {
        if self.buffer.starts_with(b"GET ") {
            return Err(PreambleError::HttpGet);
        }
        let Some(&[m0, m1, m2, m3, version, service_class, auth]) =
            self.buffer.first_chunk::<PREAMBLE_LENGTH>()
        else {
            return Ok(Decoded::Incomplete);
        };
        if [m0, m1, m2, m3] != MAGIC || version != IPC_VERSION {
            return Err(PreambleError::Version { version });
        }
        let auth = match auth {
            0 => AuthProtocol::None,
            AUTH_SASL => AuthProtocol::Sasl,
            auth => return Err(PreambleError::UnknownAuth { auth }),
        };
        self.buffer.advance(PREAMBLE_LENGTH);
        Ok(Decoded::Complete(Preamble {
            service_class,
            auth,
        }))
    }

    /// Takes the next frame, without its length. The result shares the buffer's memory.
    ///
    /// # Errors
    /// The declared length is negative or over the limit. No later frame can be decoded.
    pub fn frame(&mut self) -> Result<Decoded<Bytes>, FrameError> {
        let Some(&length) = self.buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(Decoded::Incomplete);
        };
        let length = i32::from_be_bytes(length);
        let Ok(length) = usize::try_from(length) else {
            return Err(FrameError::NegativeLength { length });
        };
        if length > self.length_max {
            return Err(FrameError::TooLong {
                length,
                limit: self.length_max,
            });
        }
        if self.buffer.len() - LENGTH_BYTES < length {
            return Ok(Decoded::Incomplete);
        }
        self.buffer.advance(LENGTH_BYTES);
        let frame = self.buffer.split_to(length).freeze();
        if length > BUFFER_KEPT_MAX {
            // The long allocation leaves with the frame and is not reused for the next ones.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(Decoded::Complete(frame))
    }
}

/// A length-delimited message that cannot be taken out of its frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelimitedError {
    /// The varint length is missing, too long, or larger than what follows it.
    #[error("message length missing or beyond its frame")]
    Length,
    /// The message does not parse.
    #[error("message does not parse")]
    Message(#[from] prost::DecodeError),
}

/// Takes the bytes of one delimited message from the front of a frame.
///
/// # Errors
/// [`DelimitedError::Length`].
pub fn take_delimited_bytes(frame: &mut Bytes) -> Result<Bytes, DelimitedError> {
    let length = prost::decode_length_delimiter(&mut *frame).map_err(|_| DelimitedError::Length)?;
    if length > frame.len() {
        return Err(DelimitedError::Length);
    }
    Ok(frame.split_to(length))
}

/// Takes one delimited message from the front of a frame.
///
/// # Errors
/// [`DelimitedError`] for a wrong length or a malformed message.
pub fn take_delimited<M: Message + Default>(frame: &mut Bytes) -> Result<M, DelimitedError> {
    Ok(M::decode(take_delimited_bytes(frame)?)?)
}

/// Appends a message, prefixed by its varint length.
pub fn put_delimited(out: &mut BytesMut, message: &impl Message) {
    message
        .encode_length_delimited(out)
        .expect("a BytesMut grows as needed");
}

/// Appends an encoded message, prefixed by its varint length.
pub fn put_delimited_bytes(out: &mut BytesMut, message: &[u8]) {
    prost::encode_length_delimiter(message.len(), out).expect("a BytesMut grows as needed");
    out.put_slice(message);
}

/// Appends one frame: the bytes that `body` appends, prefixed by their length.
///
/// # Errors
/// [`FrameError::TooLong`] if `body` appended more than [`FRAME_LENGTH_MAX`] bytes; `out` is then
/// as before.
pub fn put_frame(out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) -> Result<(), FrameError> {
    let start = out.len();
    out.put_i32(0);
    body(out);
    let length = out.len() - start - LENGTH_BYTES;
    match i32::try_from(length) {
        Ok(declared) if length <= FRAME_LENGTH_MAX => {
            out[start..start + LENGTH_BYTES].copy_from_slice(&declared.to_be_bytes());
            Ok(())
        }
        Ok(_) | Err(_) => {
            out.truncate(start);
            Err(FrameError::TooLong {
                length,
                limit: FRAME_LENGTH_MAX,
            })
        }
    }
}

#[cfg(test)]
mod tests;
