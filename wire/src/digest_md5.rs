//! DIGEST-MD5 as Hadoop uses it to prove that both sides know a token's password.
//!
//! The user name is the token's identifier in base64, the password that of the token in base64;
//! protection is always `auth`, which wraps nothing. Functions over text: the caller supplies
//! nonces and passwords. Source: RFC 2831; `org.apache.hadoop.security.SaslRpcServer` and the JDK's
//! `DigestMD5Server`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use ctutils::CtEq as _;
use md5::{Digest as _, Md5};

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

/// Limit on directives in one message. The mechanism defines thirteen.
const DIRECTIVES_MAX: usize = 32;

/// A malformed message of the mechanism, or a failed proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Too long, not ASCII, or not a list of directives.
    #[error("DIGEST-MD5: malformed message")]
    Malformed,
    /// A directive that is missing, doubled, or not supported with its value.
    #[error("DIGEST-MD5: directive {0} is missing or wrong")]
    Directive(&'static str),
    /// A digest made with another password.
    #[error("DIGEST-MD5: digest response format violation. Mismatched response.")]
    Mismatch,
}

/// Encodes random bytes as a nonce.
#[must_use]
pub fn nonce(random: [u8; NONCE_BYTES]) -> String {
    STANDARD.encode(random)
}

/// Returns the server's first message.
#[must_use]
pub fn challenge(nonce: &str) -> String {
    format!("realm=\"{SERVER_ID}\",nonce=\"{nonce}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess")
}

/// Returns the user name that stands for a token identifier.
#[must_use]
pub fn encode_identifier(identifier: &[u8]) -> String {
    STANDARD.encode(identifier)
}

/// Input of the digest on both sides, without the direction. Contains the session's nonces.
struct Session<'a> {
    username: &'a str,
    realm: &'a str,
    nonce: &'a str,
    cnonce: &'a str,
    digest_uri: &'a str,
}

/// Count of responses under one nonce; a nonce is used once.
const NONCE_COUNT: &str = "00000001";

impl Session<'_> {
    fn ha1(&self, password: &[u8]) -> String {
        let password = STANDARD.encode(password);
        let secret = Md5::digest(format!("{}:{}:{password}", self.username, self.realm));
        let mut session = Md5::new();
        session.update(secret);
        session.update(format!(":{}:{}", self.nonce, self.cnonce));
        hex(&session.finalize())
    }

    /// Returns the digest of one direction: `method` is `AUTHENTICATE` from the client and empty
    /// from the server.
    fn digest(&self, ha1: &str, method: &str) -> String {
        let ha2 = hex(&Md5::digest(format!("{method}:{}", self.digest_uri)));
        hex(&Md5::digest(format!(
            "{ha1}:{}:{NONCE_COUNT}:{}:auth:{ha2}",
            self.nonce, self.cnonce
        )))
    }
}

/// A client's response, parsed and checked except for its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerCheck {
    username: String,
    identifier: Bytes,
    realm: String,
    nonce: String,
    cnonce: String,
    response: String,
}

impl fmt::Debug for ServerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCheck").finish_non_exhaustive()
    }
}

impl ServerCheck {
    /// Parses the response to the challenge with this nonce.
    ///
    /// # Errors
    /// [`DigestError`] for a malformed message or an unexpected directive.
    pub fn parse(nonce: &str, response: &[u8]) -> Result<Self, DigestError> {
        let directives = Directives::parse(response, RESPONSE_LENGTH_MAX)?;
        directives.expect("nonce", nonce)?;
        directives.expect("nc", NONCE_COUNT)?;
        directives.expect("digest-uri", DIGEST_URI)?;
        directives.expect("realm", SERVER_ID)?;
        // A missing qop means `auth`.
        if let Some(qop) = directives.get("qop")?
            && qop != "auth"
        {
            return Err(DigestError::Directive("qop"));
        }
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
            nonce: nonce.to_owned(),
            cnonce: cnonce.to_owned(),
            response: directives.required("response")?.to_owned(),
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
    pub fn verify(&self, password: &[u8]) -> Result<String, DigestError> {
        let session = Session {
            username: &self.username,
            realm: &self.realm,
            nonce: &self.nonce,
            cnonce: &self.cnonce,
            digest_uri: DIGEST_URI,
        };
        let ha1 = session.ha1(password);
        let expected = session.digest(&ha1, "AUTHENTICATE");
        if !is_same(&expected, &self.response) {
            return Err(DigestError::Mismatch);
        }
        Ok(format!("rspauth={}", session.digest(&ha1, "")))
    }
}

/// A client's answer to a challenge, and the proof it expects of the server.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientResponse {
    /// Message to send.
    pub message: String,
    rspauth: String,
}

