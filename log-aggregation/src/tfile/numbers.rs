//! Integers of variable length and texts, as TFile writes them (Hadoop: `tfile.Utils`). This is
//! not the encoding of `WritableUtils`.

use std::io::{self, Read, Write};

/// Forms with a part of the number in their first byte: bytes in all, limit on the number's top
/// byte from both sides of zero, and what is added to that byte.
const SHORT_FORMS: [(u32, i64, i64); 3] = [(2, 20, -52), (3, 16, -88), (4, 8, -112)];

/// Added to the number of bytes that follow, for the first byte of the other forms.
const LENGTH_BASE: i64 = -129;

/// Writes a number in one to nine bytes, small ones in fewer.
pub(super) fn write_number(out: &mut impl Write, number: i64) -> io::Result<()> {
    let bytes = number.to_be_bytes();
    let low = |count: u32| &bytes[bytes.len() - count as usize..];
    if (-32..128).contains(&number) {
        return out.write_all(low(1));
    }
    for (length, limit, base) in SHORT_FORMS {
        let top = number >> (8 * (length - 1));
        if (-limit..limit).contains(&top) {
            out.write_all(&first_byte(top + base))?;
            return out.write_all(low(length - 1));
        }
    }
    let magnitude = if number < 0 { !number } else { number };
    // One bit more than the magnitude has, for the sign.
    let length = (i64::BITS - magnitude.leading_zeros()) / 8 + 1;
    out.write_all(&first_byte(i64::from(length) + LENGTH_BASE))?;
    out.write_all(low(length))
}

fn first_byte(value: i64) -> [u8; 1] {
    let [.., low] = value.to_be_bytes();
    [low]
}

/// Writes the length of something in memory.
pub(super) fn write_length(out: &mut impl Write, length: usize) -> io::Result<()> {
    write_number(out, i64::try_from(length).unwrap_or(i64::MAX))
}

/// Writes the length of a text in UTF-8, and the text.
pub(super) fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    write_length(out, text.len())?;
    out.write_all(text.as_bytes())
}

/// Reads a number; `None` if the input ends before it.
pub(super) fn read_number(input: &mut impl Read) -> io::Result<Option<i64>> {
    let Some(first) = read_byte(input)? else {
        return Ok(None);
    };
    let first = i64::from(first.cast_signed());
    if first >= -32 {
        return Ok(Some(first));
    }
    for (length, limit, base) in SHORT_FORMS {
        if (base - limit..base + limit).contains(&first) {
            return read_rest(input, length - 1, Some(first - base)).map(Some);
        }
    }
    let count = u32::try_from(first - LENGTH_BASE).unwrap_or(0);
    read_rest(input, count, None).map(Some)
}

/// Reads the low bytes of a number. Without the part above, its sign is in the first of them.
fn read_rest(input: &mut impl Read, count: u32, top: Option<i64>) -> io::Result<i64> {
    let mut bytes = [0; 8];
    let bytes = &mut bytes[..count as usize];
    input.read_exact(bytes)?;
    let is_negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let top = top.unwrap_or(if is_negative { -1 } else { 0 });
    Ok(bytes
        .iter()
        .fold(top, |number, byte| (number << 8) | i64::from(*byte)))
}

/// Reads a byte; `None` at the end of the input.
pub(crate) fn read_byte(input: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map(|count| (count > 0).then_some(byte[0])),
        }
    }
}
