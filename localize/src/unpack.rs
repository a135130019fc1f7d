//! Unpacking jars, zips and tars (Hadoop: `FSDownload.unpack`, `RunJar`, `FileUtil.unTar`).
//!
//! `extract` decides which effects of an entry on the disk are allowed; this module reads the
//! formats. Sizes that an archive states are not trusted: [`Metered`] and [`DirectoryMeter`] bound
//! what is read for the format itself.

mod zip_directory;

use std::cell::Cell;
use std::io::{self, Read, SeekFrom};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use regex::{Regex, RegexBuilder};

use self::zip_directory::DirectoryMeter;
use super::budget::Budget;
use super::error::UnpackError;
use super::extract::Extract;
use super::fetch::Content;
use super::layout::CacheModes;
use super::resource::ResourceKind;
use dir_handle::DirHandle;

/// Limit on the bytes of one tar header with its long names and attributes. GNU tar writes at most
/// a few paths' worth.
const TAR_HEADERS_BYTES_MAX: u64 = 1 << 20;

/// Limit on the memory of a compiled pattern, which the submitter chooses.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing<'a> {
    Zip,
    /// Jar of which the matching entries are unpacked and the jar itself is kept.
    JarByPattern(Option<&'a str>),
    Tar,
    GzippedTar,
}

impl<'a> Packing<'a> {
    /// Chooses by the lower-cased end of the name; `None` for a plain copy. Only a jar is unpacked
    /// by pattern.
    pub(super) fn of(name: &str, kind: &'a ResourceKind) -> Option<Self> {
        let name = name.to_lowercase();
        let pattern = match kind {
            ResourceKind::File => return None,
            ResourceKind::Archive => None,
            ResourceKind::Pattern(pattern) => Some(pattern.as_deref()),
        };
        if name.ends_with(".jar") {
            Some(pattern.map_or(Self::Zip, Self::JarByPattern))
        } else if name.ends_with(".zip") {
            Some(Self::Zip)
        } else if name.ends_with(".tar.gz") || name.ends_with(".tgz") {
            Some(Self::GzippedTar)
        } else if name.ends_with(".tar") {
            Some(Self::Tar)
        } else {
            None
        }
    }
}

/// Unpacks into a new folder `name` in `target`.
pub(super) fn unpack(
    packing: Packing<'_>,
    name: &str,
    content: &mut dyn Content,
    target: &DirHandle,
    modes: CacheModes,
    budget: &mut Budget<'_>,
) -> Result<(), UnpackError> {
    let root = target.create(name, modes.folder);
    let root = root.map_err(|source| UnpackError::Write {
        archive: name.to_owned(),
        entry: String::new(),
        source,
    })?;
    let extract = Extract::new(name, root, modes, budget);
    let unpacked = match packing {
        Packing::Zip => unzip(content, extract, &mut |_| true),
        Packing::JarByPattern(pattern) => unjar(name, content, extract, pattern),
        Packing::Tar => untar(content, extract),
        Packing::GzippedTar => untar(MultiGzDecoder::new(io::BufReader::new(content)), extract),
    };
    unpacked.map_err(|error| match error {
        UnpackFailure::Unpack(error) => error,
        UnpackFailure::Format(source) => UnpackError::Malformed {
            archive: name.to_owned(),
            source,
        },
    })
}

/// Failure to unpack, before the archive's name is added.
enum UnpackFailure {
    Unpack(UnpackError),
    Format(io::Error),
}

impl From<UnpackError> for UnpackFailure {
    fn from(error: UnpackError) -> Self {
        Self::Unpack(error)
    }
}

impl From<io::Error> for UnpackFailure {
    fn from(error: io::Error) -> Self {
        Self::Format(error)
    }
}

impl From<zip::result::ZipError> for UnpackFailure {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Format(error.into())
    }
}

