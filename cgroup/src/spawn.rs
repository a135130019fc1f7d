//! Starts a process inside a cgroup: it never runs a program outside.
//!
//! The child shares our memory until it executes its program, as with `vfork`, so that the time does not grow with our
//! size, and the calling thread waits for that. In the unified hierarchy the kernel makes the child in its cgroup
//! (`clone3` with `CLONE_INTO_CGROUP`, Linux 5.7): moving a process there later takes a lock that waits for every
//! processor, ten milliseconds and more. In hierarchies of version 1 the child writes itself into `tasks` before it
//! executes; that a single thread moves itself needs no such lock (since Linux 5.18).
//!
//! The child starts clean: a session and process group of its own, default signal dispositions, an empty signal mask, no
//! descriptors but the standard three, and only the environment given.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::fcntl::{FcntlArg, fcntl};
use thiserror::Error;

use crate::clone::{self, Request};
use crate::error::CgroupError;
use crate::group::Cgroup;
use crate::layout::Controller;
use crate::place::Kind;

/// Descriptors closed one by one where the kernel cannot close a range of them (before Linux 5.9). Those of this
/// process are closed by the execution itself; these are what it may have been started with.
const CLOSE_MAX: c_int = 4_096;
/// The highest signal number on Linux.
const SIGNAL_MAX: c_int = 64;

/// What to start.
pub struct Command<'a> {
    /// The program, absolute.
    pub program: &'a CStr,
    /// Its arguments, the program's own name first.
    pub arguments: &'a [&'a CStr],
    /// `NAME=value`: the whole environment.
    pub environment: &'a [CString],
    /// Where it runs.
    pub directory: BorrowedFd<'a>,
    /// Standard input, output and error; `None`: `/dev/null`.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// Its limits of open files, soft and hard; `None`: those of this process.
    pub open_files: Option<(u64, u64)>,
}

/// A process that was started. It is a child to be waited for.
#[derive(Debug)]
pub struct Child {
    /// Its number, which is its session and process group too.
    pub pid: i32,
    /// A handle on it, readable when it has ended.
    pub handle: OwnedFd,
}

/// Why there is no process.
#[derive(Debug, Error)]
pub enum SpawnError {
    /// The cgroup's files cannot be opened.
    #[error("cannot open the cgroup")]
    Cgroup(#[from] CgroupError),
    /// Something of our own that the child needs.
    #[error("cannot prepare the process")]
    Prepare(#[source] io::Error),
    /// The kernel makes no process.
    #[error("cannot make a process")]
    Clone(#[source] io::Error),
    /// The process was made and could not become the program.
    #[error("{step}")]
    Child {
        /// What failed.
        step: Step,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What a child does before it executes its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Entering its cgroup.
    Join,
    /// Its session, signals, standard descriptors and directory.
    Prepare,
    /// Executing the program.
    Execute,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Join => "the process cannot enter its cgroup",
            Self::Prepare => "the process cannot be prepared",
            Self::Execute => "the program cannot be executed",
        })
    }
}

/// The open files by which a child enters a cgroup.
struct Entry {
    /// Its directory in the unified hierarchy.
    unified: Option<OwnedFd>,
    /// Its `cgroup.procs` there, for kernels that cannot make a child in a cgroup.
    unified_procs: Option<File>,
    /// Its `tasks` in each hierarchy of version 1.
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
        // Processor time last: where there is little of it, as little as possible is done with that.
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

