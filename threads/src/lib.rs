//! Threads that serve until their owner ends them.
//!
//! - [`ThreadOwner`]: single threads. One that returns earlier leaves its queue to nobody, as one
//!   that panics does. So it panics instead, and whoever watches the program's threads for panics
//!   gets both.
//! - [`Pool`]: as many threads as have something to do, for jobs that wait for a disk or a peer
//!
//! Owns the record of whether an end is due, and the number of a pool's threads. In: what a thread
//! does. Out: the thread. May not know any other crate of the workspace.

mod pool;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

pub use pool::{Pool, PoolConfig, Work};

/// Owner of threads. Its threads may end once it is dropped or has [ended](Self::end) them, so it
/// is dropped before the channel whose end they notice.
#[derive(Debug, Default)]
pub struct ThreadOwner {
    is_ended: Arc<AtomicBool>,
}

impl ThreadOwner {
    /// Allows the threads to end.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
    }

    /// Returns whether the threads may end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    /// Starts the only thread of an owner that several handles share.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn shared(name: &str, serve: impl FnOnce() + Send + 'static) -> io::Result<Arc<Self>> {
        let owner = Self::default();
        owner.start(name, serve)?;
        Ok(Arc::new(owner))
    }

    /// Starts a thread that does `serve`, which returns only once the threads may end.
    ///
    /// # Errors
    /// The system cannot start another thread.
    ///
    /// # Panics
    /// The new thread does, when `serve` returns before the threads may end.
    pub fn start(
        &self,
        name: &str,
        serve: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let is_ended = Arc::clone(&self.is_ended);
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || {
            serve();
            assert!(
                is_ended.load(Ordering::Acquire),
                "it has returned before its owner ended it"
            );
        })
    }
}

impl Drop for ThreadOwner {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn panic_of(thread: JoinHandle<()>) -> String {
        let payload = thread.join().unwrap_err();
        (*payload.downcast::<&str>().unwrap()).to_owned()
    }

    #[test]
    fn a_thread_that_returns_before_its_owner_ends_it_panics() {
        let owner = ThreadOwner::default();
        let first = owner.start("first", || {}).unwrap();
        assert!(panic_of(first).contains("before its owner"));
    }

    #[test]
    fn a_thread_that_ends_with_its_channel_does_not_panic() {
        struct Handle {
            owner: ThreadOwner,
            jobs: mpsc::Sender<()>,
        }
        let (jobs, queued) = mpsc::channel::<()>();
        let owner = ThreadOwner::default();
        let thread = owner.start("first", move || queued.iter().for_each(drop));
        let handle = Handle { owner, jobs };
        handle.jobs.send(()).unwrap();
        assert!(!handle.owner.has_ended());
        drop(handle);
        thread.unwrap().join().unwrap();
    }
}
