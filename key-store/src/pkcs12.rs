//! The format PKCS #12 (RFC 7292), as Java fills it.
//!
//! ```text
//! PFX: version 3, contents, MAC over the contents
//! contents: plain or encrypted, each with bags
//! bags: a private key, mostly encrypted; a certificate; others, which are passed over
//! attributes of a bag: name, id of the key that a certificate belongs to, Oracle's mark of trust
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::der::{
    BMP_STRING, CONTEXT_0, CONTEXT_0_PRIMITIVE, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET,
    dotted,
};
use crate::pbe::{self, Work};
use crate::{
    Certificate, ENTRIES_MAX, KeyEntry, KeyStore, KeyStoreError, Password, Passwords, PrivateKey,
    STORE_BYTES_MAX, pkcs8, too_many, x509,
};

/// `data`, 1.2.840.113549.1.7.1.
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
/// `encryptedData`, 1.2.840.113549.1.7.6.
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
/// Types of bags, 1.2.840.113549.1.12.10.1; the last number says which.
const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01];
/// `x509Certificate`, 1.2.840.113549.1.9.22.1.
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// `friendlyName`, 1.2.840.113549.1.9.20.
const NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x14];
/// `localKeyId`, 1.2.840.113549.1.9.21.
const KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// Oracle's `trustedKeyUsage`, 2.16.840.1.113894.746875.1.1. Without it Java trusts no certificate.
const TRUSTED: &[u8] = &[
    0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01,
];

const WHAT: &str = "the structure";
const CONTENT: &str = "a content";
const BAGS: &str = "an entry";

/// Reads a store.
pub(crate) fn read(
    bytes: &[u8],
    passwords: Passwords<'_>,
    work: &mut Work,
) -> Result<KeyStore, KeyStoreError> {
    let mut pfx = Der::new(bytes, WHAT).inside(SEQUENCE)?;
    if pfx.number()? != 3 {
        return Err(KeyStoreError::Malformed("the version"));
    }
    let mut safe = pfx.inside(SEQUENCE)?;
    let oid = safe.take(OID)?;
    if oid != DATA {
        // Contents may be signed instead of having a MAC; Java does not write that.
        return Err(unsupported("contents of the type", oid));
    }
    let contents = safe.inside(CONTEXT_0)?.take(OCTET_STRING)?;
    if let (Some(password), false) = (passwords.store, pfx.is_empty()) {
        verify(pfx, contents, password, work)?;
    }
    let mut entries = Entries::default();
    for_each_content(contents, |content| match content {
        Content::Plain(bags) => entries.take(bags, passwords.keys, work),
        Content::Encrypted(encrypted) => match passwords.store {
            None => Ok(()),
            Some(password) => {
                let bags = encrypted.decrypt(password, work)?;
                entries.take(&bags, passwords.keys, work)
            }
        },
    })?;
    entries.assemble()
}

/// Checks the MAC. Something that the password opens proves that the password is right.
fn verify(
    mut pfx: Der<'_>,
    contents: &[u8],
    password: &Password,
    work: &mut Work,
) -> Result<(), KeyStoreError> {
    let mut mac_data = pfx.inside(SEQUENCE)?;
    let mut digest = mac_data.inside(SEQUENCE)?;
    let algorithm = digest.inside(SEQUENCE)?;
    let mac = digest.take(OCTET_STRING)?;
    let salt = mac_data.take(OCTET_STRING)?;
    let iterations = if mac_data.is_empty() {
        1
    } else {
        mac_data.number()?
    };
    let over = (contents, password);
    if pbe::verifies(algorithm, mac, salt, iterations, over, work)? {
        return Ok(());
    }
    let mut fits = false;
    let tried = for_each_content(contents, |content| {
        match content {
            Content::Plain(bags) => for_each_bag(bags, |bag| {
                if let (Some(2), false) = (bag.kind, fits) {
                    fits = Encrypted::key(bag.value)?.is_opened_by(password, work);
                }
                Ok(())
            })?,
            Content::Encrypted(encrypted) => fits = fits || encrypted.is_opened_by(password, work),
        }
        Ok(())
    });
    Err(match (tried, fits) {
        (_, true) => KeyStoreError::Changed,
        (Ok(()), false) => KeyStoreError::WrongPassword,
        (Err(error), false) => error,
    })
}

