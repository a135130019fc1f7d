//! The SASL mechanism GSSAPI: what a client and a server say around the tokens of a GSS library,
//! and the layer that they agree on. Pure: the library stands behind [`GssContext`].
//!
//! ```text
//! client                               server
//!   first token of the library   ──▶
//!                                ◀──   tokens, until both libraries are done
//!   empty, or the last token     ──▶
//!                                ◀──   wrapped: bits of the layers offered, 3 bytes of length
//!   wrapped: one bit, 3 bytes    ──▶
//! ```
//! Both are wrapped without encryption, whatever is chosen. Nobody compares a message with the
//! length, the longest one, and servers send one for the layer without messages, too. Source:
//! RFC 4752; the JDK's `GssKrb5Client`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

use crate::layer::{Layer, LayerError, Unwrap, Wrap};
use crate::protection::{Protection, Protections};

/// Name of the mechanism in SASL messages.
pub const MECHANISM: &str = "GSSAPI";

/// Longest message that this side announces, in bytes; Java's. Bounds nothing.
const MESSAGE_BYTES: [u8; 3] = [1, 0, 0];

/// A failure of a GSS library, in its words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GssError(pub String);

/// A message in clear, and whether it was encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Unwrapped {
    /// The message.
    pub message: Vec<u8>,
    /// Whether it was encrypted and not just signed.
    pub is_sealed: bool,
}

impl fmt::Debug for Unwrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwrapped")
            .field("is_sealed", &self.is_sealed)
            .finish_non_exhaustive()
    }
}

/// A security context of a GSS library, of one side of one connection. Steps may wait for a KDC:
/// callers make them on a thread for it.
pub trait GssContext: Send {
    /// Takes the peer's token, empty at a client's start; returns the next one to send, which may
    /// be empty.
    ///
    /// # Errors
    /// [`GssError`]: the context is void.
    fn step(&mut self, token: &[u8]) -> Result<Vec<u8>, GssError>;

    /// Returns whether both sides are proven and messages may be wrapped.
    fn is_complete(&self) -> bool;

    /// Signs a message and, with `seal`, encrypts it.
    ///
    /// # Errors
    /// [`GssError`].
    fn wrap(&mut self, message: &[u8], seal: bool) -> Result<Vec<u8>, GssError>;

    /// Verifies a message, in order, and decrypts it.
    ///
    /// # Errors
    /// [`GssError`].
    fn unwrap(&mut self, token: &[u8]) -> Result<Unwrapped, GssError>;
}

/// Reason for which a client ends the authentication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GssapiError {
    /// The library refuses.
    #[error("the Kerberos library fails")]
    Library(#[from] GssError),
    /// The server's offer of layers is no such message.
    #[error("the server's offer of layers has {length} bytes and not four")]
    Offer {
        /// Length in bytes.
        length: usize,
    },
    /// The server offers no layer that this side accepts.
    #[error("No common protection layer between client and server")]
    NoCommonProtection,
    /// A message after the last one.
    #[error("a message after the end of the authentication")]
    Over,
    /// The end came before this side was at it.
    #[error("the server ends the authentication too early")]
    TooEarly,
}

