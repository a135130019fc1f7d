//! Tokens and the keys that sign them.
//!
//! A token is a public identifier and a password that only holders of the master key can make: the
//! HMAC-SHA1 of exactly the identifier's bytes. Verification therefore works on the bytes as
//! received and never on a message decoded and encoded again. Source:
//! `org.apache.hadoop.security.token.Token`, `SecretManager`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use crate::proto::hadoop_common::TokenProto;
use crate::proto::hadoop_yarn::MasterKeyProto;
use crate::writable::{WritableError, WritableReader, put_bytes};

/// The kinds of token that YARN uses, as in [`Token::kind`].
pub mod kind {
    /// Authenticates an ApplicationMaster to the ResourceManager's scheduler port and to an
    /// AMRMProxy.
    pub const AM_RM_TOKEN: &str = "YARN_AM_RM_TOKEN";
    /// Authenticates an application attempt to one NodeManager.
    pub const NM_TOKEN: &str = "NMToken";
    /// Permits starting one container on one node; checked inside the call, not for the connection.
    pub const CONTAINER_TOKEN: &str = "ContainerToken";
    /// Authenticates a client to an ApplicationMaster.
    pub const CLIENT_TO_AM_TOKEN: &str = "YARN_CLIENT_TOKEN";
    /// Authenticates a user to a NameNode.
    pub const HDFS_DELEGATION_TOKEN: &str = "HDFS_DELEGATION_TOKEN";
    /// Authenticates a user to the ResourceManager's client port.
    pub const RM_DELEGATION_TOKEN: &str = "RM_DELEGATION_TOKEN";
    /// Authenticates a localizer process to its NodeManager.
    pub const LOCALIZER_TOKEN: &str = "Localizer";
    /// Authenticates a user to the timeline service.
    pub const TIMELINE_DELEGATION_TOKEN: &str = "TIMELINE_DELEGATION_TOKEN";
}

/// Length of a token's password, in bytes.
pub const PASSWORD_LENGTH: usize = 20;

/// A token as stored in credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    /// Subject of the token: a protobuf message that depends on the kind. Public.
    pub identifier: Bytes,
    /// Proof of the identifier. Secret.
    pub password: Bytes,
    /// A constant of [`kind`], or a kind of another service.
    pub kind: String,
    /// Server that the token is meant for, usually `ip:port`; may be empty.
    pub service: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("kind", &self.kind)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// A text that is not a token's URL form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenTextError {
    /// The text is not URL-safe base64.
    #[error("not URL-safe base64")]
    Base64(#[from] base64::DecodeError),
    /// The decoded bytes are not a token.
    #[error("not a token")]
    Writable(#[from] WritableError),
}

impl Token {
    /// Makes a token signed by this key.
    #[must_use]
    pub fn sign(key: &MasterKey, identifier: Bytes, kind: &str, service: &str) -> Self {
        let password = Bytes::copy_from_slice(&key.sign(&identifier));
        Self {
            identifier,
            password,
            kind: kind.to_owned(),
            service: service.to_owned(),
        }
    }

    /// Appends the token's Writable form.
    pub fn put_writable(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.identifier);
        put_bytes(out, &self.password);
        put_bytes(out, self.kind.as_bytes());
        put_bytes(out, self.service.as_bytes());
    }

    /// Reads the Writable form.
    ///
    /// # Errors
    /// [`WritableError`] if the bytes are malformed.
    pub fn read_writable(reader: &mut WritableReader<'_>) -> Result<Self, WritableError> {
        Ok(Self {
            identifier: Bytes::copy_from_slice(reader.bytes()?),
            password: Bytes::copy_from_slice(reader.bytes()?),
            kind: reader.text()?.to_owned(),
            service: reader.text()?.to_owned(),
        })
    }

    /// Returns the URL form: URL-safe base64 without padding of the Writable form. Secret like the
    /// token.
    #[must_use]
    pub fn to_url_text(&self) -> String {
        let mut writable = Vec::new();
        self.put_writable(&mut writable);
        URL_SAFE_NO_PAD.encode(writable)
    }

    /// Parses the URL form; padding is accepted as well.
    ///
    /// # Errors
    /// [`TokenTextError`] if the text is malformed.
    pub fn from_url_text(text: &str) -> Result<Self, TokenTextError> {
        let writable = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='))?;
        Ok(Self::read_writable(&mut WritableReader::new(&writable))?)
    }
}

