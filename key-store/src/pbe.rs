//! Encryption by password: the key derivations and ciphers of PKCS #5 and PKCS #12.
//!
//! `keytool` encrypts by PBES2 with AES today, and did by triple DES and RC2 until Java 8u301. Both
//! are read; the single-key RC4 ciphers of PKCS #12, which no version of it wrote, are not.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt as _, InnerIvInit as _, KeyInit};
use cbc::Decryptor;
use hmac::{Hmac, Mac as _};
use pbkdf2::pbkdf2_hmac;
use rc2::Rc2;
use sha1::Sha1;
use sha1::digest::Digest;
use sha1::digest::common::BlockSizeUser;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::der::{Der, OCTET_STRING, OID, SEQUENCE, dotted};
use crate::{KeyStoreError, Password};

/// `pkcs-12PbeIds`, 1.2.840.113549.1.12.1; the last number says which cipher.
const PKCS12_PBE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x01];
/// PBES2, 1.2.840.113549.1.5.13.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
/// PBKDF2, 1.2.840.113549.1.5.12.
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// HMACs, 1.2.840.113549.2; the last number says of which digest.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// AES, 2.16.840.1.101.3.4.1; the last number says length of key and mode.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
/// SHA-1, 1.3.14.3.2.26.
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
/// SHA-2, 2.16.840.1.101.3.4.2; the last number says which.
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

const WHAT: &str = "an encryption";

/// Iterations that a store may still take.
pub(crate) struct Work(u32);

impl Work {
    pub(crate) const fn new(iterations_max: u32) -> Self {
        Self(iterations_max)
    }

    /// Takes the iterations of one derivation, at least one.
    fn take(&mut self, iterations: u32) -> Result<u32, KeyStoreError> {
        let iterations = iterations.max(1);
        let rest = self.0.checked_sub(iterations);
        self.0 = rest.ok_or(KeyStoreError::TooLarge {
            what: "iterations of its passwords",
            max: crate::ITERATIONS_MAX as usize,
        })?;
        Ok(iterations)
    }
}

#[derive(Clone, Copy)]
enum Hash {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Purpose of a key that PKCS #12 derives (RFC 7292, appendix B.3).
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Decrypts what `algorithm`, the inside of an `AlgorithmIdentifier`, has encrypted.
///
/// # Errors
/// [`KeyStoreError::WrongPassword`] when the end of the plain text is not as it must be.
pub(crate) fn decrypt(
    mut algorithm: Der<'_>,
    encrypted: &[u8],
    password: &Password,
    work: &mut Work,
) -> Result<Vec<u8>, KeyStoreError> {
    let oid = algorithm.take(OID)?;
    let mut parameters = algorithm.inside(SEQUENCE)?;
    if oid == PBES2 {
        return pbes2(parameters, encrypted, password, work);
    }
    let salt = parameters.take(OCTET_STRING)?;
    let iterations = work.take(parameters.number()?)?;
    let password = terminated(password);
    let derive = |purpose, length| pkcs12_key::<Sha1>(purpose, &password, salt, iterations, length);
    let key_bytes = match oid.strip_prefix(PKCS12_PBE) {
        Some([3]) => 24,
        Some([5]) => 16,
        Some([6]) => 5,
        _ => return Err(unsupported("the encryption", oid)),
    };
    let (key, iv) = (derive(Purpose::Key, key_bytes), derive(Purpose::Iv, 8));
    if key_bytes == 24 {
        cbc::<des::TdesEde3>(&key, &iv, encrypted)
    } else {
        cbc::<Rc2>(&key, &iv, encrypted)
    }
}

/// Decrypts by a scheme of PKCS #5 (RFC 8018, section 6.2).
fn pbes2(
    mut parameters: Der<'_>,
    encrypted: &[u8],
    password: &Password,
    work: &mut Work,
) -> Result<Vec<u8>, KeyStoreError> {
    let mut derivation = parameters.inside(SEQUENCE)?;
    let mut cipher = parameters.inside(SEQUENCE)?;
    let oid = derivation.take(OID)?;
    if oid != PBKDF2 {
        return Err(unsupported("the key derivation", oid));
    }
    let mut derivation = derivation.inside(SEQUENCE)?;
    let salt = derivation.take(OCTET_STRING)?;
    let iterations = work.take(derivation.number()?)?;
    let _key_bytes = derivation.take_if(crate::der::INTEGER)?;
    let hash = match derivation.take_if(SEQUENCE)? {
        None => Hash::Sha1,
        Some(of_hmac) => {
            let oid = Der::new(of_hmac, WHAT).take(OID)?;
            match oid.strip_prefix(HMAC) {
                Some([7]) => Hash::Sha1,
                Some([8]) => Hash::Sha224,
                Some([9]) => Hash::Sha256,
                Some([10]) => Hash::Sha384,
                Some([11]) => Hash::Sha512,
                _ => return Err(unsupported("the HMAC", oid)),
            }
        }
    };
    let oid = cipher.take(OID)?;
    let key_bytes = match oid.strip_prefix(AES) {
        Some([2]) => 16,
        Some([22]) => 24,
        Some([42]) => 32,
        _ => return Err(unsupported("the cipher", oid)),
    };
    let iv = cipher.take(OCTET_STRING)?;
    let mut key = vec![0; key_bytes];
    let password = password.utf8();
    match hash {
        Hash::Sha1 => pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut key),
        Hash::Sha224 => pbkdf2_hmac::<Sha224>(password, salt, iterations, &mut key),
        Hash::Sha256 => pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut key),
        Hash::Sha384 => pbkdf2_hmac::<Sha384>(password, salt, iterations, &mut key),
        Hash::Sha512 => pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut key),
    }
    match key_bytes {
        16 => cbc::<aes::Aes128>(&key, iv, encrypted),
        24 => cbc::<aes::Aes192>(&key, iv, encrypted),
        _ => cbc::<aes::Aes256>(&key, iv, encrypted),
    }
}

