//! Starts a container's process, and reads how it ended.
//!
//! `posix_spawn` gives the child our memory until it executes bash, as `vfork` does, so that the time does not grow
//! with the agent's size. The child starts clean: a session and process group of its own, default signal dispositions,
//! an empty signal mask (a JVM would hand its blocked SIGQUIT on), no descriptors but the standard three, and only the
//! environment given. Needs glibc 2.34 (`posix_spawn_file_actions_addclosefrom_np`).

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use records::ContainerExitStatus;

use super::process::{open_process, signal_group, wait, wait_blocking, wait_for_pid};

/// What runs the script.
pub(super) const BASH: &str = "/bin/bash";
const BASH_C: &CStr = c"/bin/bash";
const DEV_NULL: &CStr = c"/dev/null";

/// What to start: `/bin/bash SCRIPT`.
pub(super) struct Command<'a> {
    /// The script, absolute.
    pub(super) script: &'a CStr,
    /// `NAME=value`: the whole environment.
    pub(super) environment: &'a [CString],
    /// Where it runs.
    pub(super) work_dir: BorrowedFd<'a>,
    /// Standard output and error until the script redirects them; `None`: `/dev/null`.
    pub(super) output: [Option<File>; 2],
}

/// A session leader of ours that is not reaped yet: as long as this value exists, its pid is not given away.
#[derive(Debug)]
pub(super) struct Leader {
    pid: i32,
    handle: OwnedFd,
}

impl AsRawFd for Leader {
    fn as_raw_fd(&self) -> c_int {
        self.handle.as_raw_fd()
    }
}

impl Leader {
    /// Its pid, which is its session and process group too.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// How it ended, without reaping it; `None` while it runs.
    pub(super) fn peek(&self) -> io::Result<Option<ContainerExitStatus>> {
        wait(self.handle.as_fd(), libc::WNOWAIT)
    }

    /// Reaps it. It must have ended; from now on its pid belongs to whoever gets it next.
    pub(super) fn reap(self) -> io::Result<()> {
        wait(self.handle.as_fd(), 0).map(drop)
    }

    /// Kills its group and waits for it: for a leader that nobody can watch.
    pub(super) fn abandon(self) {
        signal_group(self.pid, libc::SIGKILL);
        // SIGKILL cannot be ignored, so this wait is short, and only a launch thread waits.
        if let Err(error) = wait_blocking(self.handle.as_fd()) {
            tracing::warn!(pid = self.pid, %error, "cannot reap a process");
        }
    }
}

/// Starts a process.
pub(super) fn spawn(command: &Command<'_>) -> io::Result<Leader> {
    let attributes = Attributes::new()?;
    let mut actions = FileActions::new()?;
    actions.open_null(0, libc::O_RDONLY)?;
    for (target, output) in [1, 2].into_iter().zip(&command.output) {
        match output {
            Some(file) => actions.duplicate(file.as_fd(), target)?,
            None => actions.open_null(target, libc::O_WRONLY)?,
        }
    }
    actions.change_directory(command.work_dir)?;
    actions.close_from(3)?;
    let arguments = pointers([BASH_C, command.script].into_iter());
    let environment = pointers(command.environment.iter().map(CString::as_c_str));
    let mut pid = 0;
    #[expect(
        unsafe_code,
        reason = "std cannot set sid, mask and dispositions without fork"
    )]
    // SAFETY: attributes and actions are initialised and alive; both arrays end with a null pointer and point to
    // strings that end with NUL and are alive until the call returns; posix_spawn does not write to any of them.
    let result = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            BASH_C.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    check(result)?;
    match open_process(pid) {
        Ok(handle) => Ok(Leader { pid, handle }),
        Err(error) => {
            // Out of descriptors. Nobody else reaps our children, so the pid is still this process.
            signal_group(pid, libc::SIGKILL);
            if let Err(error) = wait_for_pid(pid, 0) {
                tracing::warn!(pid, %error, "cannot reap a process");
            }
            Err(error)
        }
    }
}

/// The strings' addresses, ended by a null pointer, as the kernel wants them.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*mut c_char> {
    strings
        .map(|string| string.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

/// The functions of `posix_spawn` return the error's number.
fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// `posix_spawnattr_t` that is destroyed when dropped.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// New session, all signals as by default, none blocked.
    #[expect(unsafe_code, reason = "C functions that fill in structures")]
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: init makes the structure valid; it is given away only after that.
        let mut attributes = unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            Self(attributes.assume_init())
        };
        let flags = libc::POSIX_SPAWN_SETSID
            | c_short::try_from(libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK)
                .expect("the flags are small numbers");
        let (mut all, mut none) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the two sets are made valid by sigfillset and sigemptyset, which only fail for a bad address; the
        // attributes are valid.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(none.as_mut_ptr());
            let attributes = &raw mut attributes.0;
            check(libc::posix_spawnattr_setflags(attributes, flags))?;
            check(libc::posix_spawnattr_setsigdefault(
                attributes,
                all.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigmask(attributes, none.as_ptr()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    #[expect(unsafe_code, reason = "a C destructor")]
    fn drop(&mut self) {
        // SAFETY: valid since init, and not used after.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// `posix_spawn_file_actions_t` that is destroyed when dropped.
struct FileActions(libc::posix_spawn_file_actions_t);

#[expect(unsafe_code, reason = "C functions that add to a structure")]
impl FileActions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init makes the structure valid; it is given away only after that.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            Ok(Self(actions.assume_init()))
        }
    }

    fn open_null(&mut self, target: c_int, flags: c_int) -> io::Result<()> {
        let path = DEV_NULL.as_ptr();
        // SAFETY: the structure is valid and the path, which is copied, ends with NUL.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&raw mut self.0, target, path, flags, 0)
        })
    }

    /// `source` must stay open until the spawn.
    fn duplicate(&mut self, source: BorrowedFd<'_>, target: c_int) -> io::Result<()> {
        // SAFETY: the structure is valid; descriptors are only numbers here.
        check(unsafe {
            libc::posix_spawn_file_actions_adddup2(&raw mut self.0, source.as_raw_fd(), target)
        })
    }

    /// `directory` must stay open until the spawn.
    fn change_directory(&mut self, directory: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the structure is valid; descriptors are only numbers here.
        check(unsafe {
            libc::posix_spawn_file_actions_addfchdir_np(&raw mut self.0, directory.as_raw_fd())
        })
    }

    fn close_from(&mut self, first: c_int) -> io::Result<()> {
        // SAFETY: the structure is valid.
        check(unsafe { libc::posix_spawn_file_actions_addclosefrom_np(&raw mut self.0, first) })
    }
}

impl Drop for FileActions {
    #[expect(unsafe_code, reason = "a C destructor")]
    fn drop(&mut self) {
        // SAFETY: valid since init, and not used after.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}