/// Returns the bit that stands for a layer.
const fn bit(level: Protection) -> u8 {
    match level {
        Protection::Authentication => 1,
        Protection::Integrity => 2,
        Protection::Privacy => 4,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Tokens of the libraries go back and forth.
    Proving,
    /// The server's offer of layers comes next.
    Choosing,
    /// The layer is chosen.
    Chosen(Protection),
    /// Failed, or taken.
    Over,
}

/// The client's side of one authentication.
pub struct GssapiClient {
    context: Box<dyn GssContext>,
    protections: Protections,
    state: State,
}

impl fmt::Debug for GssapiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssapiClient")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl GssapiClient {
    /// Starts an authentication; the first of these levels that the server offers is taken.
    #[must_use]
    pub fn new(context: Box<dyn GssContext>, protections: Protections) -> Self {
        Self {
            context,
            protections,
            state: State::Proving,
        }
    }

    /// Returns the first token to send.
    ///
    /// # Errors
    /// [`GssapiError::Library`].
    pub fn start(&mut self) -> Result<Vec<u8>, GssapiError> {
        self.handle(&[])
    }

    /// Takes the server's next token; returns the next one to send, which may be empty and is sent
    /// all the same.
    ///
    /// # Errors
    /// [`GssapiError`]; the authentication is over.
    pub fn handle(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Proving => {
                let reply = self.context.step(token)?;
                self.state = if self.context.is_complete() {
                    State::Choosing
                } else {
                    State::Proving
                };
                Ok(reply)
            }
            State::Choosing => self.choose(token),
            State::Chosen(_) | State::Over => Err(GssapiError::Over),
        }
    }

    fn choose(&mut self, token: &[u8]) -> Result<Vec<u8>, GssapiError> {
        let offer = self.context.unwrap(token)?.message;
        let Ok([offered, ..]) = <[u8; 4]>::try_from(offer.as_slice()) else {
            let length = offer.len();
            return Err(GssapiError::Offer { length });
        };
        let chosen = self
            .protections
            .choose(|level| offered & bit(level) != 0)
            .ok_or(GssapiError::NoCommonProtection)?;
        let longest = match chosen {
            Protection::Authentication => [0; 3],
            Protection::Integrity | Protection::Privacy => MESSAGE_BYTES,
        };
        let [high, middle, low] = longest;
        let reply = self
            .context
            .wrap(&[bit(chosen), high, middle, low], false)?;
        self.state = State::Chosen(chosen);
        Ok(reply)
    }

    /// Ends the authentication when the server says so; returns the layer of what follows, if one
    /// was agreed on.
    ///
    /// # Errors
    /// [`GssapiError::TooEarly`] if this side has not said all: the server is not proven.
    pub fn finish(self) -> Result<Option<Layer>, GssapiError> {
        match self.state {
            State::Chosen(Protection::Authentication) => Ok(None),
            State::Chosen(level @ (Protection::Integrity | Protection::Privacy)) => {
                Ok(Some(layer(self.context, level == Protection::Privacy)))
            }
            State::Proving | State::Choosing | State::Over => Err(GssapiError::TooEarly),
        }
    }
}

/// Makes the layer of a complete context. Both halves share it, as a context serves one call at a
/// time.
fn layer(context: Box<dyn GssContext>, seal: bool) -> Layer {
    let context = Arc::new(Mutex::new(context));
    let half = |context| Half { context, seal };
    Layer {
        wrap: Box::new(half(Arc::clone(&context))),
        unwrap: Box::new(half(context)),
    }
}

/// One half of a layer.
struct Half {
    context: Arc<Mutex<Box<dyn GssContext>>>,
    /// Whether messages are encrypted.
    seal: bool,
}

impl Half {
    fn context(&self) -> MutexGuard<'_, Box<dyn GssContext>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Half {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Half")
            .field("seal", &self.seal)
            .finish_non_exhaustive()
    }
}

fn failed(error: GssError) -> LayerError {
    LayerError::Mechanism(error.0)
}

impl Wrap for Half {
    fn wrap(&mut self, bytes: &mut BytesMut) -> Result<(), LayerError> {
        let token = self.context().wrap(bytes, self.seal).map_err(failed)?;
        bytes.clear();
        bytes.extend_from_slice(&token);
        Ok(())
    }
}

impl Unwrap for Half {
    fn unwrap(&mut self, token: &mut BytesMut) -> Result<(), LayerError> {
        let unwrapped = self.context().unwrap(token).map_err(failed)?;
        if unwrapped.is_sealed != self.seal {
            let text = "a message is encrypted or not against what was agreed on";
            return Err(LayerError::Mechanism(text.to_owned()));
        }
        token.clear();
        token.extend_from_slice(&unwrapped.message);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
