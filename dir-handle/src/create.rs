//! Creation of directories and files.
//!
//! A reader of a name checks the mode and the owner of what it finds, and two threads may want the
//! same name at once. So whatever still has to get its mode or its owner is made under a private
//! name in the same directory, and renamed when it is complete. The rename replaces nothing: of
//! two that make the same directory, the second uses that of the first.
//!
//! What is complete as soon as it is made gets its name at once: the process's own, with a mode
//! that the umask leaves as it is.
//!
//! A process that is killed before the rename leaves the private name behind. [`is_abandoned`]
//! tells such a name, for whoever cleans a directory up.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, fchown, geteuid};
use procfs::process::Process;

use super::{DirHandle, Owner, mode, single};

/// Beginning of private names. A tilde is in no name that YARN gives, and in no user's.
const PRIVATE: &str = ".new~";

/// Hexadecimal digits of a private name: the mark of the process that makes it, and a random
/// number, so that the owner of the directory cannot have made the name before.
const MARK_DIGITS: usize = 16;
const RANDOM_DIGITS: usize = 32;

/// Bits with which a directory is made under its private name: it is this process's alone.
const UNFINISHED_BITS: u32 = 0o700;

/// Makes a look and a rename one step, where the kernel does not.
static RENAMING: Mutex<()> = Mutex::new(());

/// Returns the mark of this process in private names.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("{:0MARK_DIGITS$x}", rand::random::<u64>()))
}

/// Returns whether a directory of the process's own that is made with this mode has it at once.
fn is_left_by_umask(bits: u32) -> bool {
    /// Read once: this process does not change it. Where the kernel does not tell (before Linux
    /// 4.7), anything may be taken.
    static UMASK: OnceLock<u32> = OnceLock::new();
    let umask = *UMASK.get_or_init(|| {
        let status = Process::myself().and_then(|process| process.status());
        status.ok().and_then(|status| status.umask).unwrap_or(0o777)
    });
    bits & !0o777 == 0 && bits & umask == 0
}

fn private_name() -> OsString {
    let mark = mark();
    format!("{PRIVATE}{mark}{:0RANDOM_DIGITS$x}", rand::random::<u128>()).into()
}

/// Returns whether another process made this private name. Where one process at a time makes
/// anything in a directory, that process was killed, and what has the name belongs to nobody.
#[must_use]
pub fn is_abandoned(name: impl AsRef<OsStr>) -> bool {
    digits_of(name.as_ref()).is_some_and(|digits| !digits.starts_with(mark().as_bytes()))
}

/// Returns whether this process made this private name, and may be about to give what has it its
/// name.
#[must_use]
pub fn is_being_made(name: impl AsRef<OsStr>) -> bool {
    digits_of(name.as_ref()).is_some_and(|digits| digits.starts_with(mark().as_bytes()))
}

/// Returns the digits of a private name; `None`: it is another name.
fn digits_of(name: &OsStr) -> Option<&[u8]> {
    let digits = name.as_bytes().strip_prefix(PRIVATE.as_bytes())?;
    let are_all =
        digits.len() == MARK_DIGITS + RANDOM_DIGITS && digits.iter().all(u8::is_ascii_hexdigit);
    are_all.then_some(digits)
}

impl DirHandle {
    /// Creates the directory `name` with exactly this mode, whatever the umask, and opens it; an
    /// existing directory keeps its mode.
    pub fn ensure(&self, name: impl AsRef<OsStr>, bits: u32) -> io::Result<Self> {
        let name = name.as_ref();
        // Most exist: opening first keeps containers that start together from queueing for the
        // parent's lock.
        match self.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        self.create_or_open(name, bits)
    }

