//! Frames of Hadoop IPC version 9, as functions over bytes.
//!
//! A connection starts with a seven-byte [`Preamble`] from the client; after it each side sends frames, a big-endian
//! 32-bit length and that many bytes. Inside a frame stand protobuf messages, each behind its own varint length.
//!
//! [`FrameDecoder`] owns the bytes received so far. A length that a peer declares is compared with a limit and is
//! otherwise only remembered: memory grows with the bytes that came, never with what was announced.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// Version of Hadoop's IPC that this crate speaks.
pub const IPC_VERSION: u8 = 9;

/// First bytes of a connection.
pub const MAGIC: [u8; 4] = *b"hrpc";

/// Bytes of a preamble.
pub const PREAMBLE_LENGTH: usize = 7;

/// Longest frame, in bytes without its length, from a peer that has not authenticated itself yet. The longest frame
/// of a handshake carries a token identifier twice in base64, well below 8 KiB.
pub const FRAME_LENGTH_MAX_UNAUTHENTICATED: usize = 64 * 1024;

/// Longest frame, in bytes without its length, from an authenticated peer; Hadoop's `ipc.maximum.data.length` and
/// `ipc.maximum.response.length`.
pub const FRAME_LENGTH_MAX: usize = 128 * 1024 * 1024;

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;

/// Room made for one read from the socket. Most frames fit in one, and every connection keeps as much while it is silent.
const READ_CHUNK_BYTES: usize = 2 * 1024;

/// So many times the bytes that have come of a long frame are made room for, if it lacks as many.
const GROWTH: usize = 3;

/// Longest frame whose memory the buffer may use again, in bytes.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// The auth byte of a client that authenticates itself by SASL (-33).
const AUTH_SASL: u8 = 0xdf;

/// The outcome of looking at bytes of which more may come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decoded<T> {
    /// Not enough bytes yet; nothing was taken.
    Incomplete,
    /// A whole item, taken from the buffer.
    Complete(T),
}

/// How a client wants to authenticate itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthProtocol {
    /// By saying a user name.
    None,
    /// By SASL frames before the first call.
    Sasl,
}

/// First bytes of a connection, from client to server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// Quality-of-service class; 0 unless somebody configured one. Has no meaning here.
    pub service_class: u8,
    /// How the client wants to authenticate itself.
    pub auth: AuthProtocol,
}

impl Preamble {
    /// A preamble of service class 0.
    #[must_use]
    pub const fn new(auth: AuthProtocol) -> Self {
        Self {
            service_class: 0,
            auth,
        }
    }

    /// The preamble's bytes.
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

/// First bytes that are no preamble of ours. The server answers each in a form that such a client understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreambleError {
    /// An HTTP client hit the RPC port.
    #[error("an HTTP request on an RPC port")]
    HttpGet,
    /// Not Hadoop's magic, or Hadoop with another version.
    #[error("not Hadoop IPC, or a version other than {IPC_VERSION}: version byte {version}")]
    Version {
        /// The byte where the version stands.
        version: u8,
    },
    /// An unknown way to authenticate.
    #[error("unknown authentication protocol {auth}")]
    UnknownAuth {
        /// The auth byte.
        auth: u8,
    },
}

/// A frame whose length cannot be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is negative as a signed 32-bit number.
    #[error("negative frame length {length}")]
    NegativeLength {
        /// The length as declared.
        length: i32,
    },
    /// The length is over the limit in force.
    #[error("frame of {length} bytes, limit {limit}")]
    TooLong {
        /// The length as declared, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Bytes received on one connection, from which preamble and frames are taken.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    length_max: usize,
}

impl FrameDecoder {
    /// An empty decoder that accepts frames of up to `length_max` bytes.
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

