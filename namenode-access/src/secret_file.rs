//! Files with secrets that no directory has: a library opens them by the number of a descriptor.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};

/// A file in memory, behind one descriptor. Replacing its content gives later readers another file;
/// whoever reads the one before reads it to its end.
#[derive(Debug)]
pub(crate) struct SecretFile {
    number: RawFd,
    descriptor: Mutex<Option<OwnedFd>>,
}

impl SecretFile {
    /// Names the descriptor, which must be free when the file gets its first content.
    pub(crate) const fn new(number: RawFd) -> Self {
        Self {
            number,
            descriptor: Mutex::new(None),
        }
    }

    /// Returns the path by which this process opens the file.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.number)
    }

    /// Replaces the content.
    ///
    /// # Errors
    /// The kernel has no memory or no descriptor.
    pub(crate) fn replace(&self, content: &[u8]) -> io::Result<()> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("secret", flags)?);
        file.write_all(content)?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        fcntl_add_seals(&file, seals)?;
        let mut current = self
            .descriptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = &mut *current {
            return Ok(dup3(&file, current, DupFlags::CLOEXEC)?);
        }
        let taken = fcntl_dupfd_cloexec(&file, self.number)?;
        if taken.as_raw_fd() != self.number {
            let text = format!("descriptor {} is taken", self.number);
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        *current = Some(taken);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_replaced_file_is_whole_for_whoever_reads_the_one_before() {
        let file = SecretFile::new(300);
        assert!(fs::read(file.path()).is_err());
        file.replace(b"first").unwrap();
        let mut reader = File::open(file.path()).unwrap();
        file.replace(b"the second").unwrap();
        let mut first = String::new();
        reader.read_to_string(&mut first).unwrap();
        assert_eq!(first, "first");
        assert_eq!(fs::read(file.path()).unwrap(), b"the second");
        assert_eq!(fs::read(file.path()).unwrap(), b"the second", "again");
        let changed = fs::OpenOptions::new().write(true).open(file.path());
        let changed = changed.and_then(|mut file| file.write_all(b"x"));
        assert!(changed.is_err(), "it is sealed");
    }

    #[test]
    fn a_descriptor_that_is_taken_is_not_replaced() {
        let (first, second) = (SecretFile::new(320), SecretFile::new(320));
        first.replace(b"first").unwrap();
        assert!(second.replace(b"second").is_err());
        assert_eq!(fs::read(first.path()).unwrap(), b"first");
    }
}
