//! The files that a launch puts into a container's directories.
//!
//! Everything is done relative to an opened directory, and no link in the last component is followed: the work and log
//! directories belong to the container's user, who could otherwise make the agent write somewhere else.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::context::{CONTAINER_TOKENS, LAUNCH_SCRIPT};
use super::error::LaunchError;
use super::script::ResolvedLink;

/// The container's own temporary directory, in the work directory.
const TMP: &str = "tmp";

/// A Hadoop token storage without tokens and secret keys: magic, version, two counts.
const EMPTY_TOKEN_STORAGE: &[u8] = b"HDTS\0\0\0";

/// A directory held open.
#[derive(Debug)]
pub(super) struct Directory {
    handle: OwnedFd,
    path: PathBuf,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Directory {
    /// Opens a directory that is no link itself.
    pub(super) fn open(path: &Path) -> Result<Self, LaunchError> {
        let handle = nix::fcntl::open(path, Self::FLAGS, Mode::empty());
        Ok(Self {
            handle: handle.map_err(|errno| file_error("open", path.to_owned(), errno))?,
            path: path.to_owned(),
        })
    }

    const FLAGS: OFlag = OFlag::O_DIRECTORY
        .union(OFlag::O_NOFOLLOW)
        .union(OFlag::O_CLOEXEC);

    fn error(&self, operation: &'static str, name: &str, errno: Errno) -> LaunchError {
        file_error(operation, self.path.join(name), errno)
    }

    /// Makes a new file of exactly this mode; one that is there already (a relaunch) is taken away before.
    pub(super) fn create(&self, name: &str, mode: u32, content: &[u8]) -> Result<(), LaunchError> {
        let mut file = match self.open_new(name, mode) {
            Err(Errno::EEXIST) => {
                self.remove(name)?;
                self.open_new(name, mode)
            }
            opened => opened,
        }
        .map_err(|errno| self.error("create", name, errno))?;
        // The process's umask may have taken bits away.
        file.set_permissions(Permissions::from_mode(mode))
            .and_then(|()| file.write_all(content))
            .map_err(|source| LaunchError::File {
                operation: "write",
                path: self.path.join(name),
                source,
            })
    }

    /// Makes or replaces a file at once: readers see the old content, the new, or none, but never a part.
    pub(super) fn replace(&self, name: &str, mode: u32, content: &[u8]) -> Result<(), LaunchError> {
        let temporary = format!("{name}.tmp");
        self.create(&temporary, mode, content)?;
        renameat(&self.handle, temporary.as_str(), &self.handle, name)
            .map_err(|errno| self.error("rename", &temporary, errno))
    }

    fn open_new(&self, name: &str, mode: u32) -> Result<File, Errno> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.handle, name, flags, Mode::from_bits_truncate(mode)).map(File::from)
    }

    /// Takes a name away; it need not be there.
    pub(super) fn remove(&self, name: &str) -> Result<(), LaunchError> {
        match unlinkat(&self.handle, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(self.error("remove", name, errno)),
        }
    }

    /// Makes a directory unless it is there.
    fn make_directory(&self, name: &str, mode: u32) -> Result<(), LaunchError> {
        match mkdirat(&self.handle, name, Mode::from_bits_truncate(mode)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(self.error("create directory", name, errno)),
        }
        // Also refuses what only looks like a directory.
        let made = File::from(self.subdirectory(name)?.handle);
        made.set_permissions(Permissions::from_mode(mode))
            .map_err(|source| LaunchError::File {
                operation: "set the mode of",
                path: self.path.join(name),
                source,
            })
    }

    fn subdirectory(&self, name: &str) -> Result<Self, LaunchError> {
        let handle = openat(&self.handle, name, Self::FLAGS, Mode::empty())
            .map_err(|errno| self.error("open directory", name, errno))?;
        Ok(Self {
            handle,
            path: self.path.join(name),
        })
    }

    /// Opens a directory below this one without following any link on the way.
    pub(super) fn open_beneath(&self, path: &Path) -> Result<Self, LaunchError> {
        let how = OpenHow::new()
            .flags(Self::FLAGS)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        let handle = openat2(&self.handle, path, how)
            .map_err(|errno| file_error("open directory", self.path.join(path), errno))?;
        Ok(Self {
            handle,
            path: self.path.join(path),
        })
    }

    /// A path to the open directory itself, wherever it has been moved to.
    pub(super) fn handle_path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()))
    }

    /// A new, empty file for the script's output until it redirects itself, or `None`: then the output is lost, but
    /// the container runs.
    pub(super) fn output(&self, name: &str) -> Option<File> {
        self.remove(name).ok()?;
        self.open_new(name, 0o640).ok()
    }

    /// Opens a regular file that is no link for reading. A FIFO or a device of that name is refused without waiting for it.
    pub(super) fn open_regular(&self, name: &std::ffi::OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.handle, name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(file)
    }
}

fn file_error(operation: &'static str, path: PathBuf, errno: Errno) -> LaunchError {
    LaunchError::File {
        operation,
        path,
        source: errno.into(),
    }
}

/// Puts script, credentials and temporary directory into the work directory (Hadoop:
/// `DefaultContainerExecutor.launchContainer`). After a first launch in the same directory, what that one made is
/// taken away (Hadoop: `ContainerRelaunch`).
pub(super) fn fill_work_dir(
    work_dir: &Directory,
    script: &str,
    credentials: &[u8],
    links: &[ResolvedLink],
) -> Result<(), LaunchError> {
    if work_dir.open_regular(LAUNCH_SCRIPT.as_ref()).is_ok() {
        remove_links(work_dir, links);
    }
    let tokens = if credentials.is_empty() {
        EMPTY_TOKEN_STORAGE
    } else {
        credentials
    };
    work_dir.create(LAUNCH_SCRIPT, 0o700, script.as_bytes())?;
    work_dir.create(CONTAINER_TOKENS, 0o600, tokens)?;
    work_dir.make_directory(TMP, 0o710)
}

