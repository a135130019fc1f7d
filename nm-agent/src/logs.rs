//! Log files of a container as a terminal gets them: pieces of bounded size, in which nothing
//! steers the terminal.
//!
//! A container owns its log folder and may put anything there. Each step below a log folder is
//! opened relative to the one before, without following links, only regular files are read, and
//! opening never waits.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use dir_handle::DirHandle;
use node_view::overview::words::picture;
use records::ContainerName;

/// Bytes of one look at a file. A file that has grown by more is read from this far before its end.
pub const LOOK_BYTES_MAX: u64 = 1 << 20;

/// Longest part of a character that waits for its rest, in bytes.
const CARRY_BYTES_MAX: usize = 3;

/// Output of a container on its way to a terminal.
///
/// Control characters become their pictures (U+2400 and on) but for line breaks and tabulators, and
/// bytes that are not UTF-8 and characters that change the direction of writing U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct Neutral {
    /// Beginning of a character whose rest has not come.
    carry: Vec<u8>,
}

impl Neutral {
    /// Returns a piece of the output as text; the beginning of a character at its end waits for the
    /// next piece.
    pub fn text(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.carry);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.extend(chunk.valid().chars().map(picture));
            let invalid = chunk.invalid();
            let may_go_on =
                chunks.peek().is_none() && invalid.len() <= CARRY_BYTES_MAX && is_cut(invalid);
            if may_go_on {
                self.carry = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Returns whether bytes are the beginning of a character, without its end.
fn is_cut(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// A log file that is looked at again and again.
#[derive(Debug)]
pub struct Followed {
    roots: Vec<PathBuf>,
    container: ContainerName,
    name: String,
    /// Inode of the file that was read last, and the bytes of it that were.
    seen: Option<(u64, u64)>,
}

/// Findings of one look at a log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// New bytes.
    pub bytes: Vec<u8>,
    /// Bytes before them that were left out.
    pub skipped: u64,
    /// Whether the file is another one than before, or was cut.
    pub begins_anew: bool,
}

impl Followed {
    /// Names a file in the log folders of a container.
    ///
    /// # Errors
    /// The name is not that of one entry of a folder.
    pub fn new(roots: Vec<PathBuf>, container: ContainerName, name: &str) -> io::Result<Self> {
        let is_one =
            !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '\0']);
        if !is_one {
            let why = format!("{name:?} is not the name of a log file");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self {
            roots,
            container,
            name: name.to_owned(),
            seen: None,
        })
    }

    /// Returns the name of the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the file has beyond the last look, at first its last `tail` bytes; empty: there
    /// is nothing new, or no such file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn look(&mut self, tail: u64) -> io::Result<Piece> {
        let Some(file) = self.open()? else {
            return Ok(Piece::default());
        };
        let metadata = file.metadata()?;
        let (inode, length) = (metadata.ino(), metadata.len());
        let most = tail.min(LOOK_BYTES_MAX);
        let (start, begins_anew) = match self.seen {
            None => (length.saturating_sub(most), false),
            Some((seen, read)) if seen == inode && read <= length => (read, false),
            Some(_) => (0, true),
        };
        let first = start.max(length.saturating_sub(LOOK_BYTES_MAX));
        let bytes = read(&file, first, length)?;
        self.seen = Some((inode, first + bytes.len() as u64));
        Ok(Piece {
            bytes,
            skipped: first - start,
            begins_anew,
        })
    }

    fn open(&self) -> io::Result<Option<File>> {
        let names = [
            self.container.application_id().to_string(),
            self.container.to_string(),
        ];
        let mut refused = None;
        for root in &self.roots {
            let folder = DirHandle::open_ambient(root).and_then(|root| root.open_all(&names));
            match folder.and_then(|folder| folder.open_regular(&self.name)) {
                Ok(file) => return Ok(Some(file)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    refused = Some(error);
                }
                Err(_) => {}
            }
        }
        refused.map_or(Ok(None), Err)
    }
}