    /// Does the same as [`DirHandle::ensure`] for a directory that probably does not exist.
    pub fn create_or_open(&self, name: impl AsRef<OsStr>, bits: u32) -> io::Result<Self> {
        let name = name.as_ref();
        match self.create(name, bits) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open(name),
            created => created,
        }
    }

    /// Creates the directory `name`, which must not exist, with exactly this mode, and opens it.
    pub fn create(&self, name: impl AsRef<OsStr>, bits: u32) -> io::Result<Self> {
        self.create_complete(single(name.as_ref())?, Some(bits))
    }

    /// Opens the directory `name`, or creates it with the permissions that the umask leaves, as
    /// `mkdir` does.
    pub fn ensure_with_umask(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = single(name.as_ref())?;
        match self.create_complete(name, None) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open(name),
            made => made,
        }
    }

    /// Creates a directory, completes it, and gives it its name unless it was complete at once.
    /// `bits`: its mode; `None`: what the umask leaves.
    fn create_complete(&self, name: &OsStr, bits: Option<u32>) -> io::Result<Self> {
        let is_complete = self.owner.is_none() && bits.is_none_or(is_left_by_umask);
        let (first_name, first_bits) = if is_complete {
            (name.to_owned(), bits.unwrap_or(0o777))
        } else {
            (private_name(), bits.map_or(0o777, |_| UNFINISHED_BITS))
        };
        mkdirat(&self.fd, first_name.as_os_str(), mode(first_bits))?;
        let made = self.open(&first_name).and_then(|directory| {
            // Also takes away what the directory above added: a group's bit, an access list.
            self.complete(&directory, bits)?;
            if !is_complete {
                self.rename_without_replacing(&first_name, name)?;
            }
            Ok(directory)
        });
        if made.is_err() {
            // If it cannot be removed, a private name is found as abandoned at the next start.
            let _ = self.remove_dir(&first_name);
        }
        made
    }

    /// Creates the file `name`, which must not exist, for writing, with exactly this mode.
    pub fn create_file(&self, name: impl AsRef<OsStr>, bits: u32) -> io::Result<File> {
        let name = single(name.as_ref())?;
        if self.owner.is_none() {
            // Nobody takes this process's own file for another's.
            return self.create_file_as(name, bits);
        }
        let private = private_name();
        let file = self.create_file_as(&private, bits)?;
        if let Err(error) = self.rename_without_replacing(&private, name) {
            // If it cannot be removed, it goes with its directory.
            let _ = self.unlink(&private);
            return Err(error);
        }
        Ok(file)
    }

    fn create_file_as(&self, name: &OsStr, bits: u32) -> io::Result<File> {
        // O_EXCL follows no link, so O_NOFOLLOW would only add a flag that a process can see on the
        // descriptor.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, name, flags, mode(bits))?;
        if let Err(error) = self.complete(&fd, Some(bits)) {
            // If it cannot be removed, it goes with its directory.
            let _ = self.unlink(name);
            return Err(error);
        }
        Ok(File::from(fd))
    }

    /// Gives a new file or directory its mode and its owner. A directory was opened by its private
    /// name after it was made: the user of the directory above may have put another one there,
    /// which stays as it is.
    fn complete(&self, new: impl AsFd, bits: Option<u32>) -> io::Result<()> {
        let new = new.as_fd();
        if self.owner.is_some() && fstat(new)?.st_uid != geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if let Some(bits) = bits {
            fchmod(new, mode(bits))?;
        }
        self.give(new)
    }

    fn give(&self, new: impl AsFd) -> io::Result<()> {
        let Some(Owner { user, group }) = self.owner else {
            return Ok(());
        };
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        Ok(fchown(new, Some(user), Some(group))?)
    }

    /// Renames within the directory unless `new_name` exists.
    fn rename_without_replacing(&self, name: &OsStr, new_name: &OsStr) -> io::Result<()> {
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(&self.fd, name, &self.fd, new_name, flags) {
            // `EINVAL`: a file system that does not know the flag, such as NFS. `EPERM`: a seccomp
            // filter that does not know the call.
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EPERM) => {
                self.look_and_rename(name, new_name)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Renames within the directory after a look that `new_name` does not exist: for where only
    /// this process makes such names.
    fn look_and_rename(&self, name: &OsStr, new_name: &OsStr) -> io::Result<()> {
        let _one_at_a_time = RENAMING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.kind(new_name)?.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(renameat(&self.fd, name, &self.fd, new_name)?)
    }

    /// Gives the directory itself to the owner of this handle, with exactly this mode, if it was
    /// left half made: it is this process's user's, and empty. Returns whether it was.
    ///
    /// Earlier versions gave directories away after they had their names, so a crash between the
    /// two has left such directories. Nobody but this process's user can have made it, and nothing
    /// that anybody put there changes its owner.
    pub fn complete_half_made(&self, bits: u32) -> io::Result<bool> {
        let is_ours = fstat(&self.fd)?.st_uid == geteuid().as_raw();
        if self.owner.is_none() || !is_ours || self.names()?.next().transpose()?.is_some() {
            return Ok(false);
        }
        fchmod(&self.fd, mode(bits))?;
        self.give(&self.fd)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