/// Takes the links of an earlier launch away: `ln -sf` onto a link to a directory would make its link inside. What
/// cannot be taken away is left for `ln` to complain about.
fn remove_links(work_dir: &Directory, links: &[ResolvedLink]) {
    for ResolvedLink { link, .. } in links {
        let (parent, name) = link.rsplit_once('/').unwrap_or(("", link));
        let mut directory = None;
        for part in parent.split('/').filter(|part| !part.is_empty()) {
            match directory.as_ref().unwrap_or(work_dir).subdirectory(part) {
                Ok(next) => directory = Some(next),
                Err(_missing) => break,
            }
        }
        let directory = directory.as_ref().unwrap_or(work_dir);
        if directory.path == work_dir.path.join(parent)
            && let Err(error) = directory.remove(name)
        {
            tracing::debug!(%error, link, "an earlier link stays");
        }
    }
}

/// The names in a directory, sorted, at most `max` and one more.
pub(super) fn entry_names(path: &Path, max: usize) -> Result<Vec<String>, LaunchError> {
    let error = |source| LaunchError::File {
        operation: "list",
        path: path.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(error)?.take(max + 1) {
        let name = entry.map_err(error)?.file_name();
        let name = name
            .into_string()
            .map_err(|name| super::context::PlanError::Path {
                path: path.join(name),
            })?;
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path)
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    }

    fn link(link: &str) -> ResolvedLink {
        ResolvedLink {
            link: link.to_owned(),
            target: PathBuf::from("/t"),
        }
    }

    #[test]
    fn modes_are_as_promised_whatever_the_umask_is() {
        let root = tempfile::tempdir().unwrap();
        let work_dir = Directory::open(root.path()).unwrap();
        fill_work_dir(&work_dir, "#!", b"tokens", &[]).unwrap();
        assert_eq!(mode(&root.path().join(LAUNCH_SCRIPT)), 0o700);
        assert_eq!(mode(&root.path().join(CONTAINER_TOKENS)), 0o600);
        assert_eq!(mode(&root.path().join(TMP)), 0o710);
    }

    #[test]
    fn a_token_file_is_there_even_without_tokens() {
        let root = tempfile::tempdir().unwrap();
        let work_dir = Directory::open(root.path()).unwrap();
        fill_work_dir(&work_dir, "#!", b"", &[]).unwrap();
        let tokens = std::fs::read(root.path().join(CONTAINER_TOKENS)).unwrap();
        assert_eq!(tokens, b"HDTS\0\0\0");
    }

    #[test]
    fn a_relaunch_replaces_files_and_links_of_the_first_launch() {
        let root = tempfile::tempdir().unwrap();
        let work_dir = Directory::open(root.path()).unwrap();
        let links = [link("lib/a"), link("b")];
        fill_work_dir(&work_dir, "first", b"", &links).unwrap();
        std::fs::create_dir(root.path().join("lib")).unwrap();
        symlink("/", root.path().join("lib/a")).unwrap();
        symlink("/", root.path().join("b")).unwrap();
        fill_work_dir(&work_dir, "second", b"", &links).unwrap();
        assert!(!root.path().join("lib/a").is_symlink());
        assert!(!root.path().join("b").is_symlink());
        let script = std::fs::read_to_string(root.path().join(LAUNCH_SCRIPT)).unwrap();
        assert_eq!(script, "second");
    }

    #[test]
    fn links_planted_by_a_container_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (work, outside) = (root.path().join("work"), root.path().join("outside"));
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("a"), "kept").unwrap();
        symlink(outside.join("a"), work.join(LAUNCH_SCRIPT)).unwrap();
        symlink(&outside, work.join("lib")).unwrap();
        let work_dir = Directory::open(&work).unwrap();
        fill_work_dir(&work_dir, "script", b"", &[]).unwrap();
        fill_work_dir(&work_dir, "script", b"", &[link("lib/a")]).unwrap();
        assert_eq!(std::fs::read_to_string(outside.join("a")).unwrap(), "kept");

        std::fs::remove_dir(work.join(TMP)).unwrap();
        symlink(&outside, work.join(TMP)).unwrap();
        let error = fill_work_dir(&work_dir, "script", b"", &[]).unwrap_err();
        assert!(matches!(error, LaunchError::File { .. }));
        symlink(&work, root.path().join("alias")).unwrap();
        assert!(Directory::open(&root.path().join("alias")).is_err());
    }

    #[test]
    fn a_directory_in_a_files_place_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(CONTAINER_TOKENS)).unwrap();
        let work_dir = Directory::open(root.path()).unwrap();
        assert!(fill_work_dir(&work_dir, "script", b"", &[]).is_err());
    }

    #[test]
    fn replacing_leaves_no_temporary_file() {
        let root = tempfile::tempdir().unwrap();
        let private = Directory::open(root.path()).unwrap();
        private.replace("x.pid", 0o644, b"1").unwrap();
        private.replace("x.pid", 0o644, b"2").unwrap();
        assert_eq!(entry_names(root.path(), 9).unwrap(), ["x.pid"]);
        assert_eq!(std::fs::read(root.path().join("x.pid")).unwrap(), b"2");
    }
}
