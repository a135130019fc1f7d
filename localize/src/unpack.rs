//! Unpacking jars, zips and tars (Hadoop: `FSDownload.unpack`, `RunJar`, `FileUtil.unTar`).
//!
//! The formats are read elsewhere, in a process with the rights of the archive's user; `extract`
//! decides which effects of an entry on the disk are allowed. This module chooses the format and
//! makes errors of what either of them says.

use std::io::{self, Read, SeekFrom};

use archives::{Entries, Form, ReadError};

use super::budget::Budget;
use super::error::UnpackError;
use super::extract::Extract;
use super::layout::CacheModes;
use super::resource::ResourceKind;
use super::source::Content;
use dir_handle::DirHandle;

/// Format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing<'a> {
    Zip,
    /// Jar that is unpacked as a whole.
    Jar,
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
            Some(pattern.map_or(Self::Jar, Self::JarByPattern))
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

    fn form(self) -> Form<'a> {
        match self {
            Self::Zip => Form::Zip,
            Self::Jar => Form::Jar(None),
            Self::JarByPattern(pattern) => Form::Jar(pattern),
            Self::Tar => Form::Tar,
            Self::GzippedTar => Form::GzippedTar,
        }
    }

    fn pattern(self) -> &'a str {
        match self.form() {
            Form::Jar(Some(pattern)) => pattern,
            Form::Zip | Form::Jar(None) | Form::Tar | Form::GzippedTar => "",
        }
    }
}

/// Function that reads an archive and hands its entries on.
pub(super) type ReadArchive<'a> =
    &'a dyn Fn(Form<'_>, &mut dyn Read, &mut dyn Entries) -> Result<(), ReadError>;

/// Unpacks into a new folder `name` in `target`.
pub(super) fn unpack(
    packing: Packing<'_>,
    name: &str,
    content: &mut dyn Content,
    target: &DirHandle,
    modes: CacheModes,
    budget: &mut Budget<'_>,
    read: ReadArchive<'_>,
) -> Result<(), UnpackError> {
    let root = target.create(name, modes.folder);
    let root = root.map_err(|source| UnpackError::Write {
        archive: name.to_owned(),
        entry: String::new(),
        source,
    })?;
    let mut extract = Extract::new(name, root, modes, budget);
    let unpacked = if let Packing::JarByPattern(_) = packing {
        copy_jar(name, content, &mut extract)
    } else {
        Ok(())
    };
    let unpacked = unpacked.and_then(|()| read(packing.form(), content, &mut extract));
    let archive = || name.to_owned();
    unpacked.map_err(|error| match error {
        ReadError::Content(source) => malformed(name, source),
        ReadError::Pattern(source) => UnpackError::Pattern {
            archive: archive(),
            pattern: packing.pattern().chars().take(256).collect(),
            source,
        },
        ReadError::Stopped => extract.take_failure().unwrap_or_else(|| {
            malformed(
                name,
                io::Error::other("its reader has stopped without a reason"),
            )
        }),
    })
}

fn malformed(archive: &str, source: io::Error) -> UnpackError {
    UnpackError::Malformed {
        archive: archive.to_owned(),
        source,
    }
}

/// Copies the jar itself, under its own name.
fn copy_jar(
    name: &str,
    content: &mut dyn Content,
    extract: &mut Extract<'_, '_>,
) -> Result<(), ReadError> {
    extract.file(name.as_bytes(), content, None)?;
    content.seek(SeekFrom::Start(0))?;
    Ok(())
}

#[cfg(test)]
mod tests;
