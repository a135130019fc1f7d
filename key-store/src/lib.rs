//! Java's key stores: private keys with their certificates, and certificates that are trusted.
//!
//! ```text
//! bytes ─▶ read ─┬─▶ jks: entries, digest, Sun's protection of keys ─┐
//!                └─▶ pkcs12: contents, MAC ─▶ pbe: decryption ───────┴─▶ KeyStore
//! ```
//!
//! In: the bytes of a file and its passwords. Out: keys in PKCS #8, chains, trusted certificates.
//! The format is that of the bytes, as Java takes it since version 8: `keytool` writes PKCS #12
//! today, and files are called `.jks` all the same. Knows neither files nor TLS, verifies no
//! certificate and writes no store.
//!
//! The work on any input is bounded: by its length, by [`ENTRIES_MAX`] and by [`ITERATIONS_MAX`]
//! over all passwords of a store together. Libraries for PKCS #12 bound the iterations of one
//! password at most, of which a file holds thousands.

mod der;
mod jks;
mod pbe;
mod pkcs12;
mod pkcs8;
#[cfg(test)]
mod tests;
mod x509;

use std::fmt;

use thiserror::Error;

/// Limit on the bytes of a store. Ten thousand trusted certificates take as much.
pub const STORE_BYTES_MAX: usize = 16 << 20;

/// Limit on the keys and certificates of a store.
pub const ENTRIES_MAX: usize = 16_384;

/// Limit on the iterations of key derivations of one store together: what Java allows for one
/// (`PKCS12KeyStore.MAX_ITERATION_COUNT`). They take some seconds. `keytool` chooses 10,000 for
/// each password.
pub const ITERATIONS_MAX: u32 = 5_000_000;

/// Password of a store or a key. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes the text of a password.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the characters in UTF-16, the most significant byte first.
    pub(crate) fn utf16(&self) -> Vec<u8> {
        self.0.encode_utf16().flat_map(u16::to_be_bytes).collect()
    }

    pub(crate) const fn utf8(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Certificate in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate(pub Vec<u8>);

/// Private key in PKCS #8, DER. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(pub Vec<u8>);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// Private key of a store, with its certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// Name of the entry; may be empty.
    pub alias: String,
    /// The key; `None` if the store was read without a password for keys.
    pub private_key: Option<PrivateKey>,
    /// The key's certificate, then that of its issuer, and so on; may be empty.
    pub chain: Vec<Certificate>,
}

/// Contents of a store, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyStore {
    /// Private keys.
    pub keys: Vec<KeyEntry>,
    /// Certificates that are entries of their own, and so trusted.
    pub trusted: Vec<Certificate>,
}

/// Passwords by which a store is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passwords<'a> {
    /// Password of the store. Without it nothing proves that the content is unchanged, and
    /// encrypted certificates are left out, as in Java.
    pub store: Option<&'a Password>,
    /// Password of the keys. Without it keys stay closed.
    pub keys: Option<&'a Password>,
}

/// A store that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyStoreError {
    /// Bytes of another format.
    #[error("is no key store in the format JKS or PKCS #12{0}")]
    Format(&'static str),
    /// Algorithm that this crate does not have.
    #[error("uses {what} {oid}, which is not supported")]
    Unsupported {
        /// Purpose of the algorithm.
        what: &'static str,
        /// Object identifier.
        oid: String,
    },
    /// Bytes that break the format, or end too early.
    #[error("{0} in it is damaged")]
    Malformed(&'static str),
    /// Store beyond a limit.
    #[error("has more than {max} {what}")]
    TooLarge {
        /// Subject of a bound.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Password of the store that opens nothing in it.
    #[error("its password is wrong")]
    WrongPassword,
    /// Password that does not open a key.
    #[error("the password of its key {alias:?} is wrong")]
    WrongKeyPassword {
        /// Name of the key's entry.
        alias: String,
    },
    /// Content that is not the one that was written, under the right password.
    #[error("its content was changed since it was written")]
    Changed,
    /// Content that does not fit the password, in a store where nothing shows which is wrong.
    #[error("its password is wrong, or its content was changed since it was written")]
    WrongPasswordOrChanged,
}

impl KeyStoreError {
    /// Returns the error of opening a key: the wrong password is that of the key.
    fn of_key(self, alias: &str) -> Self {
        if self == Self::WrongPassword {
            let alias = alias.to_owned();
            return Self::WrongKeyPassword { alias };
        }
        self
    }
}

/// Reads a store.
///
/// # Errors
/// [`KeyStoreError`], which shows no password and no content.
pub fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<KeyStore, KeyStoreError> {
    read_within(bytes, passwords, ITERATIONS_MAX)
}

/// Reads as [`read`] does, within fewer iterations.
///
/// # Errors
/// As [`read`].
pub fn read_within(
    bytes: &[u8],
    passwords: Passwords<'_>,
    iterations_max: u32,
) -> Result<KeyStore, KeyStoreError> {
    if bytes.len() > STORE_BYTES_MAX {
        return Err(KeyStoreError::TooLarge {
            what: "bytes",
            max: STORE_BYTES_MAX,
        });
    }
    let mut work = pbe::Work::new(iterations_max);
    match bytes {
        [0xfe, 0xed, 0xfe, 0xed, ..] => jks::read(bytes, passwords),
        [der::SEQUENCE, ..] => pkcs12::read(bytes, passwords, &mut work),
        [0xce, 0xce, 0xce, 0xce, ..] => Err(KeyStoreError::Format(", but in JCEKS")),
        [b'-', b'-', b'-', b'-', b'-', ..] => Err(KeyStoreError::Format(", but in PEM")),
        _ => Err(KeyStoreError::Format("")),
    }
}

/// Returns the error of one entry too many.
const fn too_many() -> KeyStoreError {
    KeyStoreError::TooLarge {
        what: "entries",
        max: ENTRIES_MAX,
    }
}
