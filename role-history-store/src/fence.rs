//! The attempt that may save into a directory.
//!
//! The last attempt to open a directory owns it. The owner's name is in a file, and the file's lock
//! is held from the check of the name to the end of the rename: between the two no other attempt
//! can become the owner. Locks end with their process, so a crash leaves none.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use records::ApplicationAttemptId;

/// Name of the file with the owner's name.
const NAME: &str = "fence";

/// Most bytes of the file that are read. The name of an attempt has fewer than 60.
const BYTES_MAX: u64 = 256;

/// Locked fence of a directory; dropping it unlocks.
#[derive(Debug)]
pub(crate) struct Fence {
    file: File,
    owner: Option<ApplicationAttemptId>,
}

impl Fence {
    /// Locks the fence of a directory and reads its owner. Waits for other processes, each of which
    /// holds the lock for a rename.
    pub(crate) fn lock(directory: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(NAME))?;
        file.lock()?;
        let mut bytes = Vec::new();
        (&mut file).take(BYTES_MAX).read_to_end(&mut bytes)?;
        // A crash may leave half a name. That names nobody, so nobody may save until the next open.
        let owner = String::from_utf8_lossy(&bytes).trim().parse().ok();
        Ok(Self { file, owner })
    }

    /// Returns the attempt that may save; `None` if none has opened the directory.
    pub(crate) const fn owner(&self) -> Option<ApplicationAttemptId> {
        self.owner
    }

    /// Makes an attempt the owner. Returns the present owner instead if that is a later attempt of
    /// the same application. Attempts of different applications have no order but that of opening.
    pub(crate) fn acquire(
        &mut self,
        attempt: ApplicationAttemptId,
    ) -> io::Result<Result<(), ApplicationAttemptId>> {
        if let Some(owner) = self.owner
            && owner.application_id == attempt.application_id
            && owner.attempt_id > attempt.attempt_id
        {
            return Ok(Err(owner));
        }
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(attempt.to_string().as_bytes())?;
        self.file.sync_all()?;
        self.owner = Some(attempt);
        Ok(Ok(()))
    }
}
