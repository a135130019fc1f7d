//! Folder of a container: named by its path, opened from its disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use dir_handle::{DirHandle, Owner};

use crate::disk::Disk;
use crate::layout::{self, Step};

/// Folder of a container on one of the node's disks. Its path is for texts; whoever uses the folder
/// opens it from the disk's directory.
#[derive(Clone, Debug)]
pub struct ContainerFolder {
    root: Arc<DirHandle>,
    /// Path below `root`.
    below: PathBuf,
    path: PathBuf,
    /// Owner of what is made in the folder; `None`: the agent's user.
    owner: Option<Owner>,
    /// Handle by which the folder was made, for the first who opens it.
    made: Arc<Mutex<Option<DirHandle>>>,
}

impl ContainerFolder {
    /// Names the folder `below` an open directory, which is at `root_path`.
    pub fn new(root: Arc<DirHandle>, root_path: &Path, below: PathBuf) -> Self {
        Self {
            root,
            path: root_path.join(&below),
            below,
            owner: None,
            made: Arc::default(),
        }
    }

    /// Has what is made in the folder belong to this owner.
    #[must_use]
    pub fn owned_by(self, owner: Option<Owner>) -> Self {
        Self { owner, ..self }
    }

    /// Names a folder that was made.
    pub(super) fn on(disk: &Disk, steps: &[Step], made: DirHandle) -> Self {
        let below = layout::path_of(Path::new(""), steps);
        let folder = Self::new(Arc::clone(&disk.root), &disk.path, below);
        Self {
            made: Arc::new(Mutex::new(Some(made))),
            ..folder
        }
    }

    /// Returns the absolute path. The container's user may have put a link anywhere on it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder without leaving the disk's directory. The first time after the folder was
    /// made it is open already, which saves a launch two walks from the disk.
    ///
    /// # Errors
    /// The folder is gone, or a link or a mount is on the way to it.
    pub fn open(&self) -> io::Result<DirHandle> {
        let made = self
            .made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let folder = match made {
            Some(made) => made,
            None => self.root.open_beneath(&self.below)?,
        };
        Ok(folder.owned_by(self.owner))
    }
}
