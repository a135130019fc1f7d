//! WRAP frames: what a connection with a security layer carries after its authentication.
//!
//! Each is a SASL frame whose token has the wrapped bytes of ordinary frames, with their lengths.
//! Unwrapped bytes are a stream: a token may have several frames, or a part of one that goes on in
//! the next token. Frames are made here with one token each. Source:
//! `org.apache.hadoop.ipc.Server` and `org.apache.hadoop.security.SaslRpcClient`.

use std::fmt;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use prost::encoding::{WireType as Encoding, encode_key, encode_varint, encoded_len_varint};

use crate::frame::{Decoded, FrameDecoder, FrameError, put_frame, take_delimited_bytes};
use crate::header::{self, CALL_ID_SASL, Outcome};
use crate::layer::{LayerError, Unwrap, Wrap};
use crate::proto::hadoop_common::rpc_sasl_proto::SaslState;
use crate::raw_message::{self, RawMessageError, WireType};

/// Numbers of the fields of `RpcSaslProto`.
const STATE_FIELD: u32 = 2;
const TOKEN_FIELD: u32 = 3;

/// Largest capacity of an empty buffer, in bytes: one that grew beyond it for a large frame is
/// freed.
const BUFFER_KEPT_MAX: usize = 64 * 1024;

/// A frame that should have been wrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrappedError {
    /// A frame in clear.
    #[error("a frame that is not wrapped, although a security layer was agreed on")]
    InClear,
    /// A step of an authentication that is over.
    #[error("SASL state {state} after the authentication")]
    State {
        /// Number of the state.
        state: u64,
    },
    /// No SASL message, or one without a token.
    #[error("the SASL message does not parse")]
    Malformed(#[from] RawMessageError),
    /// No token, or no state.
    #[error("the SASL message has no {0}")]
    Incomplete(&'static str),
}

/// Takes the token out of an encoded `RpcSaslProto` with state WRAP. Other fields are passed over
/// and take no memory, whatever a peer puts there. The result shares the message's memory.
///
/// # Errors
/// [`WrappedError`] for another message.
pub fn take_token(message: &Bytes) -> Result<Bytes, WrappedError> {
    let (mut state, mut token) = (None, None);
    let mut at = 0;
    while at < message.len() {
        let rest = &message[at..];
        let span = raw_message::span(rest, 0)?;
        match (span.number, span.wire_type) {
            (STATE_FIELD, WireType::Varint) => {
                let mut content = &rest[span.content_at..];
                let value = prost::encoding::decode_varint(&mut content);
                state = Some(value.map_err(|_| RawMessageError::Truncated)?);
            }
            (TOKEN_FIELD, WireType::LengthDelimited) => {
                token = Some(message.slice(at + span.content_at..at + span.end));
            }
            (_, WireType::Varint | WireType::LengthDelimited | WireType::Other) => {}
        }
        at += span.end;
    }
    let state = state.ok_or(WrappedError::Incomplete("state"))?;
    if state != u64::from(SaslState::Wrap as u8) {
        return Err(WrappedError::State { state });
    }
    token.ok_or(WrappedError::Incomplete("token"))
}

/// Takes the token out of a frame of a client, after its header with this call id.
///
/// # Errors
/// [`WrappedError`].
pub fn token_of_request(call_id: i32, mut payload: Bytes) -> Result<Bytes, WrappedError> {
    if call_id != CALL_ID_SASL {
        return Err(WrappedError::InClear);
    }
    let message = take_delimited_bytes(&mut payload).map_err(|_| RawMessageError::Truncated)?;
    take_token(&message)
}

/// Takes the token out of a frame of a server.
///
/// # Errors
/// [`WrappedError`]; also a failure in clear is refused, since anybody could have made it.
pub fn token_of_answer(frame: Bytes) -> Result<Bytes, WrappedError> {
    let answer = header::decode_answer(frame);
    let answer = answer.map_err(|_| WrappedError::Malformed(RawMessageError::Truncated))?;
    match answer.outcome {
        Outcome::Success(message) if answer.call_id == CALL_ID_SASL => take_token(&message),
        Outcome::Success(_) | Outcome::Error(_) | Outcome::Fatal(_) => Err(WrappedError::InClear),
    }
}

/// The side that sends a frame, which decides about its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A client: the header of a request.
    Client,
    /// A server: the header of a response.
    Server,
}