/// Reads the bytes of a file in a range, fewer if it ends before.
fn read(file: &File, first: u64, end: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(end.saturating_sub(first)).unwrap_or(0);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], first + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const ID: &str = "container_1763900000000_0001_01_000007";

    fn root() -> (TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("application_1763900000000_0001").join(ID);
        fs::create_dir_all(&folder).unwrap();
        (root, folder)
    }

    fn followed(root: &Path, name: &str) -> Followed {
        Followed::new(vec![root.to_owned()], ID.parse().unwrap(), name).unwrap()
    }

    #[test]
    fn a_file_is_read_from_its_tail_on_and_from_the_beginning_when_it_is_another() {
        let (root, folder) = root();
        let path = folder.join("stdout");
        let mut log = followed(root.path(), "stdout");
        assert_eq!(log.look(4).unwrap(), Piece::default());
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(log.look(4).unwrap().bytes, b"6789");
        assert_eq!(log.look(4).unwrap(), Piece::default());
        fs::write(&path, "0123456789ab").unwrap();
        assert_eq!(log.look(4).unwrap().bytes, b"ab");
        fs::write(&path, "new").unwrap();
        let piece = log.look(4).unwrap();
        assert_eq!(
            (piece.bytes.as_slice(), piece.begins_anew),
            (&b"new"[..], true)
        );
    }

    #[test]
    fn a_line_of_a_gibibyte_costs_a_mebibyte_and_says_what_is_left_out() {
        let (root, folder) = root();
        let file = File::create(folder.join("stdout")).unwrap();
        let mut log = followed(root.path(), "stdout");
        file.set_len(10).unwrap();
        assert_eq!(log.look(100).unwrap().bytes, [0; 10]);
        // Without blocks on the disk.
        file.set_len(1 << 30).unwrap();
        let piece = log.look(100).unwrap();
        assert_eq!(piece.bytes.len() as u64, LOOK_BYTES_MAX);
        assert_eq!(piece.skipped, (1 << 30) - 10 - LOOK_BYTES_MAX);
        let mut first = followed(root.path(), "stdout");
        assert_eq!(
            first.look(u64::MAX).unwrap().bytes.len() as u64,
            LOOK_BYTES_MAX
        );
    }

    #[test]
    fn links_pipes_and_paths_lead_nowhere() {
        let (root, folder) = root();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink(root.path().join("secret"), folder.join("stdout")).unwrap();
        mkfifo(&folder.join("pipe"), Mode::S_IRWXU).unwrap();
        for name in ["stdout", "pipe"] {
            let piece = followed(root.path(), name).look(100).unwrap();
            assert_eq!(piece, Piece::default(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../secret", "a\0"] {
            let log = Followed::new(Vec::new(), ID.parse().unwrap(), name);
            assert!(log.is_err(), "{name:?}");
        }
    }

    #[test]
    fn escapes_are_shown_and_do_nothing() {
        let text = Neutral::default().text(b"\x1b]0;owned\x07\x1b[2Jred\r\n\xff\xc2\x9bA\0");
        assert_eq!(text, "␛]0;owned␇␛[2Jred␍\n\u{fffd}\u{fffd}A␀");
    }

    proptest! {
        #[test]
        fn pieces_cut_anywhere_read_as_if_whole(text: String, cuts: [prop::sample::Index; 3]) {
            let bytes = text.as_bytes();
            let mut cuts = cuts.map(|cut| cut.index(bytes.len() + 1));
            cuts.sort_unstable();
            let mut neutral = Neutral::default();
            let mut pieces = String::new();
            let mut from = 0;
            for to in cuts.into_iter().chain([bytes.len()]) {
                pieces += &neutral.text(&bytes[from..to]);
                from = to;
            }
            prop_assert_eq!(pieces, Neutral::default().text(bytes));
        }

        #[test]
        fn no_bytes_control_anything_and_none_pile_up(pieces: Vec<Vec<u8>>) {
            let mut neutral = Neutral::default();
            for piece in pieces {
                let text = neutral.text(&piece);
                prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
                prop_assert!(neutral.carry.len() <= CARRY_BYTES_MAX);
            }
        }
    }
}
