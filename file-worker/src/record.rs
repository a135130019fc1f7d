//! What a worker says of an archive that it reads: records, one behind the other in messages.
//!
//! ```text
//! archive   (entry | Skipped)* (Over | Failed | BadPattern | Refused)
//! entry     Folder | SymbolicLink | HardLink | File content | Sparse Regions* content
//! content   Content* (End | Failed)
//! ```

use std::io;
use std::time::{Duration, SystemTime};

use archives::{NAME_BYTES_MAX, Region, UnknownMethod, Unsupported};

use crate::codec::{In, Malformed, Out};
use crate::failure::{TEXT_MAX, decode_io, encode_io};

/// Bytes of a name or a target at most: one more than anything is made for, so that a longer one is
/// seen to be too long.
const CUT_NAME_MAX: usize = NAME_BYTES_MAX + 1;

/// Bytes of content in one record at most.
pub const PIECE_MAX: usize = 128 * 1024;

/// Regions in one record at most.
pub const SOME_REGIONS_MAX: usize = 4096;

/// Part of what a worker says of an archive.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "the fields are those of the methods of `archives::Entries`"
)]
pub enum Record<'a> {
    /// `Entries::folder`.
    Folder { name: &'a [u8] },
    /// `Entries::file`, whose content follows.
    File { name: &'a [u8], modified: Time },
    /// `Entries::sparse_file`, whose regions and content follow.
    Sparse {
        name: &'a [u8],
        size: u64,
        regions: u32,
        modified: Time,
    },
    /// Regions of a sparse file, all or a part of them.
    Regions(Vec<Region>),
    /// Content of a file, which is never empty.
    Content(&'a [u8]),
    /// End of a content.
    End,
    /// `Entries::symbolic_link`.
    SymbolicLink { name: &'a [u8], target: &'a [u8] },
    /// `Entries::hard_link`.
    HardLink { name: &'a [u8], target: &'a [u8] },
    /// `Entries::skip`: at most [`PIECE_MAX`] bytes.
    Skipped { name: &'a [u8], bytes: u32 },
    /// `Entries::refuse`.
    Refused { name: &'a [u8], reason: Unsupported },
    /// The content of the archive cannot be read.
    Failed(io::Error),
    /// The pattern does not compile.
    BadPattern(&'a str),
    /// The archive was read to its end.
    Over,
}

/// Time of modification: seconds before or after the epoch, and nanoseconds after that second.
pub type Time = Option<(i64, u32)>;

/// Returns the time in a record; `None` also for one that a record cannot hold.
pub(crate) fn time_of(modified: Option<SystemTime>) -> Time {
    let modified = modified?;
    let (seconds, nanos) = match modified.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).ok()?, after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            let seconds = i64::try_from(before.as_secs()).ok()?;
            match before.subsec_nanos() {
                0 => (-seconds, 0),
                nanos => (-seconds - 1, 1_000_000_000 - nanos),
            }
        }
    };
    Some((seconds, nanos))
}

/// Returns the time that a record states; `None` also for one that the system cannot hold.
pub(crate) fn system_time(time: Time) -> Option<SystemTime> {
    let (seconds, nanos) = time?;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    whole?.checked_add(Duration::from_nanos(nanos.into()))
}

impl<'a> Record<'a> {
    /// Returns the record as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = Out::of_kind;
        let out = match self {
            Self::Folder { name } => kind(0).bytes(cut(name)),
            Self::File { name, modified } => encode_time(*modified, kind(1).bytes(cut(name))),
            Self::Sparse {
                name,
                size,
                regions,
                modified,
            } => {
                let out = kind(2).bytes(cut(name)).u64(*size).u32(*regions);
                encode_time(*modified, out)
            }
            Self::Regions(regions) => {
                let count = u32::try_from(regions.len()).unwrap_or(u32::MAX);
                let regions = regions.iter();
                regions.fold(kind(3).u32(count), |out, region| {
                    out.u64(region.offset).u64(region.length)
                })
            }
            Self::Content(content) => kind(4).bytes(content),
            Self::End => kind(5),
            Self::SymbolicLink { name, target } => kind(6).bytes(cut(name)).bytes(cut(target)),
            Self::HardLink { name, target } => kind(7).bytes(cut(name)).bytes(cut(target)),
            Self::Skipped { name, bytes } => kind(8).bytes(cut(name)).u32(*bytes),
            Self::Refused { name, reason } => encode_reason(*reason, kind(9).bytes(cut(name))),
            Self::Failed(error) => encode_io(error, kind(10)),
            Self::BadPattern(text) => kind(11).text_cut(text, TEXT_MAX),
            Self::Over => kind(12),
        };
        out.finish()
    }

    /// Reads the first record of some bytes, and returns it with its length.
    ///
    /// # Errors
    /// No honest worker wrote it.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let mut input = In::new(bytes);
        let record = Self::decode_fields(&mut input)?;
        Ok((record, bytes.len() - input.left()))
    }

    fn decode_fields(input: &mut In<'a>) -> Result<Self, Malformed> {
        Ok(match input.u8()? {
            0 => Self::Folder { name: name(input)? },
            1 => Self::File {
                name: name(input)?,
                modified: decode_time(input)?,
            },
            2 => Self::Sparse {
                name: name(input)?,
                size: input.u64()?,
                regions: input.u32()?,
                modified: decode_time(input)?,
            },
            3 => Self::Regions(decode_regions(input)?),
            4 => match input.bytes()? {
                content if content.is_empty() || content.len() > PIECE_MAX => {
                    return Err(Malformed("a piece of content is empty or too long"));
                }
                content => Self::Content(content),
            },
            5 => Self::End,
            6 => Self::SymbolicLink {
                name: name(input)?,
                target: name(input)?,
            },
            7 => Self::HardLink {
                name: name(input)?,
                target: name(input)?,
            },
            8 => Self::Skipped {
                name: name(input)?,
                bytes: match input.u32()? {
                    bytes if bytes == 0 || bytes as usize > PIECE_MAX => {
                        return Err(Malformed("too few or too many bytes are skipped"));
                    }
                    bytes => bytes,
                },
            },
            9 => Self::Refused {
                name: name(input)?,
                reason: decode_reason(input)?,
            },
            10 => Self::Failed(decode_io(input)?),
            11 => Self::BadPattern(input.text(TEXT_MAX)?),
            12 => Self::Over,
            _ => return Err(Malformed("the record is of no known kind")),
        })
    }
}

