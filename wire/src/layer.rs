//! Security layers: what protects frames once the authentication has agreed on more than itself.
//!
//! A layer has two halves, one for each direction, so that a connection may send and receive at
//! once. Both keep state from message to message (sequence numbers, chained ciphers): bytes must be
//! wrapped in the order in which they are sent, and unwrapped in the order in which they arrive.
//! Mechanisms implement the halves; [`digest_md5`](crate::digest_md5) does so here.

use std::fmt;

use bytes::BytesMut;

/// The sending half of a layer.
pub trait Wrap: Send + Sync + fmt::Debug {
    /// Turns bytes into a token, in place.
    ///
    /// # Errors
    /// [`LayerError`]: nothing further can be sent on the connection.
    fn wrap(&mut self, bytes: &mut BytesMut) -> Result<(), LayerError>;
}

/// The receiving half of a layer.
pub trait Unwrap: Send + Sync + fmt::Debug {
    /// Turns a token into the bytes in it, in place. They are never more than the token has.
    ///
    /// # Errors
    /// [`LayerError`]: nothing further can be received on the connection, and the bytes are void.
    fn unwrap(&mut self, token: &mut BytesMut) -> Result<(), LayerError>;
}

/// Both halves of a layer.
#[derive(Debug)]
pub struct Layer {
    /// The half that sends.
    pub wrap: Box<dyn Wrap>,
    /// The half that receives.
    pub unwrap: Box<dyn Unwrap>,
}

/// A token that its receiver does not accept, or bytes that cannot be wrapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// Not of a length that a token may have.
    #[error("a wrapped message of {length} bytes is none")]
    Length {
        /// Length of the token in bytes.
        length: usize,
    },
    /// Another type of message than the only one.
    #[error("invalid message type {found}")]
    MessageType {
        /// Number of the type.
        found: u16,
    },
    /// A message that was dropped, repeated or moved.
    #[error("out of order sequencing of messages, got {found}, expected {expected}")]
    Sequence {
        /// Number of the message.
        found: u32,
        /// Number of the next message.
        expected: u32,
    },
    /// A message that was changed, or that another key signed.
    #[error("the signature of a wrapped message is wrong")]
    Signature,
    /// All sequence numbers of the direction are used. A further message could be replaced by an
    /// old one with the same number.
    #[error("no sequence number is left on this connection")]
    Exhausted,
    /// The mechanism's library failed.
    #[error("the security layer failed: {0}")]
    Mechanism(String),
}
