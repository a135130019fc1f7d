//! DIGEST-MD5 as Hadoop uses it to prove that both sides know a token's password, and to protect
//! what they send afterwards.
//!
//! The user name is the token's identifier in base64, the password that of the token in base64.
//! Functions over text: the caller supplies nonces and passwords. Source: RFC 2831;
//! `org.apache.hadoop.security.SaslRpcServer` and the JDK's `DigestMD5Server`.

mod directives;
mod layer;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ctutils::CtEq as _;
use md5::{Digest as _, Md5};

use self::directives::Directives;
pub use self::layer::Cipher;
use self::layer::Side;
use crate::layer::Layer;
use crate::protection::{Protection, Protections};

/// Name of the mechanism in SASL messages.
pub const MECHANISM: &str = "DIGEST-MD5";
/// Server name in the digest, and its realm.
pub const SERVER_ID: &str = "default";
/// Name of the service within the server; its protocol part is empty.
const DIGEST_URI: &str = "/default";

/// Number of random bytes in a nonce; 40 characters in base64.
pub const NONCE_BYTES: usize = 30;

/// Longest challenge and longest response, in bytes; the JDK's limits.
const CHALLENGE_LENGTH_MAX: usize = 2048;
const RESPONSE_LENGTH_MAX: usize = 4096;

/// A malformed message of the mechanism, or a failed proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Too long, not ASCII, or not a list of directives.
    #[error("DIGEST-MD5: malformed message")]
    Malformed,
    /// A directive that is missing, doubled, or not supported with its value.
    #[error("DIGEST-MD5: directive {0} is missing or wrong")]
    Directive(&'static str),
    /// A digest made with another password, or of another message.
    #[error("DIGEST-MD5: digest response format violation. Mismatched response.")]
    Mismatch,
    /// The client chose a level of protection that this side did not offer.
    #[error("DIGEST-MD5: server does not support  qop: {}", .0.qop())]
    NotOffered(Protection),
    /// The server offers no level of protection that this side accepts.
    #[error("DIGEST-MD5: No common protection layer between client and server")]
    NoCommonProtection,
    /// The server offers no cipher that this side knows.
    #[error("DIGEST-MD5: Client supports none of these cipher suites")]
    NoCommonCipher,
}

/// Encodes random bytes as a nonce.
#[must_use]
pub fn nonce(random: [u8; NONCE_BYTES]) -> String {
    STANDARD.encode(random)
}

/// Returns the server's first message, which offers these levels of protection.
#[must_use]
pub fn challenge(nonce: &str, offered: &Protections) -> String {
    let qops = offered.qops();
    let ciphers = if offered.contains(Protection::Privacy) {
        format!("cipher=\"{}\",", Cipher::names())
    } else {
        String::new()
    };
    format!(
        "realm=\"{SERVER_ID}\",nonce=\"{nonce}\",qop=\"{qops}\",charset=utf-8,{ciphers}algorithm=md5-sess"
    )
}

/// Returns the user name that stands for a token identifier.
#[must_use]
pub fn encode_identifier(identifier: &[u8]) -> String {
    STANDARD.encode(identifier)
}

/// Hash of the password and both nonces, from which digests and the keys of layers are made.
type Ha1 = [u8; 16];

/// Level of protection and cipher that the client chose.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    protection: Protection,
    /// Present with [`Protection::Privacy`] only.
    cipher: Option<Cipher>,
}

impl Choice {
    /// Makes the layer of one side; `None` for none.
    fn layer(self, ha1: &Ha1, side: Side) -> Option<Layer> {
        match self.protection {
            Protection::Authentication => None,
            Protection::Integrity | Protection::Privacy => {
                Some(layer::layer(ha1, side, self.cipher))
            }
        }
    }
}

/// Input of the digest on both sides, without the direction. Contains the session's nonces.
struct Session<'a> {
    username: &'a str,
    realm: &'a str,
    nonce: &'a str,
    cnonce: &'a str,
    digest_uri: &'a str,
    protection: Protection,
}

/// Count of responses under one nonce; a nonce is used once.
const NONCE_COUNT: &str = "00000001";

/// Hash of a body that neither side has, at the end of what a digest covers when there is a layer.
const NO_BODY: &str = ":00000000000000000000000000000000";

