//! Proof of a client and keys of a connection by `spark.network.crypto` (Spark: `AuthEngine`,
//! `TransportCipher`).
//!
//! Each side sends a public key of X25519, encrypted with a key that follows from the application's
//! secret; whoever can do that has the secret. From then on both directions are one stream of
//! AES-CTR each, which hides what is sent and does not protect it from being changed.

use std::fmt;

use aes::{Aes128, Aes256};
use block_server::Keystream;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit as _, StreamCipher};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::SystemRandom;
use thiserror::Error;

use crate::cursor::{Cursor, Malformed, put_bytes};
use crate::frame::APP_ID_BYTES_MAX;

/// First byte of a message of this protocol.
pub(crate) const AUTH_TAG: u8 = 0xFB;

/// Bytes of a salt that this side makes.
const SALT_BYTES: usize = 16;

/// Bytes of a public key.
const PUBLIC_KEY_BYTES: usize = 32;

/// Bytes of an initialization vector of AES-CTR.
const IV_BYTES: usize = 16;

/// Bytes of the keys that protect public keys, and of session keys of version 2.
const AES_128_BYTES: usize = 16;

/// Version of the protocol (`spark.network.crypto.authEngineVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthVersion {
    /// The session key is the shared secret itself.
    V1,
    /// The session key is derived from the shared secret.
    V2,
}

/// Proof that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoAuth {
    #[error("the message is none of this protocol: {0}")]
    Malformed(#[from] Malformed),
    #[error("the public key is not encrypted with the application's secret")]
    Proof,
    #[error("the system has no random numbers, or the public key is none")]
    Crypto,
}

/// Message of either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthMessage<'a> {
    pub(crate) application: &'a str,
    salt: &'a [u8],
    ciphertext: &'a [u8],
}

/// Answer to a client that proved itself, and what follows it.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) response: Vec<u8>,
    pub(crate) ciphers: Ciphers,
}

/// Ciphers of a connection.
pub(crate) struct Ciphers {
    /// Cipher of what the client sends.
    pub(crate) incoming: Box<dyn Keystream>,
    /// Cipher of what the client gets.
    pub(crate) outgoing: Box<dyn Keystream>,
}

impl fmt::Debug for Ciphers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ciphers(…)")
    }
}

/// Stream of AES-CTR.
struct AesCtr<C>(C);

impl<C: StreamCipher + Send> Keystream for AesCtr<C> {
    fn apply(&mut self, bytes: &mut [u8]) {
        self.0.apply_keystream(bytes);
    }
}

impl<'a> AuthMessage<'a> {
    /// Reads a message.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Cursor::new(bytes);
        let _tag = fields.u8()?;
        Ok(Self {
            application: fields.text(APP_ID_BYTES_MAX)?,
            salt: fields.bytes()?,
            ciphertext: fields.bytes()?,
        })
    }
}

/// Verifies a client's challenge with its application's secret, and agrees on keys. `challenge` is
/// the whole message that was parsed.
pub(crate) fn answer(
    challenge: &[u8],
    parsed: AuthMessage<'_>,
    secret: &[u8],
    version: AuthVersion,
) -> Result<Agreed, NoAuth> {
    let client = decrypt(parsed, secret)?;
    let random = SystemRandom::new();
    let private = EphemeralPrivateKey::generate(&X25519, &random).map_err(|_| NoAuth::Crypto)?;
    let public = private.compute_public_key().map_err(|_| NoAuth::Crypto)?;
    let salt: [u8; SALT_BYTES] = rand::random();
    let nonce: [u8; NONCE_LEN] = rand::random();
    let application = parsed.application;
    let aad = associated(application, &salt, challenge);
    let mut sealed = public.as_ref().to_vec();
    let tag = key(secret, &salt, &aad)?
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(&aad),
            &mut sealed,
        )
        .map_err(|_| NoAuth::Crypto)?;
    let ciphertext = [&nonce[..], &sealed, tag.as_ref()].concat();
    let mut response = vec![AUTH_TAG];
    put_bytes(&mut response, application.as_bytes());
    put_bytes(&mut response, &salt);
    put_bytes(&mut response, &ciphertext);
    let transcript = [challenge, &response].concat();
    let client = UnparsedPublicKey::new(&X25519, client);
    let ciphers = agree_ephemeral(private, &client, |shared| {
        ciphers(shared, &transcript, version)
    });
    let ciphers = ciphers.map_err(|_| NoAuth::Crypto)??;
    Ok(Agreed { response, ciphers })
}

