//! Zips and jars as a Java NodeManager unpacks them (`FileUtil.unZip`, `RunJar.unJar`): as a
//! stream, by the header before each entry. So memory does not grow with the number of entries, and
//! neither links nor modes are known: a link becomes a file with its target as content, and folders
//! without files are not made.
//!
//! Beyond Java, checksums are checked in zips, too, and so is that the directory at the end is
//! complete: a file that was cut off is refused.

mod local_header;
mod method;

use std::io::{self, BufRead, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;

use self::local_header::{LocalHeader, array};
use self::method::{Decoder, Method};
use crate::exact::Exact;
use crate::{Entries, ReadError, Unsupported};

type Signature = [u8; 4];

const LOCAL_HEADER: Signature = *b"PK\x03\x04";
const DESCRIPTOR: Signature = *b"PK\x07\x08";
/// Entry of the directory.
const DIRECTORY_ENTRY: Signature = *b"PK\x01\x02";
const EXTRA_DATA: Signature = *b"PK\x06\x08";
const DIRECTORY_SEAL: Signature = *b"PK\x05\x05";
const ZIP64_END: Signature = *b"PK\x06\x06";
const ZIP64_LOCATOR: Signature = *b"PK\x06\x07";
const END: Signature = *b"PK\x05\x06";

/// Limit on what stands before the first entry, such as the program of a self-extracting archive.
const PREAMBLE_BYTES_MAX: usize = 16 << 20;

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Form of a zip, which decides the rules for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Zip,
    /// A manifest that stands where `jar` puts it is not unpacked.
    Jar,
}

/// Unpacks the files whose names `is_wanted` selects.
pub(crate) fn unzip(
    content: impl BufRead,
    kind: Kind,
    entries: &mut dyn Entries,
    is_wanted: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), ReadError> {
    let mut zip = Zip { content };
    let mut manifest = Manifest::Begin;
    let mut signature = zip.first_signature()?;
    while signature == LOCAL_HEADER {
        let header = LocalHeader::read(&mut zip.content)?;
        let name = match kind {
            Kind::Zip => header.name_in_zip(),
            Kind::Jar => {
                let name = header.name_in_jar();
                name.ok_or_else(|| entries.refuse(header.raw_name(), Unsupported::NotUtf8))?
            }
        };
        let is_manifest = kind == Kind::Jar && manifest.is_next(&name);
        let is_wanted = !name.ends_with(b"/") && !is_manifest && is_wanted(&name);
        signature = zip.entry(&header, &name, is_wanted, entries)?;
    }
    zip.check_directory(signature, entries)
}

struct Zip<R> {
    content: R,
}

impl<R: BufRead> Zip<R> {
    /// Skips what stands before the first entry.
    fn first_signature(&mut self) -> io::Result<Signature> {
        let mut signature: Signature = array(&mut self.content)?;
        if signature == DESCRIPTOR {
            return Err(malformed("it is the first of several parts of a zip"));
        }
        for _ in 0..PREAMBLE_BYTES_MAX {
            if signature == LOCAL_HEADER || signature == END {
                return Ok(signature);
            }
            let [next] = array(&mut self.content)?;
            let [_, second, third, fourth] = signature;
            signature = [second, third, fourth, next];
        }
        Err(malformed("no entry of a zip stands near its begin"))
    }

    /// Unpacks an entry, or skips it, and returns the signature behind it.
    fn entry(
        &mut self,
        header: &LocalHeader,
        name: &[u8],
        is_wanted: bool,
        entries: &mut dyn Entries,
    ) -> Result<Signature, ReadError> {
        if header.has_descriptor() {
            return self.entry_of_unknown_length(header, name, is_wanted, entries);
        }
        let mut packed = Exact::new(&mut self.content, header.packed_bytes);
        if is_wanted {
            let method = method(header, name, entries)?;
            let decoder = Decoder::new(method, &mut packed);
            let expected = Some((header.crc, header.bytes));
            let content = &mut Checked::new(decoder, expected);
            entries.file(name, content, header.modified())?;
        }
        entries.skip(name, &mut packed)?;
        Ok(array(&mut self.content)?)
    }

    /// Does the same for an entry whose lengths are behind it: only a compressed one tells where it
    /// ends.
    fn entry_of_unknown_length(
        &mut self,
        header: &LocalHeader,
        name: &[u8],
        is_wanted: bool,
        entries: &mut dyn Entries,
    ) -> Result<Signature, ReadError> {
        let method = method(header, name, entries)?;
        let found = if method == Method::Stored && name.ends_with(b"/") {
            Found::default()
        } else if method == Method::Deflated {
            let decoder = DeflateDecoder::new(&mut self.content);
            let mut content = Checked::new(decoder, None);
            if is_wanted {
                entries.file(name, &mut content, header.modified())?;
            } else {
                entries.skip(name, &mut content)?;
            }
            Found {
                crc: content.crc.sum(),
                packed_bytes: content.inner.total_in(),
                bytes: content.inner.total_out(),
            }
        } else {
            return Err(entries.refuse(name, Unsupported::LengthBehind).into());
        };
        Ok(self.descriptor(found)?)
    }

