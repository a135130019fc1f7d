//! Elements of DER, cut out of the bytes that hold them. Pure; nothing is copied.
//!
//! Only what key stores and certificates need: tags of one byte, definite lengths. BER's indefinite
//! lengths, which Java does not write, are malformed here.

use crate::KeyStoreError;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const BMP_STRING: u8 = 0x1e;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// `[0]` around an element (explicit), or in the place of its tag (implicit, constructed).
pub(crate) const CONTEXT_0: u8 = 0xa0;
/// `[0]` in the place of the tag of an element without inner ones.
pub(crate) const CONTEXT_0_PRIMITIVE: u8 = 0x80;
pub(crate) const CONTEXT_1: u8 = 0xa1;

/// Element of the encoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) value: &'a [u8],
    /// Tag, length and value.
    pub(crate) whole: &'a [u8],
}

/// Elements one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Der<'a> {
    rest: &'a [u8],
    /// Name of what the bytes are, for errors.
    what: &'static str,
}

impl<'a> Der<'a> {
    pub(crate) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn malformed(&self) -> KeyStoreError {
        KeyStoreError::Malformed(self.what)
    }

    /// Returns the next element.
    ///
    /// # Errors
    /// [`KeyStoreError::Malformed`] at the end too.
    pub(crate) fn any(&mut self) -> Result<Element<'a>, KeyStoreError> {
        let malformed = self.malformed();
        let (tag, length, header) = header(self.rest).ok_or(malformed)?;
        let end = header.checked_add(length).ok_or(self.malformed())?;
        let whole = self.rest.get(..end).ok_or(self.malformed())?;
        self.rest = &self.rest[end..];
        Ok(Element {
            tag,
            value: &whole[header..],
            whole,
        })
    }

    /// Returns the value of the next element, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Result<&'a [u8], KeyStoreError> {
        let element = self.any()?;
        if element.tag == tag {
            Ok(element.value)
        } else {
            Err(self.malformed())
        }
    }

    /// Returns the value of the next element if that has this tag, and leaves it otherwise.
    pub(crate) fn take_if(&mut self, tag: u8) -> Result<Option<&'a [u8]>, KeyStoreError> {
        if self.rest.first() == Some(&tag) {
            self.take(tag).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the elements inside the next one, which must have this tag.
    pub(crate) fn inside(&mut self, tag: u8) -> Result<Self, KeyStoreError> {
        let value = self.take(tag)?;
        Ok(Self::new(value, self.what))
    }

    /// Returns a number that is not negative and has at most 31 bits.
    pub(crate) fn number(&mut self) -> Result<u32, KeyStoreError> {
        let bytes = self.take(INTEGER)?;
        if bytes.is_empty() || bytes.len() > 4 || bytes[0] & 0x80 != 0 {
            return Err(self.malformed());
        }
        let number = bytes.iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
        Ok(number)
    }
}

/// Returns tag, length of the value, and length of both in front of it.
fn header(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (&tag, rest) = bytes.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    let (&first, rest) = rest.split_first()?;
    if first < 0x80 {
        return Some((tag, usize::from(first), 2));
    }
    let count = usize::from(first & 0x7f);
    if !(1..=4).contains(&count) {
        return None;
    }
    let length = rest.get(..count)?;
    let length = length.iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
    Some((tag, length, 2 + count))
}

/// Returns an element with this tag and value.
pub(crate) fn element(tag: u8, value: &[u8]) -> Vec<u8> {
    let length = value.len().to_be_bytes();
    let skipped = length.iter().take_while(|byte| **byte == 0).count();
    let significant = &length[skipped..];
    let mut bytes = vec![tag];
    match (value.len(), u8::try_from(significant.len())) {
        (short @ 0..0x80, _) => bytes.push(u8::try_from(short).unwrap_or(0)),
        (_, Ok(count)) => {
            bytes.push(0x80 | count);
            bytes.extend(significant);
        }
        (_, Err(_)) => unreachable!("a length has eight bytes"),
    }
    bytes.extend(value);
    bytes
}

/// Returns the text of an object identifier, with dots.
pub(crate) fn dotted(oid: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number: u64 = 0;
    // An identifier of an algorithm has some ten bytes; a longer one is cut.
    for byte in oid.iter().take(32) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(number);
            number = 0;
        }
    }
    let mut texts = Vec::new();
    for (place, number) in numbers.into_iter().enumerate() {
        if place == 0 {
            let first = (number / 40).min(2);
            texts.push(first.to_string());
            texts.push((number - first * 40).to_string());
        } else {
            texts.push(number.to_string());
        }
    }
    texts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_that_is_written_is_read() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 70_000] {
            let value = vec![7; length];
            let bytes = [element(OCTET_STRING, &value), vec![9]].concat();
            let mut der = Der::new(&bytes, "x");
            assert_eq!(der.take(OCTET_STRING).unwrap(), value);
            assert_eq!(der.rest, [9]);
        }
    }

    #[test]
    fn lengths_beyond_the_bytes_and_indefinite_ones_are_malformed() {
        for bytes in [
            &[0x04][..],
            &[0x04, 0x02, 0x00],
            &[0x04, 0x80, 0x00, 0x00],
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff, 0x00],
            &[0x04, 0x85, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x1f, 0x01, 0x00],
        ] {
            let error = Der::new(bytes, "x").any().unwrap_err();
            assert!(matches!(error, KeyStoreError::Malformed("x")), "{bytes:?}");
        }
    }

    #[test]
    fn an_identifier_has_its_usual_text() {
        assert_eq!(
            dotted(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]),
            "1.2.840.113549"
        );
        assert_eq!(dotted(&[0x60, 0x86, 0x48, 0x01]), "2.16.840.1");
        let long = dotted(&[0xff; 1_000]);
        assert!(long.len() < 100, "{long}");
    }
}
