//! Starts a process inside a cgroup: no instruction of its program runs outside.
//!
//! The child shares this process's memory until it executes its program, as with `vfork`, so that
//! the cost does not grow with this process's size; the calling thread waits until then. In the
//! unified hierarchy the kernel creates the child in its cgroup (`clone3` with `CLONE_INTO_CGROUP`,
//! Linux 5.7): moving a process later takes a lock that waits for every CPU, ten milliseconds and
//! more. In hierarchies of version 1 the child writes itself into `tasks` before it executes; a
//! single thread that moves itself needs no such lock (since Linux 5.18).
//!
//! The caller's last step before the program, such as dropping privileges, runs there too.
//!
//! The child starts clean: a session and process group of its own, default signal dispositions, an
//! empty signal mask, no descriptors but the standard three, and only the environment given.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout, fchdir, setsid, write};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use thiserror::Error;

use crate::clone::{self, Request};
use crate::error::CgroupError;
use crate::files::Kind;
use crate::group::Cgroup;
use crate::layout::Controller;
use crate::note::{self, Note};
use crate::pid_entry::PidEntry;
use crate::starting::Starting;

/// Limit on the descriptors closed one by one where the kernel has no `close_range` (before Linux
/// 5.9). This process's own are close-on-exec; these are descriptors that it may have inherited.
const CLOSE_MAX: c_int = 4_096;
/// The highest signal number on Linux.
const SIGNAL_MAX: c_int = 64;

/// A program to start and its environment.
pub struct Command<'a> {
    /// Path of the program, absolute.
    pub program: &'a CStr,
    /// Arguments, beginning with the program's own name.
    pub arguments: &'a [&'a CStr],
    /// Entries `NAME=value`: the whole environment.
    pub environment: &'a [CString],
    /// Index in `environment` of an entry `NAME=` to which the child appends its own pid.
    pub pid_entry: Option<usize>,
    /// Working directory.
    pub directory: BorrowedFd<'a>,
    /// Standard input, output and error; `None`: `/dev/null`.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// Limits of open files, soft and hard; `None`: those of this process.
    pub open_files: Option<(u64, u64)>,
    /// Place where the child notes that it exists, before it does anything else.
    pub note: Option<Note<'a>>,
    /// Last step of the child before it executes the program.
    pub before_exec: Option<BeforeExec<'a>>,
}

/// Function that a child runs right before it executes its program, such as one that drops
/// privileges.
#[derive(Clone, Copy)]
pub struct BeforeExec<'a>(&'a (dyn Fn() -> Result<(), c_int> + Sync));

impl<'a> BeforeExec<'a> {
    /// Takes a function that returns the kernel's error number if it fails.
    ///
    /// # Safety
    /// The child shares the memory of this process. The function may make system calls that concern
    /// the calling thread or its own process, and nothing else: it may not allocate, take a lock,
    /// panic, change memory that others use, or call what the C library does for all threads of a
    /// process, such as `setuid(3)`.
    #[expect(unsafe_code, reason = "a contract that the compiler cannot check")]
    #[must_use]
    pub unsafe fn new(function: &'a (dyn Fn() -> Result<(), c_int> + Sync)) -> Self {
        Self(function)
    }
}

/// A process that was started. The caller has to wait for it.
#[derive(Debug)]
pub struct Child {
    /// Number of the process, which is also its session and process group.
    pub pid: i32,
    /// A pidfd of the process, readable once it has exited.
    pub handle: OwnedFd,
}

