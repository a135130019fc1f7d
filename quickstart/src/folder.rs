//! The one temporary folder of a quick start, and its removal.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::QuickstartError;

/// The folder is tried to be removed so often: a process that has just been killed may still have
/// been making a file.
const REMOVE_TRIES: u32 = 20;

/// Between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(50);

/// A temporary folder that only this user may enter. Stays when dropped: what a container has
/// mounted in it is not to be emptied.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes it in `base`, made absolute: containers are told of it in their own working folders.
    pub(super) fn make(base: &Path) -> Result<Self, QuickstartError> {
        let failed = |source| QuickstartError::Folder {
            base: base.to_owned(),
            source,
        };
        let base = std::path::absolute(base).map_err(failed)?;
        let folder = tempfile::Builder::new()
            .prefix("nm-agent-quickstart-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(base);
        Ok(Self(folder.map_err(failed)?.keep()))
    }

    /// Path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Path of this process's log file.
    pub(super) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The guaranteed container ends when this file appears.
    pub(super) fn gate(&self) -> PathBuf {
        self.path().join("release")
    }

    /// Folder for every file of a node; nodes are counted from 0.
    pub(super) fn node(&self, index: usize) -> PathBuf {
        self.path().join(format!("node-{}", index + 1))
    }

    /// Removes the folder with all that is in it, except mounts.
    pub(super) async fn remove(self) -> io::Result<()> {
        for _ in 1..REMOVE_TRIES {
            if localize::remove_folder(self.path()).is_ok() {
                return Ok(());
            }
            tokio::time::sleep(REMOVE_PAUSE).await;
        }
        localize::remove_folder(self.path())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use test_support::mounts::{bind, unmount, with_own_mounts};

    use super::*;

    #[tokio::test]
    async fn it_goes_with_all_that_is_in_it() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::make(base.path()).unwrap();
        fs::create_dir_all(folder.node(0).join("local/a b")).unwrap();
        fs::write(folder.gate(), "").unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        folder.remove().await.unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_container_has_mounted_in_it_is_not_emptied() {
        with_own_mounts("what_a_container_has_mounted_in_it_is_not_emptied", || {
            let base = tempfile::tempdir().unwrap().keep();
            let outside = tempfile::tempdir().unwrap().keep();
            fs::write(outside.join("precious"), "x").unwrap();
            let folder = Folder::make(&base).unwrap();
            let mount = folder.node(0).join("mount");
            fs::create_dir_all(&mount).unwrap();
            bind(&outside, &mount);
            fs::write(folder.gate(), "").unwrap();
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_time().start_paused(true).build().unwrap();
            let (gate, removed) = (folder.gate(), runtime.block_on(folder.remove()));
            assert!(removed.is_err() && !gate.exists());
            assert!(outside.join("precious").exists());
            unmount(&mount);
            localize::remove_folder(&base).unwrap();
            localize::remove_folder(&outside).unwrap();
        });
    }

    #[test]
    fn a_place_that_is_no_folder_is_named() {
        let error = Folder::make(Path::new("/dev/null/x")).unwrap_err();
        assert!(
            error.one_line().contains("/dev/null/x"),
            "{}",
            error.one_line()
        );
        assert!(error.advice().contains("TMPDIR"));
    }
}
