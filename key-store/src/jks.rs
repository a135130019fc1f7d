//! The format JKS: entries, a digest over them, and Sun's protection of private keys.
//!
//! ```text
//! FEEDFEED, version 1 or 2, count
//! entries: 1, alias, date, protected key, count, certificates
//!          2, alias, date, certificate
//! SHA-1 of password, "Mighty Aphrodite" and all of that
//! ```
//!
//! Source: `sun.security.provider.JavaKeyStore` and `KeyProtector` of OpenJDK 17. Numbers have the
//! most significant byte first.

use ctutils::CtEq as _;
use sha1::{Digest as _, Sha1};

use crate::der::{Der, OCTET_STRING, OID, SEQUENCE, dotted};
use crate::{
    Certificate, ENTRIES_MAX, KeyEntry, KeyStore, KeyStoreError, Password, Passwords, PrivateKey,
    pkcs8, too_many, x509,
};

/// Text between password and content in the digest.
const WHITENER: &[u8] = b"Mighty Aphrodite";

const DIGEST_BYTES: usize = 20;

/// Bytes of the salt before a protected key.
const SALT_BYTES: usize = 20;

/// Sun's protection of keys, 1.3.6.1.4.1.42.2.17.1.1.
const PROTECTION: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

/// Entry with a private key that is still protected.
struct ProtectedKey<'a> {
    alias: String,
    protected: &'a [u8],
    chain: Vec<Certificate>,
}

pub(crate) fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<KeyStore, KeyStoreError> {
    let Some((content, digest)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
        return Err(KeyStoreError::Malformed("the digest"));
    };
    let (keys, trusted) = entries(content)?;
    if let Some(password) = passwords.store {
        verify(content, digest, password, passwords.keys, &keys)?;
    }
    let open = |key| open(key, passwords.keys);
    let keys = keys.into_iter().map(open).collect::<Result<_, _>>()?;
    Ok(KeyStore { keys, trusted })
}

/// Checks the digest. A key that opens proves that the password is right.
fn verify(
    content: &[u8],
    digest: &[u8; DIGEST_BYTES],
    password: &Password,
    of_keys: Option<&Password>,
    keys: &[ProtectedKey<'_>],
) -> Result<(), KeyStoreError> {
    let utf16 = password.utf16();
    let computed = sha1(&[&utf16, WHITENER, content]);
    if bool::from(computed.ct_eq(digest)) {
        return Ok(());
    }
    let opens = |key: &ProtectedKey<'_>| unprotect(key.protected, &utf16).is_ok();
    Err(if keys.iter().any(opens) {
        KeyStoreError::Changed
    } else if keys.is_empty() || of_keys.is_some_and(|keys| keys != password) {
        KeyStoreError::WrongPasswordOrChanged
    } else {
        KeyStoreError::WrongPassword
    })
}

type Entries<'a> = (Vec<ProtectedKey<'a>>, Vec<Certificate>);

fn entries(content: &[u8]) -> Result<Entries<'_>, KeyStoreError> {
    let mut rest = Rest(content);
    let _magic = rest.number()?;
    let has_types = match rest.number()? {
        1 => false,
        2 => true,
        _ => return Err(KeyStoreError::Malformed("the version")),
    };
    let (mut keys, mut trusted) = (Vec::new(), Vec::new());
    let mut certificates = 0;
    for _ in 0..rest.number()? {
        let tag = rest.number()?;
        let alias = String::from_utf8_lossy(rest.text()?).into_owned();
        let _date = rest.take(8)?;
        let mut certificate = |rest: &mut Rest<'_>| {
            certificates += 1;
            if certificates > ENTRIES_MAX {
                return Err(too_many());
            }
            rest.certificate(has_types)
        };
        match tag {
            1 => {
                let protected = rest.long()?;
                let mut chain = Vec::new();
                for _ in 0..rest.number()? {
                    chain.push(certificate(&mut rest)?);
                }
                if keys.len() >= ENTRIES_MAX {
                    return Err(too_many());
                }
                keys.push(ProtectedKey {
                    alias,
                    protected,
                    chain,
                });
            }
            2 => trusted.push(certificate(&mut rest)?),
            _ => return Err(KeyStoreError::Malformed("an entry")),
        }
    }
    if !rest.0.is_empty() {
        return Err(KeyStoreError::Malformed("the end"));
    }
    Ok((keys, trusted))
}

fn open(key: ProtectedKey<'_>, password: Option<&Password>) -> Result<KeyEntry, KeyStoreError> {
    let ProtectedKey {
        alias,
        protected,
        chain,
    } = key;
    let private_key = match password {
        None => None,
        Some(password) => {
            let plain = unprotect(protected, &password.utf16());
            let plain = plain.map_err(|error| error.of_key(&alias))?;
            let parts = chain
                .first()
                .map(|first| x509::parts(&first.0))
                .transpose()?;
            let key = pkcs8::complete(&plain, parts.map(|parts| parts.public_key))?;
            Some(PrivateKey(key))
        }
    };
    Ok(KeyEntry {
        alias,
        private_key,
        chain,
    })
}

/// Returns the PKCS #8 of a protected key.
///
/// # Errors
/// [`KeyStoreError::WrongPassword`] when the digest in it does not fit.
fn unprotect(protected: &[u8], password: &[u8]) -> Result<Vec<u8>, KeyStoreError> {
    const WHAT: &str = "a protected key";
    let mut info = Der::new(protected, WHAT).inside(SEQUENCE)?;
    let oid = info.inside(SEQUENCE)?.take(OID)?;
    if oid != PROTECTION {
        return Err(KeyStoreError::Unsupported {
            what: "the protection of keys",
            oid: dotted(oid),
        });
    }
    let protected = info.take(OCTET_STRING)?;
    let malformed = KeyStoreError::Malformed(WHAT);
    let Some((salt, rest)) = protected.split_first_chunk::<SALT_BYTES>() else {
        return Err(malformed);
    };
    let Some((hidden, check)) = rest.split_last_chunk::<DIGEST_BYTES>() else {
        return Err(malformed);
    };
    let mut plain = Vec::with_capacity(hidden.len());
    let mut mask = *salt;
    for piece in hidden.chunks(DIGEST_BYTES) {
        mask = sha1(&[password, &mask]);
        plain.extend(piece.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    }
    if bool::from(sha1(&[password, &plain]).ct_eq(check)) {
        Ok(plain)
    } else {
        Err(KeyStoreError::WrongPassword)
    }
}

fn sha1(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha1::new();
    for part in parts {
        digest.update(part);
    }
    digest.finalize().into()
}

/// Bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], KeyStoreError> {
        let split = self.0.split_at_checked(count);
        let (taken, rest) = split.ok_or(KeyStoreError::Malformed("an entry"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, KeyStoreError> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte)))
    }

    /// Returns what stands behind its length in two bytes.
    fn text(&mut self) -> Result<&'a [u8], KeyStoreError> {
        let bytes = self.take(2)?;
        let length = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
        self.take(length)
    }

    /// Returns what stands behind its length in four bytes.
    fn long(&mut self) -> Result<&'a [u8], KeyStoreError> {
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        self.take(length)
    }

    fn certificate(&mut self, has_type: bool) -> Result<Certificate, KeyStoreError> {
        if has_type && self.text()? != b"X.509" {
            return Err(KeyStoreError::Malformed("the type of a certificate"));
        }
        self.long().map(|der| Certificate(der.to_vec()))
    }
}
