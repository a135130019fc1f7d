//! The names in a directory, as the kernel gives them.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::vec;

use rustix::fs::RawDir;
use rustix::io::Errno;

/// Bytes that the kernel fills with entries at once, some 200 of a container's names. On the stack:
/// `readdir` asks the allocator for 32 KiB for each directory, for which glibc tidies up all that
/// was freed before, and makes three more system calls. Most directories here have five entries.
const BATCH_BYTES: usize = 8 * 1024;

/// Iterator over the names in a directory, without `.` and `..`. An error ends it.
#[derive(Debug)]
pub struct Names<D = OwnedFd> {
    /// Open directory whose position is this iterator's; `None` at the end.
    directory: Option<D>,
    batch: vec::IntoIter<OsString>,
}

impl<D: AsFd> Names<D> {
    pub(super) fn of(directory: D) -> Self {
        Self {
            directory: Some(directory),
            batch: Vec::new().into_iter(),
        }
    }
}

impl<D: AsFd> Iterator for Names<D> {
    type Item = io::Result<OsString>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(name) = self.batch.next() {
                return Some(Ok(name));
            }
            match read_batch(self.directory.as_ref()?) {
                Ok(Some(names)) => self.batch = names.into_iter(),
                Ok(None) => self.directory = None,
                Err(error) => {
                    self.directory = None;
                    return Some(Err(error.into()));
                }
            }
        }
    }
}

/// Returns the next names; `None` at the end.
fn read_batch(directory: impl AsFd) -> Result<Option<Vec<OsString>>, Errno> {
    let mut buffer = [MaybeUninit::uninit(); BATCH_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // The directory was removed (POSIX: as if it was empty).
            Err(Errno::NOENT) => return Ok(None),
            entry => entry?,
        };
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
        if entries.is_buffer_empty() {
            return Ok(Some(names));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::DirHandle;

    #[test]
    fn a_folder_can_be_listed_twice() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DirHandle::open_ambient(folder.path()).unwrap();
        directory.create_file("x", 0o600).unwrap();
        for _ in 0..2 {
            let names: Vec<_> = directory.names().unwrap().map(Result::unwrap).collect();
            assert_eq!(names, ["x"]);
        }
    }

    #[test]
    fn a_folder_that_one_reader_lists_is_listed_from_its_beginning_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DirHandle::open_ambient(folder.path()).unwrap();
        for number in 0..300 {
            let name = format!("{number}-{}", "n".repeat(200));
            directory.create_file(name, 0o600).unwrap();
        }
        assert!(directory.names_alone().unwrap().next().is_some());
        for _ in 0..2 {
            let names = directory.names_alone().unwrap().map(Result::unwrap);
            assert_eq!(names.collect::<BTreeSet<_>>().len(), 300);
        }
    }

    #[test]
    fn more_names_than_a_batch_holds_are_each_listed_once_while_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DirHandle::open_ambient(folder.path()).unwrap();
        let expected: BTreeSet<String> = (0..300)
            .map(|number| format!("{number}-{}", "n".repeat(200)))
            .collect();
        for name in &expected {
            directory.create_file(name, 0o600).unwrap();
        }
        let mut listed = Vec::new();
        for name in directory.names().unwrap() {
            let name = name.unwrap();
            directory.unlink(&name).unwrap();
            listed.push(name.into_string().unwrap());
        }
        assert_eq!(listed.len(), expected.len());
        assert_eq!(BTreeSet::from_iter(listed), expected);
        assert_eq!(directory.names().unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_removed_has_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let parent = DirHandle::open_ambient(folder.path()).unwrap();
        let directory = parent.create("gone", 0o700).unwrap();
        let names = directory.names().unwrap();
        parent.remove_dir("gone").unwrap();
        assert_eq!(names.count(), 0);
    }
}
