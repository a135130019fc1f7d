//! Keeps logs from a Java node without recovery, which deletes all of them when it starts (Hadoop:
//! `ResourceLocalizationService.cleanupLogDirs`).
//!
//! Before its start the folders of applications are moved into a folder beside that of the logs,
//! and after it back. A rename changes no byte. A folder of logs that is the top of a disk has no
//! place beside it; the Java node cannot rename it either, and then deletes nothing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use dir_handle::{DirHandle, FileKind};

/// Ending of the name of the folder beside that of the logs.
const ENDING: &str = ".nm-agent-adopt";

/// The folder with a node's logs: the one above it, its name, the name of the one beside it, and
/// the node's user.
struct Place {
    above: DirHandle,
    name: OsString,
    beside: OsString,
    user: u32,
}

impl Place {
    /// Opens the place of a folder of logs, after links in its path; `None`: it does not exist, or
    /// nothing is above it. A folder of another user than the node's is refused: whoever may write
    /// to a folder on the way could have led root anywhere.
    fn of(logs: &Path, user: u32) -> io::Result<Option<Self>> {
        let real = match logs.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            real => real?,
        };
        let (Some(above), Some(name)) = (real.parent(), real.file_name()) else {
            return Ok(None);
        };
        let mut beside = name.to_owned();
        beside.push(ENDING);
        let place = Self {
            above: DirHandle::open_ambient(above)?,
            name: name.to_owned(),
            beside,
            user,
        };
        Ok(Some(place))
    }

    /// Opens the folder of logs.
    fn logs(&self) -> io::Result<DirHandle> {
        let logs = self.above.open(&self.name)?;
        let owner = logs.user()?;
        if owner == self.user {
            return Ok(logs);
        }
        let text = format!("it belongs to the user id {owner}, and not to the node's");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    }
}

/// Moves what a folder of logs has beside it.
///
/// # Errors
/// The system's, with some of it moved: [`restore`] moves that back.
pub(crate) fn set_aside(logs: &Path, user: u32) -> io::Result<()> {
    let Some(place) = Place::of(logs, user)? else {
        return Ok(());
    };
    let logs = match place.logs() {
        // A disk of its own.
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => return Ok(()),
        opened => opened?,
    };
    // Nobody but the node's user and root looks in while it has no mode of its own.
    let beside = place.above.ensure(&place.beside, 0o700)?;
    move_all(&logs, &beside)
}

/// Moves back what [`set_aside`] has moved. Without that there is nothing to do.
///
/// # Errors
/// The system's, with the rest still beside.
pub(crate) fn restore(logs: &Path, user: u32) -> io::Result<()> {
    let Some(place) = Place::of(logs, user)? else {
        return Ok(());
    };
    let beside = match place.above.open(&place.beside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    move_all(&beside, &place.logs()?)?;
    place.above.remove_dir(&place.beside)
}

/// Moves all names of one folder to another. Where both have a folder of a name, as for an
/// application with containers before and after, what it has is moved: names of containers differ.
fn move_all(from: &DirHandle, to: &DirHandle) -> io::Result<()> {
    for name in listed(from)? {
        let both = [from.kind(&name)?, to.kind(&name)?];
        match both {
            [_, None] => from.rename(&name, to, &name)?,
            [Some(FileKind::Directory), Some(FileKind::Directory)] => {
                let (inner, place) = (from.open(&name)?, to.open(&name)?);
                for each in listed(&inner)? {
                    move_beside(&inner, &place, &each)?;
                }
                from.remove_dir(&name)?;
            }
            _ => move_beside(from, to, &name)?,
        }
    }
    Ok(())
}

/// Moves a name that must be free.
fn move_beside(from: &DirHandle, to: &DirHandle, name: &OsStr) -> io::Result<()> {
    if to.kind(name)?.is_some() {
        let text = format!("{} is there twice", name.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    from.rename(name, to, name)
}

fn listed(folder: &DirHandle) -> io::Result<Vec<OsString>> {
    folder.names()?.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn own() -> u32 {
        nix::unistd::geteuid().as_raw()
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn logs_outlive_a_start_that_deletes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        write(&logs.join("application_1/container_1/stdout"), "one");
        write(&logs.join("application_2/container_2/stdout"), "two");
        set_aside(&logs, own()).unwrap();
        // As the Java node does.
        fs::rename(&logs, folder.path().join("deleted")).unwrap();
        fs::remove_dir_all(folder.path().join("deleted")).unwrap();
        // Containers of an application that goes on start at once.
        write(&logs.join("application_2/container_3/stdout"), "three");
        restore(&logs, own()).unwrap();
        assert_eq!(read(&logs.join("application_1/container_1/stdout")), "one");
        assert_eq!(read(&logs.join("application_2/container_2/stdout")), "two");
        assert_eq!(
            read(&logs.join("application_2/container_3/stdout")),
            "three"
        );
        restore(&logs, own()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_that_was_interrupted_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        write(&logs.join("application_1/container_1/stdout"), "one");
        set_aside(&logs, own()).unwrap();
        write(&logs.join("application_1/container_2/stdout"), "two");
        set_aside(&logs, own()).unwrap();
        assert_eq!(fs::read_dir(&logs).unwrap().count(), 0);
        restore(&logs, own()).unwrap();
        assert_eq!(read(&logs.join("application_1/container_1/stdout")), "one");
        assert_eq!(read(&logs.join("application_1/container_2/stdout")), "two");
    }

    #[test]
    fn a_name_that_is_there_twice_is_an_error_and_both_stay() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        write(&logs.join("file"), "old");
        set_aside(&logs, own()).unwrap();
        write(&logs.join("file"), "new");
        restore(&logs, own()).unwrap_err();
        assert_eq!(read(&logs.join("file")), "new");
        let beside = folder.path().join("logs.nm-agent-adopt");
        assert_eq!(read(&beside.join("file")), "old");
    }

    #[test]
    fn a_link_is_followed_by_its_path_and_a_link_beside_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        set_aside(&folder.path().join("nowhere"), own()).unwrap();
        write(&logs.join("application_1/x"), "one");
        let elsewhere = tempfile::tempdir().unwrap();
        let beside = folder.path().join("logs.nm-agent-adopt");
        std::os::unix::fs::symlink(elsewhere.path(), beside).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&logs, &link).unwrap();
        set_aside(&link, own()).unwrap_err();
        assert_eq!(read(&logs.join("application_1/x")), "one");
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
    #[test]
    fn a_folder_of_another_user_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("logs");
        write(&logs.join("application_1/x"), "one");
        // As if the node's user had put a link to a folder of root there.
        let error = set_aside(&logs, own() + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(read(&logs.join("application_1/x")), "one");
    }
}
