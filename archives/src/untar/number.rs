//! Numbers in the headers of a tar.

use std::io;

use super::blocks::malformed;

/// Highest bit of a number's first byte, which says that the others are binary.
const BINARY: u8 = 0x80;

/// Reads a length: octal digits, or, for what does not fit into them, big-endian binary behind a
/// byte 0x80.
pub(super) fn length(field: &[u8]) -> io::Result<u64> {
    match field.split_first() {
        Some((&first, rest)) if first & BINARY != 0 => {
            let start = u64::from(first & !BINARY);
            let value = rest.iter().try_fold(start, |value, byte| {
                Some(value.checked_mul(0x100)? | u64::from(*byte))
            });
            value.ok_or_else(|| malformed("a length is negative or has more than 64 bits"))
        }
        _ => octal(field),
    }
}

/// Reads octal digits between blanks; a blank field is 0.
pub(super) fn octal(field: &[u8]) -> io::Result<u64> {
    let is_blank = |byte: &u8| *byte == b' ' || *byte == 0;
    let start = field.iter().position(|byte| *byte != b' ');
    let digits = field.get(start.unwrap_or(field.len())..).unwrap_or(&[]);
    let end = digits.iter().position(is_blank).unwrap_or(digits.len());
    let (digits, blanks) = digits.split_at(end);
    if !blanks.iter().all(is_blank) {
        return Err(malformed("a number has something behind its digits"));
    }
    let value = digits.iter().try_fold(0_u64, |value, byte| {
        let digit = char::from(*byte).to_digit(8)?;
        value.checked_mul(8)?.checked_add(digit.into())
    });
    value.ok_or_else(|| malformed("a number is not octal"))
}

/// Reads decimal digits; refuses anything else.
pub(super) fn decimal(digits: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(digits).ok();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let value = text
        .filter(|_| is_number)
        .and_then(|text| text.parse().ok());
    value.ok_or_else(|| malformed("a number is not decimal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_octal_or_binary() {
        for (field, expected) in [
            (&b"00000000017\0"[..], 15),
            (b"        17 \0", 15),
            (b"777777777777", 0o777_777_777_777),
            (b"           \0", 0),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", 0),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\x02", 0x102),
        ] {
            assert_eq!(length(field).unwrap(), expected, "{field:?}");
        }
        for field in [
            &b"0000000018\0"[..],
            b"17x",
            b"-7",
            b"17 7",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe",
            b"\x80\0\0\x01\0\0\0\0\0\0\0\0",
        ] {
            assert!(length(field).is_err(), "{field:?}");
        }
    }

    #[test]
    fn decimal_numbers_have_only_digits() {
        assert_eq!(decimal(b"0120").unwrap(), 120);
        for digits in [
            &b""[..],
            b"+1",
            b"-1",
            b" 1",
            b"1x",
            b"99999999999999999999",
        ] {
            assert!(decimal(digits).is_err(), "{digits:?}");
        }
    }
}
