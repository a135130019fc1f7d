//! Folders of a container that an earlier run has made.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use records::ContainerId;

use super::super::disk::Disk;
use super::super::disk_health::DirKind;
use super::super::layout;
use super::super::user_name::UserName;
use super::{ContainerDirs, ContainerFolder, NodeDirs};

impl NodeDirs {
    /// Finds the folders that an earlier run made for a container, by the paths of its work folder
    /// and its log folder. `None` if either is on a directory that is not used any more.
    #[must_use]
    pub fn find_container_dirs(
        &self,
        container: &ContainerId,
        user: &UserName,
        (work_dir, log_dir): (&Path, &Path),
    ) -> Option<ContainerDirs> {
        let work = layout::names(layout::work_steps(self.modes(), user, container));
        let logs = layout::names(layout::log_steps(container, 0));
        let folder = |disks: &[Arc<Disk>], names: &[String], path: &Path| {
            let below: PathBuf = names.iter().collect();
            let disk = disks.iter().find(|disk| disk.path.join(&below) == path)?;
            let folder = ContainerFolder::new(Arc::clone(&disk.root), &disk.path, below);
            // The account may have changed since, or not be found now; the folder says whose it is.
            let user = folder.open().and_then(|opened| opened.user()).ok();
            let owner = user.and_then(|user| self.owner(user));
            Some(folder.owned_by(owner))
        };
        let on_all = |disks: &[Arc<Disk>], names: &[String]| {
            let below: PathBuf = names.iter().collect();
            disks.iter().map(|disk| disk.path.join(&below)).collect()
        };
        let local_disks = self.readable(DirKind::Local);
        let log_disks = self.readable(DirKind::Log);
        Some(ContainerDirs {
            work_dir: folder(&local_disks, &work, work_dir)?,
            log_dir: folder(&log_disks, &logs, log_dir)?,
            local_dirs: on_all(&local_disks, &work[..work.len() - 1]),
            local_user_dirs: on_all(&local_disks, &work[..work.len() - 3]),
            log_dirs: on_all(&log_disks, &logs),
        })
    }
}
