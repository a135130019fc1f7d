//! A log file of bounded size: a full one is renamed to `NAME.1`, the one before it to `NAME.2`,
//! and so on, as log4j's `RollingFileAppender` does.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a file at most, and files beside it at most: Hadoop's `hadoop.log.maxfilesize` and
/// `hadoop.log.maxbackupindex`.
pub const AS_HADOOP: Bounds = Bounds {
    file_bytes_max: 256 << 20,
    backups_max: 20,
};

/// Bounds on a log's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a file at most; a longer line has a file of its own.
    pub file_bytes_max: u64,
    /// Former files that stay.
    pub backups_max: u32,
}

/// An open log file. Lines of earlier programs stay in it.
///
/// A line that cannot be written, on a full disk or in a folder that nobody may write to any more,
/// is an error and lost; the next one is tried again.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    bounds: Bounds,
    /// `None`: it could not be opened after the former one was renamed.
    open: Option<Current>,
}

#[derive(Debug)]
struct Current {
    file: File,
    bytes: u64,
}

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl LogFile {
    /// Opens a file, or makes it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: PathBuf, bounds: Bounds) -> io::Result<Self> {
        let open = Some(Current::open(&path)?);
        Ok(Self { path, bounds, open })
    }

    /// Renames this file and the former ones. A former one that cannot be renamed is overwritten.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.bounds.backups_max).rev() {
            let _missing = fs::rename(self.former(number), self.former(number + 1));
        }
        if self.bounds.backups_max == 0 {
            return fs::remove_file(&self.path);
        }
        fs::rename(&self.path, self.former(1))
    }

    fn former(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

impl io::Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let bytes_max = self.bounds.file_bytes_max;
        let is_full =
            |open: &Current| open.bytes > 0 && open.bytes.saturating_add(length) > bytes_max;
        if self.open.as_ref().is_some_and(is_full) {
            self.rotate()?;
            self.open = None;
        }
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(Current::open(&self.path)?),
        };
        let written = open.file.write(line)?;
        open.bytes += u64::try_from(written).unwrap_or(u64::MAX);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const SMALL: Bounds = Bounds {
        file_bytes_max: 10,
        backups_max: 2,
    };

    fn texts(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut texts: Vec<_> = entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .collect();
        texts.sort();
        texts
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "earlier\n").unwrap();
        let mut log = LogFile::open(path, SMALL).unwrap();
        for line in ["one\n", "two\n", "a long line of its own\n", "three\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        let expected = [
            ("log", "three\n"),
            ("log.1", "a long line of its own\n"),
            ("log.2", "one\ntwo\n"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(texts(folder.path()), expected);
    }

    #[test]
    fn a_file_that_cannot_be_made_loses_lines_until_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut log = LogFile::open(inner.join("log"), SMALL).unwrap();
        log.write_all(b"123456789\n").unwrap();
        fs::remove_dir_all(&inner).unwrap();
        log.write_all(b"lost\n").unwrap_err();
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("log"), "").unwrap();
        log.write_all(b"kept\n").unwrap();
        assert_eq!(fs::read_to_string(inner.join("log")).unwrap(), "kept\n");
    }
}