    /// Reads checksum and lengths behind an entry, which must be those of its content, and the
    /// signature behind them. The descriptor may have a signature of its own, and lengths of 32 or
    /// of 64 bits; nothing tells which (APPNOTE 4.3.9).
    fn descriptor(&mut self, found: Found) -> io::Result<Signature> {
        let mut word = || array(&mut self.content).map(u32::from_le_bytes);
        let first = word()?;
        let crc = if first.to_le_bytes() == DESCRIPTOR {
            word()?
        } else {
            first
        };
        let (packed, second) = (word()?, word()?);
        let behind = array(&mut self.content)?;
        let is_of_found = |crc: u32, packed: u64, bytes: u64| {
            (crc, packed, bytes) == (found.crc, found.packed_bytes, found.bytes)
        };
        // Lengths of more than 32 bits are cut off by some programs of macOS.
        let cut = |bytes: u64| bytes & u64::from(u32::MAX);
        let is_short = found.crc == crc
            && cut(found.packed_bytes) == packed.into()
            && cut(found.bytes) == second.into()
            && is_behind_entry(behind);
        if is_short {
            return Ok(behind);
        }
        let wide = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let high = array(&mut self.content).map(u32::from_le_bytes)?;
        let bytes = wide(u32::from_le_bytes(behind), high);
        if is_of_found(crc, wide(packed, second), bytes) {
            return array(&mut self.content);
        }
        Err(malformed("a checksum or a length behind an entry is wrong"))
    }

    /// Passes over the directory and its end, which must be there.
    fn check_directory(
        &mut self,
        mut signature: Signature,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        loop {
            let length = match signature {
                END => {
                    array::<18>(&mut self.content)?;
                    return Ok(());
                }
                DIRECTORY_ENTRY => {
                    let [.., a, b, c, d, e, f] = array::<30>(&mut self.content)?;
                    let lengths = [[a, b], [c, d], [e, f]];
                    let lengths = lengths.map(|length| u64::from(u16::from_le_bytes(length)));
                    12 + lengths.iter().sum::<u64>()
                }
                EXTRA_DATA => u32::from_le_bytes(array(&mut self.content)?).into(),
                DIRECTORY_SEAL => u16::from_le_bytes(array(&mut self.content)?).into(),
                ZIP64_END => u64::from_le_bytes(array(&mut self.content)?),
                ZIP64_LOCATOR => 16,
                _ => {
                    let why = "neither an entry nor the directory follows an entry";
                    return Err(malformed(why).into());
                }
            };
            entries.skip(b"", &mut Exact::new(&mut self.content, length))?;
            signature = array(&mut self.content)?;
        }
    }
}

/// Returns whether a signature may stand behind an entry.
fn is_behind_entry(signature: Signature) -> bool {
    [LOCAL_HEADER, DIRECTORY_ENTRY, EXTRA_DATA, ZIP64_END, END].contains(&signature)
}

fn method(
    header: &LocalHeader,
    name: &[u8],
    entries: &mut dyn Entries,
) -> Result<Method, ReadError> {
    if header.is_encrypted() {
        return Err(entries.refuse(name, Unsupported::Encrypted).into());
    }
    let method = Method::try_from(header.method);
    Ok(method.map_err(|unknown| entries.refuse(name, Unsupported::Compression(unknown)))?)
}

/// Checksum and lengths of a content.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    crc: u32,
    packed_bytes: u64,
    bytes: u64,
}

/// Reader that computes a checksum, and fails at the end if it is not the expected one.
struct Checked<R> {
    inner: R,
    crc: Crc,
    bytes: u64,
    /// Checksum and length.
    expected: Option<(u32, u64)>,
}

impl<R> Checked<R> {
    fn new(inner: R, expected: Option<(u32, u64)>) -> Self {
        Self {
            inner,
            crc: Crc::new(),
            bytes: 0,
            expected,
        }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.crc.update(buffer.get(..length).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(length as u64);
        let found = (self.crc.sum(), self.bytes);
        let is_wrong = self.expected.is_some_and(|expected| expected != found);
        if length == 0 && !buffer.is_empty() && is_wrong {
            return Err(malformed("the checksum or the length of an entry is wrong"));
        }
        Ok(length)
    }
}

/// Search for the manifest of a jar, which `java.util.jar.JarInputStream` reads itself and does not
/// hand out: the first entry, also behind its folder or the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manifest {
    Begin,
    /// Behind the folder `META-INF/`.
    InFolder,
    /// Behind a manifest.
    First,
    /// Behind the index.
    Index,
    Over,
}

impl Manifest {
    /// Returns whether the next entry is a manifest that is not handed out.
    fn is_next(&mut self, name: &[u8]) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let is_manifest = is("META-INF/MANIFEST.MF");
        let before = *self;
        let may_be_first = matches!(before, Self::Begin | Self::InFolder);
        *self = if before == Self::Begin && is("META-INF/") {
            Self::InFolder
        } else if may_be_first && is_manifest {
            Self::First
        } else if (may_be_first || before == Self::First) && is("META-INF/INDEX.LIST") {
            Self::Index
        } else {
            Self::Over
        };
        is_manifest && (may_be_first || before == Self::Index)
    }
}