/// Reason why no process was started.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// A control file of the cgroup cannot be opened.
    #[error("cannot open the cgroup")]
    Cgroup(#[from] CgroupError),
    /// A descriptor or file that the child needs cannot be made.
    #[error("cannot prepare the process")]
    Prepare(#[source] io::Error),
    /// The kernel refuses to create a process.
    #[error("cannot create a process")]
    Clone(#[source] io::Error),
    /// The process was created but failed before executing the program.
    #[error("{step}")]
    Child {
        /// Step at which the child failed.
        step: Step,
        /// Error number from the kernel.
        source: io::Error,
    },
}

/// A step of the child before it executes its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Noting that it exists.
    Note,
    /// Entering the cgroup.
    Join,
    /// Setting up session, signals, limits, standard descriptors and directory.
    Prepare,
    /// Running [`Command::before_exec`].
    BeforeExec,
    /// Executing the program.
    Execute,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Note => "the process cannot note its start",
            Self::Join => "the process cannot enter its cgroup",
            Self::Prepare => "the process cannot be prepared",
            Self::BeforeExec => "the process cannot change its user",
            Self::Execute => "the program cannot be executed",
        })
    }
}

/// The open files by which a child enters a cgroup.
struct Entry {
    /// Directory in the unified hierarchy, for `clone3`.
    unified: Option<OwnedFd>,
    /// `cgroup.procs` in the unified hierarchy, for kernels that cannot create a child in a cgroup.
    unified_procs: Option<File>,
    /// `tasks` in each hierarchy of version 1.
    tasks: Vec<File>,
}

impl Entry {
    fn open(group: Option<&Cgroup>, can_be_made_inside: bool) -> Result<Self, CgroupError> {
        let mut entry = Self {
            unified: None,
            unified_procs: None,
            tasks: Vec::new(),
        };
        let mut folders: Vec<_> = group.iter().flat_map(|group| group.files().all()).collect();
        // The CPU controller comes last: a class with little CPU time should run as few of these
        // steps as possible.
        folders.sort_by_key(|folder| folder.controls(Controller::Cpu));
        for folder in folders {
            match folder.kind {
                Kind::V1 => entry.tasks.push(folder.open_for_writing("tasks")?),
                Kind::V2 if can_be_made_inside => {
                    entry.unified = Some(folder.open("")?.into());
                }
                Kind::V2 => entry.unified_procs = Some(folder.open_for_writing("cgroup.procs")?),
            }
        }
        Ok(entry)
    }

    /// Returns the files that the child writes `0`, meaning itself, to.
    fn joins(&self) -> Vec<BorrowedFd<'_>> {
        let files = self.unified_procs.iter().chain(&self.tasks);
        files.map(AsFd::as_fd).collect()
    }
}

/// Data that the child reads, prepared by the parent: the child may not allocate, since
/// another thread may hold the allocator's lock and does not run in the child.
struct Plan<'a> {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    /// Entry of the environment that the child completes; written to like `failure`.
    pid_entry: Option<&'a PidEntry>,
    directory: BorrowedFd<'a>,
    stdio: [BorrowedFd<'a>; 3],
    open_files: Option<(u64, u64)>,
    note: Option<(BorrowedFd<'a>, libc::off_t)>,
    before_exec: Option<BeforeExec<'a>>,
    joins: &'a [BorrowedFd<'a>],
    /// Step that failed in the child, and the error number. Written by the child while the parent's
    /// thread waits in the kernel: never by both at a time.
    failure: Cell<Option<(Step, c_int)>>,
}

