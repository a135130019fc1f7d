//! The files that a launch puts into a container's directories.
//!
//! Everything is done relative to a directory that was opened from its disk, and no link is
//! followed: the work and log directories belong to the container's user, who could otherwise make
//! the agent write somewhere else.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use dir_handle::{DirHandle, FileKind};
use localize::ContainerFolder;
use users::Account;

use super::LINKS_MAX;
use super::context::{CONTAINER_TOKENS, Link};
use super::error::LaunchError;
use super::links::{ResolvedLink, make_link, remove_links, resolve_links};

/// The container's own temporary directory, in the work directory.
const TMP: &str = "tmp";

/// A Hadoop token storage without tokens and secret keys: magic, version, two counts.
const EMPTY_TOKEN_STORAGE: &[u8] = b"HDTS\0\0\0";

/// Handle of an open directory, with the path that errors name it by.
#[derive(Debug)]
pub(super) struct Directory {
    handle: DirHandle,
    path: PathBuf,
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Directory {
    /// Opens a folder of a container; a link or a mount on the way from its disk is an error.
    pub(super) fn of(folder: &ContainerFolder) -> Result<Self, LaunchError> {
        Self::opened(folder.open(), folder.path())
    }

    /// Opens a localized resource by its path; a link as the last component is an error.
    pub(super) fn of_resource(path: &Path) -> Result<Self, LaunchError> {
        Self::opened(DirHandle::open_no_follow(path), path)
    }

    fn opened(handle: io::Result<DirHandle>, path: &Path) -> Result<Self, LaunchError> {
        let path = path.to_owned();
        match handle {
            Ok(handle) => Ok(Self { handle, path }),
            Err(source) => Err(file_error("open", path, source)),
        }
    }

    fn error(&self, operation: &'static str, name: &str) -> impl FnOnce(io::Error) -> LaunchError {
        move |source| file_error(operation, self.path.join(name), source)
    }

    /// Creates a file of exactly this mode, after removing an existing one (of a first launch in
    /// the same directory).
    pub(super) fn create(&self, name: &str, mode: u32, content: &[u8]) -> Result<(), LaunchError> {
        let mut file = self.create_empty(name, mode)?;
        file.write_all(content).map_err(self.error("write", name))
    }

    fn create_empty(&self, name: &str, mode: u32) -> Result<File, LaunchError> {
        let created = match self.handle.create_file(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.remove(name)?;
                self.handle.create_file(name, mode)
            }
            created => created,
        };
        created.map_err(self.error("create", name))
    }

    /// Removes a file; no error if it does not exist.
    fn remove(&self, name: &str) -> Result<(), LaunchError> {
        match self.handle.unlink(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.error("remove", name)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Creates a directory, or sets the mode of an existing one. A link there is an error.
    fn make_directory(&self, name: &str, mode: u32) -> Result<(), LaunchError> {
        let existing = match self.handle.create(name, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.handle.open(name),
            created => {
                return created
                    .map(drop)
                    .map_err(self.error("create directory", name));
            }
        };
        existing
            .and_then(|existing| existing.set_mode(mode))
            .map_err(self.error("set the mode of", name))
    }

    /// Returns the handle, for operations whose errors the caller names itself.
    pub(super) fn handle(&self) -> &DirHandle {
        &self.handle
    }

    /// Opens a directory below this one without following any link on the way.
    pub(super) fn open_beneath(&self, path: &Path) -> Result<Self, LaunchError> {
        let below = self.path.join(path);
        match self.handle.open_beneath(path) {
            Ok(handle) => Ok(Self {
                handle,
                path: below,
            }),
            Err(source) => Err(file_error("open directory", below, source)),
        }
    }

    /// Creates an empty file for the script's output until it redirects itself. `None` on a
    /// failure: then the output is lost, but the container runs.
    pub(super) fn output(&self, name: &str) -> Option<File> {
        self.create_empty(name, 0o640).ok()
    }

    /// Returns the names in the directory.
    pub(super) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        self.handle.names()
    }

    /// Returns the names in the directory, for the only one who lists it by this handle.
    pub(super) fn names_alone(
        &self,
    ) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<'_>> {
        self.handle.names_alone()
    }

    /// Returns whether a path below the directory is a symbolic link; `false` behind a link, too.
    pub(super) fn is_link(&self, path: &str) -> bool {
        let kind = match path.rsplit_once('/') {
            None => self.handle.kind(path),
            Some((parent, name)) => {
                let parent = self.handle.open_beneath(Path::new(parent));
                parent.and_then(|parent| parent.kind(name))
            }
        };
        matches!(kind, Ok(Some(FileKind::Link)))
    }

    /// Opens a regular file for reading. A link, pipe or device of that name is refused without
    /// waiting for it.
    pub(super) fn open_regular(&self, name: &std::ffi::OsStr) -> io::Result<File> {
        self.handle.open_regular(name)
    }
}

fn file_error(operation: &'static str, path: PathBuf, source: io::Error) -> LaunchError {
    LaunchError::File {
        operation,
        path,
        source,
    }
}

