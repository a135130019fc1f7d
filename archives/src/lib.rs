//! Readers of archives: tars, zips and jars, each as a stream of entries.
//!
//! ```text
//! bytes ─► read ── [gunzip] untar │ unzip ─► Entries: a folder, a file with its content, a link, …
//! ```
//! An [`ArchiveReader`] chooses the process that reads: [`Here`] is this one, for tests and for
//! programs that have the rights of their caller only. What becomes of an entry is decided by
//! whoever gets it: names and targets are handed on as the archive has them, up to a length
//! ([`NAME_BYTES_MAX`]).
//!
//! Sizes that an archive states are not trusted: nothing is allocated for more than the headers of
//! one entry, which are bounded. What an archive uses and is not known is refused by the entry's
//! name ([`Unsupported`]).
//!
//! Owns nothing. In: the bytes of an archive. Out: its entries in their order. May not know disks,
//! caches or YARN.

mod exact;
mod gunzip;
mod unsupported;
mod untar;
mod unzip;

use std::fmt;
use std::io::{self, BufReader, Read};
use std::time::SystemTime;

use hadoop_fs::Caller;
use regex::{Regex, RegexBuilder};
use thiserror::Error;

use gunzip::Gunzip;
pub use unsupported::{UnknownMethod, Unsupported};

/// Bytes that are read from an archive at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Limit on the memory of a compiled pattern, which the submitter chooses.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Longest name of an entry, and of a link's target, that anything is made for (`PATH_MAX`): no
/// program could open a longer one by its path. Of a longer one an [`ArchiveReader`] may leave the
/// end out, as long as more than this many bytes are left.
pub const NAME_BYTES_MAX: usize = 4096;

/// Regions of a sparse file at most: four bytes each in a mebibyte of headers, which is what a tar
/// may have for one entry.
pub const REGIONS_MAX: usize = 1 << 18;

/// Format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// Zip, with the rules of commons-compress for names.
    Zip,
    /// Jar, with the rules of the JDK for names and without a manifest at its begin: the entries
    /// whose whole names match the regular expression; `None`: all.
    Jar(Option<&'a str>),
    /// Tar.
    Tar,
    /// Tar that is compressed by gzip.
    GzippedTar,
}

/// Receiver of an archive's entries. A method that has failed says [`Stopped`], and the receiver
/// knows why; the reader ends then.
pub trait Entries {
    /// Takes a folder.
    ///
    /// # Errors
    /// The receiver takes nothing more.
    fn folder(&mut self, name: &[u8]) -> Result<(), Stopped>;

    /// Takes a file, whose content is read to its end, and its time of modification.
    ///
    /// # Errors
    /// The receiver takes nothing more, or the content cannot be read.
    fn file(
        &mut self,
        name: &[u8],
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped>;

    /// Takes a file of which the content has only some regions, one behind the other.
    ///
    /// # Errors
    /// The receiver takes nothing more, or the content cannot be read.
    fn sparse_file(
        &mut self,
        name: &[u8],
        regions: Regions<'_>,
        content: &mut dyn Read,
        modified: Option<SystemTime>,
    ) -> Result<(), Stopped>;

    /// Takes a symbolic link.
    ///
    /// # Errors
    /// The receiver takes nothing more.
    fn symbolic_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped>;

    /// Takes another name of an earlier file; the target is relative to the archive's root.
    ///
    /// # Errors
    /// The receiver takes nothing more.
    fn hard_link(&mut self, name: &[u8], target: &[u8]) -> Result<(), Stopped>;

    /// Reads bytes of the archive to their end that nothing is made of. The name is that of their
    /// entry, if they have one.
    ///
    /// # Errors
    /// The receiver takes nothing more, or the bytes cannot be read.
    fn skip(&mut self, name: &[u8], content: &mut dyn Read) -> Result<(), Stopped>;

    /// Takes the reason why an entry is refused, and with it the whole archive.
    fn refuse(&mut self, name: &[u8], reason: Unsupported) -> Stopped;
}

/// Part of a sparse file that is in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Place in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
}

/// Parts of a sparse file that an archive has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions<'a> {
    /// Parts in ascending order, without overlaps, within the file's length.
    pub parts: &'a [Region],
    /// Length of the whole file.
    pub size: u64,
}

/// End of the entries because their receiver takes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Reason why an archive was not read to its end.
#[derive(Debug, Error)]
pub enum ReadError {
    /// Receiver of the entries that takes nothing more, and knows why.
    #[error("the receiver of the entries has stopped")]
    Stopped,
    /// Content that cannot be read, or is not of the form.
    #[error(transparent)]
    Content(#[from] io::Error),
    /// Pattern that does not compile.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
}

impl From<Stopped> for ReadError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Reason why a pattern does not compile, in the words of the compiler.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadPattern(pub String);

/// Process that reads archives.
pub trait ArchiveReader: fmt::Debug + Send + Sync {
    /// Reads an archive for a caller and hands its entries on.
    ///
    /// # Errors
    /// The content or the pattern is bad, the entries' receiver has stopped, or the process that
    /// reads has ended, which is an error of the content.
    fn read(
        &self,
        caller: Caller<'_>,
        form: Form<'_>,
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError>;
}

/// This very process.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl ArchiveReader for Here {
    fn read(
        &self,
        _caller: Caller<'_>,
        form: Form<'_>,
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        read(form, content, entries)
    }
}

/// Reads an archive in this process.
///
/// # Errors
/// The content or the pattern is bad, or the entries' receiver has stopped.
pub fn read(
    form: Form<'_>,
    content: &mut dyn Read,
    entries: &mut dyn Entries,
) -> Result<(), ReadError> {
    let content = BufReader::with_capacity(BUFFER_BYTES, content);
    match form {
        Form::Zip => unzip::unzip(content, unzip::Kind::Zip, entries, &mut |_| true),
        Form::Jar(pattern) => {
            let pattern = pattern.map(compile).transpose()?;
            let mut is_wanted = |entry: &[u8]| {
                let entry = String::from_utf8_lossy(entry);
                let matches = |pattern: &Regex| pattern.is_match(&entry);
                pattern.as_ref().is_none_or(matches)
            };
            unzip::unzip(content, unzip::Kind::Jar, entries, &mut is_wanted)
        }
        Form::Tar => untar::untar(content, entries),
        Form::GzippedTar => {
            let content = Gunzip::new(content);
            untar::untar(BufReader::with_capacity(BUFFER_BYTES, content), entries)
        }
    }
}

/// Compiles an expression that must match a whole name, as Java's `Matcher.matches` does.
fn compile(pattern: &str) -> Result<Regex, BadPattern> {
    let whole = RegexBuilder::new(&format!(r"\A(?:{pattern})\z"))
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    whole.map_err(|error| BadPattern(error.to_string()))
}
