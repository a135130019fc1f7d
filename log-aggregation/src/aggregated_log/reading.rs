//! One container's log file in an aggregated log. Pure over [`BufRead`].
//!
//! The aggregated log is in a folder of its application's user, who may have put any bytes there.

use std::io::{self, BufRead, Read};

use records::ContainerName;

use super::key;
use crate::tfile::{Compression, Reader, Value, read_byte};

/// Longest text of a length: the digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Content of a log file in an aggregated log, as long as is written before it.
pub struct LogContent<R> {
    length: u64,
    left: u64,
    value: Value<R>,
}

impl<R> LogContent<R> {
    /// Returns the length of the whole content in bytes.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }
}

impl<R: BufRead> Read for LogContent<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        let read = self.value.read(&mut out[..count])?;
        if read == 0 && count > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Finds a container's file of this name in an aggregated log, from its first byte on.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if there is none; the log is another file, or cannot be read.
pub fn find<R: BufRead>(
    log: R,
    compression: Compression,
    container: ContainerName,
    name: &str,
) -> io::Result<LogContent<R>> {
    let (container, name) = (key(&container.to_string())?, key(name)?);
    let mut reader = Reader::new(log, compression)?;
    while let Some((key, mut value)) = reader.next_entry()? {
        if key == container
            && let Some(length) = find_in(&mut value, &name)?
        {
            return Ok(LogContent {
                length,
                left: length,
                value,
            });
        }
        reader = value.skip()?;
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Moves to the content of a file among those of one container. Returns the content's length;
/// `None` if there is no such file.
fn find_in(files: &mut impl Read, name: &[u8]) -> io::Result<Option<u64>> {
    while let Some(found) = read_utf(files)? {
        let digits = read_utf(files)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = length(&digits)?;
        if found == name {
            return Ok(Some(length));
        }
        if io::copy(&mut files.take(length), &mut io::sink())? != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(None)
}

/// Reads a text as [`key`] encodes it, with its own length; `None` if the input ends before it.
fn read_utf(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let Some(high) = read_byte(input)? else {
        return Ok(None);
    };
    let mut text = vec![high, 0];
    input.read_exact(&mut text[1..])?;
    let length = u16::from_be_bytes([text[0], text[1]]);
    input.take(length.into()).read_to_end(&mut text)?;
    if text.len() != 2 + usize::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(text))
}

fn length(text: &[u8]) -> io::Result<u64> {
    let digits = text.get(2..).filter(|digits| digits.len() <= DIGITS_MAX);
    let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
    digits
        .and_then(|digits| digits.parse().ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "the length of a log is no number",
            )
        })
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;
    use crate::aggregated_log::AggregatedLog;

    /// Length of a file that takes several chunks and blocks.
    const LARGE: usize = 700_000;

    fn large() -> Vec<u8> {
        (0..LARGE)
            .map(|at| u8::try_from(at * 31 % 251).unwrap())
            .collect()
    }

    /// Returns a log of two containers with files of the same names.
    fn log(compression: Compression) -> Vec<u8> {
        let acls = vec![];
        let mut log = AggregatedLog::new(Vec::new(), compression, "joe", &acls).unwrap();
        for (number, content) in [(2, &b"two"[..]), (3, &large()), (4, b"four")] {
            log.append_container(container(number).name(), |files| {
                files.append("empty", 0, &mut io::empty())?;
                files.append("größe\0", content.len() as u64, &mut &content[..])?;
                files.append("last", 1, &mut &b"x"[..])?;
                Ok(())
            })
            .unwrap();
        }
        log.finish().unwrap()
    }

    fn read(log: &[u8], compression: Compression, number: i64, name: &str) -> io::Result<Vec<u8>> {
        let mut content = find(log, compression, container(number).name(), name)?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        assert_eq!(content.length(), bytes.len() as u64);
        Ok(bytes)
    }

    #[test]
    fn each_file_of_each_container_is_found() {
        for compression in [Compression::None, Compression::Gz] {
            let log = log(compression);
            for (number, content) in [(2, &b"two"[..]), (3, &large()), (4, b"four")] {
                let read = |name: &str| read(&log, compression, number, name).unwrap();
                assert_eq!(read("größe\0"), content);
                assert_eq!(read("empty"), b"");
                assert_eq!(read("last"), b"x");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_not_found() {
        for compression in [Compression::None, Compression::Gz] {
            let log = log(compression);
            assert!(read(&log, compression, 2, "other").is_err());
            assert!(read(&log, compression, 5, "last").is_err());
        }
    }

    #[test]
    fn a_log_that_is_cut_anywhere_gives_the_content_or_an_error() {
        for compression in [Compression::None, Compression::Gz] {
            let log = log(compression);
            let cuts = (0..log.len()).filter(|cut| *cut < 400 || cut % 9973 == 0);
            let read = cuts.map(|cut| read(&log[..cut], compression, 2, "größe\0"));
            let found = read.flatten().inspect(|bytes| assert_eq!(bytes, b"two"));
            assert!(found.count() > 0);
        }
    }

    #[test]
    fn a_content_that_is_shorter_than_its_length_says_is_an_error() {
        let log = log(Compression::None);
        // The last file of the first container: its name, its length in one digit, its byte.
        let name = log.windows(4).position(|bytes| bytes == b"last").unwrap();
        for (digit, kind) in [
            (b'9', io::ErrorKind::UnexpectedEof),
            (b'x', io::ErrorKind::InvalidData),
        ] {
            let mut forged = log.clone();
            forged[name + 6] = digit;
            let error = read(&forged, Compression::None, 2, "last").unwrap_err();
            assert_eq!(error.kind(), kind);
        }
    }
}