impl From<TokenProto> for Token {
    fn from(token: TokenProto) -> Self {
        Self {
            identifier: token.identifier,
            password: token.password,
            kind: token.kind,
            service: token.service,
        }
    }
}

impl From<Token> for TokenProto {
    fn from(token: Token) -> Self {
        Self {
            identifier: token.identifier,
            password: token.password,
            kind: token.kind,
            service: token.service,
        }
    }
}

/// A key that signs token identifiers. The ResourceManager creates it and shares it by registration
/// and heartbeat.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    /// Id of the key, which identifiers contain. Often negative.
    pub key_id: i32,
    bytes: Bytes,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl MasterKey {
    /// Makes a key of these bytes, of any length; Java uses eight.
    #[must_use]
    pub const fn new(key_id: i32, bytes: Bytes) -> Self {
        Self { key_id, bytes }
    }

    /// Returns the secret itself, for the message that shares it.
    #[must_use]
    pub const fn secret(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the password of an identifier.
    #[must_use]
    pub fn sign(&self, identifier: &[u8]) -> [u8; PASSWORD_LENGTH] {
        self.signer().sign(identifier)
    }

    /// Returns whether `password` is the identifier's, in a time independent of where they differ.
    #[must_use]
    pub fn verify(&self, identifier: &[u8], password: &[u8]) -> bool {
        let mac = self.signer().keyed.chain_update(identifier);
        mac.verify_slice(password).is_ok()
    }

    /// Prepares the key to sign many identifiers.
    #[must_use]
    pub fn signer(&self) -> Signer {
        Signer {
            key_id: self.key_id,
            keyed: Hmac::new_from_slice(&self.bytes).expect("HMAC takes keys of any length"),
        }
    }
}

/// A [`MasterKey`] with the HMAC's two key blocks already hashed. Signing then costs little more
/// than the identifier's own bytes, which are mostly shorter than the blocks.
#[derive(Clone)]
pub struct Signer {
    key_id: i32,
    keyed: Hmac<Sha1>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// Returns the id of the key, which identifiers contain.
    #[must_use]
    pub const fn key_id(&self) -> i32 {
        self.key_id
    }

    /// Returns the password of an identifier.
    #[must_use]
    pub fn sign(&self, identifier: &[u8]) -> [u8; PASSWORD_LENGTH] {
        let mac = self.keyed.clone().chain_update(identifier);
        mac.finalize().into_bytes().into()
    }
}

/// A key message without its id or its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a master key without id or bytes")]
pub struct IncompleteMasterKey;

impl TryFrom<MasterKeyProto> for MasterKey {
    type Error = IncompleteMasterKey;

    fn try_from(key: MasterKeyProto) -> Result<Self, IncompleteMasterKey> {
        match (key.key_id, key.bytes) {
            (Some(key_id), Some(bytes)) => Ok(Self::new(key_id, bytes)),
            (None, _) | (_, None) => Err(IncompleteMasterKey),
        }
    }
}

impl From<MasterKey> for MasterKeyProto {
    fn from(key: MasterKey) -> Self {
        Self {
            key_id: Some(key.key_id),
            bytes: Some(key.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::proto::hadoop_yarn::RegisterNodeManagerResponseProto;
    use crate::testing::{hex, master_key as key};

    const AMRM_ID: &str = "0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01";
    const AMRM_PASSWORD: &str = "9d7ae9b99773e0919dfa9319123f991fa67ae91e";
    const NM_ID: &str =
        "0a0d0a0908071080d095ffbc311001120f0a093132372e302e302e31108ee3021a05616c696365202a";
    const NM_PASSWORD: &str = "d03345beb735d397ba72c00a159ad21ba856e527";
    const CONTAINER_ID: &str = "0a11120d0a0908071080d095ffbc3110011802120f3132372e302e302e313a34353435341a05616c6963\
        65222b08800810011a140a096d656d6f72792d6d621080081a024d6920001a0e0a0676636f72657310011a00200028c09fbaffbc3130\
        2b38fbd095ffbc314202080148c8d395ffbc315a0060026801700078ffffffffffffffffff01";
    const CONTAINER_PASSWORD: &str = "a0f5bea36733092ee894e877262e86db0661ff89";
    const CONTAINER2_ID: &str = "0a16120d0a0908071080d095ffbc31100118828080808060120f3132372e302e302e313a34353435341a\
        05616c696365222b08800810011a140a096d656d6f72792d6d621080081a024d6920001a0e0a0676636f72657310011a00200028c09f\
        baffbc31302b38fbd095ffbc314202080048c8d395ffbc315a0060026802700078078201027431";
    const CLIENT_ID: &str = "0a0d0a0908071080d095ffbc3110011205616c696365";
    const DELEGATION_ID: &str = "0a05616c69636512047961726e2080d095ffbc312880d8c79fbf3130033802";
    const URL_TEXT: &str = "GgoNCgkIBxCA0JX_vDEQARD50rT_______8BFJ166bmXc-CRnfqTGRI_mR-meukeEFlBUk5fQU1fUk1fVE9LRU4O\
        MTI3LjAuMC4xOjgwNDk";

    fn am_token() -> Token {
        Token::sign(
            &key(),
            hex(AMRM_ID).into(),
            kind::AM_RM_TOKEN,
            "127.0.0.1:8049",
        )
    }

    #[test]
    fn renewed_token_with_another_key_id_is_signed_over_its_bytes() {
        let other = hex("0a0d0a0908071080d095ffbc3110011005");
        assert_ne!(key().sign(&other).to_vec(), hex(AMRM_PASSWORD));
        assert!(key().verify(&other, &key().sign(&other)));
    }

    #[test]
    fn passwords_are_javas() {
        let vectors = [
            (AMRM_ID, AMRM_PASSWORD),
            (NM_ID, NM_PASSWORD),
            (CONTAINER_ID, CONTAINER_PASSWORD),
            (CONTAINER2_ID, "603e1ec7fb9197c2674d72418db8f06d3954096f"),
            (CLIENT_ID, "3db032aaa6091231f89cafcff260286cda54584c"),
            (DELEGATION_ID, "60b9de99f5293235ed5bb8ffa1fc6bfaece7a650"),
        ];
        for (identifier, password) in vectors {
            assert_eq!(
                key().sign(&hex(identifier)).to_vec(),
                hex(password),
                "identifier {identifier}"
            );
            assert!(key().verify(&hex(identifier), &hex(password)));
        }
    }

    #[test]
    fn forged_identifier_or_password_does_not_verify() {
        let mut forged = hex(AMRM_ID);
        forged[4] ^= 1;
        assert!(!key().verify(&forged, &hex(AMRM_PASSWORD)));
        let mut wrong = hex(AMRM_PASSWORD);
        wrong[19] ^= 1;
        assert!(!key().verify(&hex(AMRM_ID), &wrong));
        assert!(!key().verify(&hex(AMRM_ID), &wrong[..19]));
        assert!(!key().verify(&hex(AMRM_ID), &[]));
    }

    #[test]
    fn message_of_a_key_is_javas() {
        let bytes = hex("082a12080102030405060708");
        assert_eq!(MasterKeyProto::from(key()).encode_to_vec(), bytes);
        assert_eq!(
            MasterKey::try_from(MasterKeyProto::decode(bytes.as_slice()).unwrap()),
            Ok(key())
        );
        let without_bytes = MasterKeyProto {
            key_id: Some(1),
            bytes: None,
        };
        assert_eq!(MasterKey::try_from(without_bytes), Err(IncompleteMasterKey));
    }

    #[test]
    fn keys_in_a_registration_answer_of_java_are_read() {
        let answer = hex("0a15089ea09ae4fcffffffff011208309bd610637c7a56 12100884e7fd96051208770ffa4df0dd3c70 1800
            209ea3a7e59f34 3205332e342e33");
        let answer = RegisterNodeManagerResponseProto::decode(answer.as_slice()).unwrap();
        let container_key =
            MasterKey::try_from(answer.container_token_master_key.unwrap()).unwrap();
        let nm_key = MasterKey::try_from(answer.nm_token_master_key.unwrap()).unwrap();
        assert_eq!(
            (container_key.key_id, nm_key.key_id),
            (-863_596_514, 1_390_375_812)
        );
        assert_eq!(container_key.secret()[..], hex("309bd610637c7a56"));
        assert_eq!(answer.rm_identifier, Some(1_795_240_350_110));
        assert_eq!(answer.rm_version.as_deref(), Some("3.4.3"));
    }

    #[test]
    fn key_of_any_length_signs() {
        for length in [0, 1, 64, 65, 200] {
            let key = MasterKey::new(1, vec![7; length].into());
            assert!(key.verify(b"id", &key.sign(b"id")));
        }
    }

    #[test]
    fn what_was_signed_before_does_not_change_a_password() {
        let signer = key().signer();
        for identifier in [AMRM_ID, NM_ID, AMRM_ID] {
            let identifier = hex(identifier);
            assert_eq!(signer.sign(&identifier), key().sign(&identifier));
        }
    }

    #[test]
    fn messages_of_tokens_are_javas() {
        let nm = Token::sign(&key(), hex(NM_ID).into(), kind::NM_TOKEN, "127.0.0.1:45454");
        let expected = format!(
            "0a29{NM_ID}1214{NM_PASSWORD}1a074e4d546f6b656e220f3132372e302e302e313a3435343534"
        );
        assert_eq!(TokenProto::from(nm.clone()).encode_to_vec(), hex(&expected));
        assert_eq!(
            Token::from(TokenProto::decode(hex(&expected).as_slice()).unwrap()),
            nm
        );
        let container = Token::sign(
            &key(),
            hex(CONTAINER_ID).into(),
            kind::CONTAINER_TOKEN,
            "127.0.0.1:45454",
        );
        let expected = format!(
            "0a8601{CONTAINER_ID}1214{CONTAINER_PASSWORD}1a0e436f6e7461696e6572546f6b656e220f3132372e302e302e313a3435\
             343534"
        );
        assert_eq!(TokenProto::from(container).encode_to_vec(), hex(&expected));
    }

    #[test]
    fn writable_and_url_forms_are_javas() {
        let expected = format!(
            "1a{AMRM_ID}14{AMRM_PASSWORD}105941524e5f414d5f524d5f544f4b454e0e3132372e302e302e313a38303439"
        );
        let mut writable = Vec::new();
        am_token().put_writable(&mut writable);
        assert_eq!(writable, hex(&expected));
        assert_eq!(
            Token::read_writable(&mut WritableReader::new(&writable)),
            Ok(am_token())
        );
        assert_eq!(am_token().to_url_text(), URL_TEXT);
        assert_eq!(Token::from_url_text(URL_TEXT), Ok(am_token()));
    }

    #[test]
    fn broken_url_text_is_refused() {
        assert!(matches!(
            Token::from_url_text("!"),
            Err(TokenTextError::Base64(_))
        ));
        assert!(matches!(
            Token::from_url_text(&URL_TEXT[..40]),
            Err(TokenTextError::Writable(_))
        ));
        assert!(matches!(
            Token::from_url_text(""),
            Err(TokenTextError::Writable(WritableError::Truncated))
        ));
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?} {:?} {:?}", am_token(), key(), key().signer());
        assert!(
            !shown.contains("password")
                && !shown.contains("bytes")
                && !shown.contains("identifier"),
            "{shown}"
        );
    }

    proptest! {
        #[test]
        fn url_text_survives(
            identifier in proptest::collection::vec(any::<u8>(), 0..200),
            password in proptest::collection::vec(any::<u8>(), 0..40),
            kind in ".{0,20}",
            service in ".{0,20}",
        ) {
            let token = Token { identifier: identifier.into(), password: password.into(), kind, service };
            prop_assert_eq!(Token::from_url_text(&token.to_url_text()), Ok(token));
        }

        #[test]
        fn any_bytes_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Token::read_writable(&mut WritableReader::new(&bytes));
        }
    }
}