    /// Where the next bytes go: the buffer, with room for at least one chunk, and for the rest of a long frame as far as
    /// that is no more than a few times what has come of it. So such a frame costs few reads and amortised constant work
    /// per byte, and one that is only announced costs nothing.
    pub fn read_buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_CHUNK_BYTES / 2 {
            let come = self.buffer.len();
            let whole = self
                .declared_length()
                .map_or(0, |length| length.saturating_add(LENGTH_BYTES));
            let missing = whole.saturating_sub(come).min(GROWTH * come);
            self.buffer.reserve(missing.max(READ_CHUNK_BYTES));
        }
        &mut self.buffer
    }

    /// The length of the next frame as the peer declares it, once that much has come. May be over the limit.
    #[must_use]
    pub fn declared_length(&self) -> Option<usize> {
        let length = i32::from_be_bytes(*self.buffer.first_chunk::<LENGTH_BYTES>()?);
        usize::try_from(length).ok()
    }

    /// Bytes received and not taken yet.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Takes the preamble.
    ///
    /// # Errors
    /// See [`PreambleError`]; an HTTP request shows after four bytes, the rest after seven.
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
    /// When the declared length is negative or over the limit. Nothing after it can be understood.
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
            // The long allocation goes with the frame instead of being used for the next ones.
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(Decoded::Complete(frame))
    }
}

/// A delimited message that cannot be taken out of its frame.
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
/// See [`DelimitedError`].
pub fn take_delimited<M: Message + Default>(frame: &mut Bytes) -> Result<M, DelimitedError> {
    Ok(M::decode(take_delimited_bytes(frame)?)?)
}

/// Appends one message behind its varint length.
pub fn put_delimited(out: &mut BytesMut, message: &impl Message) {
    message
        .encode_length_delimited(out)
        .expect("a BytesMut grows as needed");
}

/// Appends an encoded message behind its varint length.
pub fn put_delimited_bytes(out: &mut BytesMut, message: &[u8]) {
    prost::encode_length_delimiter(message.len(), out).expect("a BytesMut grows as needed");
    out.put_slice(message);
}

