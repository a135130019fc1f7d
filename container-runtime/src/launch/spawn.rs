//! Starts a container's process, and reads its exit status.
//!
//! How the process is made is the cgroup crate's: in the container's cgroup if it has one, without
//! copying our memory, with a session and process group of its own, default signal dispositions, an
//! empty signal mask (a JVM would hand its blocked SIGQUIT on), no descriptors but the standard
//! three, and only the environment given.

use std::ffi::{CStr, CString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use cgroup::{BeforeExec, Cgroup, Child, Note, SpawnError};
use keeper::StartSlot;
use records::ContainerExitStatus;
use users::Account;

use super::process::{peek, reap, signal_group};

/// Maximum time that a launch thread waits for the end of a process that cannot be watched, and
/// pause between two looks.
const ABANDON_WAIT: Duration = Duration::from_secs(10);
const ABANDON_PAUSE: Duration = Duration::from_millis(1);

/// The program that runs the script.
pub(super) const BASH: &str = "/bin/bash";
const BASH_C: &CStr = c"/bin/bash";

/// Arguments and environment of a bash.
pub(super) struct Bash {
    /// Arguments after the program's name.
    pub(super) arguments: Vec<CString>,
    /// Entries `NAME=value`: the whole environment.
    pub(super) environment: Vec<CString>,
    /// Index in `environment` of an entry `NAME=` that gets the process's own pid.
    pub(super) pid_entry: Option<usize>,
}

/// A bash to start, and its surroundings.
pub(super) struct Command<'a> {
    /// Arguments and environment.
    pub(super) bash: &'a Bash,
    /// Work directory of the process.
    pub(super) work_dir: BorrowedFd<'a>,
    /// Standard output and error at the start; `None`: `/dev/null`.
    pub(super) output: [Option<File>; 2],
    /// Cgroup of the process; `None`: the agent's own.
    pub(super) group: Option<&'a Cgroup>,
    /// Account of the process; `None`: the agent's own.
    pub(super) run_as: Option<&'a Account>,
}

/// A session leader of ours that is not reaped yet: as long as this value exists, its pid is not
/// given away.
#[derive(Debug)]
pub(super) struct Leader {
    pid: i32,
    handle: OwnedFd,
    /// Slot of its note; `None`: nobody needs to know it later.
    slot: Option<StartSlot>,
}

impl AsRawFd for Leader {
    fn as_raw_fd(&self) -> c_int {
        self.handle.as_raw_fd()
    }
}

impl Leader {
    /// Process id, which is the id of the session and the process group too.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the exit status without reaping the process; `None` while it runs.
    pub(super) fn peek(&self) -> io::Result<Option<ContainerExitStatus>> {
        peek(self.handle.as_fd())
    }

    /// Reaps it. It must have ended; from now on its pid belongs to whoever gets it next. Returns
    /// it if it cannot be reaped yet, since a tracer has it.
    pub(super) fn reap(self) -> Option<Self> {
        match reap(self.handle.as_fd()) {
            Ok(None) => return Some(self),
            Ok(Some(_)) => {}
            Err(error) => {
                tracing::error!(pid = self.pid, %error, "cannot reap a container's process");
            }
        }
        if let Some(slot) = self.slot {
            slot.free();
        }
        None
    }

    /// Kills its group and waits for it: for a leader that nobody can watch.
    pub(super) fn abandon(self) {
        let pid = self.pid;
        signal_group(pid, libc::SIGKILL);
        // SIGKILL cannot be ignored, so this wait is short, and only a launch thread waits. A
        // tracer may make it long.
        let deadline = Instant::now() + ABANDON_WAIT;
        let mut left = self.reap();
        while let Some(leader) = left.take() {
            if Instant::now() >= deadline {
                tracing::error!(pid, "a process that cannot be watched does not end");
                return;
            }
            thread::sleep(ABANDON_PAUSE);
            left = leader.reap();
        }
    }
}

/// Starts a process, which notes that it exists in `slot`.
pub(super) fn spawn(command: &Command<'_>, slot: Option<StartSlot>) -> Result<Leader, SpawnError> {
    let result = spawn_with_note(command, slot.as_ref());
    match result {
        Ok(Child { pid, handle }) => Ok(Leader { pid, handle, slot }),
        Err(error) => {
            if let Some(slot) = slot {
                slot.free();
            }
            Err(error)
        }
    }
}

fn spawn_with_note(command: &Command<'_>, slot: Option<&StartSlot>) -> Result<Child, SpawnError> {
    let [output, error] = command.output.each_ref();
    let bash = command.bash;
    let account = command.run_as;
    let become_user = account.map(|account| {
        move || -> Result<(), c_int> { account.assume().map_err(|errno| errno.raw_os_error()) }
    });
    let arguments = bash.arguments.iter().map(CString::as_c_str);
    let arguments: Vec<_> = [BASH_C].into_iter().chain(arguments).collect();
    let request = cgroup::Command {
        program: BASH_C,
        arguments: &arguments,
        environment: &bash.environment,
        pid_entry: bash.pid_entry,
        directory: command.work_dir,
        stdio: [
            None,
            output.as_ref().map(AsFd::as_fd),
            error.as_ref().map(AsFd::as_fd),
        ],
        open_files: crate::open_files::of_containers(),
        note: slot.map(|slot| {
            let (file, offset) = slot.note();
            Note { file, offset }
        }),
        before_exec: become_user.as_ref().map(|become_user| {
            #[expect(unsafe_code, reason = "a function for a child that shares memory")]
            // SAFETY: `Account::assume` makes system calls of the calling thread and nothing else.
            unsafe {
                BeforeExec::new(become_user)
            }
        }),
    };
    cgroup::spawn(&request, command.group)
}
