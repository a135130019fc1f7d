//! Aggregated log of an application on one node: the entries that `yarn logs` and the history
//! server read. Pure over [`Write`] and [`Read`].
//!
//! | key | value |
//! |---|---|
//! | `VERSION` | 1, as 32 bits |
//! | `APPLICATION_ACL` | pairs of texts: `VIEW_APP` or `MODIFY_APP`, and who may |
//! | `APPLICATION_OWNER` | the user |
//! | a container's id | for each file its name, its length in decimal digits, its bytes |
//!
//! Keys and texts are Java's modified UTF-8 with 16 bits of length before them. Source:
//! `AggregatedLogFormat.LogWriter` and `LogValue.write` of Hadoop 3.4.

mod reading;

use std::io::{self, Read, Write};

use records::ContainerName;

pub use self::reading::{LogContent, find};
use crate::tfile::{Compression, Writer};

/// Version of the entries (Hadoop: `AggregatedLogFormat.VERSION`).
const VERSION: i32 = 1;

/// Bytes read at once from a log file, as Hadoop reads them.
const READ_BYTES: usize = 65_535;

/// Right on an application that an access control list grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessType {
    /// Reading the application's logs and pages.
    ViewApp,
    /// Ending the application.
    ModifyApp,
}

impl AccessType {
    /// Returns Hadoop's name (`ApplicationAccessType`).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ViewApp => "VIEW_APP",
            Self::ModifyApp => "MODIFY_APP",
        }
    }
}

/// Access control lists of an application: users, then groups, as Hadoop writes them.
pub type Acls = Vec<(AccessType, String)>;

/// An aggregated log that grows by one container at a time.
pub struct AggregatedLog<W> {
    file: Writer<W>,
}

impl<W: Write> AggregatedLog<W> {
    /// Starts a log at the first byte of `out` with the entries that precede the containers.
    ///
    /// # Errors
    /// `out` takes no bytes, or a list is longer than a text may be.
    pub fn new(out: W, compression: Compression, owner: &str, acls: &Acls) -> io::Result<Self> {
        let mut file = Writer::new(out, compression)?;
        file.append(&key("VERSION")?, |value| {
            value.write_all(&VERSION.to_be_bytes())
        })?;
        file.append(&key("APPLICATION_ACL")?, |value| {
            acls.iter().try_for_each(|(access, list)| {
                write_utf(value, access.as_str())?;
                write_utf(value, list)
            })
        })?;
        file.append(&key("APPLICATION_OWNER")?, |value| write_utf(value, owner))?;
        Ok(Self { file })
    }

    /// Appends the files that `append_files` adds, as those of one container.
    ///
    /// # Errors
    /// `out` takes no bytes, or `append_files` fails. Then the log is broken for good.
    pub fn append_container(
        &mut self,
        id: ContainerName,
        append_files: impl FnOnce(&mut Files<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let key = key(&id.to_string())?;
        self.file
            .append(&key, |value| append_files(&mut Files { value }))
    }

    /// Completes the log and returns what [`AggregatedLog::new`] was given, flushed.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub fn finish(self) -> io::Result<W> {
        self.file.finish()
    }
}

/// Files of one container in an aggregated log.
pub struct Files<'a> {
    value: &'a mut dyn Write,
}

/// Result of appending one file.
#[derive(Debug)]
pub enum Appended {
    /// The log has the promised number of bytes of the file.
    Whole,
    /// The file ended early or could not be read further; zero bytes stand for the rest, because
    /// the length was promised before.
    Filled {
        /// Number of zero bytes.
        missing: u64,
        /// Error of the read; `None` when the file ended.
        error: Option<io::Error>,
    },
    /// The file ended early or could not be read further; the log says how much there is of it.
    Cut {
        /// Number of bytes that are not there.
        missing: u64,
        /// Error of the read; `None` when the file ended.
        error: Option<io::Error>,
    },
}

impl Files<'_> {
    /// Appends a file's name and `length`, and as many bytes of `content`: a file that grows
    /// meanwhile is cut.
    ///
    /// # Errors
    /// The log takes no bytes. Trouble with `content` is no error.
    pub fn append(
        &mut self,
        name: &str,
        length: u64,
        content: &mut dyn Read,
    ) -> io::Result<Appended> {
        write_utf(self.value, name)?;
        write_utf(self.value, &length.to_string())?;
        let (missing, error) = copy(content, length, self.value)?;
        if missing == 0 {
            return Ok(Appended::Whole);
        }
        io::copy(&mut io::repeat(0).take(missing), self.value)?;
        Ok(Appended::Filled { missing, error })
    }
}

