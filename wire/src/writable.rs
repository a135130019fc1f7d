//! The part of Hadoop's Writable serialisation that tokens use: variable-length integers and
//! `Text`.
//!
//! Reading is bounded by the bytes available: a length is compared with the rest before anything is
//! copied.
//!
//! Source: `org.apache.hadoop.io.WritableUtils`, `org.apache.hadoop.io.Text`.

/// Bytes that are not the expected Writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WritableError {
    /// The bytes end inside a value.
    #[error("the bytes end inside a value")]
    Truncated,
    /// An integer outside the range allowed at its position.
    #[error("integer {value} is out of range")]
    OutOfRange {
        /// Value as read.
        value: i64,
    },
    /// A `Text` that is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
}

/// A reader of values from the front of a slice.
#[derive(Clone, Debug)]
pub struct WritableReader<'a> {
    rest: &'a [u8],
}

impl<'a> WritableReader<'a> {
    /// Makes a reader at the start of these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes not read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes exactly `length` bytes.
    ///
    /// # Errors
    /// [`WritableError::Truncated`] if fewer are left.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], WritableError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(WritableError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a variable-length 64-bit integer (`WritableUtils.readVLong`).
    ///
    /// # Errors
    /// [`WritableError::Truncated`] if the bytes end inside it.
    pub fn vlong(&mut self) -> Result<i64, WritableError> {
        let (&first, rest) = self.rest.split_first().ok_or(WritableError::Truncated)?;
        self.rest = rest;
        let first = first.cast_signed();
        if first >= -112 {
            return Ok(i64::from(first));
        }
        let negative = first < -120;
        let length = if negative {
            -120 - i16::from(first)
        } else {
            -112 - i16::from(first)
        };
        let length = usize::from(length.unsigned_abs());
        let value = self
            .take(length)?
            .iter()
            .fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
            .cast_signed();
        Ok(if negative { !value } else { value })
    }

    /// Reads a variable-length integer that is a count or a length.
    ///
    /// # Errors
    /// [`WritableError::OutOfRange`] for a negative one or one over 32 bits,
    /// [`WritableError::Truncated`].
    pub fn length(&mut self) -> Result<usize, WritableError> {
        let value = self.vlong()?;
        let length = i32::try_from(value).map_err(|_| WritableError::OutOfRange { value })?;
        usize::try_from(length).map_err(|_| WritableError::OutOfRange { value })
    }

    /// Reads bytes prefixed by their length.
    ///
    /// # Errors
    /// As [`length`](Self::length).
    pub fn bytes(&mut self) -> Result<&'a [u8], WritableError> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads a `Text`: UTF-8 prefixed by its length in bytes.
    ///
    /// # Errors
    /// [`WritableError::NotUtf8`], and as [`length`](Self::length).
    pub fn text(&mut self) -> Result<&'a str, WritableError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WritableError::NotUtf8)
    }
}

/// Appends a variable-length 64-bit integer (`WritableUtils.writeVLong`).
pub fn put_vlong(out: &mut Vec<u8>, value: i64) {
    if let Ok(short) = i8::try_from(value)
        && short >= -112
    {
        out.push(short.cast_unsigned());
        return;
    }
    let (magnitude, marker) = if value < 0 {
        (!value, -120_i8)
    } else {
        (value, -112_i8)
    };
    let bytes = magnitude.to_be_bytes();
    // The smallest magnitude here is 112, so at least one byte is significant and at most eight
    // are.
    let skipped = (magnitude.leading_zeros() / 8) as usize;
    let significant = &bytes[skipped..];
    let length = i8::try_from(significant.len()).expect("an i64 has eight bytes");
    out.push((marker - length).cast_unsigned());
    out.extend_from_slice(significant);
}

/// Appends bytes prefixed by their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_vlong(
        out,
        i64::try_from(bytes.len()).expect("a slice is shorter than 2^63 bytes"),
    );
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn integers_have_javas_bytes() {
        let vectors: [(i64, &[u8]); 14] = [
            (0, &[0x00]),
            (127, &[0x7f]),
            (128, &[0x8f, 0x80]),
            (255, &[0x8f, 0xff]),
            (256, &[0x8e, 0x01, 0x00]),
            (65_536, &[0x8d, 0x01, 0x00, 0x00]),
            (
                1_700_000_000_000,
                &[0x8a, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00],
            ),
            (-1, &[0xff]),
            (-112, &[0x90]),
            (-113, &[0x87, 0x70]),
            (-128, &[0x87, 0x7f]),
            (-129, &[0x87, 0x80]),
            (
                i64::MAX,
                &[0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
            (
                i64::MIN,
                &[0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
        ];
        for (value, bytes) in vectors {
            let mut written = Vec::new();
            put_vlong(&mut written, value);
            assert_eq!(written, bytes, "writing {value}");
            let mut reader = WritableReader::new(bytes);
            assert_eq!(reader.vlong(), Ok(value));
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn length_beyond_the_bytes_is_truncated() {
        assert_eq!(
            WritableReader::new(&[5, 1, 2]).bytes(),
            Err(WritableError::Truncated)
        );
        assert_eq!(
            WritableReader::new(&[0x8c, 0x7f, 0xff, 0xff, 0xff]).bytes(),
            Err(WritableError::Truncated)
        );
    }

    #[test]
    fn negative_or_wide_length_is_out_of_range() {
        assert_eq!(
            WritableReader::new(&[0xff]).bytes(),
            Err(WritableError::OutOfRange { value: -1 })
        );
        let mut wide = Vec::new();
        put_vlong(&mut wide, 1 << 31);
        assert_eq!(
            WritableReader::new(&wide).bytes(),
            Err(WritableError::OutOfRange { value: 1 << 31 })
        );
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        assert_eq!(
            WritableReader::new(&[1, 0xff]).text(),
            Err(WritableError::NotUtf8)
        );
    }

    proptest! {
        #[test]
        fn integers_survive(value in any::<i64>()) {
            let mut bytes = Vec::new();
            put_vlong(&mut bytes, value);
            let mut reader = WritableReader::new(&bytes);
            prop_assert_eq!(reader.vlong(), Ok(value));
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn any_bytes_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..32)) {
            let mut reader = WritableReader::new(&bytes);
            while reader.text().is_ok() && !reader.rest().is_empty() {}
        }
    }
}
