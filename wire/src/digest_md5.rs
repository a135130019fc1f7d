//! DIGEST-MD5 as Hadoop uses it to prove that both sides know a token's password.
//!
//! The name is the base64 of the token's identifier, the password the base64 of its password; protection is always
//! `auth`, which wraps nothing. Functions over text: the caller supplies nonces and passwords.
//! Source: RFC 2831; `org.apache.hadoop.security.SaslRpcServer` and the JDK's `DigestMD5Server`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use md5::{Digest as _, Md5};

/// The mechanism's name.
pub const MECHANISM: &str = "DIGEST-MD5";
/// The server's name in the digest, and its realm.
pub const SERVER_ID: &str = "default";
/// The name of the service within the server; its protocol part is empty.
const DIGEST_URI: &str = "/default";

/// Random bytes behind a nonce; 40 characters in base64.
pub const NONCE_BYTES: usize = 30;

/// Longest challenge and longest response, in bytes; the JDK's limits.
const CHALLENGE_LENGTH_MAX: usize = 2048;
const RESPONSE_LENGTH_MAX: usize = 4096;

/// Most directives in one message. The mechanism defines thirteen.
const DIRECTIVES_MAX: usize = 32;

/// A message of the mechanism that is not as it should be, or a proof that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Longer than the mechanism allows, not ASCII text, or not a list of directives.
    #[error("DIGEST-MD5: malformed message")]
    Malformed,
    /// A directive is missing, doubled, or has a value that this mechanism does not take here.
    #[error("DIGEST-MD5: directive {0} is missing or wrong")]
    Directive(&'static str),
    /// The digest is of another password.
    #[error("DIGEST-MD5: digest response format violation. Mismatched response.")]
    Mismatch,
}

/// A nonce from random bytes.
#[must_use]
pub fn nonce(random: [u8; NONCE_BYTES]) -> String {
    STANDARD.encode(random)
}

/// The server's first message.
#[must_use]
pub fn challenge(nonce: &str) -> String {
    format!("realm=\"{SERVER_ID}\",nonce=\"{nonce}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess")
}

/// The name under which a token identifier proves itself.
#[must_use]
pub fn encode_identifier(identifier: &[u8]) -> String {
    STANDARD.encode(identifier)
}

/// What both sides hash: everything but the direction. The session's secret is in it.
struct Session<'a> {
    username: &'a str,
    realm: &'a str,
    nonce: &'a str,
    cnonce: &'a str,
    digest_uri: &'a str,
}

/// Number of the response under one nonce; a nonce is used once.
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

    /// The digest of one direction: `method` is `AUTHENTICATE` from the client and empty from the server.
    fn digest(&self, ha1: &str, method: &str) -> String {
        let ha2 = hex(&Md5::digest(format!("{method}:{}", self.digest_uri)));
        hex(&Md5::digest(format!(
            "{ha1}:{}:{NONCE_COUNT}:{}:auth:{ha2}",
            self.nonce, self.cnonce
        )))
    }
}

/// A client's response, parsed and checked in all but its digest.
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
    /// Parses the response to the challenge of this nonce.
    ///
    /// # Errors
    /// See [`DigestError`].
    pub fn parse(nonce: &str, response: &[u8]) -> Result<Self, DigestError> {
        let directives = Directives::parse(response, RESPONSE_LENGTH_MAX)?;
        directives.expect("nonce", nonce)?;
        directives.expect("nc", NONCE_COUNT)?;
        directives.expect("digest-uri", DIGEST_URI)?;
        directives.expect("realm", SERVER_ID)?;
        // Without a qop the mechanism means `auth`.
        if let Some(qop) = directives.get("qop")?
            && qop != "auth"
        {
            return Err(DigestError::Directive("qop"));
        }
        // Acting for another name is not possible with a token.
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

    /// The token identifier that the client claims, unproven; memory of its own.
    #[must_use]
    pub const fn identifier(&self) -> &Bytes {
        &self.identifier
    }

    /// Compares the digest with the one that this password gives; on success the server's own proof.
    ///
    /// # Errors
    /// [`DigestError::Mismatch`].
    pub fn verify(&self, password: &[u8]) -> Result<String, DigestError> {
        let session = Session {
            username: &self.username,
            realm: &self.realm,
            nonce: &self.nonce,
            cnonce: &self.cnonce,
            digest_uri: DIGEST_URI,
        };
        let ha1 = session.ha1(password);
        if !same(
            session.digest(&ha1, "AUTHENTICATE").as_bytes(),
            self.response.as_bytes(),
        ) {
            return Err(DigestError::Mismatch);
        }
        Ok(format!("rspauth={}", session.digest(&ha1, "")))
    }
}

