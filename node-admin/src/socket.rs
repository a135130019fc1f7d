//! The socket's file: made with its permissions before anybody can connect, and never taken from an
//! agent that serves it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Group;
use thiserror::Error;
use tokio::net::UnixListener;

/// Longest path of a socket in bytes (Linux: `sun_path` has 108, with its end).
const PATH_BYTES_MAX: usize = 107;

/// Permissions of the socket without and with a group. Connecting takes the right to write.
const MODE_OWN: u32 = 0o600;
const MODE_GROUP: u32 = 0o660;

/// Why the socket cannot be had.
#[derive(Debug, Error)]
pub enum BindError {
    /// Another agent holds it.
    #[error(
        "{0} is in use by another agent of this machine: give each its own \
         yarn.nodemanager.agent.admin.socket"
    )]
    InUse(PathBuf),
    /// The path is too long.
    #[error(
        "{path} has more than {PATH_BYTES_MAX} bytes, the limit for a socket: use a shorter path"
    )]
    TooLong {
        /// Path as configured.
        path: PathBuf,
    },
    /// The group is not known.
    #[error(
        "the group {0:?} of yarn.nodemanager.agent.admin.group is not known to this machine: create it"
    )]
    NoSuchGroup(String),
    /// A step failed.
    #[error("{step} {path}")]
    Io {
        /// Step that failed.
        step: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// The socket with the lock that keeps others from its path. The files stay when it is dropped: one
/// of them without an agent refuses connections, and the next agent replaces it.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    _lock: Flock<File>,
}

impl Socket {
    /// Listens on `path`, whose folder is made if it is missing. The members of `group` may
    /// connect.
    pub(crate) fn bind(path: &Path, group: Option<&str>) -> Result<Self, BindError> {
        let temporary = with_suffix(path, ".new");
        if temporary.as_os_str().len() > PATH_BYTES_MAX {
            let path = path.to_owned();
            return Err(BindError::TooLong { path });
        }
        let gid = group.map(gid_of).transpose()?;
        if let Some(folder) = path.parent()
            && !folder.exists()
        {
            fs::create_dir_all(folder).map_err(failed("creating the folder", folder))?;
        }
        let lock = lock(path)?;
        // Made under another name: nobody can connect before its permissions are right, and the
        // path has a socket at all times.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing", &temporary)(error));
            }
            Ok(()) | Err(_) => {}
        }
        let listener =
            UnixListener::bind(&temporary).map_err(failed("making the socket", &temporary))?;
        if let Some(gid) = gid {
            chown(&temporary, None, Some(gid))
                .map_err(failed("setting the group of", &temporary))?;
        }
        let mode = if gid.is_some() { MODE_GROUP } else { MODE_OWN };
        fs::set_permissions(&temporary, Permissions::from_mode(mode))
            .map_err(failed("setting the permissions of", &temporary))?;
        fs::rename(&temporary, path).map_err(failed("renaming the socket to", path))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Socket {
    /// Removes the socket while the lock is still held. The lock's file stays: who removed it could
    /// let two agents hold a lock on two files of one name.
    fn drop(&mut self) {
        // A client then reads "no such file" instead of "connection refused": both say that no
        // agent runs.
        let _may_be_gone = fs::remove_file(&self.path);
    }
}

/// Locks a file beside the socket, for as long as the agent serves it.
fn lock(socket: &Path) -> Result<Flock<File>, BindError> {
    let path = &with_suffix(socket, ".lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
        .map_err(failed("opening", path))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        if errno == Errno::EWOULDBLOCK {
            BindError::InUse(socket.to_owned())
        } else {
            failed("locking", path)(errno.into())
        }
    })
}

fn gid_of(name: &str) -> Result<u32, BindError> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) | Err(_) => Err(BindError::NoSuchGroup(name.to_owned())),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BindError {
    let path = path.to_owned();
    move |source| BindError::Io { step, path, source }
}