enum Content<'a> {
    Plain(&'a [u8]),
    Encrypted(Encrypted<'a>),
}

/// Bytes with the algorithm that encrypted them.
struct Encrypted<'a> {
    algorithm: Der<'a>,
    bytes: &'a [u8],
}

impl<'a> Encrypted<'a> {
    /// Reads `EncryptedData` (RFC 5652, section 8).
    fn content(mut explicit: Der<'a>) -> Result<Self, KeyStoreError> {
        let mut data = explicit.inside(SEQUENCE)?;
        let _version = data.take(INTEGER)?;
        let mut info = data.inside(SEQUENCE)?;
        let _content_type = info.take(OID)?;
        let algorithm = info.inside(SEQUENCE)?;
        let bytes = info.take(CONTEXT_0_PRIMITIVE)?;
        Ok(Self { algorithm, bytes })
    }

    /// Reads `EncryptedPrivateKeyInfo` (RFC 5208, section 6).
    fn key(value: &'a [u8]) -> Result<Self, KeyStoreError> {
        let mut info = Der::new(value, BAGS).inside(SEQUENCE)?;
        let algorithm = info.inside(SEQUENCE)?;
        let bytes = info.take(OCTET_STRING)?;
        Ok(Self { algorithm, bytes })
    }

    fn decrypt(&self, password: &Password, work: &mut Work) -> Result<Vec<u8>, KeyStoreError> {
        pbe::decrypt(self.algorithm, self.bytes, password, work)
    }

    /// Whether the password gives one whole element, which random bytes are not.
    fn is_opened_by(&self, password: &Password, work: &mut Work) -> bool {
        self.decrypt(password, work).is_ok_and(|plain| {
            let mut der = Der::new(&plain, WHAT);
            der.take(SEQUENCE).is_ok() && der.is_empty()
        })
    }
}

fn for_each_content<'a>(
    contents: &'a [u8],
    mut act: impl FnMut(Content<'a>) -> Result<(), KeyStoreError>,
) -> Result<(), KeyStoreError> {
    let mut contents = Der::new(contents, CONTENT).inside(SEQUENCE)?;
    while !contents.is_empty() {
        let mut content = contents.inside(SEQUENCE)?;
        let oid = content.take(OID)?;
        let mut explicit = content.inside(CONTEXT_0)?;
        if oid == DATA {
            act(Content::Plain(explicit.take(OCTET_STRING)?))?;
        } else if oid == ENCRYPTED_DATA {
            act(Content::Encrypted(Encrypted::content(explicit)?))?;
        } else {
            return Err(unsupported("contents of the type", oid));
        }
    }
    Ok(())
}

/// Bag with its attributes.
struct Bag<'a> {
    /// Last number of a known type's identifier.
    kind: Option<u8>,
    value: &'a [u8],
    name: Option<String>,
    key_id: Option<&'a [u8]>,
    is_trusted: bool,
}

fn for_each_bag<'a>(
    bags: &'a [u8],
    mut act: impl FnMut(Bag<'a>) -> Result<(), KeyStoreError>,
) -> Result<(), KeyStoreError> {
    let mut bags = Der::new(bags, BAGS).inside(SEQUENCE)?;
    while !bags.is_empty() {
        let mut der = bags.inside(SEQUENCE)?;
        let oid = der.take(OID)?;
        let kind = match oid.strip_prefix(BAG) {
            Some([kind]) => Some(*kind),
            _ => None,
        };
        let mut bag = Bag {
            kind,
            value: der.take(CONTEXT_0)?,
            name: None,
            key_id: None,
            is_trusted: false,
        };
        if !der.is_empty() {
            bag.take_attributes(der.inside(SET)?)?;
        }
        act(bag)?;
    }
    Ok(())
}

impl<'a> Bag<'a> {
    fn take_attributes(&mut self, mut attributes: Der<'a>) -> Result<(), KeyStoreError> {
        while !attributes.is_empty() {
            let mut attribute = attributes.inside(SEQUENCE)?;
            let oid = attribute.take(OID)?;
            let mut values = attribute.inside(SET)?;
            if oid == NAME {
                let units = values.take(BMP_STRING)?.chunks_exact(2);
                let units: Vec<_> = units
                    .map(|unit| u16::from_be_bytes([unit[0], unit[1]]))
                    .collect();
                self.name = Some(String::from_utf16_lossy(&units));
            } else if oid == KEY_ID {
                self.key_id = Some(values.take(OCTET_STRING)?);
            } else if oid == TRUSTED {
                self.is_trusted = true;
            }
        }
        Ok(())
    }
}