/// Starts a process in a cgroup, or in the cgroup of the calling thread. Returns once the program
/// is executed.
///
/// # Errors
/// [`SpawnError`]; no process is left then.
pub fn spawn(command: &Command<'_>, group: Option<&Cgroup>) -> Result<Child, SpawnError> {
    let null = dev_null().map_err(SpawnError::Prepare)?;
    let stdio = command
        .stdio
        .map(|file| AboveStdio::of(file.unwrap_or_else(|| null.as_fd())));
    let [input, output, error] = stdio;
    let stdio = [input?, output?, error?];
    let directory = AboveStdio::of(command.directory)?;
    let note_file = command.note.map(|note| AboveStdio::of(note.file));
    let note_file = note_file.transpose()?;
    let note_at = command.note.map_or(Ok(0), |note| note.offset.try_into());
    let note_at = note_at.map_err(|error| SpawnError::Prepare(io::Error::other(error)))?;
    let arguments = pointers(command.arguments.iter().copied());
    let mut environment = pointers(command.environment.iter().map(CString::as_c_str));
    let pid_entry = command.pid_entry.and_then(|index| {
        let entry = PidEntry::new(command.environment.get(index)?);
        environment[index] = entry.as_ptr();
        Some(entry)
    });
    let mut made_inside = clone::can_make_inside_cgroups();
    let mut refused = false;
    loop {
        let entry = Entry::open(group, made_inside)?;
        let joins = entry.joins();
        let plan = Plan {
            program: command.program.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            pid_entry: pid_entry.as_ref(),
            directory: directory.as_fd(),
            stdio: stdio.each_ref().map(AsFd::as_fd),
            open_files: command.open_files,
            note: note_file.as_ref().map(|file| (file.as_fd(), note_at)),
            before_exec: command.before_exec,
            joins: &joins,
            failure: Cell::new(None),
        };
        match start(&plan, entry.unified.as_ref().map(AsFd::as_fd)) {
            Err(SpawnError::Clone(error)) if made_inside && clone::is_refusal_of_call(&error) => {
                // The kernel is older, or a seccomp filter refuses the call.
                (made_inside, refused) = (false, true);
            }
            result => {
                if refused && result.is_ok() {
                    // `clone3` failed where `clone` works: it is not tried again.
                    clone::never_make_inside_cgroups();
                }
                return result;
            }
        }
    }
}

/// Returns `/dev/null`, opened once.
fn dev_null() -> io::Result<&'static File> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null);
    }
    let null = File::options().read(true).write(true).open("/dev/null")?;
    Ok(NULL.get_or_init(|| null))
}

/// A descriptor whose number is above 2: the child replaces 0 to 2 and must not lose it.
enum AboveStdio<'a> {
    Itself(BorrowedFd<'a>),
    Duplicate(OwnedFd),
}

impl<'a> AboveStdio<'a> {
    /// Duplicates a descriptor whose own number is too low.
    fn of(file: BorrowedFd<'a>) -> Result<Self, SpawnError> {
        if file.as_raw_fd() > libc::STDERR_FILENO {
            return Ok(Self::Itself(file));
        }
        let copy = fcntl_dupfd_cloexec(file, libc::STDERR_FILENO + 1);
        let copy = copy.map_err(|errno| SpawnError::Prepare(errno.into()))?;
        Ok(Self::Duplicate(copy))
    }
}

impl AsFd for AboveStdio<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Itself(file) => *file,
            Self::Duplicate(copy) => copy.as_fd(),
        }
    }
}

/// Returns the addresses of the strings, ended by a null pointer, as `execve` requires.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*const c_char> {
    strings.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

#[expect(unsafe_code, reason = "a child that shares memory with its parent")]
fn start(plan: &Plan<'_>, unified: Option<BorrowedFd<'_>>) -> Result<Child, SpawnError> {
    let blocked = BlockedSignals::block().map_err(SpawnError::Prepare)?;
    // Only a child that changes its user can be stopped by somebody before it has executed.
    let starting = plan.before_exec.map(|_| Starting::add());
    let unlisted = AtomicI32::new(-1);
    let request = Request {
        handle: starting.as_ref().map_or(&unlisted, Starting::handle),
        entry: run_child,
        argument: ptr::from_ref(plan).cast_mut().cast(),
        cgroup: unified.map(|unified| unified.as_raw_fd()),
    };
    // SAFETY: `run_child` reads the plan and sets its failure, and the plan outlives that: this
    // call returns when the child has executed or exited. The child makes only calls that are
    // allowed between fork and exec, and never returns to a caller. Signals are blocked, so that no
    // handler of this process runs in the child on shared memory; the two that glibc never blocks
    // are its own, and their handlers do nothing for a signal of another process.
    let cloned = unsafe { clone::clone(&request) };
    drop((starting, blocked));
    let (pid, handle) = cloned.map_err(SpawnError::Clone)?;
    let Some((step, errno)) = plan.failure.get() else {
        return Ok(Child { pid, handle });
    };
    reap(&handle);
    Err(SpawnError::Child {
        step,
        source: io::Error::from_raw_os_error(errno),
    })
}

