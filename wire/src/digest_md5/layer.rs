//! Security layers of DIGEST-MD5: `auth-int` signs, `auth-conf` encrypts as well.
//!
//! ```text
//! mac       = first 10 bytes of HMAC-MD5(Ki, sequence number | message)
//! auth-int  = message | mac | 0001 | sequence number
//! auth-conf = CIPHER(Kc, message | padding | mac) | 0001 | sequence number
//! ```
//! Each direction has keys of its own and counts its messages from 0 (four bytes). The chain of a
//! cipher goes on from message to message. Source: RFC 2831, sections 2.3 and 2.4; the JDK's
//! `DigestMD5Base`.

use std::fmt;

use bytes::BytesMut;
use cbc::cipher::{
    BlockModeDecrypt as _, BlockModeEncrypt as _, KeyInit as _, KeyIvInit as _, StreamCipher as _,
};
use ctutils::CtEq as _;
use des::TdesEde2;
use hmac::{Hmac, Mac as _};
use md5::{Digest as _, Md5};
use rc4::Rc4;

use super::Ha1;
use crate::layer::{Layer, LayerError, Unwrap, Wrap};

/// Length of a signature, in bytes.
const MAC_BYTES: usize = 10;
/// Length of the type of a message and its sequence number, in bytes.
const TRAILER_BYTES: usize = 6;
/// The only type of message.
const MESSAGE_TYPE: u16 = 1;
/// Length of a block of 3DES, in bytes.
const BLOCK_BYTES: usize = 8;

/// A cipher of `auth-conf`. Those of 40 and 56 bits are not spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// DES three times with two keys, blocks chained.
    TripleDes,
    /// RC4 with 128 bits.
    Rc4,
}

impl Cipher {
    /// Every cipher, the preferred one first.
    pub const ALL: [Self; 2] = [Self::TripleDes, Self::Rc4];

    /// Returns the name in directives.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TripleDes => "3des",
            Self::Rc4 => "rc4",
        }
    }

    /// Returns the cipher of this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cipher| cipher.name() == name)
    }

    /// Returns the names with commas between, as in a challenge.
    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(",")
    }
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// Names of the keys of what one side sends.
struct KeyNames {
    signing: &'static str,
    sealing: &'static str,
}

impl Side {
    const fn key_names(self) -> KeyNames {
        match self {
            Self::Client => KeyNames {
                signing: "Digest session key to client-to-server signing key magic constant",
                sealing: "Digest H(A1) to client-to-server sealing key magic constant",
            },
            Self::Server => KeyNames {
                signing: "Digest session key to server-to-client signing key magic constant",
                sealing: "Digest H(A1) to server-to-client sealing key magic constant",
            },
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

type Key = [u8; 16];

/// Makes the layer of one side. `cipher` is `None` for `auth-int`.
pub(super) fn layer(ha1: &Ha1, side: Side, cipher: Option<Cipher>) -> Layer {
    Layer {
        wrap: Box::new(Wrapping {
            signing: Signing::new(ha1, side),
            sealing: cipher.map(|cipher| Sealing::new(cipher, &sealing_key(ha1, side))),
        }),
        unwrap: Box::new(Unwrapping {
            signing: Signing::new(ha1, side.other()),
            opening: cipher.map(|cipher| Opening::new(cipher, &sealing_key(ha1, side.other()))),
        }),
    }
}

fn derived(ha1: &Ha1, name: &str) -> Key {
    let mut key = Md5::new();
    key.update(ha1);
    key.update(name);
    key.finalize().into()
}

fn sealing_key(ha1: &Ha1, sender: Side) -> Key {
    derived(ha1, sender.key_names().sealing)
}

/// Signatures of the messages of one direction, and their count.
struct Signing {
    key: Hmac<Md5>,
    /// Number of the next message; one beyond the last number when all are used.
    next: u64,
}

impl Signing {
    fn new(ha1: &Ha1, sender: Side) -> Self {
        let key = derived(ha1, sender.key_names().signing);
        Self {
            key: Hmac::new_from_slice(&key).expect("HMAC takes keys of any length"),
            next: 0,
        }
    }

    /// Returns the number of the next message.
    fn number(&self) -> Result<u32, LayerError> {
        u32::try_from(self.next).map_err(|_| LayerError::Exhausted)
    }

    fn mac(&self, number: u32, message: &[u8]) -> [u8; MAC_BYTES] {
        let mut mac = self.key.clone();
        mac.update(&number.to_be_bytes());
        mac.update(message);
        let whole: [u8; 16] = mac.finalize().into_bytes().into();
        *whole.first_chunk().expect("sixteen bytes begin with ten")
    }
}

/// Returns the two keys and the initial vector of 3DES. DES takes keys of 56 bits as eight bytes of
/// seven bits each, and ignores the last bit of each byte, the parity.
fn triple_des_parts(key: &Key) -> ([u8; 16], [u8; BLOCK_BYTES]) {
    let mut spread = [0; 16];
    for (half, from) in spread.chunks_exact_mut(8).zip(key.chunks_exact(7)) {
        let bits = from
            .iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (index, byte) in half.iter_mut().enumerate() {
            let [.., seven] = (bits >> (49 - 7 * index) & 0x7f).to_be_bytes();
            *byte = seven << 1;
        }
    }
    let iv = *key.last_chunk().expect("sixteen bytes end in eight");
    (spread, iv)
}

/// Encryption of the messages of one direction.
enum Sealing {
    TripleDes(Box<cbc::Encryptor<TdesEde2>>),
    Rc4(Box<Rc4>),
}

impl Sealing {
    fn new(cipher: Cipher, key: &Key) -> Self {
        match cipher {
            Cipher::TripleDes => {
                let (key, iv) = triple_des_parts(key);
                Self::TripleDes(Box::new(cbc::Encryptor::new(&key.into(), &iv.into())))
            }
            Cipher::Rc4 => Self::Rc4(rc4(key)),
        }
    }

    /// Returns how many bytes of padding a message of this length gets, each with that value.
    const fn padding(&self, length: usize) -> usize {
        match self {
            Self::TripleDes(_) => BLOCK_BYTES - (length + MAC_BYTES) % BLOCK_BYTES,
            Self::Rc4(_) => 0,
        }
    }

    fn encrypt(&mut self, bytes: &mut [u8]) {
        match self {
            Self::TripleDes(cipher) => {
                let (blocks, rest) = bytes.as_chunks_mut::<BLOCK_BYTES>();
                debug_assert!(rest.is_empty(), "padding fills the last block");
                for block in blocks {
                    cipher.encrypt_block(block.into());
                }
            }
            Self::Rc4(cipher) => cipher.apply_keystream(bytes),
        }
    }
}

/// Decryption of the messages of one direction.
enum Opening {
    TripleDes(Box<cbc::Decryptor<TdesEde2>>),
    Rc4(Box<Rc4>),
}

impl Opening {
    fn new(cipher: Cipher, key: &Key) -> Self {
        match cipher {
            Cipher::TripleDes => {
                let (key, iv) = triple_des_parts(key);
                Self::TripleDes(Box::new(cbc::Decryptor::new(&key.into(), &iv.into())))
            }
            Cipher::Rc4 => Self::Rc4(rc4(key)),
        }
    }

    /// Decrypts message, padding and signature.
    fn decrypt(&mut self, bytes: &mut [u8]) -> Result<(), LayerError> {
        match self {
            Self::TripleDes(cipher) => {
                let length = bytes.len();
                let (blocks, rest) = bytes.as_chunks_mut::<BLOCK_BYTES>();
                if !rest.is_empty() {
                    return Err(LayerError::Length { length });
                }
                for block in blocks {
                    cipher.decrypt_block(block.into());
                }
            }
            Self::Rc4(cipher) => cipher.apply_keystream(bytes),
        }
        Ok(())
    }

    /// Returns the message without its padding; `None` if there is none where it must be.
    fn message<'a>(&self, padded: &'a [u8]) -> Option<&'a [u8]> {
        let count = match self {
            Self::Rc4(_) => return Some(padded),
            Self::TripleDes(_) => *padded.last()?,
        };
        let length = padded.len().checked_sub(usize::from(count))?;
        let (message, padding) = padded.split_at(length);
        let is_padding = (1..=8).contains(&count) && padding.iter().all(|byte| *byte == count);
        is_padding.then_some(message)
    }
}

fn rc4(key: &Key) -> Box<Rc4> {
    Box::new(Rc4::new_from_slice(key).expect("RC4 takes keys of sixteen bytes"))
}

/// The sending half.
struct Wrapping {
    signing: Signing,
    /// Encryption under `auth-conf`.
    sealing: Option<Sealing>,
}

impl fmt::Debug for Wrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapping").finish_non_exhaustive()
    }
}

