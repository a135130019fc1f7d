//! Fixtures shared by the unit tests of this crate.

use bytes::Bytes;

use crate::exception::RemoteException;
use crate::rpc::{SecretManager, Verified};
use crate::token::{MasterKey, Token, kind};

/// Returns the key of all golden tokens.
pub(crate) fn master_key() -> MasterKey {
    MasterKey::new(42, Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8]))
}

/// Returns an AMRMToken that Java signed with [`master_key`].
pub(crate) fn am_token() -> Token {
    Token {
        identifier: hex("0a0d0a0908071080d095ffbc31100110f9d2b4ffffffffffff01").into(),
        password: hex("9d7ae9b99773e0919dfa9319123f991fa67ae91e").into(),
        kind: kind::AM_RM_TOKEN.to_owned(),
        service: "127.0.0.1:8049".to_owned(),
    }
}

/// A secret manager that accepts every identifier for the attempt in [`am_token`].
pub(crate) struct Keys;

impl SecretManager for Keys {
    fn kind(&self) -> &'static str {
        kind::AM_RM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        let password = master_key().sign(identifier).to_vec();
        Ok(Verified {
            password,
            user: "appattempt_1700000000000_0007_000001".to_owned(),
            owner: None,
        })
    }
}

/// Parses hexadecimal text; spaces, line ends and underscores are skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|character| !character.is_whitespace() && *character != '_')
        .map(|character| u8::try_from(character.to_digit(16).unwrap()).unwrap())
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {text}");
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
