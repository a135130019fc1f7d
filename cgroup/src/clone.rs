//! `clone3` with a separate stack for the child, and `clone` where the kernel has no such call.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

/// Size of the child's stack, in bytes. The child calls a handful of C functions; glibc's own spawn
/// gives 32 KiB.
const STACK_BYTES: usize = 64 * 1024;
/// Size of the guard below the stack, in bytes: an overflow faults instead of overwriting other
/// memory. A multiple of any page size.
const GUARD_BYTES: usize = 64 * 1024;

/// A child to create.
pub(crate) struct Request<'a> {
    /// Function that the child starts with. May not return.
    pub(crate) entry: extern "C" fn(*mut c_void) -> c_int,
    /// Argument of `entry`.
    pub(crate) argument: *mut c_void,
    /// Open directory of the unified hierarchy to create the child in.
    pub(crate) cgroup: Option<RawFd>,
    /// Place where the kernel writes the number of the child's pidfd before the child runs; -1
    /// until then.
    pub(crate) handle: &'a AtomicI32,
}

/// Set once the kernel has refused to create a child in a cgroup.
static CANNOT_MAKE_INSIDE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Stack of this thread's last child. The child has left it when [`clone`] returns, so the next
    /// child can use it.
    static STACK: Cell<Option<Stack>> = const { Cell::new(None) };
}

/// Returns whether to try creating a child in a cgroup: this build can, and the kernel has not
/// refused so far.
pub(crate) fn can_make_inside_cgroups() -> bool {
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
        && !CANNOT_MAKE_INSIDE.load(Ordering::Relaxed)
}

/// Records that the kernel cannot create a child in a cgroup.
pub(crate) fn never_make_inside_cgroups() {
    CANNOT_MAKE_INSIDE.store(true, Ordering::Relaxed);
}

/// Returns whether the kernel, or a seccomp filter, does not know the call or its flags.
pub(crate) fn is_refusal_of_call(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG | libc::EPERM)
    )
}

/// Creates a child that shares this process's memory. Returns its pid and a pidfd once it has
/// executed a program or exited.
///
/// # Safety
/// `entry` must be allowed to run on shared memory with `argument` while the calling thread waits:
/// it may neither return, nor unwind, nor change what other code relies on. The caller has blocked
/// signals.
#[expect(unsafe_code, reason = "system calls that make processes")]
pub(crate) unsafe fn clone(request: &Request<'_>) -> io::Result<(i32, OwnedFd)> {
    let stack = STACK.take().map_or_else(Stack::new, Ok)?;
    let handle = request.handle.as_ptr();
    // SAFETY: the caller guarantees it; the stack lives until the child has left it.
    let pid = unsafe {
        match request.cgroup {
            Some(cgroup) => clone_inside(request, &stack, cgroup, handle),
            None => clone_plain(request, &stack, handle),
        }
    };
    STACK.set(Some(stack));
    if pid.is_err() {
        // The kernel may have written a number before it failed, and closed the descriptor.
        request.handle.store(-1, Ordering::Relaxed);
    }
    let pid = pid?;
    let handle = request.handle.load(Ordering::Relaxed);
    if handle < 0 {
        // The child of this call, which nobody has waited for.
        let child = Pid::from_raw(pid);
        let _killed = kill(child, Signal::SIGKILL);
        let _reaped = waitpid(child, None);
        let why = "the kernel gives no handle of a new process (Linux 5.2 does)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // SAFETY: the kernel has created this descriptor, close-on-exec, and no other code knows it.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(handle) }))
}

const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD;

/// # Safety
/// As for [`clone`].
#[expect(unsafe_code, reason = "glibc's wrapper of clone")]
unsafe fn clone_plain(request: &Request<'_>, stack: &Stack, handle: *mut c_int) -> io::Result<i32> {
    // SAFETY: the wrapper starts `entry` on the stack's top, which is aligned to a page; the
    // handle's address, which the kernel takes in the place of the parent's, is valid.
    let pid = unsafe {
        libc::clone(
            request.entry,
            stack.top(),
            FLAGS | libc::SIGCHLD,
            request.argument,
            handle,
        )
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(pid)
}

/// # Safety
/// As for [`clone`].
#[expect(
    unsafe_code,
    reason = "glibc has no wrapper of clone3 before 2.39's spawn attribute"
)]
unsafe fn clone_inside(
    request: &Request<'_>,
    stack: &Stack,
    cgroup: RawFd,
    handle: *mut c_int,
) -> io::Result<i32> {
    let unsigned = |number: c_int| u64::try_from(number).map_err(io::Error::other);
    let mut arguments = libc::clone_args {
        flags: unsigned(FLAGS)? | CLONE_INTO_CGROUP,
        pidfd: address(handle.cast()),
        child_tid: 0,
        parent_tid: 0,
        exit_signal: unsigned(libc::SIGCHLD)?,
        stack: address(stack.bottom()),
        stack_size: u64::try_from(STACK_BYTES).map_err(io::Error::other)?,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: unsigned(cgroup)?,
    };
    // SAFETY: the structure is what the kernel expects, its addresses are valid, and the child
    // begins with `entry` on a separate stack.
    let result = unsafe { clone3(&raw mut arguments, request.entry, request.argument) };
    if result < 0 {
        let errno = i32::try_from(-result).map_err(io::Error::other)?;
        return Err(io::Error::from_raw_os_error(errno));
    }
    i32::try_from(result).map_err(io::Error::other)
}

