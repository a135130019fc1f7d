//! Parts of an X.509 certificate that assembling a key store needs. Verifies nothing.

use crate::KeyStoreError;
use crate::der::{BIT_STRING, CONTEXT_0, Der, INTEGER, SEQUENCE};

/// Names and key of a certificate, as their bytes in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) issuer: &'a [u8],
    pub(crate) subject: &'a [u8],
    /// Public key without its algorithm (the bit string's bytes).
    pub(crate) public_key: &'a [u8],
}

/// Cuts a certificate into its parts (RFC 5280, section 4.1).
pub(crate) fn parts(certificate: &[u8]) -> Result<Parts<'_>, KeyStoreError> {
    let mut outer = Der::new(certificate, "a certificate");
    let mut signed = outer.inside(SEQUENCE)?.inside(SEQUENCE)?;
    let _version = signed.take_if(CONTEXT_0)?;
    let _serial_number = signed.take(INTEGER)?;
    let _algorithm = signed.take(SEQUENCE)?;
    let issuer = signed.any()?.whole;
    let _validity = signed.take(SEQUENCE)?;
    let subject = signed.any()?.whole;
    let mut key = signed.inside(SEQUENCE)?;
    let _algorithm = key.take(SEQUENCE)?;
    let bits = key.take(BIT_STRING)?;
    // The first byte counts unused bits, of which keys have none.
    let (&[0], public_key) = bits.split_at_checked(1).ok_or(outer.malformed())? else {
        return Err(outer.malformed());
    };
    Ok(Parts {
        issuer,
        subject,
        public_key,
    })
}