impl Wrap for Wrapping {
    fn wrap(&mut self, bytes: &mut BytesMut) -> Result<(), LayerError> {
        let number = self.signing.number()?;
        let mac = self.signing.mac(number, bytes);
        if let Some(sealing) = &self.sealing {
            let padding = sealing.padding(bytes.len());
            let value = u8::try_from(padding).expect("at most a block");
            bytes.resize(bytes.len() + padding, value);
        }
        bytes.extend_from_slice(&mac);
        if let Some(sealing) = &mut self.sealing {
            sealing.encrypt(bytes);
        }
        bytes.extend_from_slice(&MESSAGE_TYPE.to_be_bytes());
        bytes.extend_from_slice(&number.to_be_bytes());
        self.signing.next += 1;
        Ok(())
    }
}

/// The receiving half.
struct Unwrapping {
    signing: Signing,
    /// Decryption under `auth-conf`.
    opening: Option<Opening>,
}

impl fmt::Debug for Unwrapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwrapping").finish_non_exhaustive()
    }
}

impl Unwrap for Unwrapping {
    fn unwrap(&mut self, token: &mut BytesMut) -> Result<(), LayerError> {
        let expected = self.signing.number()?;
        let length = token.len();
        if length < MAC_BYTES + TRAILER_BYTES {
            return Err(LayerError::Length { length });
        }
        let trailer = token.split_off(length - TRAILER_BYTES);
        let (message_type, number) = trailer
            .split_first_chunk()
            .and_then(|(kind, rest)| Some((kind, rest.first_chunk()?)))
            .expect("six bytes are two and four");
        let found = u16::from_be_bytes(*message_type);
        if found != MESSAGE_TYPE {
            return Err(LayerError::MessageType { found });
        }
        let found = u32::from_be_bytes(*number);
        if found != expected {
            return Err(LayerError::Sequence { found, expected });
        }
        if let Some(opening) = &mut self.opening {
            opening.decrypt(token)?;
        }
        let (padded, received) = token
            .split_last_chunk::<MAC_BYTES>()
            .expect("the length was compared above");
        let message = match &self.opening {
            Some(opening) => opening.message(padded).ok_or(LayerError::Signature)?,
            None => padded,
        };
        let mac = self.signing.mac(expected, message);
        if !mac[..].ct_eq(&received[..]).to_bool() {
            return Err(LayerError::Signature);
        }
        let length = message.len();
        token.truncate(length);
        self.signing.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