impl Session<'_> {
    fn ha1(&self, password: &str) -> Ha1 {
        let secret = Md5::digest(format!("{}:{}:{password}", self.username, self.realm));
        let mut session = Md5::new();
        session.update(secret);
        session.update(format!(":{}:{}", self.nonce, self.cnonce));
        session.finalize().into()
    }

    /// Returns the digest of one direction: `method` is `AUTHENTICATE` from the client and empty
    /// from the server.
    fn digest(&self, ha1: &Ha1, method: &str) -> String {
        let body = match self.protection {
            Protection::Authentication => "",
            Protection::Integrity | Protection::Privacy => NO_BODY,
        };
        let ha2 = hex(&Md5::digest(format!("{method}:{}{body}", self.digest_uri)));
        hex(&Md5::digest(format!(
            "{}:{}:{NONCE_COUNT}:{}:{}:{ha2}",
            hex(ha1),
            self.nonce,
            self.cnonce,
            self.protection.qop()
        )))
    }
}

/// A client's response, parsed and checked except for its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerCheck {
    username: String,
    identifier: Bytes,
    realm: String,
    digest_uri: &'static str,
    nonce: String,
    cnonce: String,
    response: String,
    choice: Choice,
}

/// Answer to a response that is right.
#[derive(Debug)]
pub struct Proof {
    /// Message with the server's own proof.
    pub message: String,
    /// Layer of the server's side, if one was agreed on.
    pub layer: Option<Layer>,
}

impl fmt::Debug for ServerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCheck").finish_non_exhaustive()
    }
}

impl ServerCheck {
    /// Parses the response to the challenge with this nonce and these levels of protection.
    ///
    /// # Errors
    /// [`DigestError`] for a malformed message or an unexpected directive.
    pub fn parse(nonce: &str, offered: &Protections, response: &[u8]) -> Result<Self, DigestError> {
        Self::parse_at(DIGEST_URI, nonce, offered, response)
    }

    /// Parses a response as [`ServerCheck::parse`] does, at a service of another name: Java's
    /// mechanism makes the URI from protocol and server name, and who has no protocol writes
    /// `null`.
    ///
    /// # Errors
    /// Those of [`ServerCheck::parse`].
    pub fn parse_at(
        digest_uri: &'static str,
        nonce: &str,
        offered: &Protections,
        response: &[u8],
    ) -> Result<Self, DigestError> {
        let directives = Directives::parse(response, RESPONSE_LENGTH_MAX)?;
        directives.expect("nonce", nonce)?;
        directives.expect("nc", NONCE_COUNT)?;
        directives.expect("digest-uri", digest_uri)?;
        directives.expect("realm", SERVER_ID)?;
        let choice = chosen(&directives, offered)?;
        // A token does not permit acting for another name.
        let username = directives.required("username")?;
        if let Some(authzid) = directives.get("authzid")?
            && authzid != username
        {
            return Err(DigestError::Directive("authzid"));
        }
        let identifier = STANDARD
            .decode(username)
            .map_err(|_| DigestError::Directive("username"))?;
        let cnonce = directives.required("cnonce")?;
        if cnonce.is_empty() {
            return Err(DigestError::Directive("cnonce"));
        }
        Ok(Self {
            username: username.to_owned(),
            identifier: identifier.into(),
            realm: SERVER_ID.to_owned(),
            digest_uri,
            nonce: nonce.to_owned(),
            cnonce: cnonce.to_owned(),
            response: directives.required("response")?.to_owned(),
            choice,
        })
    }

    /// Returns the token identifier that the client claims, unproven. Owns its memory.
    #[must_use]
    pub const fn identifier(&self) -> &Bytes {
        &self.identifier
    }

    /// Compares the digest with that of this password; returns the server's own proof.
    ///
    /// # Errors
    /// [`DigestError::Mismatch`] if they differ.
    pub fn verify(&self, password: &[u8]) -> Result<Proof, DigestError> {
        self.verify_text(&STANDARD.encode(password))
    }

    /// Compares as [`ServerCheck::verify`] does, with the text that stands for the password.
    ///
    /// # Errors
    /// [`DigestError::Mismatch`] if they differ.
    pub fn verify_text(&self, password: &str) -> Result<Proof, DigestError> {
        let session = Session {
            username: &self.username,
            realm: &self.realm,
            nonce: &self.nonce,
            cnonce: &self.cnonce,
            digest_uri: self.digest_uri,
            protection: self.choice.protection,
        };
        let ha1 = session.ha1(password);
        let expected = session.digest(&ha1, "AUTHENTICATE");
        if !is_same(&expected, &self.response) {
            return Err(DigestError::Mismatch);
        }
        Ok(Proof {
            message: format!("rspauth={}", session.digest(&ha1, "")),
            layer: self.choice.layer(&ha1, Side::Server),
        })
    }
}

