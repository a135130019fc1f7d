//! Extended headers of POSIX ("pax"): records of a keyword and a value, which stand for what does
//! not fit into a header.

use std::io;

use super::blocks::malformed;
use super::number::decimal;
use super::sparse::SparseMap;
use crate::Region;

/// The records that matter here. Others are about owners, times, and attributes that are not
/// restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    /// Whole seconds since the epoch.
    pub(super) modified_s: Option<i64>,
    sparse: Sparse,
}

/// GNU's records of a sparse file, in its three forms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sparse {
    name: Option<Vec<u8>>,
    /// Form, as text: `1` and `0`.
    major: Option<Vec<u8>>,
    minor: Option<Vec<u8>>,
    /// Length of the whole file.
    real_size: Option<u64>,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    is_sparse: bool,
}

/// Place of the map of a sparse file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SparseFile {
    /// In the header.
    Mapped(SparseMap),
    /// At the begin of the data; with the length of the whole file.
    MapInData(u64),
    /// In a form that is not known.
    Unknown,
}

impl Pax {
    /// Reads the records of one extended header.
    pub(super) fn parse(mut bytes: &[u8]) -> io::Result<Self> {
        let mut pax = Self::default();
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let (record, rest) = split_record(bytes)?;
            let equals = record.iter().position(|byte| *byte == b'=');
            let equals = equals.ok_or_else(|| malformed("an extended header has no value"))?;
            let (key, value) = record.split_at(equals);
            pax.set(key, value.get(1..).unwrap_or_default())?;
            bytes = rest;
        }
        Ok(pax)
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let sparse = &mut self.sparse;
        match key {
            // An empty value takes the value of the header back (POSIX).
            _ if value.is_empty() => {}
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(decimal(value)?),
            b"mtime" => self.modified_s = whole_seconds(value),
            b"GNU.sparse.name" => sparse.name = Some(value.to_vec()),
            b"GNU.sparse.major" => sparse.major = Some(value.to_vec()),
            b"GNU.sparse.minor" => sparse.minor = Some(value.to_vec()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => {
                sparse.real_size = Some(decimal(value)?);
            }
            b"GNU.sparse.offset" => sparse.offsets.push(decimal(value)?),
            b"GNU.sparse.numbytes" => sparse.lengths.push(decimal(value)?),
            b"GNU.sparse.map" => {
                let numbers = value.split(|byte| *byte == b',').map(decimal);
                for (index, number) in numbers.enumerate() {
                    let list = if index % 2 == 0 {
                        &mut sparse.offsets
                    } else {
                        &mut sparse.lengths
                    };
                    list.push(number?);
                }
            }
            _ => {}
        }
        sparse.is_sparse |= key.starts_with(b"GNU.sparse.");
        Ok(())
    }

    /// Returns these records over those of a global header.
    pub(super) fn over(self, global: &Self) -> Self {
        let is_sparse = self.sparse.is_sparse;
        Self {
            path: self.path.or_else(|| global.path.clone()),
            link: self.link.or_else(|| global.link.clone()),
            size: self.size.or(global.size),
            modified_s: self.modified_s.or(global.modified_s),
            sparse: if is_sparse {
                self.sparse
            } else {
                global.sparse.clone()
            },
        }
    }

    /// Returns the name of the entry; a sparse file's own one rather than the other, which says
    /// that the entry is not the file as it is.
    pub(super) fn take_name(&mut self) -> Option<Vec<u8>> {
        self.sparse.name.take().or_else(|| self.path.take())
    }

    /// Returns how the file is sparse; `None` for one that is not.
    pub(super) fn into_sparse(self) -> io::Result<Option<SparseFile>> {
        let sparse = self.sparse;
        if !sparse.is_sparse {
            return Ok(None);
        }
        let form = (sparse.major.as_deref(), sparse.minor.as_deref());
        let size = sparse.real_size;
        let size = || size.ok_or_else(|| malformed("a sparse file has no length"));
        match form {
            (Some(b"1"), Some(b"0")) => Ok(Some(SparseFile::MapInData(size()?))),
            (None, None) | (Some(b"0"), Some(b"0" | b"1")) => {
                if sparse.offsets.len() != sparse.lengths.len() {
                    return Err(malformed("a sparse file's map is incomplete"));
                }
                let regions = sparse.offsets.into_iter().zip(sparse.lengths);
                let regions = regions.map(|(offset, length)| Region { offset, length });
                let map = SparseMap::new(regions.collect(), size()?)?;
                Ok(Some(SparseFile::Mapped(map)))
            }
            _ => Ok(Some(SparseFile::Unknown)),
        }
    }
}

/// Splits the first record, without its length and its line feed, from the rest.
fn split_record(bytes: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let broken = || malformed("an extended header's record has a wrong length");
    let blank = bytes.iter().position(|byte| *byte == b' ');
    let (digits, _) = bytes.split_at(blank.ok_or_else(broken)?);
    let length = usize::try_from(decimal(digits)?).map_err(|_| broken())?;
    let (record, rest) = bytes.split_at_checked(length).ok_or_else(broken)?;
    let record = record.get(digits.len() + 1..).ok_or_else(broken)?;
    let record = record.strip_suffix(b"\n").ok_or_else(broken)?;
    Ok((record, rest))
}

/// Returns the whole seconds of a time with a fraction, rounded down.
fn whole_seconds(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = seconds.parse().ok()?;
    let has_fraction = fraction.bytes().any(|byte| byte != b'0');
    let down = i64::from(text.starts_with('-') && has_fraction);
    seconds.checked_sub(down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_unknown_ones_passed_over() {
        let records = b"12 path=a/b\n14 linkpath=c\n9 size=7\n22 SCHILY.dev=anything\n\
            18 mtime=-1.500000\n11 comment=\n\0\0\0";
        let records: Vec<u8> = records.to_vec();
        let pax = Pax::parse(&fix_lengths(&records)).unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"a/b"[..]));
        assert_eq!(pax.link.as_deref(), Some(&b"c"[..]));
        assert_eq!((pax.size, pax.modified_s), (Some(7), Some(-2)));
    }

    /// Writes the right length before each record.
    fn fix_lengths(records: &[u8]) -> Vec<u8> {
        let mut fixed = Vec::new();
        for line in records.split_inclusive(|byte| *byte == b'\n') {
            let Some(blank) = line.iter().position(|byte| *byte == b' ') else {
                fixed.extend_from_slice(line);
                continue;
            };
            let rest = &line[blank..];
            let mut length = rest.len();
            while length.to_string().len() + rest.len() != length {
                length = length.to_string().len() + rest.len();
            }
            fixed.extend_from_slice(length.to_string().as_bytes());
            fixed.extend_from_slice(rest);
        }
        fixed
    }

    #[test]
    fn a_record_whose_length_is_wrong_is_an_error() {
        for records in [
            &b"x"[..],
            b"12 path=a/b",
            b"11 path=a/b\n",
            b"99 path=a/b\n",
            b"2 \n",
            b"0 path=a\n",
            b"18446744073709551616 path=a\n",
            b"6 path\n",
        ] {
            assert!(Pax::parse(records).is_err(), "{records:?}");
        }
    }

    #[test]
    fn an_empty_value_is_none() {
        let pax = Pax::parse(b"8 path=\n").unwrap();
        assert_eq!(pax, Pax::default());
    }
}