/// Copies at most `length` bytes. Returns how many are missing, and the error of the read that has
/// ended it; `None` when the content ended.
///
/// # Errors
/// `out` takes no bytes.
pub(crate) fn copy(
    content: &mut dyn Read,
    length: u64,
    out: &mut dyn Write,
) -> io::Result<(u64, Option<io::Error>)> {
    let mut buffer = vec![0; READ_BYTES];
    let mut missing = length;
    while missing > 0 {
        let count = usize::try_from(missing).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        match content.read(&mut buffer[..count]) {
            Ok(0) => break,
            Ok(read) => {
                out.write_all(&buffer[..read])?;
                missing -= read as u64;
            }
            Err(interrupted) if interrupted.kind() == io::ErrorKind::Interrupted => {}
            Err(failed) => return Ok((missing, Some(failed))),
        }
    }
    Ok((missing, None))
}

fn key(text: &str) -> io::Result<Vec<u8>> {
    let mut key = Vec::new();
    write_utf(&mut key, text)?;
    Ok(key)
}

/// Writes a text as `java.io.DataOutput.writeUTF` does.
fn write_utf(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let bytes = modified_utf_8(text);
    let length = u16::try_from(bytes.len()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "a text is longer than 65,535 bytes",
        )
    })?;
    out.write_all(&[&length.to_be_bytes()[..], &bytes].concat())
}

/// Encodes a text as Java's modified UTF-8, without a length.
pub(crate) fn modified_utf_8(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for unit in text.encode_utf16() {
        let [_, low] = unit.to_be_bytes();
        let continuation = |shift: u32| {
            let [_, low] = ((unit >> shift) & 0x3f).to_be_bytes();
            0x80 | low
        };
        let lead = |mark: u8, shift: u32| {
            let [_, low] = (unit >> shift).to_be_bytes();
            mark | low
        };
        match unit {
            // Zero takes two bytes, so that no text contains a zero byte.
            0x0001..=0x007f => bytes.push(low),
            0x0000 | 0x0080..=0x07ff => bytes.extend([lead(0xc0, 6), continuation(0)]),
            0x0800.. => bytes.extend([lead(0xe0, 12), continuation(6), continuation(0)]),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use test_support::ids::container;

    use super::*;
    use crate::tfile_reader::Entries;

    fn utf(text: &str) -> Vec<u8> {
        key(text).unwrap()
    }

    #[test]
    fn texts_are_javas_modified_utf_8() {
        assert_eq!(utf("aé€"), b"\x00\x06a\xc3\xa9\xe2\x82\xac");
        assert_eq!(utf("\0"), b"\x00\x02\xc0\x80");
        // Two surrogates of three bytes each.
        assert_eq!(utf("😀"), b"\x00\x06\xed\xa0\xbd\xed\xb8\x80");
        assert!(key(&"x".repeat(65_536)).is_err());
    }

    #[test]
    fn entries_are_hadoops_in_hadoops_order() {
        let acls = vec![(AccessType::ViewApp, "ann ops".to_owned())];
        let mut log = AggregatedLog::new(Vec::new(), Compression::None, "joe", &acls).unwrap();
        log.append_container(container(2).name(), |files| {
            files.append("stderr", 0, &mut io::empty())?;
            files.append("stdout", 5, &mut &b"hello, it grew"[..])?;
            Ok(())
        })
        .unwrap();
        let entries = Entries::read(&log.finish().unwrap()).entries;
        let expected = [
            (utf("VERSION"), vec![0, 0, 0, 1]),
            (
                utf("APPLICATION_ACL"),
                [utf("VIEW_APP"), utf("ann ops")].concat(),
            ),
            (utf("APPLICATION_OWNER"), utf("joe")),
            (
                utf(&container(2).name().to_string()),
                [
                    utf("stderr"),
                    utf("0"),
                    utf("stdout"),
                    utf("5"),
                    b"hello".to_vec(),
                ]
                .concat(),
            ),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_file_that_shrinks_keeps_its_promised_length() {
        let mut log = AggregatedLog::new(Vec::new(), Compression::None, "joe", &vec![]).unwrap();
        log.append_container(container(2).name(), |files| {
            let appended = files.append("a", 5, &mut &b"xy"[..])?;
            assert!(matches!(
                appended,
                Appended::Filled {
                    missing: 3,
                    error: None
                }
            ));
            files.append("b", 1, &mut &b"z"[..])?;
            Ok(())
        })
        .unwrap();
        let entries = Entries::read(&log.finish().unwrap()).entries;
        let value = [
            utf("a"),
            utf("5"),
            b"xy\0\0\0".to_vec(),
            utf("b"),
            utf("1"),
            b"z".to_vec(),
        ];
        assert_eq!(entries[3].1, value.concat());
    }
}
