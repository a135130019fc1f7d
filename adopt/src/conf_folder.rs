//! The folder of Hadoop's configuration: the three names in it that are this crate's.
//!
//! All access goes through a handle of the folder and follows no link in it. Two runs at once are
//! kept apart by the kernel's lock of the folder.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, DirLock, FileKind, LockError};
use nix::unistd::geteuid;
use thiserror::Error;

use crate::record::{Record, RecordError};

/// File of the record.
const RECORD: &str = "nm-agent-adopt.json";

/// Name under which a record or the properties are written before they get their own.
const HALF_WRITTEN: &str = ".nm-agent-adopt.new";

/// File with the agent's own properties (`hadoop_conf::AGENT_SITE`).
const SITE: &str = "nm-agent-site.xml";

/// Folder of shell profiles (Hadoop's Unix Shell Guide).
const PROFILES: &str = "shellprofile.d";

/// Name of the link in it.
const PROFILE: &str = "nm-agent.sh";

/// Bytes of one of these files that are read; the agent writes some hundred.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reason that the folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The folder cannot be opened or changed.
    #[error("{operation} in {}", folder.display())]
    Io {
        /// Operation that failed.
        operation: &'static str,
        /// The folder of the configuration.
        folder: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Every user may write to the folder.
    #[error("every user may write to {}: its files could be anybody's", .0.display())]
    Open(PathBuf),
    /// The folder belongs to another user, who could replace its files.
    #[error(
        "{} belongs to the user id {owner}: run nm-agent adopt as that user, or give the folder \
         to this one", folder.display()
    )]
    Another {
        /// The folder of the configuration.
        folder: PathBuf,
        /// User id of the folder.
        owner: u32,
    },
    /// Another run uses the folder.
    #[error("another nm-agent adopt is at work here{}", by.map_or_else(String::new, |pid| format!(" (process {pid})")))]
    Busy {
        /// Process of that run, if it is known.
        by: Option<i32>,
    },
}

/// An open folder of a configuration.
#[derive(Debug)]
pub struct ConfFolder {
    path: PathBuf,
    handle: DirHandle,
}

/// Outcome of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The file is gone, or was not there.
    Gone,
    /// The file differs from the one that was made here, and stays.
    Changed,
}