/// Appends a frame with this token.
///
/// # Errors
/// [`FrameError::TooLong`] if the token does not fit into a frame.
pub fn put_token(out: &mut BytesMut, sender: Sender, token: &[u8]) -> Result<(), FrameError> {
    out.reserve(token.len() + 64);
    put_frame(out, |out| {
        let put_header = match sender {
            Sender::Client => header::sasl_request_header().encode_length_delimited(out),
            Sender::Server => header::sasl_response_header().encode_length_delimited(out),
        };
        put_header.expect("a BytesMut grows as needed");
        // Written by hand, so that a long token is copied once only.
        let state = [0x10, SaslState::Wrap as u8];
        let length = token.len() as u64;
        let key_bytes = 1;
        let message_bytes = state.len() + key_bytes + encoded_len_varint(length) + token.len();
        encode_varint(message_bytes as u64, out);
        out.put_slice(&state);
        encode_key(TOKEN_FIELD, Encoding::LengthDelimited, out);
        encode_varint(length, out);
        out.put_slice(token);
    })
}

/// Reason for which frames cannot be wrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The layer failed.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The frames are wrapped longer than a frame may be.
    #[error(transparent)]
    TooLong(#[from] FrameError),
}

/// The sending half of a wrapped connection.
pub struct WrappedWriter {
    wrap: Box<dyn Wrap>,
    sender: Sender,
    /// Frames in clear; empty between two calls.
    clear: BytesMut,
}

impl fmt::Debug for WrappedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The buffer has what is to be protected.
        f.debug_struct("WrappedWriter")
            .field("wrap", &self.wrap)
            .field("sender", &self.sender)
            .finish_non_exhaustive()
    }
}

impl WrappedWriter {
    /// Starts with the first frame after the authentication.
    #[must_use]
    pub fn new(wrap: Box<dyn Wrap>, sender: Sender) -> Self {
        Self {
            wrap,
            sender,
            clear: BytesMut::new(),
        }
    }

    /// Appends the frames that `append` makes, wrapped. Appends nothing when it makes none.
    ///
    /// # Errors
    /// [`SealError`]: nothing further can be sent.
    pub fn put<T>(
        &mut self,
        out: &mut BytesMut,
        append: impl FnOnce(&mut BytesMut) -> T,
    ) -> Result<T, SealError> {
        let appended = append(&mut self.clear);
        if self.clear.is_empty() {
            return Ok(appended);
        }
        self.wrap.wrap(&mut self.clear)?;
        put_token(out, self.sender, &self.clear)?;
        self.clear.clear();
        if self.clear.capacity() > BUFFER_KEPT_MAX {
            self.clear = BytesMut::new();
        }
        Ok(appended)
    }
}

/// The receiving half of a wrapped connection: tokens in, frames out.
#[derive(Debug)]
pub struct WrappedReader {
    unwrap: Box<dyn Unwrap>,
    /// Bytes of the last token that the decoder has not taken yet.
    unwrapped: Bytes,
    frames: FrameDecoder,
}

impl WrappedReader {
    /// Starts with the first token after the authentication. A frame has at most this many bytes.
    #[must_use]
    pub fn new(unwrap: Box<dyn Unwrap>, length_max: usize) -> Self {
        Self {
            unwrap,
            unwrapped: Bytes::new(),
            frames: FrameDecoder::new(length_max),
        }
    }

    /// Takes the next token. All bytes of the last one have to be fed before.
    ///
    /// # Errors
    /// [`LayerError`]: no further token can be taken.
    pub fn open(&mut self, token: Bytes) -> Result<(), LayerError> {
        debug_assert!(self.unwrapped.is_empty(), "every token is fed whole");
        // In place, unless the socket's buffer still shares the memory.
        let mut bytes = token
            .try_into_mut()
            .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        self.unwrap.unwrap(&mut bytes)?;
        self.unwrapped = bytes.freeze();
        Ok(())
    }

    /// Gives the decoder as many of the unwrapped bytes as its buffer has space for, as a socket
    /// would: so a frame's memory has the size of the frame and not that of its token.
    pub fn feed(&mut self) {
        let buffer = self.frames.read_buffer();
        let space = buffer.capacity() - buffer.len();
        let bytes = self.unwrapped.split_to(space.min(self.unwrapped.len()));
        buffer.extend_from_slice(&bytes);
        if self.unwrapped.is_empty() {
            // Frees the token's memory.
            self.unwrapped = Bytes::new();
        }
    }

    /// Takes the next frame, without its length, out of the bytes that were fed.
    ///
    /// # Errors
    /// As [`FrameDecoder::frame`].
    pub fn frame(&mut self) -> Result<Decoded<Bytes>, FrameError> {
        self.frames.frame()
    }

    /// Returns the number of unwrapped bytes that are not fed yet.
    #[must_use]
    pub const fn unfed_bytes(&self) -> usize {
        self.unwrapped.len()
    }

    /// Returns the decoder of the frames.
    #[must_use]
    pub const fn frames(&self) -> &FrameDecoder {
        &self.frames
    }
}

#[cfg(test)]
mod tests;