/// Flag since Linux 5.7 (`linux/sched.h`). The libc crate has it as a number that does not fit its
/// own type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

fn address(pointer: *mut c_void) -> u64 {
    u64::try_from(pointer.addr()).expect("addresses have at most 64 bits")
}

/// Makes the system call: returns its result in the parent and calls `entry` on the new stack in
/// the child. `ENOSYS` on architectures without this code.
///
/// # Safety
/// As for [`clone`]; `arguments` must be valid and name a stack.
#[expect(
    unsafe_code,
    reason = "the child must not return on the parent's stack"
)]
unsafe fn clone3(
    arguments: *mut libc::clone_args,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> i64 {
    let result: i64;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11. The child has rax = 0 and the
    // top of its own, 16-byte aligned stack in rsp; it pushes nothing of the parent's and never
    // reaches what follows the block. The entry cannot return; should it, ud2 kills the child.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") entry,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    // SAFETY: the kernel keeps all registers but x0. The child has x0 = 0 and the top of its own,
    // 16-byte aligned stack in sp, and never reaches what follows the block. The entry cannot
    // return; should it, brk kills the child.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x30, xzr",
            "mov x0, x21",
            "blr x20",
            "brk #1",
            "2:",
            inlateout("x0") arguments => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x8") libc::SYS_clone3,
            in("x20") entry,
            in("x21") argument,
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (arguments, entry, argument);
        result = -i64::from(libc::ENOSYS);
    }
    result
}

/// Mapped memory for a child's stack, with a guard below. Unmapped on drop.
struct Stack(*mut c_void);

#[expect(unsafe_code, reason = "mapped memory")]
impl Stack {
    fn new() -> io::Result<Self> {
        let length = GUARD_BYTES + STACK_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping anywhere.
        let base = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self(base);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the range lies within this mapping.
        if unsafe { libc::mprotect(stack.bottom(), STACK_BYTES, access) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(stack)
    }

    fn bottom(&self) -> *mut c_void {
        // SAFETY: within the mapping.
        unsafe { self.0.add(GUARD_BYTES) }
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the mapping's end.
        unsafe { self.0.add(GUARD_BYTES + STACK_BYTES) }
    }
}

impl Drop for Stack {
    #[expect(unsafe_code, reason = "mapped memory")]
    fn drop(&mut self) {
        // SAFETY: this mapping, which no code uses any more: the child has executed or exited.
        unsafe { libc::munmap(self.0, GUARD_BYTES + STACK_BYTES) };
    }
}