/// Returns the level of protection and the cipher in a client's response.
fn chosen(directives: &Directives<'_>, offered: &Protections) -> Result<Choice, DigestError> {
    let protection = match directives.get("qop")? {
        None => Protection::Authentication,
        Some(qop) => Protection::from_qop(qop).ok_or(DigestError::Directive("qop"))?,
    };
    if !offered.contains(protection) {
        return Err(DigestError::NotOffered(protection));
    }
    let cipher = match protection {
        Protection::Authentication | Protection::Integrity => None,
        Protection::Privacy => {
            let cipher = Cipher::from_name(directives.required("cipher")?);
            Some(cipher.ok_or(DigestError::Directive("cipher"))?)
        }
    };
    Ok(Choice { protection, cipher })
}

/// A client's answer to a challenge, and the proof it expects of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientResponse {
    /// Message to send.
    pub message: String,
    rspauth: String,
    ha1: Ha1,
    choice: Choice,
}

impl fmt::Debug for ClientResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientResponse").finish_non_exhaustive()
    }
}

impl ClientResponse {
    /// Answers a challenge for the holder of this token, with the first of the accepted levels of
    /// protection that the server offers.
    ///
    /// # Errors
    /// A malformed challenge, one without an accepted level, or one without MD5 sessions.
    pub fn new(
        challenge: &[u8],
        accepted: &Protections,
        identifier: &[u8],
        password: &[u8],
        cnonce: &str,
    ) -> Result<Self, DigestError> {
        let directives = Directives::parse(challenge, CHALLENGE_LENGTH_MAX)?;
        directives.expect("algorithm", "md5-sess")?;
        let choice = choose(&directives, accepted)?;
        // Values with a quote or backslash would need escaping, which neither side does.
        let nonce = directives.required("nonce")?;
        let realm = directives.get("realm")?.unwrap_or(SERVER_ID);
        let username = encode_identifier(identifier);
        let session = Session {
            username: &username,
            realm,
            nonce,
            cnonce,
            digest_uri: DIGEST_URI,
            protection: choice.protection,
        };
        let ha1 = session.ha1(&STANDARD.encode(password));
        let response = session.digest(&ha1, "AUTHENTICATE");
        let qop = choice.protection.qop();
        let cipher = choice
            .cipher
            .map(|cipher| format!(",cipher=\"{}\"", cipher.name()))
            .unwrap_or_default();
        let message = format!(
            "charset=utf-8,username=\"{username}\",realm=\"{realm}\",nonce=\"{nonce}\",nc={NONCE_COUNT},\
             cnonce=\"{cnonce}\",digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={response},qop={qop}{cipher}"
        );
        Ok(Self {
            message,
            rspauth: session.digest(&ha1, ""),
            ha1,
            choice,
        })
    }

    /// Checks the server's proof that it knows the password too; returns the layer of the client's
    /// side, if one was agreed on.
    ///
    /// # Errors
    /// [`DigestError::Mismatch`], or the message is malformed.
    pub fn verify(&self, message: &[u8]) -> Result<Option<Layer>, DigestError> {
        let directives = Directives::parse(message, CHALLENGE_LENGTH_MAX)?;
        let rspauth = directives.required("rspauth")?;
        if is_same(rspauth, &self.rspauth) {
            Ok(self.choice.layer(&self.ha1, Side::Client))
        } else {
            Err(DigestError::Mismatch)
        }
    }
}

/// Chooses a level of protection and a cipher from a server's challenge. One without levels offers
/// the lowest alone.
fn choose(directives: &Directives<'_>, accepted: &Protections) -> Result<Choice, DigestError> {
    let names = |list: &str, name: &str| list.split(',').any(|offered| offered.trim() == name);
    let qops = directives.get("qop")?.unwrap_or("auth");
    let protection = accepted
        .choose(|level| names(qops, level.qop()))
        .ok_or(DigestError::NoCommonProtection)?;
    let cipher = match protection {
        Protection::Authentication | Protection::Integrity => None,
        Protection::Privacy => {
            let offered = directives.required("cipher")?;
            let mut known = Cipher::ALL.into_iter();
            let cipher = known.find(|cipher| names(offered, cipher.name()));
            Some(cipher.ok_or(DigestError::NoCommonCipher)?)
        }
    };
    Ok(Choice { protection, cipher })
}

/// Compares two digests in constant time.
fn is_same(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).to_bool()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0x0f])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

#[cfg(test)]
mod tests;