/// Returns the public key in a client's challenge.
fn decrypt(parsed: AuthMessage<'_>, secret: &[u8]) -> Result<[u8; PUBLIC_KEY_BYTES], NoAuth> {
    let (nonce, sealed) = parsed
        .ciphertext
        .split_first_chunk::<NONCE_LEN>()
        .ok_or(NoAuth::Proof)?;
    let aad = associated(parsed.application, parsed.salt, b"");
    let mut opened = sealed.to_vec();
    let opened = key(secret, parsed.salt, &aad)?
        .open_in_place(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(&aad),
            &mut opened,
        )
        .map_err(|_| NoAuth::Proof)?;
    (&*opened).try_into().map_err(|_| NoAuth::Proof)
}

/// Data that a message's encryption is bound to: the application, the salt, and what was said
/// before.
fn associated(application: &str, salt: &[u8], transcript: &[u8]) -> Vec<u8> {
    [application.as_bytes(), salt, transcript].concat()
}

/// Returns the key of a message.
fn key(secret: &[u8], salt: &[u8], aad: &[u8]) -> Result<LessSafeKey, NoAuth> {
    let key: [u8; AES_128_BYTES] = derive(secret, salt, aad)?;
    let key = UnboundKey::new(&AES_128_GCM, &key).map_err(|_| NoAuth::Crypto)?;
    Ok(LessSafeKey::new(key))
}

/// HKDF with SHA-256.
fn derive<const N: usize>(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; N], NoAuth> {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut key = [0; N];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    let filled = extracted
        .expand(&[info], Length(N))
        .and_then(|expanded| expanded.fill(&mut key));
    filled.map_err(|_| NoAuth::Crypto)?;
    Ok(key)
}