fn cut(name: &[u8]) -> &[u8] {
    name.get(..CUT_NAME_MAX).unwrap_or(name)
}

fn name<'a>(input: &mut In<'a>) -> Result<&'a [u8], Malformed> {
    let name = input.bytes()?;
    if name.len() <= CUT_NAME_MAX {
        Ok(name)
    } else {
        Err(Malformed("a name in an archive is too long"))
    }
}

fn encode_time(time: Time, out: Out) -> Out {
    match time {
        None => out.bool(false),
        Some((seconds, nanos)) => out.bool(true).i64(seconds).u32(nanos),
    }
}

fn decode_time(input: &mut In<'_>) -> Result<Time, Malformed> {
    if !input.bool()? {
        return Ok(None);
    }
    let (seconds, nanos) = (input.i64()?, input.u32()?);
    if nanos < 1_000_000_000 {
        Ok(Some((seconds, nanos)))
    } else {
        Err(Malformed("a time has more nanoseconds than a second"))
    }
}

fn decode_regions(input: &mut In<'_>) -> Result<Vec<Region>, Malformed> {
    let count = input.u32()? as usize;
    if count == 0 || count > SOME_REGIONS_MAX {
        return Err(Malformed("there are too few or too many regions"));
    }
    let mut regions = Vec::new();
    for _ in 0..count {
        let (offset, length) = (input.u64()?, input.u64()?);
        regions.push(Region { offset, length });
    }
    Ok(regions)
}

fn encode_reason(reason: Unsupported, out: Out) -> Out {
    match reason {
        Unsupported::NotUtf8 => out.u8(0),
        Unsupported::SpecialFile => out.u8(1),
        Unsupported::Continued => out.u8(2),
        Unsupported::UnknownKind(kind) => out.u8(3).u8(kind),
        Unsupported::SparseForm => out.u8(4),
        Unsupported::Encrypted => out.u8(5),
        Unsupported::Compression(UnknownMethod(method)) => out.u8(6).u32(method.into()),
        Unsupported::LengthBehind => out.u8(7),
    }
}

fn decode_reason(input: &mut In<'_>) -> Result<Unsupported, Malformed> {
    Ok(match input.u8()? {
        0 => Unsupported::NotUtf8,
        1 => Unsupported::SpecialFile,
        2 => Unsupported::Continued,
        3 => Unsupported::UnknownKind(input.u8()?),
        4 => Unsupported::SparseForm,
        5 => Unsupported::Encrypted,
        6 => {
            let method = u16::try_from(input.u32()?);
            let method = method.map_err(|_| Malformed("a method has too large a number"))?;
            Unsupported::Compression(UnknownMethod(method))
        }
        7 => Unsupported::LengthBehind,
        _ => return Err(Malformed("an entry is refused for no known reason")),
    })
}

#[cfg(test)]
mod tests;