fn untar(content: impl Read, mut extract: Extract<'_, '_>) -> Result<(), UnpackFailure> {
    let allowance = Allowance::default();
    let mut archive = tar::Archive::new(Metered::new(content, &allowance));
    let mut entries = archive.entries()?;
    loop {
        allowance.set(TAR_HEADERS_BYTES_MAX);
        let Some(entry) = entries.next() else {
            return Ok(());
        };
        let mut entry = entry?;
        allowance.set(u64::MAX);
        untar_entry(&mut entry, &mut extract)?;
        // The budget is charged for the rest, if any: the next header starts right after it.
        let name = entry.path_bytes().into_owned();
        extract.skip(&name, &mut entry)?;
    }
}

fn untar_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    extract: &mut Extract<'_, '_>,
) -> Result<(), UnpackError> {
    let name = entry.path_bytes().into_owned();
    let kind = entry.header().entry_type();
    let target = || entry.link_name_bytes().unwrap_or_default().into_owned();
    if kind.is_dir() {
        extract.folder(&name)
    } else if kind.is_symlink() {
        extract.symbolic_link(&name, &target())
    } else if kind.is_hard_link() {
        extract.hard_link(&name, &target())
    } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
        // Tars from before folders had a type mark them with a slash.
        if name.ends_with(b"/") {
            extract.folder(&name)
        } else {
            extract.file(&name, entry)
        }
    } else if kind.is_pax_global_extensions() {
        // A comment on the whole archive, such as git's commit id.
        Ok(())
    } else {
        Err(extract.special(&name))
    }
}

/// Unpacks the entries whose names `is_wanted` selects. An entry is a file or a folder by its name
/// alone: Hadoop reads zips as streams, which do not reveal links, and writes a link's target as
/// the content of a file.
fn unzip(
    content: &mut dyn Content,
    mut extract: Extract<'_, '_>,
    is_wanted: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), UnpackFailure> {
    let (meter, directory) = DirectoryMeter::new(content);
    let mut archive = zip::ZipArchive::new(meter)?;
    directory.end();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name_raw().to_vec();
        if !is_wanted(&name) {
            continue;
        }
        if name.ends_with(b"/") {
            extract.folder(&name)?;
        } else {
            extract.file(&name, &mut entry)?;
        }
    }
    Ok(())
}

fn unjar(
    name: &str,
    content: &mut dyn Content,
    mut extract: Extract<'_, '_>,
    pattern: Option<&str>,
) -> Result<(), UnpackFailure> {
    let pattern = pattern.map(|pattern| compile(name, pattern)).transpose()?;
    // The jar itself, under its own name; then the matching entries.
    extract.file(name.as_bytes(), content)?;
    content.seek(SeekFrom::Start(0))?;
    let mut is_wanted = |entry: &[u8]| {
        let is_folder = entry.ends_with(b"/");
        let matches = pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(&String::from_utf8_lossy(entry)));
        !is_folder && matches
    };
    unzip(content, extract, &mut is_wanted)
}

/// Compiles an expression that must match a whole name, as Java's `Matcher.matches` does.
fn compile(archive: &str, pattern: &str) -> Result<Regex, UnpackError> {
    let whole = RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    whole.map_err(|source| UnpackError::Pattern {
        archive: archive.to_owned(),
        pattern: pattern.chars().take(256).collect(),
        source,
    })
}

/// Number of bytes that may still be read.
type Allowance = Rc<Cell<u64>>;

/// Reader that fails once the allowance is used up, so that a format's reader that trusts a length
/// in the archive does not read more.
struct Metered<R> {
    inner: R,
    allowance: Allowance,
}

impl<R> Metered<R> {
    fn new(inner: R, allowance: &Allowance) -> Self {
        let allowance = allowance.clone();
        Self { inner, allowance }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let used = u64::try_from(length).unwrap_or(u64::MAX);
        let Some(left) = self.allowance.get().checked_sub(used) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more headers than any archive needs",
            ));
        };
        self.allowance.set(left);
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