/// Puts credentials and temporary directory into the work directory (Hadoop:
/// `DefaultContainerExecutor.launchContainer`), and takes the links of an earlier launch away
/// (Hadoop: `ContainerRelaunch`).
pub(super) fn fill_work_dir(
    work_dir: &Directory,
    credentials: &[u8],
    links: &[ResolvedLink],
) -> Result<(), LaunchError> {
    remove_links(work_dir.handle(), links);
    let tokens = if credentials.is_empty() {
        EMPTY_TOKEN_STORAGE
    } else {
        credentials
    };
    work_dir.create(CONTAINER_TOKENS, 0o600, tokens)?;
    work_dir.make_directory(TMP, 0o710)
}

/// Makes links to further resources in the work folder of a running container. A name that is taken
/// stays as it is (Hadoop: `ResourceLocalizedWhileRunningTransition`). `run_as` is the account of
/// the container's processes; `None`: the agent's own.
///
/// # Errors
/// A link's name, its folder or its target cannot be used; links before it were made.
pub fn add_links(
    work_dir: &ContainerFolder,
    links: &[Link],
    run_as: Option<&Account>,
) -> Result<(), LaunchError> {
    let work_dir = Directory::of(work_dir)?;
    let links = resolve_links(links, |target| entry_names(target, LINKS_MAX, run_as))?;
    for link in &links {
        match make_link(work_dir.handle(), link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(work_dir.error("link", &link.link)(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Writes what the script would write to its output before the command runs. Returns whether the
/// command can have the files as its output and errors.
pub(super) fn announce(output: &[Option<File>; 2], lines: &str) -> bool {
    let [Some(mut output), Some(_errors)] = output.each_ref().map(Option::as_ref) else {
        return false;
    };
    output.write_all(lines.as_bytes()).is_ok()
}

/// The names in a directory, sorted, at most `max` and one more. The directory must be readable by
/// the account, whose user may have put a link on the way.
pub(super) fn entry_names(
    path: &Path,
    max: usize,
    run_as: Option<&Account>,
) -> Result<Vec<String>, LaunchError> {
    let error = |source| LaunchError::File {
        operation: "list",
        path: path.to_owned(),
        source,
    };
    let opened = match run_as {
        None => std::fs::read_dir(path),
        Some(account) => account
            .act(|| std::fs::read_dir(path))
            .and_then(|opened| opened),
    };
    let mut names = Vec::new();
    for entry in opened.map_err(error)?.take(max + 1) {
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
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
        let work_dir = Directory::of_resource(root.path()).unwrap();
        fill_work_dir(&work_dir, b"tokens", &[]).unwrap();
        work_dir.create("script", 0o700, b"#!").unwrap();
        assert_eq!(mode(&root.path().join("script")), 0o700);
        assert_eq!(mode(&root.path().join(CONTAINER_TOKENS)), 0o600);
        assert_eq!(mode(&root.path().join(TMP)), 0o710);
    }

    #[test]
    fn a_token_file_is_there_even_without_tokens() {
        let root = tempfile::tempdir().unwrap();
        let work_dir = Directory::of_resource(root.path()).unwrap();
        fill_work_dir(&work_dir, b"", &[]).unwrap();
        let tokens = std::fs::read(root.path().join(CONTAINER_TOKENS)).unwrap();
        assert_eq!(tokens, b"HDTS\0\0\0");
    }

    #[test]
    fn a_relaunch_replaces_files_and_links_of_the_first_launch() {
        let root = tempfile::tempdir().unwrap();
        let work_dir = Directory::of_resource(root.path()).unwrap();
        let links = [link("lib/a"), link("b")];
        std::fs::create_dir(root.path().join("lib")).unwrap();
        symlink("/", root.path().join("lib/a")).unwrap();
        symlink("/", root.path().join("b")).unwrap();
        fill_work_dir(&work_dir, b"first", &links).unwrap();
        assert!(!root.path().join("lib/a").is_symlink());
        assert!(!root.path().join("b").is_symlink());
        fill_work_dir(&work_dir, b"second", &links).unwrap();
        let tokens = std::fs::read_to_string(root.path().join(CONTAINER_TOKENS)).unwrap();
        assert_eq!(tokens, "second");
    }

    #[test]
    fn links_planted_by_a_container_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (work, outside) = (root.path().join("work"), root.path().join("outside"));
        std::fs::create_dir(&work).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("a"), "kept").unwrap();
        symlink(outside.join("a"), work.join(CONTAINER_TOKENS)).unwrap();
        symlink(&outside, work.join("lib")).unwrap();
        let work_dir = Directory::of_resource(&work).unwrap();
        fill_work_dir(&work_dir, b"", &[link("lib/a")]).unwrap();
        assert_eq!(std::fs::read_to_string(outside.join("a")).unwrap(), "kept");

        std::fs::remove_dir(work.join(TMP)).unwrap();
        symlink(&outside, work.join(TMP)).unwrap();
        let error = fill_work_dir(&work_dir, b"", &[]).unwrap_err();
        assert!(matches!(error, LaunchError::File { .. }));
        symlink(&work, root.path().join("alias")).unwrap();
        assert!(Directory::of_resource(&root.path().join("alias")).is_err());
    }

    #[test]
    fn a_directory_in_a_files_place_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(CONTAINER_TOKENS)).unwrap();
        let work_dir = Directory::of_resource(root.path()).unwrap();
        assert!(fill_work_dir(&work_dir, b"", &[]).is_err());
    }
}
