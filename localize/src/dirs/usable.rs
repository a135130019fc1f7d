//! Directories for those who find their own way in them.

use std::path::PathBuf;

use super::{DirKind, NodeDirs};

impl NodeDirs {
    /// Returns the local directories in which files are made, and those in which they are read: the
    /// good ones, and these with the full ones (Hadoop: `LocalDirsHandlerService.getLocalDirs`,
    /// `getLocalDirsForRead`).
    #[must_use]
    pub fn usable_local_dirs(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let view = self.view();
        let good = view.good(DirKind::Local).into_iter();
        let readable = view.readable(DirKind::Local).into_iter();
        (
            good.map(|(_, disk)| disk.path.clone()).collect(),
            readable.map(|disk| disk.path.clone()).collect(),
        )
    }
}