/// Private key, not joined with its certificate yet.
struct Key {
    name: Option<String>,
    id: Option<Vec<u8>>,
    plain: Option<Vec<u8>>,
}

/// Entries of all contents.
#[derive(Default)]
struct Entries {
    keys: Vec<Key>,
    /// Certificates that belong to a key or to no one, with the key's id.
    certificates: Vec<(Option<Vec<u8>>, Certificate)>,
    trusted: Vec<Certificate>,
}

impl Entries {
    fn take(
        &mut self,
        bags: &[u8],
        password: Option<&Password>,
        work: &mut Work,
    ) -> Result<(), KeyStoreError> {
        for_each_bag(bags, |bag| {
            match bag.kind {
                Some(1) => self.take_key(&bag, Some(bag.value.to_vec())),
                Some(2) => {
                    let open = |password| Encrypted::key(bag.value)?.decrypt(password, work);
                    let plain = password.map(open).transpose();
                    let alias = bag.name.as_deref().unwrap_or_default();
                    let plain = plain.map_err(|error| error.of_key(alias))?;
                    self.take_key(&bag, plain);
                }
                Some(3) => self.take_certificate(&bag)?,
                // Lists of revoked certificates, secret keys, bags in bags.
                Some(_) | None => {}
            }
            let count = self.keys.len() + self.certificates.len() + self.trusted.len();
            if count > ENTRIES_MAX {
                return Err(too_many());
            }
            Ok(())
        })
    }

    fn take_key(&mut self, bag: &Bag<'_>, plain: Option<Vec<u8>>) {
        self.keys.push(Key {
            name: bag.name.clone(),
            id: bag.key_id.map(<[u8]>::to_vec),
            plain,
        });
    }

    fn take_certificate(&mut self, bag: &Bag<'_>) -> Result<(), KeyStoreError> {
        let mut der = Der::new(bag.value, BAGS).inside(SEQUENCE)?;
        if der.take(OID)? != X509 {
            return Ok(());
        }
        let certificate = der.inside(CONTEXT_0)?.take(OCTET_STRING)?;
        let certificate = Certificate(certificate.to_vec());
        if bag.is_trusted && bag.key_id.is_none() {
            self.trusted.push(certificate);
        } else {
            let id = bag.key_id.map(<[u8]>::to_vec);
            self.certificates.push((id, certificate));
        }
        Ok(())
    }

    /// Joins keys with the certificates that have their id and, from there, with those of the
    /// issuers by name (Java: `PKCS12KeyStore.loadSafeContents`).
    fn assemble(self) -> Result<KeyStore, KeyStoreError> {
        let (mut by_id, mut by_subject) = (BTreeMap::new(), BTreeMap::new());
        for (id, certificate) in &self.certificates {
            let parts = x509::parts(&certificate.0)?;
            if let Some(id) = id {
                by_id.entry(id.as_slice()).or_insert((parts, certificate));
            }
            by_subject
                .entry(parts.subject)
                .or_insert((parts, certificate));
        }
        let mut keys = Vec::new();
        let mut bytes = 0;
        for Key { name, id, plain } in self.keys {
            let mut next = id.as_deref().and_then(|id| by_id.get(id));
            let public_key = next.map(|(parts, _)| parts.public_key);
            let mut chain = Vec::new();
            let mut seen = BTreeSet::new();
            while let Some((parts, certificate)) = next {
                if !seen.insert(parts.subject) {
                    break;
                }
                // Chains share certificates, so they may be longer together than the file.
                bytes += certificate.0.len();
                if bytes > STORE_BYTES_MAX {
                    return Err(KeyStoreError::TooLarge {
                        what: "bytes of certificate chains",
                        max: STORE_BYTES_MAX,
                    });
                }
                chain.push(Certificate::clone(certificate));
                next = by_subject.get(parts.issuer);
            }
            let complete = |plain: Vec<u8>| pkcs8::complete(&plain, public_key).map(PrivateKey);
            keys.push(KeyEntry {
                alias: name.unwrap_or_default(),
                private_key: plain.map(complete).transpose()?,
                chain,
            });
        }
        Ok(KeyStore {
            keys,
            trusted: self.trusted,
        })
    }
}

fn unsupported(what: &'static str, oid: &[u8]) -> KeyStoreError {
    KeyStoreError::Unsupported {
        what,
        oid: dotted(oid),
    }
}
