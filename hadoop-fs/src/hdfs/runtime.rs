//! The runtime on which the HDFS client performs its calls.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, io};

use tokio::runtime::{Builder, Handle};

/// Runtime that all open file systems share. Exists while there is one: an idle program has no
/// thread for it.
///
/// A call that exceeds its limit may leave a task with a socket inside the client. So the runtime
/// is then retired: file systems that are opened later get another, and the tasks and sockets end
/// with the last file system of this one.
#[derive(Default)]
pub(super) struct Runtimes(Mutex<Weak<Runtime>>);

/// A runtime with one thread, which ends with its last user.
pub(super) struct Runtime(Option<tokio::runtime::Runtime>);

/// Reason for which a call has no result.
pub(super) enum Broken {
    /// The limit is over.
    TimedOut,
    /// The client panicked.
    Panicked,
}

impl Runtimes {
    pub(super) fn get(&self) -> io::Result<Arc<Runtime>> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = current.upgrade() {
            return Ok(runtime);
        }
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("hadoop-fs");
        let runtime = Arc::new(Runtime(Some(builder.enable_all().build()?)));
        *current = Arc::downgrade(&runtime);
        Ok(runtime)
    }

    /// Gives file systems that are opened from now on another runtime than this.
    pub(super) fn retire(&self, runtime: &Arc<Runtime>) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ptr() == Arc::as_ptr(runtime) {
            *current = Weak::new();
        }
    }
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtimes")
    }
}

impl Runtime {
    /// Performs a call of the client and waits for its result, for at most `limit`. The call is a
    /// task, so a panic in the client ends the call alone.
    pub(super) fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Broken> {
        let Some(runtime) = &self.0 else {
            return Err(Broken::TimedOut);
        };
        let task = runtime.spawn(async move { tokio::time::timeout(limit, call).await });
        match runtime.block_on(task) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_elapsed)) => Err(Broken::TimedOut),
            Err(_panic) => Err(Broken::Panicked),
        }
    }

    pub(super) fn handle(&self) -> Option<Handle> {
        Some(self.0.as_ref()?.handle().clone())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Does not wait: a name that is being resolved may take long.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