/// A client's answer to a challenge, and what the server has to prove in return.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientResponse {
    /// The message to send.
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
    /// When the challenge does not parse, or asks for anything but `auth` with MD5 sessions.
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
        // A quote or backslash inside would need escaping that neither side does.
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
    /// [`DigestError::Mismatch`], or the message does not parse.
    pub fn verify(&self, message: &[u8]) -> Result<(), DigestError> {
        let directives = Directives::parse(message, CHALLENGE_LENGTH_MAX)?;
        let rspauth = directives.required("rspauth")?;
        if same(rspauth.as_bytes(), self.rspauth.as_bytes()) {
            Ok(())
        } else {
            Err(DigestError::Mismatch)
        }
    }
}

/// The `key=value` pairs of a message, in their order.
struct Directives<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Directives<'a> {
    /// Parses pairs with commas between; a value may stand in quotes and then hold commas. Backslash escapes are
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

    /// The value of a directive that may stand at most once.
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

/// Equality in a time that depends on the lengths only.
fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let difference = left
        .iter()
        .zip(right)
        .fold(0_u8, |difference, (a, b)| difference | (a ^ b));
    // Keeps the compiler from leaving the loop early.
    std::hint::black_box(difference) == 0
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    const NONCE_A: &str = "t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo";
    const CNONCE_A: &str = "dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY";
    const RESPONSE_A: &str = "charset=utf-8,username=\"Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=\",realm=\"default\",\
        nonce=\"t6kM3aJdaQj4zoKIHKunxp8+8tUVlXROGGkkxvqo\",nc=00000001,\
        cnonce=\"dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY\",digest-uri=\"/default\",maxbuf=65536,\
        response=a1ec874d417aaeed9134056dfe9b4dba,qop=auth";
    const RSPAUTH_A: &str = "rspauth=6c80246ccee7429ea7330e1fd05a8eca";

    fn identifier() -> Vec<u8> {
        testing::hex("0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01")
    }

    fn password() -> Vec<u8> {
        testing::hex("9d7ae9b99773e0919dfa9319123f991fa67ae91e")
    }

    fn session<'a>(nonce: &'a str, cnonce: &'a str) -> Session<'a> {
        Session {
            username: "Cg0KCQgHEIDQlf+8MRABEPnStP///////wE=",
            realm: SERVER_ID,
            nonce,
            cnonce,
            digest_uri: DIGEST_URI,
        }
    }

    #[test]
    fn hashes_of_the_captured_session_are_javas() {
        assert_eq!(
            encode_identifier(&identifier()),
            "Cg0KCQgHEIDQlf+8MRABEPnStP///////wE="
        );
        let session = session(NONCE_A, CNONCE_A);
        let ha1 = session.ha1(&password());
        assert_eq!(ha1, "991bb599e80464d2f82cf26b27d9b178");
        assert_eq!(
            session.digest(&ha1, "AUTHENTICATE"),
            "a1ec874d417aaeed9134056dfe9b4dba"
        );
        assert_eq!(session.digest(&ha1, ""), "6c80246ccee7429ea7330e1fd05a8eca");
        assert_eq!(
            hex(&Md5::digest("AUTHENTICATE:/default")),
            "6c09265b8ea8eaffd980c321d6e8a74e"
        );
        assert_eq!(
            hex(&Md5::digest(":/default")),
            "6eeb77fd28c07793b6f586d1ef45fac5"
        );
        let secret = format!(
            "{}:{SERVER_ID}:nXrpuZdz4JGd+pMZEj+ZH6Z66R4=",
            session.username
        );
        assert_eq!(
            hex(&Md5::digest(secret)),
            "f0273fb88f6e694ee78ba55e9f1d4b60"
        );
    }

    #[test]
    fn hashes_of_the_second_vector_agree() {
        let session = session(
            "MDEyMzQ1Njc4OWFiY2RlZmdoaWpr",
            "cm5kY25vbmNlMDEyMzQ1Njc4OWFi",
        );
        let ha1 = session.ha1(&password());
        assert_eq!(ha1, "5e373c32f36e0952458b94dcfdf12cce");
        assert_eq!(
            session.digest(&ha1, "AUTHENTICATE"),
            "d3257c888fe852c6b80f785d1b158c09"
        );
        assert_eq!(session.digest(&ha1, ""), "2b29c0212678a9253fd475c7bd8169d1");
    }

    #[test]
    fn captured_response_is_accepted_and_answered_as_java_does() {
        let check = ServerCheck::parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
        assert_eq!(check.identifier()[..], identifier());
        assert_eq!(check.verify(&password()).as_deref(), Ok(RSPAUTH_A));
    }

    #[test]
    fn client_answers_the_captured_challenge_as_java_does() {
        let challenge = challenge(NONCE_A);
        assert_eq!(challenge.len(), 108);
        let response =
            ClientResponse::new(challenge.as_bytes(), &identifier(), &password(), CNONCE_A)
                .unwrap();
        assert_eq!(response.message, RESPONSE_A);
        assert_eq!(response.verify(RSPAUTH_A.as_bytes()), Ok(()));
    }

    #[test]
    fn wrong_password_does_not_verify_on_either_side() {
        let check = ServerCheck::parse(NONCE_A, RESPONSE_A.as_bytes()).unwrap();
        assert_eq!(check.verify(b"another"), Err(DigestError::Mismatch));
        let response = ClientResponse::new(
            challenge(NONCE_A).as_bytes(),
            &identifier(),
            b"another",
            CNONCE_A,
        )
        .unwrap();
        assert_eq!(
            response.verify(RSPAUTH_A.as_bytes()),
            Err(DigestError::Mismatch)
        );
    }

    #[test]
    fn every_changed_directive_is_refused() {
        for (from, to, directive) in [
            ("t6kM", "x6kM", "nonce"),
            ("nc=00000001", "nc=00000002", "nc"),
            ("/default", "/other", "digest-uri"),
            ("realm=\"default\"", "realm=\"other\"", "realm"),
            ("qop=auth", "qop=auth-conf", "qop"),
            ("username=\"Cg", "username=\"*", "username"),
            ("qop=auth", "qop=auth,nc=00000001", "nc"),
            ("maxbuf=65536", "authzid=\"root\"", "authzid"),
            (
                "cnonce=\"dDgCPworofLRuKtHVt2G6PEXsGK/+FkwUAWnirLY\"",
                "cnonce=\"\"",
                "cnonce",
            ),
        ] {
            let changed = RESPONSE_A.replacen(from, to, 1);
            assert_eq!(
                ServerCheck::parse(NONCE_A, changed.as_bytes()),
                Err(DigestError::Directive(directive)),
                "{changed}"
            );
        }
    }

    #[test]
    fn order_and_white_space_of_directives_do_not_matter() {
        let mut parts: Vec<_> = RESPONSE_A.split(',').collect();
        parts.reverse();
        let check = ServerCheck::parse(NONCE_A, parts.join(" , ").as_bytes()).unwrap();
        assert!(check.verify(&password()).is_ok());
    }

    #[test]
    fn overlong_or_broken_messages_are_malformed() {
        let long = vec![b'a'; RESPONSE_LENGTH_MAX + 1];
        for message in [
            &long[..],
            b"a",
            b"a=\"",
            b"a=\"b\"c",
            b"\xff=1",
            "a=1,".repeat(33).as_bytes(),
        ] {
            assert_eq!(
                ServerCheck::parse(NONCE_A, message),
                Err(DigestError::Malformed)
            );
        }
    }

    proptest! {
        #[test]
        fn any_message_parses_without_panic(message in "[a-z=\", \\\\]{0,60}|.{0,60}") {
            let _ = Directives::parse(message.as_bytes(), RESPONSE_LENGTH_MAX);
            let _ = ClientResponse::new(message.as_bytes(), b"id", b"pw", "c");
        }

        #[test]
        fn both_sides_agree_on_any_token(
            identifier in proptest::collection::vec(any::<u8>(), 0..300),
            password in proptest::collection::vec(any::<u8>(), 0..40),
            server in any::<[u8; NONCE_BYTES]>(),
            client in any::<[u8; NONCE_BYTES]>(),
        ) {
            let server_nonce = nonce(server);
            let response =
                ClientResponse::new(challenge(&server_nonce).as_bytes(), &identifier, &password, &nonce(client)).unwrap();
            let check = ServerCheck::parse(&server_nonce, response.message.as_bytes()).unwrap();
            prop_assert_eq!(&check.identifier()[..], &identifier[..]);
            prop_assert_eq!(response.verify(check.verify(&password).unwrap().as_bytes()), Ok(()));
        }
    }
}