/// Returns the ciphers that follow from the shared secret. The labels are the client's view.
fn ciphers(shared: &[u8], transcript: &[u8], version: AuthVersion) -> Result<Ciphers, NoAuth> {
    let incoming: [u8; IV_BYTES] = derive(shared, transcript, b"outputIv")?;
    let outgoing: [u8; IV_BYTES] = derive(shared, transcript, b"inputIv")?;
    let stream = |iv: [u8; IV_BYTES]| -> Result<Box<dyn Keystream>, NoAuth> {
        Ok(match version {
            AuthVersion::V1 => {
                let key: [u8; PUBLIC_KEY_BYTES] = shared.try_into().map_err(|_| NoAuth::Crypto)?;
                let cipher = Ctr128BE::<Aes256>::new(&key.into(), &iv.into());
                Box::new(AesCtr(cipher))
            }
            AuthVersion::V2 => {
                let key: [u8; AES_128_BYTES] = derive(shared, transcript, b"derivedKey")?;
                let cipher = Ctr128BE::<Aes128>::new(&key.into(), &iv.into());
                Box::new(AesCtr(cipher))
            }
        })
    };
    Ok(Ciphers {
        incoming: stream(incoming)?,
        outgoing: stream(outgoing)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes;

    const SECRET: &[u8] = b"0123456789abcdef";

    /// Recorded from Spark 3.5.5.
    const CHALLENGE: &str = "fb0000001e6170706c69636174696f6e5f313730303030303030303030305f30303039\
        000000105591c8643f636e0b9bcfc8e6e204622f0000003c\
        2a8cee274f98ba77eb536151592ea68ca81f92e2d3c3a0f6481eb42ec8e10d953dafe65860a1fa055eced7f43d8a\
        1695fc67025d301ee3c583ef0426";
    const RESPONSE: &str = "fb0000001e6170706c69636174696f6e5f313730303030303030303030305f30303039\
        00000010af1970ff3155ee9c8eedcf7aacd4c6980000003c\
        eda2e705f8c36cb7cec33d4e2700e2dddefc09a63065fa0cc335fbc8460b508fb242c2475b43738e2ef54714ca38\
        dfa38435fceecc88b9fce88b9ff0";
    const SHARED: &str = "63c9fd8182b5f4c3585fbaf7a31aff9827d16f16723c7c1a84ae96c799e12671";

    fn transcript() -> Vec<u8> {
        [bytes(CHALLENGE), bytes(RESPONSE)].concat()
    }

    #[test]
    fn recorded_bytes_of_both_directions_are_decrypted() {
        let mut ciphers = ciphers(&bytes(SHARED), &transcript(), AuthVersion::V1).unwrap();
        let mut sent = bytes(
            "dd3fcf992c003a6dfb40d48a43d7a995d2df1901cf6f09b2c58126bad44eafff7318949966b37286aaa6ca28\
             f4efba4fbd2799da1275795c2ce37e25",
        );
        ciphers.incoming.apply(&mut sent);
        let plain = "000000000000003c030000000000000002000000270a0000001e6170706c69636174696f6e5f31\
                     3730303030303030303030305f3030303900000000";
        assert_eq!(sent, bytes(plain));
        let mut next = bytes(
            "9fcea9b015b63cb86744cf3f98b64d008c655289d0a2f77f78972e89fb0c4c67c376251b1707478301e76e67\
             aef56ff1d4015fb6e21fd8989c1384b5",
        );
        ciphers.incoming.apply(&mut next);
        assert_eq!(next[16], 3, "the number of the request");
        let mut got =
            bytes("000000000000002204 0000000000000002 0000000d 0b000000000000000000000000");
        ciphers.outgoing.apply(&mut got);
        let wire = "fbdafaba3483f05a3830e93a340d93a33908a398004b6babee8578cc3807512a72e1";
        assert_eq!(got, bytes(wire));
    }

    #[test]
    fn recorded_values_follow_from_the_shared_secret() {
        let shared = bytes(SHARED);
        let iv: [u8; 16] = derive(&shared, &transcript(), b"inputIv").unwrap();
        assert_eq!(iv[..], bytes("0c8d35fac8cdb8b581ba88e4df138d10"));
        let iv: [u8; 16] = derive(&shared, &transcript(), b"outputIv").unwrap();
        assert_eq!(iv[..], bytes("12019beb5fb83549fba0fdaa7407babf"));
        let key: [u8; 16] = derive(&shared, &transcript(), b"derivedKey").unwrap();
        assert_eq!(key[..], bytes("149b78354cec2bb071c6c1434c55ddc2"));
    }

    #[test]
    fn a_recorded_challenge_is_answered_with_the_secret_and_with_no_other() {
        let challenge = bytes(CHALLENGE);
        let parsed = AuthMessage::parse(&challenge).unwrap();
        let agreed = answer(&challenge, parsed, SECRET, AuthVersion::V1).unwrap();
        assert_eq!(agreed.response.len(), challenge.len());
        let refused = answer(&challenge, parsed, b"another", AuthVersion::V1);
        assert_eq!(refused.unwrap_err(), NoAuth::Proof);
        for byte in 1..challenge.len() {
            let mut changed = challenge.clone();
            changed[byte] ^= 1;
            let answered = AuthMessage::parse(&changed)
                .map_err(NoAuth::from)
                .and_then(|parsed| answer(&changed, parsed, SECRET, AuthVersion::V1));
            assert!(answered.is_err(), "byte {byte}");
            let cut = AuthMessage::parse(&challenge[..byte]);
            assert!(cut.is_err(), "byte {byte}");
        }
    }

    /// The recorded response is what a client would verify: this side's own must be of that form.
    #[test]
    fn a_response_is_bound_to_its_challenge() {
        let (challenge, response) = (bytes(CHALLENGE), bytes(RESPONSE));
        let parsed = AuthMessage::parse(&response).unwrap();
        let aad = associated(parsed.application, parsed.salt, &challenge);
        let (nonce, sealed) = parsed.ciphertext.split_first_chunk::<NONCE_LEN>().unwrap();
        let mut opened = sealed.to_vec();
        let key = key(SECRET, parsed.salt, &aad).unwrap();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(&aad), &mut opened);
        assert_eq!(opened.unwrap().len(), PUBLIC_KEY_BYTES);
    }
}