    /// What the child writes `0`, itself, to.
    fn joins(&self) -> Vec<c_int> {
        let files = self.unified_procs.iter().chain(&self.tasks);
        files.map(AsRawFd::as_raw_fd).collect()
    }
}

/// Everything that the child reads, made beforehand, since it may not allocate: another thread may hold the
/// allocator's lock and will not run in the child.
struct Plan {
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: c_int,
    stdio: [c_int; 3],
    open_files: Option<libc::rlimit>,
    joins: *const c_int,
    joins_length: usize,
    /// What failed, in the child: a [`Step`] by its place, and the error's number. 0: nothing yet.
    failed_step: AtomicI32,
    failed_errno: AtomicI32,
}

/// Starts a process, in a cgroup or in that of the calling thread. Waits until its program is executed.
///
/// # Errors
/// [`SpawnError`]; then no process is left.
pub fn spawn(command: &Command<'_>, group: Option<&Cgroup>) -> Result<Child, SpawnError> {
    let null = null().map_err(SpawnError::Prepare)?;
    let stdio = command
        .stdio
        .map(|file| high(file.unwrap_or_else(|| null.as_fd())));
    let [input, output, error] = stdio;
    let stdio = [input?, output?, error?];
    let directory = high(command.directory)?;
    let arguments = pointers(command.arguments.iter().copied());
    let environment = pointers(command.environment.iter().map(CString::as_c_str));
    let mut made_inside = clone::can_make_inside_cgroups();
    let mut refused = false;
    loop {
        let entry = Entry::open(group, made_inside)?;
        let joins = entry.joins();
        let plan = Plan {
            program: command.program.as_ptr(),
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            directory: directory.as_raw_fd(),
            stdio: stdio.each_ref().map(AsRawFd::as_raw_fd),
            open_files: command
                .open_files
                .map(|(rlim_cur, rlim_max)| libc::rlimit { rlim_cur, rlim_max }),
            joins: joins.as_ptr(),
            joins_length: joins.len(),
            failed_step: AtomicI32::new(0),
            failed_errno: AtomicI32::new(0),
        };
        match start(&plan, entry.unified.as_ref().map(AsFd::as_fd)) {
            Err(SpawnError::Clone(error)) if made_inside && clone::is_refusal_of_call(&error) => {
                // An older kernel, or one behind a filter that knows no such call.
                (made_inside, refused) = (false, true);
            }
            result => {
                if refused && result.is_ok() {
                    // What the one call cannot and the other can is not asked for again.
                    clone::never_make_inside_cgroups();
                }
                return result;
            }
        }
    }
}

/// `/dev/null`, opened once.
fn null() -> io::Result<&'static File> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null);
    }
    let null = File::options().read(true).write(true).open("/dev/null")?;
    Ok(NULL.get_or_init(|| null))
}

/// The descriptors 0 to 2 are about to be replaced in the child: what it needs must lie above.
fn high(file: BorrowedFd<'_>) -> Result<OwnedFd, SpawnError> {
    let copy = fcntl(file, FcntlArg::F_DUPFD_CLOEXEC(3));
    let copy = copy.map_err(|errno| SpawnError::Prepare(errno.into()))?;
    #[expect(unsafe_code, reason = "nix gives the new descriptor as a number")]
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The strings' addresses, ended by a null pointer, as the kernel wants them.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*const c_char> {
    strings.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

#[expect(unsafe_code, reason = "a child that shares our memory")]
fn start(plan: &Plan, unified: Option<BorrowedFd<'_>>) -> Result<Child, SpawnError> {
    let blocked = BlockedSignals::block().map_err(SpawnError::Prepare)?;
    let request = Request {
        entry: run_child,
        argument: ptr::from_ref(plan).cast_mut().cast(),
        cgroup: unified.map(|unified| unified.as_raw_fd()),
    };
    // SAFETY: `run_child` only reads the plan, which outlives it since this call returns when the child has executed or
    // ended; it makes only calls that are allowed between fork and exec, and never returns to a caller. Signals are
    // blocked, so that no handler of ours runs in the child on our memory.
    let cloned = unsafe { clone::clone(&request) };
    drop(blocked);
    let (pid, handle) = cloned.map_err(SpawnError::Clone)?;
    let step = match plan.failed_step.load(Ordering::Acquire) {
        0 => return Ok(Child { pid, handle }),
        1 => Step::Join,
        2 => Step::Prepare,
        _ => Step::Execute,
    };
    reap(&handle);
    Err(SpawnError::Child {
        step,
        source: io::Error::from_raw_os_error(plan.failed_errno.load(Ordering::Acquire)),
    })
}

/// Waits for a child that is ending.
fn reap(handle: &OwnedFd) {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let id = libc::id_t::try_from(handle.as_raw_fd()).unwrap_or(libc::id_t::MAX);
        #[expect(unsafe_code, reason = "waiting by handle")]
        // SAFETY: info is writable and large enough.
        let result = unsafe { libc::waitid(libc::P_PIDFD, id, info.as_mut_ptr(), libc::WEXITED) };
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        // Any other error: somebody else has reaped it.
        if result == 0 || !interrupted {
            return;
        }
    }
}