/// Appends one frame: what `body` appends, behind its length.
///
/// # Errors
/// [`FrameError::TooLong`] when `body` appended more than [`FRAME_LENGTH_MAX`] bytes; `out` is then as it was.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoder(bytes: &[u8]) -> FrameDecoder {
        let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX_UNAUTHENTICATED);
        decoder.read_buffer().put_slice(bytes);
        decoder
    }

    #[test]
    fn preambles_are_hadoops() {
        assert_eq!(
            Preamble::new(AuthProtocol::None).encode(),
            *b"hrpc\x09\x00\x00"
        );
        assert_eq!(
            Preamble::new(AuthProtocol::Sasl).encode(),
            *b"hrpc\x09\x00\xdf"
        );
        for auth in [AuthProtocol::None, AuthProtocol::Sasl] {
            let preamble = Preamble::new(auth);
            assert_eq!(
                decoder(&preamble.encode()).preamble(),
                Ok(Decoded::Complete(preamble))
            );
        }
    }

    #[test]
    fn any_service_class_is_accepted() {
        let expected = Preamble {
            service_class: 7,
            auth: AuthProtocol::None,
        };
        assert_eq!(
            decoder(b"hrpc\x09\x07\x00").preamble(),
            Ok(Decoded::Complete(expected))
        );
    }

    #[test]
    fn six_bytes_of_preamble_are_incomplete() {
        assert_eq!(decoder(b"hrpc\x09\x00").preamble(), Ok(Decoded::Incomplete));
    }

    #[test]
    fn http_shows_after_four_bytes() {
        assert_eq!(decoder(b"GET ").preamble(), Err(PreambleError::HttpGet));
    }

    #[test]
    fn other_versions_and_auth_bytes_are_told_apart() {
        assert_eq!(
            decoder(b"hrpc\x04\x00\x00").preamble(),
            Err(PreambleError::Version { version: 4 })
        );
        assert_eq!(
            decoder(b"SSH-2.0").preamble(),
            Err(PreambleError::Version { version: b'2' })
        );
        assert_eq!(
            decoder(b"hrpc\x09\x00\x51").preamble(),
            Err(PreambleError::UnknownAuth { auth: 0x51 })
        );
    }

    #[test]
    fn frame_is_incomplete_until_its_last_byte() {
        let mut whole = BytesMut::new();
        put_frame(&mut whole, |out| out.put_slice(b"abc")).unwrap();
        assert_eq!(&whole[..], b"\0\0\0\x03abc");
        for cut in 0..whole.len() {
            let mut decoder = decoder(&whole[..cut]);
            assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
            assert_eq!(decoder.buffered_bytes(), cut);
        }
        assert_eq!(
            decoder(&whole).frame(),
            Ok(Decoded::Complete(Bytes::from_static(b"abc")))
        );
    }

    #[test]
    fn declared_length_reserves_nothing() {
        let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
        decoder
            .read_buffer()
            .put_i32(i32::try_from(FRAME_LENGTH_MAX).unwrap());
        assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
        assert!(decoder.read_buffer().capacity() <= 2 * READ_CHUNK_BYTES);
    }

    #[test]
    fn long_frame_takes_few_reads_and_room_for_a_few_times_what_came() {
        let mut sent = BytesMut::new();
        put_frame(&mut sent, |out| out.put_bytes(1, 30_000)).unwrap();
        let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
        let mut reads = 0;
        while decoder.frame() == Ok(Decoded::Incomplete) {
            let come = decoder.buffered_bytes();
            let buffer = decoder.read_buffer();
            assert!(buffer.capacity() <= (1 + GROWTH) * come + 2 * READ_CHUNK_BYTES);
            let room = buffer.capacity() - buffer.len();
            buffer.put_slice(&sent.split_to(room.min(sent.len())));
            reads += 1;
        }
        assert!(sent.is_empty());
        assert!(reads <= 3, "{reads}");
    }

    #[test]
    fn long_frame_takes_its_memory_along() {
        let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
        let buffer = decoder.read_buffer();
        put_frame(buffer, |out| out.put_bytes(1, 1 << 20)).unwrap();
        buffer.put_slice(b"rest");
        assert!(matches!(decoder.frame(), Ok(Decoded::Complete(frame)) if frame.len() == 1 << 20));
        assert_eq!(&decoder.read_buffer()[..], b"rest");
        assert!(decoder.read_buffer().capacity() <= 2 * READ_CHUNK_BYTES);
    }

    #[test]
    fn lengths_out_of_bounds_are_refused() {
        assert_eq!(
            decoder(&[0xff, 0xff, 0xff, 0xff]).frame(),
            Err(FrameError::NegativeLength { length: -1 })
        );
        let limit = FRAME_LENGTH_MAX_UNAUTHENTICATED;
        assert_eq!(
            decoder(&[0, 1, 0, 1]).frame(),
            Err(FrameError::TooLong {
                length: limit + 1,
                limit
            })
        );
    }

    #[test]
    fn limit_can_be_raised_between_frames() {
        let mut decoder = decoder(&[0, 1, 0, 1]);
        assert!(decoder.frame().is_err());
        decoder.set_length_max(FRAME_LENGTH_MAX);
        assert_eq!(decoder.frame(), Ok(Decoded::Incomplete));
    }

    #[test]
    fn declared_length_shows_before_the_frame() {
        assert_eq!(decoder(&[0, 1, 0]).declared_length(), None);
        assert_eq!(decoder(&[0, 1, 0, 1]).declared_length(), Some(65_537));
        assert_eq!(decoder(&[0xff, 0xff, 0xff, 0xff]).declared_length(), None);
    }

    #[test]
    fn delimited_message_beyond_its_frame_is_refused() {
        for bytes in [
            &[][..],
            &[5, 1, 2],
            &[0xff; 11],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            let mut frame = Bytes::copy_from_slice(bytes);
            assert_eq!(
                take_delimited_bytes(&mut frame),
                Err(DelimitedError::Length)
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut decoder = decoder(&bytes);
            let _ = decoder.preamble();
            while let Ok(Decoded::Complete(mut frame)) = decoder.frame() {
                let _ = take_delimited_bytes(&mut frame);
            }
        }

        #[test]
        fn frames_survive_any_cut(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
            chunk in 1_usize..50,
        ) {
            let mut stream = BytesMut::new();
            for body in &bodies {
                put_frame(&mut stream, |out| put_delimited_bytes(out, body)).unwrap();
            }
            let mut decoder = FrameDecoder::new(FRAME_LENGTH_MAX);
            let mut received = Vec::new();
            for part in stream.chunks(chunk) {
                decoder.read_buffer().put_slice(part);
                while let Decoded::Complete(mut frame) = decoder.frame().unwrap() {
                    received.push(take_delimited_bytes(&mut frame).unwrap().to_vec());
                    prop_assert!(frame.is_empty());
                }
            }
            prop_assert_eq!(received, bodies);
        }
    }
}
