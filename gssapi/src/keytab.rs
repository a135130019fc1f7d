//! What a keytab has keys of. The keys themselves are passed over.
//!
//! Source: `lib/krb5/keytab/kt_file.c` of MIT krb5, format 0x0502 (big-endian).

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Begin of a file, the version of its format.
const VERSION: [u8; 2] = [5, 2];

/// A key, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeytabEntry {
    /// Principal in full, `name/host@REALM`.
    pub principal: String,
    /// Version of the key, which the KDC counts.
    pub version: u32,
}

/// Reason why a keytab cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeytabError {
    /// The system's.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Too long.
    #[error("has more than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// No keytab.
    #[error("is no keytab: it does not begin with the version 5.2 of the format")]
    Version,
    /// A part is cut off, or has a length that cannot be.
    #[error("is cut off or damaged at byte {0}")]
    Damaged(usize),
}

/// Reads which keys a keytab has, in the order of the file.
///
/// # Errors
/// [`KeytabError`].
pub fn read_keytab(path: &Path) -> Result<Vec<KeytabEntry>, KeytabError> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(KeytabError::TooLong);
    }
    entries(&bytes)
}

fn entries(bytes: &[u8]) -> Result<Vec<KeytabEntry>, KeytabError> {
    let mut rest = bytes.strip_prefix(&VERSION).ok_or(KeytabError::Version)?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let damaged = KeytabError::Damaged(bytes.len() - rest.len());
        let Some((length, behind)) = rest.split_first_chunk() else {
            return Err(damaged);
        };
        let length = i32::from_be_bytes(*length);
        if length == 0 {
            break;
        }
        let size = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX);
        let Some((record, behind)) = behind.split_at_checked(size) else {
            return Err(damaged);
        };
        // Where a key was removed, the length is negative.
        if length > 0 {
            entries.push(entry(record).ok_or(damaged)?);
        }
        rest = behind;
    }
    Ok(entries)
}

fn entry(mut record: &[u8]) -> Option<KeytabEntry> {
    let record = &mut record;
    let count = u16::from_be_bytes(take(record)?);
    let realm = counted(record)?;
    let parts: Option<Vec<String>> = (0..count).map(|_| counted(record)).collect();
    let _name_type_and_time: [u8; 8] = take(record)?;
    let [short_version] = take(record)?;
    let _key_type: [u8; 2] = take(record)?;
    let key_length = u16::from_be_bytes(take(record)?);
    let (_key, behind) = record.split_at_checked(key_length.into())?;
    *record = behind;
    let long_version = take(record).map(u32::from_be_bytes);
    let version = long_version.filter(|version| *version != 0);
    Some(KeytabEntry {
        principal: format!("{}@{realm}", parts?.join("/")),
        version: version.unwrap_or(short_version.into()),
    })
}

fn take<const N: usize>(record: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = record.split_first_chunk()?;
    *record = behind;
    Some(*taken)
}

fn counted(record: &mut &[u8]) -> Option<String> {
    let length = u16::from_be_bytes(take(record)?);
    let (text, behind) = record.split_at_checked(length.into())?;
    *record = behind;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(realm: &str, parts: &[&str], short: u8, long: Option<u32>) -> Vec<u8> {
        let text = |text: &str| {
            let length = u16::try_from(text.len()).unwrap();
            [&length.to_be_bytes(), text.as_bytes()].concat()
        };
        let count = u16::try_from(parts.len()).unwrap();
        let mut bytes = [&count.to_be_bytes()[..], &text(realm)].concat();
        for part in parts {
            bytes.extend(text(part));
        }
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 9, short, 0, 18, 0, 3, 1, 2, 3]);
        bytes.extend(long.into_iter().flat_map(u32::to_be_bytes));
        let length = i32::try_from(bytes.len()).unwrap();
        [&length.to_be_bytes()[..], &bytes].concat()
    }

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        [&VERSION[..], &records.concat()].concat()
    }

    #[test]
    fn keys_are_told_with_their_versions_and_holes_are_passed_over() {
        let hole = [&(-3_i32).to_be_bytes()[..], &[7, 7, 7]].concat();
        let end = vec![0, 0, 0, 0, 9, 9];
        let read = entries(&file(&[
            record("R", &["nm", "host"], 3, None),
            hole,
            record("R", &["alice"], 3, Some(300)),
            record("R", &["bob"], 4, Some(0)),
            end,
        ]));
        let told: Vec<_> = read.unwrap().into_iter().collect();
        let expected = [("nm/host@R", 3), ("alice@R", 300), ("bob@R", 4)];
        let expected = expected.map(|(principal, version)| KeytabEntry {
            principal: principal.to_owned(),
            version,
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_no_keytab_is_told() {
        assert!(matches!(entries(b""), Err(KeytabError::Version)));
        assert!(matches!(entries(b"\x05\x01"), Err(KeytabError::Version)));
        assert!(entries(&VERSION).unwrap().is_empty());
        let whole = file(&[record("R", &["nm", "host"], 3, None)]);
        for length in 3..whole.len() {
            let cut = entries(&whole[..length]);
            assert!(matches!(cut, Err(KeytabError::Damaged(2))), "{length}");
        }
        for length in [i32::MAX, i32::MIN, 1] {
            let cut = entries(&[&VERSION[..], &length.to_be_bytes(), &[0]].concat());
            assert!(matches!(cut, Err(KeytabError::Damaged(2))), "{length}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            drop(entries(&[&VERSION[..], &bytes].concat()));
        }
    }
}
