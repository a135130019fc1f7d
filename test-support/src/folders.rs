//! Folders of one container, as localization hands them to a launch.

use std::path::Path;
use std::sync::Arc;

use dir_handle::DirHandle;
use localize::{ContainerDirs, ContainerFolder};

/// Names the folders of one container, `work` and `log` in `root`, without making them.
/// `root` stands for a folder that the container's user could replace: its parent is the disk's
/// directory, and must exist.
///
/// # Panics
/// When the parent cannot be opened.
#[must_use]
pub fn container_dirs(root: &Path) -> ContainerDirs {
    let disk = root.parent().expect("a container's folder lies in another");
    let handle = DirHandle::open_ambient(disk).expect("the parent is a directory");
    let handle = Arc::new(handle);
    let below = root.strip_prefix(disk).expect("a parent is a prefix");
    let folder = |name: &str| ContainerFolder::new(Arc::clone(&handle), disk, below.join(name));
    ContainerDirs {
        work_dir: folder("work"),
        log_dir: folder("log"),
        local_dirs: vec![root.join("local")],
        local_user_dirs: vec![root.join("user")],
        log_dirs: vec![root.join("log")],
    }
}

/// Makes the folders of one container: those of [`container_dirs`].
///
/// # Panics
/// When one cannot be made.
#[must_use]
pub fn make_container_dirs(root: &Path) -> ContainerDirs {
    let dirs = container_dirs(root);
    for folder in [&dirs.work_dir, &dirs.log_dir] {
        std::fs::create_dir_all(folder.path()).expect("a temporary directory is writable");
    }
    dirs
}