impl fmt::Debug for ClientResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientResponse").finish_non_exhaustive()
    }
}

impl ClientResponse {
    /// Answers a challenge for the holder of this token.
    ///
    /// # Errors
    /// A malformed challenge, or one that wants anything but `auth` with MD5 sessions.
    pub fn new(
        challenge: &[u8],
        identifier: &[u8],
        password: &[u8],
        cnonce: &str,
    ) -> Result<Self, DigestError> {
        let directives = Directives::parse(challenge, CHALLENGE_LENGTH_MAX)?;
        directives.expect("algorithm", "md5-sess")?;
        if let Some(qop) = directives.get("qop")?
            && !qop.split(',').any(|offered| offered.trim() == "auth")
        {
            return Err(DigestError::Directive("qop"));
        }
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
        };
        let ha1 = session.ha1(password);
        let response = session.digest(&ha1, "AUTHENTICATE");
        let message = format!(
            "charset=utf-8,username=\"{username}\",realm=\"{realm}\",nonce=\"{nonce}\",nc={NONCE_COUNT},\
             cnonce=\"{cnonce}\",digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={response},qop=auth"
        );
        Ok(Self {
            message,
            rspauth: session.digest(&ha1, ""),
        })
    }

    /// Checks the server's proof that it knows the password too.
    ///
    /// # Errors
    /// [`DigestError::Mismatch`], or the message is malformed.
    pub fn verify(&self, message: &[u8]) -> Result<(), DigestError> {
        let directives = Directives::parse(message, CHALLENGE_LENGTH_MAX)?;
        let rspauth = directives.required("rspauth")?;
        if is_same(rspauth, &self.rspauth) {
            Ok(())
        } else {
            Err(DigestError::Mismatch)
        }
    }
}

/// The `key=value` pairs of a message, in their order.
struct Directives<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Directives<'a> {
    /// Parses pairs separated by commas; a quoted value may contain commas. Backslash escapes are
    /// refused: no name, nonce or realm of this mechanism has one.
    fn parse(message: &'a [u8], length_max: usize) -> Result<Self, DigestError> {
        if message.len() > length_max || !message.is_ascii() {
            return Err(DigestError::Malformed);
        }
        let mut rest = std::str::from_utf8(message).map_err(|_| DigestError::Malformed)?;
        let mut pairs = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            if rest.is_empty() {
                return Ok(Self(pairs));
            }
            if pairs.len() == DIRECTIVES_MAX {
                return Err(DigestError::Malformed);
            }
            let (key, value) = rest.split_once('=').ok_or(DigestError::Malformed)?;
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or(DigestError::Malformed)?,
                None => value.split_at(value.find(',').unwrap_or(value.len())),
            };
            let after = after.trim_start();
            if value.contains('\\') || !(after.is_empty() || after.starts_with(',')) {
                return Err(DigestError::Malformed);
            }
            pairs.push((key.trim(), value.trim_end()));
            rest = after;
        }
    }

    /// Returns the value of a directive that may occur at most once.
    fn get(&self, key: &'static str) -> Result<Option<&'a str>, DigestError> {
        let mut values = self
            .0
            .iter()
            .filter(|pair| pair.0.eq_ignore_ascii_case(key))
            .map(|pair| pair.1);
        let value = values.next();
        if values.next().is_some() {
            Err(DigestError::Directive(key))
        } else {
            Ok(value)
        }
    }

    fn required(&self, key: &'static str) -> Result<&'a str, DigestError> {
        self.get(key)?.ok_or(DigestError::Directive(key))
    }

    fn expect(&self, key: &'static str, value: &str) -> Result<(), DigestError> {
        if self.required(key)? == value {
            Ok(())
        } else {
            Err(DigestError::Directive(key))
        }
    }
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
