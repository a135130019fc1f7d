//! Children that run [`Command::before_exec`](crate::Command::before_exec) and have not executed
//! their program yet, while the thread that made each waits.
//!
//! A child that has changed its user can be stopped by that user's other processes. Nothing but a
//! signal ends the wait then, so somebody has to look for such children now and then.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, pidfd_send_signal};

/// The children, as many as threads that make one.
static STARTING: Mutex<Vec<Arc<Start>>> = Mutex::new(Vec::new());

/// A child from its creation to its program.
#[derive(Debug)]
struct Start {
    since: Instant,
    /// Number of the child's pidfd, written by the kernel when the child is made; -1 before.
    handle: AtomicI32,
}

/// Entry of a child in the list, until dropped. The pidfd must stay open that long.
#[derive(Debug)]
pub(crate) struct Starting(Arc<Start>);

impl Starting {
    /// Adds a child that is about to be made.
    pub(crate) fn add() -> Self {
        let start = Arc::new(Start {
            since: Instant::now(),
            handle: AtomicI32::new(-1),
        });
        list().push(Arc::clone(&start));
        Self(start)
    }

    /// Returns the place for the number of the child's pidfd.
    pub(crate) fn handle(&self) -> &AtomicI32 {
        &self.0.handle
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        list().retain(|start| !Arc::ptr_eq(start, &self.0));
    }
}

fn list() -> MutexGuard<'static, Vec<Arc<Start>>> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Continues (SIGCONT) children that have changed their user and not executed their program within
/// `limit`, since a process of that user may have stopped them. Returns their number.
pub fn continue_late_children(limit: Duration) -> usize {
    // Signalled under the lock: no entry goes, and so no pidfd is closed, meanwhile.
    let children = list();
    let late = children
        .iter()
        .filter(|start| start.since.elapsed() >= limit);
    let continued = late.filter(|start| {
        let handle = start.handle.load(Ordering::Relaxed);
        if handle < 0 {
            return false;
        }
        #[expect(unsafe_code, reason = "the kernel writes the descriptor as a number")]
        // SAFETY: the thread that made the child removes the entry before it closes the pidfd.
        // Where the kernel closes one, having failed after it wrote the number, the number may be
        // that of a later descriptor for a moment: nothing is read or closed by it, and the signal
        // at worst continues another process.
        let handle = unsafe { BorrowedFd::borrow_raw(handle) };
        pidfd_send_signal(handle, Signal::CONT).is_ok()
    });
    continued.count()
}