impl ConfFolder {
    /// Opens the folder.
    ///
    /// # Errors
    /// [`FolderError::Io`] and [`FolderError::Open`].
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        const OTHERS_WRITE: u32 = 0o002;
        let failed = |source| FolderError::Io {
            operation: "opening the folder",
            folder: path.to_owned(),
            source,
        };
        let handle = DirHandle::open_ambient(path).map_err(failed)?;
        if handle.mode_bits().map_err(failed)? & OTHERS_WRITE != 0 {
            return Err(FolderError::Open(path.to_owned()));
        }
        Ok(Self {
            path: path.to_owned(),
            handle,
        })
    }

    /// Returns why this user cannot work in the folder.
    ///
    /// # Errors
    /// [`FolderError::Another`] and [`FolderError::Io`].
    pub fn writable(&self) -> Result<(), FolderError> {
        let owner = self.handle.user();
        let owner = owner.map_err(|source| self.failed("looking at the owner", source))?;
        if owner == geteuid().as_raw() {
            return Ok(());
        }
        Err(FolderError::Another {
            folder: self.path.clone(),
            owner,
        })
    }

    /// Locks the folder against other runs, until the lock is dropped.
    ///
    /// # Errors
    /// [`FolderError::Busy`] and [`FolderError::Io`].
    pub fn lock(&self) -> Result<DirLock, FolderError> {
        self.handle.try_lock().map_err(|error| match error {
            LockError::Held { by } => FolderError::Busy { by },
            LockError::Io(source) => self.failed("locking", source),
        })
    }

    fn failed(&self, operation: &'static str, source: io::Error) -> FolderError {
        FolderError::Io {
            operation,
            folder: self.path.clone(),
            source,
        }
    }

    /// Reads the record; `None`: there is none.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn record(&self) -> Result<Option<Record>, RecordError> {
        const OTHERS_WRITE: u32 = 0o022;
        let Some(file) = self.open_file(RECORD)? else {
            return Ok(None);
        };
        let status = file.metadata()?;
        let owner = status.uid();
        let is_trusted = [0, geteuid().as_raw()].contains(&owner);
        if !is_trusted || status.mode() & OTHERS_WRITE != 0 {
            return Err(RecordError::Untrusted {
                owner,
                mode: status.mode() & 0o7777,
            });
        }
        let record = Record::from_bytes(&read(&file)?)?;
        Ok(Some(record))
    }

    /// Replaces the record, which is on the disk when this returns.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(crate) fn store(&self, record: &Record) -> Result<(), FolderError> {
        let failed = |source| self.failed("writing the record", source);
        let bytes = record.to_bytes().map_err(|error| failed(error.into()))?;
        self.replace(RECORD, &bytes).map_err(failed)
    }

    /// Removes the record.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(crate) fn forget(&self) -> Result<(), FolderError> {
        let removed = self.unlink(RECORD).and_then(|()| self.sync());
        removed.map_err(|source| self.failed("removing the record", source))
    }

    /// Whether there is a file with the agent's own properties.
    #[must_use]
    pub fn has_site(&self) -> bool {
        !matches!(self.handle.kind(SITE), Ok(None))
    }

    /// Whether the profile is there, linked by anybody.
    #[must_use]
    pub fn has_profile(&self) -> bool {
        let profiles = self.profiles();
        profiles.is_ok_and(|folder| !matches!(folder.kind(PROFILE), Ok(None)))
    }

    /// Whether there is anything under the name of the folder of profiles.
    #[must_use]
    pub fn has_profiles(&self) -> bool {
        !matches!(self.handle.kind(PROFILES), Ok(None))
    }

    /// Writes the agent's own properties.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(crate) fn write_site(&self, text: &str) -> Result<(), FolderError> {
        let written = self.replace(SITE, text.as_bytes());
        written.map_err(|source| self.failed("writing nm-agent-site.xml", source))
    }

    /// Removes the agent's own properties if they are as written.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(crate) fn remove_site(&self, text: &str) -> Result<Removed, FolderError> {
        let remove = || -> io::Result<Removed> {
            match self.open_file(SITE)? {
                Some(file) if read(&file)? != text.as_bytes() => return Ok(Removed::Changed),
                Some(_) => self.unlink(SITE)?,
                None => {}
            }
            Ok(Removed::Gone)
        };
        remove().map_err(|source| self.failed("removing nm-agent-site.xml", source))
    }

    /// Links the profile.
    ///
    /// # Errors
    /// [`FolderError::Io`], also where another file has its name.
    pub(crate) fn link_profile(&self, target: &Path) -> Result<(), FolderError> {
        let link = || -> io::Result<()> {
            let profiles = self.handle.ensure(PROFILES, 0o755)?;
            match profiles.symlink(target.as_os_str(), PROFILE) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && is_link_to(&profiles, target)? =>
                {
                    Ok(())
                }
                linked => linked,
            }
        };
        link().map_err(|source| self.failed("linking the shell profile", source))
    }

    /// Removes the link to the profile if it leads there, and its folder if that was `made` for it
    /// and is empty.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(crate) fn unlink_profile(&self, target: &Path, made: bool) -> Result<Removed, FolderError> {
        let remove = || -> io::Result<Removed> {
            let profiles = match self.profiles() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Removed::Gone),
                opened => opened?,
            };
            match profiles.kind(PROFILE)? {
                None => {}
                Some(_) if is_link_to(&profiles, target)? => profiles.unlink(PROFILE)?,
                Some(_) => return Ok(Removed::Changed),
            }
            if made {
                // Somebody else's profiles stay.
                let _kept = self.handle.remove_dir(PROFILES);
            }
            Ok(Removed::Gone)
        };
        remove().map_err(|source| self.failed("removing the shell profile", source))
    }

    fn profiles(&self) -> io::Result<DirHandle> {
        self.handle.open(PROFILES)
    }

    fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        match self.handle.open_regular(name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a file new bytes: whoever reads it, also after a crash, finds the old ones or these.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // A run that was killed may have left one.
        self.unlink(HALF_WRITTEN)?;
        let mut file = self.handle.create_file(HALF_WRITTEN, 0o644)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        self.handle.rename(HALF_WRITTEN, &self.handle, name)?;
        self.sync()
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        match self.handle.unlink(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            unlinked => unlinked,
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn is_link_to(folder: &DirHandle, target: &Path) -> io::Result<bool> {
    if folder.kind(PROFILE)? != Some(FileKind::Link) {
        return Ok(false);
    }
    Ok(folder.read_link(OsStr::new(PROFILE))? == target.as_os_str())
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
