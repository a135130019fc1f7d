//! Files of the record in their directory. Other files there are left alone.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use records::EpochMillis;

/// Name of a file until its first line is in it. A record needs that line.
const UNNAMED: &str = "events.new";

/// Directory of the record's files.
pub(super) struct Files {
    dir: PathBuf,
    /// Most files.
    most: usize,
}

/// Name of a file. Their order is that of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// Time of the begin in milliseconds since 1970, or that of the file before.
    time: u64,
    /// Number among the files with the same time.
    number: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "events-{:015}-{:09}.jsonl", self.time, self.number)
    }
}

impl Name {
    fn read(name: &str) -> Option<Self> {
        let middle = name.strip_prefix("events-")?.strip_suffix(".jsonl")?;
        let (time, number) = middle.split_once('-')?;
        let read = Self {
            time: time.parse().ok()?,
            number: number.parse().ok()?,
        };
        (read.to_string() == name).then_some(read)
    }

    /// Returns the name of the file after this one, also when the clock is set back.
    fn next(self, wall: EpochMillis) -> io::Result<Self> {
        let time = u64::try_from(wall.0).unwrap_or(0);
        if time > self.time {
            return Ok(Self { time, number: 0 });
        }
        let number = self.number.checked_add(1);
        let number = number.ok_or_else(|| io::Error::other("no file can follow the last one"))?;
        Ok(Self { number, ..self })
    }
}

impl Files {
    pub(super) const fn new(dir: PathBuf, most: usize) -> Self {
        Self { dir, most }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates the next file with its first line, and removes the oldest so that there are not too
    /// many. A first line that the disk has no room for costs no older file.
    pub(super) fn create(&self, wall: EpochMillis, line: &[u8]) -> io::Result<File> {
        let mut directories = DirBuilder::new();
        directories.recursive(true).mode(0o700).create(&self.dir)?;
        let unnamed = self.dir.join(UNNAMED);
        // An agent that was killed leaves it.
        match fs::remove_file(&unnamed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(&unnamed)?;
        let written = file.write_all(line);
        let named = written.and_then(|()| self.name(&unnamed, wall));
        if named.is_err() {
            // The error is told; a file that is left goes with the next try.
            let _left = fs::remove_file(&unnamed);
        }
        named.map(|()| file)
    }

    fn name(&self, unnamed: &Path, wall: EpochMillis) -> io::Result<()> {
        let names = self.names()?;
        let name = names.last().copied().unwrap_or_default().next(wall)?;
        let excess = (names.len() + 1).saturating_sub(self.most);
        for oldest in names.iter().take(excess) {
            fs::remove_file(self.dir.join(oldest.to_string()))?;
        }
        fs::rename(unnamed, self.dir.join(name.to_string()))
    }

    /// Returns the names of the files in their order.
    pub(super) fn names(&self) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            names.extend(entry?.file_name().to_str().and_then(Name::read));
        }
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const WALL: EpochMillis = EpochMillis(1_700_000_000_000);

    fn texts(files: &Files) -> Vec<String> {
        let names = files.names().unwrap().into_iter();
        names.map(|name| name.to_string()).collect()
    }

    #[test]
    fn names_have_the_order_of_the_files_whatever_the_clock_and_the_directory_hold() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().to_owned(), 3);
        for other in [
            "events-1-1.jsonl",
            "events-x.jsonl",
            "events-000000000000001-+00000001.jsonl",
        ] {
            fs::write(folder.path().join(other), "").unwrap();
        }
        for wall_ms in [5, 9, 7, 9] {
            files.create(EpochMillis(wall_ms), b"line\n").unwrap();
        }
        let expected = [(9, 0), (9, 1), (9, 2)];
        let expected = expected.map(|(time, number)| Name { time, number }.to_string());
        assert_eq!(texts(&files), expected);
        let last = Name {
            time: 9,
            number: u64::MAX,
        };
        fs::write(folder.path().join(last.to_string()), "").unwrap();
        assert!(files.create(EpochMillis(1), b"line\n").is_err());
        files.create(WALL, b"line\n").unwrap();
    }

    #[test]
    fn only_the_agents_user_reads_them_and_what_a_killed_agent_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("made/here");
        let files = Files::new(dir.clone(), 3);
        files.create(WALL, b"line\n").unwrap();
        fs::write(dir.join(UNNAMED), "half a li").unwrap();
        files.create(WALL, b"line\n").unwrap();
        assert!(!dir.join(UNNAMED).exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for name in texts(&files) {
            assert_eq!(mode(&dir.join(&name)), 0o600);
            assert_eq!(fs::read(dir.join(name)).unwrap(), b"line\n");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_costs_no_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().to_owned(), 2);
        files.create(WALL, b"line\n").unwrap();
        files.create(WALL, b"line\n").unwrap();
        let before = texts(&files);
        fs::create_dir(folder.path().join(UNNAMED)).unwrap();
        assert!(files.create(WALL, b"line\n").is_err());
        assert_eq!(texts(&files), before);
    }
}