fn cbc<C>(key: &[u8], iv: &[u8], encrypted: &[u8]) -> Result<Vec<u8>, KeyStoreError>
where
    C: KeyInit + aes::cipher::BlockCipherDecrypt,
{
    let malformed = KeyStoreError::Malformed(WHAT);
    let Ok(cipher) = C::new_from_slice(key) else {
        return Err(malformed);
    };
    let Ok(decryptor) = Decryptor::inner_iv_slice_init(cipher, iv) else {
        return Err(malformed);
    };
    let mut plain = encrypted.to_vec();
    let length = decryptor
        .decrypt_padded::<Pkcs7>(&mut plain)
        .map_err(|_| KeyStoreError::WrongPassword)?
        .len();
    plain.truncate(length);
    Ok(plain)
}

/// Returns whether the MAC of PKCS #12 over `content` is this one (RFC 7292, section 4).
/// `algorithm` is the inside of the digest's `AlgorithmIdentifier`.
pub(crate) fn verifies(
    mut algorithm: Der<'_>,
    mac: &[u8],
    salt: &[u8],
    iterations: u32,
    (content, password): (&[u8], &Password),
    work: &mut Work,
) -> Result<bool, KeyStoreError> {
    let oid = algorithm.take(OID)?;
    let hash = match oid.strip_prefix(SHA2) {
        _ if oid == SHA1 => Hash::Sha1,
        Some([1]) => Hash::Sha256,
        Some([2]) => Hash::Sha384,
        Some([3]) => Hash::Sha512,
        Some([4]) => Hash::Sha224,
        _ => return Err(unsupported("the MAC", oid)),
    };
    let iterations = work.take(iterations)?;
    let password = terminated(password);
    macro_rules! verify {
        ($hash:ty) => {{
            let length = <$hash as Digest>::output_size();
            let key = pkcs12_key::<$hash>(Purpose::Mac, &password, salt, iterations, length);
            let mut hmac =
                <Hmac<$hash> as KeyInit>::new_from_slice(&key).expect("HMAC takes any key");
            hmac.update(content);
            hmac.verify_slice(mac).is_ok()
        }};
    }
    Ok(match hash {
        Hash::Sha1 => verify!(Sha1),
        Hash::Sha224 => verify!(Sha224),
        Hash::Sha256 => verify!(Sha256),
        Hash::Sha384 => verify!(Sha384),
        Hash::Sha512 => verify!(Sha512),
    })
}

/// Returns a password as PKCS #12 takes it: UTF-16 with a zero behind it.
fn terminated(password: &Password) -> Vec<u8> {
    [password.utf16(), vec![0, 0]].concat()
}

/// Derives a key by the method of PKCS #12 (RFC 7292, appendix B.2).
fn pkcs12_key<H: Digest + BlockSizeUser>(
    purpose: Purpose,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    length: usize,
) -> Vec<u8> {
    let block_bytes = H::block_size();
    let fill = |bytes: &[u8]| {
        let filled = bytes.len().next_multiple_of(block_bytes);
        bytes
            .iter()
            .copied()
            .cycle()
            .take(filled)
            .collect::<Vec<_>>()
    };
    let mut input = [fill(salt), fill(password)].concat();
    let mut key = Vec::with_capacity(length);
    loop {
        let mut hash = H::new()
            .chain_update(vec![purpose as u8; block_bytes])
            .chain_update(&input)
            .finalize();
        for _ in 1..iterations {
            hash = H::digest(&hash);
        }
        key.extend_from_slice(&hash);
        if key.len() >= length {
            key.truncate(length);
            return key;
        }
        let addend: Vec<u8> = hash.iter().copied().cycle().take(block_bytes).collect();
        for block in input.chunks_mut(block_bytes) {
            add_and_one(block, &addend);
        }
    }
}

/// Adds a number and one to a number of as many bytes; a carry out of it is lost.
fn add_and_one(number: &mut [u8], addend: &[u8]) {
    let mut carry = 1;
    for (byte, addend) in number.iter_mut().zip(addend).rev() {
        let sum = u16::from(*byte) + u16::from(*addend) + carry;
        let [high, low] = sum.to_be_bytes();
        *byte = low;
        carry = u16::from(high);
    }
}

fn unsupported(what: &'static str, oid: &[u8]) -> KeyStoreError {
    KeyStoreError::Unsupported {
        what,
        oid: dotted(oid),
    }
}