/// Waits for a child that is exiting.
fn reap(handle: &OwnedFd) {
    let ended = || waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED);
    // Any other error: the child was already reaped elsewhere.
    while matches!(ended(), Err(rustix::io::Errno::INTR)) {}
}

/// A guard that blocks all signals of the calling thread until dropped. Holds the previous mask.
struct BlockedSignals(SigSet);

impl BlockedSignals {
    fn block() -> io::Result<Self> {
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        Ok(Self(before))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // Fails only for an operation that the kernel does not know.
        let _restored = self.0.thread_set_mask();
    }
}

/// Runs the child until it executes its program. Allocates nothing, takes no lock, cannot panic: it
/// runs on shared memory while the parent's thread waits.
extern "C" fn run_child(argument: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the argument is a plan by our own contract")]
    // SAFETY: `start` passes a plan that lives until the child has executed or exited.
    let plan = unsafe { &*argument.cast::<Plan<'_>>().cast_const() };
    let step = become_program(plan);
    // The thread's number, which the waiting parent does not use.
    plan.failure.set(Some((step, Errno::last_raw())));
    #[expect(unsafe_code, reason = "a child may not run its parent's exit handlers")]
    // SAFETY: ends this process only, without touching memory.
    unsafe {
        libc::_exit(127)
    }
}

/// Executes the program. Returns only on failure: the step that failed, with the thread's error
/// number. Calls nothing but system calls, some by safe bindings that allocate nothing.
#[expect(unsafe_code, reason = "only direct system calls are allowed here")]
fn become_program(plan: &Plan<'_>) -> Step {
    // A system call in this process: no C library caches the pid any more (glibc since 2.25).
    let pid = std::process::id();
    if let Some((file, offset)) = plan.note
        && !note::write(file, offset, pid)
    {
        return Step::Note;
    }
    default_signals();
    if let Some(entry) = plan.pid_entry {
        entry.fill(pid);
    }
    if setsid().is_err() || fchdir(plan.directory).is_err() {
        return Step::Prepare;
    }
    // The limits are the child's own, not shared with the parent.
    if let Some((soft, hard)) = plan.open_files
        && setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_err()
    {
        return Step::Prepare;
    }
    // As late as possible: from here on the child has only the CPU time of its cgroup, which may be
    // next to none. Before the standard descriptors are replaced, since these files may have those
    // numbers.
    for file in plan.joins {
        if write(file, b"0") != Ok(1) {
            return Step::Join;
        }
    }
    let [input, output, error] = plan.stdio;
    if dup2_stdin(input).is_err() || dup2_stdout(output).is_err() || dup2_stderr(error).is_err() {
        return Step::Prepare;
    }
    // SAFETY: these take integers only. The table of descriptors is the child's own, and the child
    // uses none of those that it closes any more.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for descriptor in 3..CLOSE_MAX {
                libc::close(descriptor);
            }
        }
    }
    // Fails only for an operation that the kernel does not know.
    let _unblocked = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    if let Some(BeforeExec(function)) = plan.before_exec
        && let Err(errno) = function()
    {
        Errno::set_raw(errno);
        return Step::BeforeExec;
    }
    // SAFETY: strings and arrays of the plan are alive and ended as execve wants them.
    unsafe { libc::execve(plan.program, plan.arguments, plan.environment) };
    Step::Execute
}

/// Resets all signals to their default. The child has its own table of dispositions, and a signal
/// ignored there would stay ignored in the program. A direct system call, since glibc withholds two
/// signals that a process may have been started with ignored.
#[expect(unsafe_code, reason = "a direct system call")]
fn default_signals() {
    /// Size of the kernel's signal set (`_NSIG / 8`).
    const SET_BYTES: usize = 8;
    // Larger than the kernel's structure. Zeroes mean the default disposition, no flags, an empty
    // mask.
    let default = [0_u64; 8];
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: the array is larger than what the kernel reads. Signals that cannot be changed
        // are refused, which is fine.
        unsafe {
            let nothing = ptr::null_mut::<c_void>();
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                nothing,
                SET_BYTES,
            );
        }
    }
}
