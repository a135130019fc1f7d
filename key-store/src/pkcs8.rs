//! Private keys in PKCS #8: a check that one is, and the public key that Java leaves out.

use crate::KeyStoreError;
use crate::der::{
    BIT_STRING, CONTEXT_0, CONTEXT_1, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, element,
};

/// `id-ecPublicKey`, 1.2.840.10045.2.1.
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

const WHAT: &str = "a private key";

/// Returns a private key as it is, or, for one of an elliptic curve without its public key, with
/// that of its certificate. Java writes keys of curves without (`ECPrivateKeyImpl`), which
/// libraries of TLS refuse.
///
/// # Errors
/// [`KeyStoreError::Malformed`] for bytes that are no PKCS #8.
pub(crate) fn complete(key: &[u8], public_key: Option<&[u8]>) -> Result<Vec<u8>, KeyStoreError> {
    let mut info = Der::new(key, WHAT).inside(SEQUENCE)?;
    let _version = info.take(INTEGER)?;
    let algorithm = info.any()?;
    let private = info.take(OCTET_STRING)?;
    let is_curve = Der::new(algorithm.whole, WHAT)
        .inside(SEQUENCE)?
        .take(OID)?
        == EC;
    let (true, Some(public_key)) = (is_curve, public_key) else {
        return Ok(key.to_vec());
    };
    // RFC 5915, section 3.
    let mut private = Der::new(private, WHAT).inside(SEQUENCE)?;
    let _version = private.take(INTEGER)?;
    let number = private.take(OCTET_STRING)?;
    let _parameters = private.take_if(CONTEXT_0)?;
    if private.take_if(CONTEXT_1)?.is_some() {
        return Ok(key.to_vec());
    }
    let bits = element(BIT_STRING, &[&[0], public_key].concat());
    let private = [
        element(INTEGER, &[1]),
        element(OCTET_STRING, number),
        element(CONTEXT_1, &bits),
    ];
    let private = element(SEQUENCE, &private.concat());
    let info = [
        element(INTEGER, &[0]),
        algorithm.whole.to_vec(),
        element(OCTET_STRING, &private),
    ];
    Ok(element(SEQUENCE, &info.concat()))
}
