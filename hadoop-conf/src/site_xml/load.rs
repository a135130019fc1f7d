//! Loads configuration files and the files they include, within fixed limits.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::encoding::{Undecodable, decode};
use super::error::SiteXmlError;
use super::parse::{Item, Sink, parse};
use super::{FILE_BYTES_MAX, FILES_MAX, INCLUDE_DEPTH_MAX, PROPERTIES_MAX};

/// Loader of files one after the other; the limits apply to all of them together.
pub(super) struct Loader<'a> {
    /// Folders in which relative names are looked up first, as Hadoop does on its class path.
    folders: &'a [PathBuf],
    files: usize,
    items: Vec<Item>,
}

/// A file being read, with the files that included it.
struct Open<'l, 'a> {
    loader: &'l mut Loader<'a>,
    chain: &'l [Arc<Path>],
    file: &'l Arc<Path>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(folders: &'a [PathBuf]) -> Self {
        Self {
            folders,
            files: 0,
            items: Vec::new(),
        }
    }

    /// Loads one file and its includes, and returns its properties in order. After an error the
    /// properties before it are returned.
    pub(super) fn load(&mut self, file: &Path) -> (Vec<Item>, Result<(), SiteXmlError>) {
        let result = self.read(&Arc::from(file), &[]);
        (std::mem::take(&mut self.items), result)
    }

    fn read(&mut self, file: &Arc<Path>, chain: &[Arc<Path>]) -> Result<(), SiteXmlError> {
        self.files += 1;
        if self.files > FILES_MAX {
            let file = file.to_path_buf();
            return Err(SiteXmlError::TooManyFiles { file });
        }
        let text = read_text(file)?;
        let mut chain = chain.to_vec();
        chain.push(Arc::clone(file));
        let mut open = Open {
            loader: self,
            chain: &chain,
            file,
        };
        parse(&text, file, &mut open)
    }
}

impl Sink for Open<'_, '_> {
    fn property(&mut self, item: Item) -> Result<(), SiteXmlError> {
        if self.loader.items.len() >= PROPERTIES_MAX {
            return Err(SiteXmlError::TooManyProperties {
                file: self.file.to_path_buf(),
                line: item.line,
            });
        }
        self.loader.items.push(item);
        Ok(())
    }

    fn include(&mut self, href: &str, line: usize) -> Result<bool, SiteXmlError> {
        let file = self.file.to_path_buf();
        let href_owned = href.to_owned();
        let target = match local_path(href) {
            Some(path) => path,
            None => {
                return Err(SiteXmlError::IncludeScheme {
                    file,
                    line,
                    href: href_owned,
                });
            }
        };
        let beside = self.file.parent().map(Path::to_path_buf);
        let candidates = self.loader.folders.iter().cloned().chain(beside);
        let found = if target.is_absolute() {
            Some(target).filter(|path| path.exists())
        } else {
            candidates
                .map(|folder| folder.join(&target))
                .find(|path| path.exists())
        };
        let Some(found) = found else {
            return Ok(false);
        };
        let identity = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let itself = identity(&found);
        let circle = self.chain.iter().any(|open| identity(open) == itself);
        if circle || self.chain.len() > INCLUDE_DEPTH_MAX {
            return Err(SiteXmlError::IncludeDepth {
                file,
                line,
                href: href_owned,
            });
        }
        self.loader.read(&Arc::from(found), self.chain)?;
        Ok(true)
    }
}

/// Returns the path of a `file:` URI or a plain path; `None` for other schemes and other hosts.
#[must_use]
pub fn local_path(text: &str) -> Option<PathBuf> {
    let Some(rest) = text.strip_prefix("file:") else {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        let is_scheme = scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        return (!is_scheme).then(|| PathBuf::from(text));
    };
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    path.starts_with('/').then(|| PathBuf::from(path))
}

fn read_text(file: &Path) -> Result<String, SiteXmlError> {
    let owned = || file.to_path_buf();
    let unreadable = |source: io::Error| SiteXmlError::Unreadable {
        file: owned(),
        source,
    };
    // Checked before opening, since opening a pipe would wait for its other end.
    if !fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(SiteXmlError::NotAFile { file: owned() });
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    let opened = File::open(file).map_err(unreadable)?;
    opened
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(SiteXmlError::TooLarge { file: owned() });
    }
    decode(bytes).map_err(|undecodable| match undecodable {
        Undecodable::Malformed { line, encoding } => SiteXmlError::Malformed {
            file: owned(),
            line,
            encoding,
        },
        Undecodable::Unknown(encoding) => SiteXmlError::Encoding {
            file: owned(),
            encoding,
        },
    })
}