/// All signals that can be are blocked for the calling thread, until this is dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    #[expect(unsafe_code, reason = "signal sets are filled in by C functions")]
    fn block() -> io::Result<Self> {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: sigfillset makes the first set valid, pthread_sigmask the second if it succeeds.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            match libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) {
                0 => Ok(Self(before.assume_init())),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

impl Drop for BlockedSignals {
    #[expect(unsafe_code, reason = "a signal set goes back to the kernel")]
    fn drop(&mut self) {
        // SAFETY: the set is the one that the kernel gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// The child's whole life before its program. Allocates nothing, takes no lock, cannot panic: it runs on our memory
/// while our thread waits.
extern "C" fn run_child(argument: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the argument is a plan by our own contract")]
    // SAFETY: `start` passes a plan that lives until the child has executed or ended.
    let plan = unsafe { &*argument.cast::<Plan>().cast_const() };
    let step = become_program(plan);
    plan.failed_errno.store(last_errno(), Ordering::Release);
    plan.failed_step.store(step, Ordering::Release);
    #[expect(unsafe_code, reason = "a child may not run our exit handlers")]
    // SAFETY: ends this process only, without touching memory.
    unsafe {
        libc::_exit(127)
    }
}

fn last_errno() -> c_int {
    #[expect(unsafe_code, reason = "the thread's error number")]
    // SAFETY: the address is that of the thread-local number, which the waiting parent does not use.
    unsafe {
        *libc::__errno_location()
    }
}

/// Returns only when something failed: the number of the [`Step`].
#[expect(unsafe_code, reason = "only direct system calls are allowed here")]
fn become_program(plan: &Plan) -> c_int {
    const JOIN: c_int = 1;
    const PREPARE: c_int = 2;
    const EXECUTE: c_int = 3;
    default_signals();
    // SAFETY: these take integers only.
    if unsafe { libc::setsid() < 0 || libc::fchdir(plan.directory) < 0 } {
        return PREPARE;
    }
    if let Some(limit) = &plan.open_files {
        // SAFETY: the kernel reads a structure that the plan keeps alive. Limits are this process's own, not shared with
        // ours.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, ptr::from_ref(limit)) } != 0 {
            return PREPARE;
        }
    }
    // As late as possible: from now on it has the processor time of its cgroup, which may be next to nothing. Before the
    // standard descriptors are replaced, since these files may have their numbers.
    for index in 0..plan.joins_length {
        // SAFETY: the index is within the array, which the plan keeps alive, and the data is one byte long.
        let written = unsafe { libc::write(*plan.joins.add(index), c"0".as_ptr().cast(), 1) };
        if written != 1 {
            return JOIN;
        }
    }
    // SAFETY: these take integers only.
    unsafe {
        let [input, output, error] = plan.stdio;
        if libc::dup2(input, 0) < 0 || libc::dup2(output, 1) < 0 || libc::dup2(error, 2) < 0 {
            return PREPARE;
        }
        if libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) != 0 {
            for descriptor in 3..CLOSE_MAX {
                libc::close(descriptor);
            }
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset makes the set valid; strings and arrays of the plan are alive and ended as execve wants them.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        libc::execve(plan.program, plan.arguments, plan.environment);
    }
    EXECUTE
}

/// The child has a table of dispositions of its own; what is ignored in it would stay ignored in the program. Asked of the
/// kernel itself, since glibc keeps two signals back that a process may have been started with ignored.
#[expect(unsafe_code, reason = "a direct system call")]
fn default_signals() {
    /// The kernel's signal set (`_NSIG / 8`).
    const SET_BYTES: usize = 8;
    // The kernel's structure is smaller. Zeroes are the default disposition, no flags, an empty mask.
    let default = [0_u64; 8];
    for signal in 1..=SIGNAL_MAX {
        // SAFETY: the kernel reads less than the array has. Numbers that cannot be changed are refused, which is fine.
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
