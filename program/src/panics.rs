//! Threads that end by a panic, as a reason to end the program.
//!
//! A thread that has panicked leaves its queue to nobody: the program would be half alive. So the
//! first thread that ends so is reported. Two kinds of panics are not: one that the thread
//! survives, as its code expects of foreign code, and one inside a task of the runtime, whose owner
//! gets it with the task's result.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::thread;

use tokio::sync::mpsc;

thread_local! {
    /// Last panic of this thread. Dropped when the thread ends.
    static LAST: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// A panic that is reported when its thread ends.
struct Panicked {
    /// Taken by the report.
    description: Option<String>,
    ended: mpsc::UnboundedSender<String>,
}

impl Panicked {
    /// Drops a panic that the thread survived.
    fn forget(mut self) {
        self.description = None;
    }
}

impl Drop for Panicked {
    fn drop(&mut self) {
        if let Some(description) = self.description.take() {
            // The program may be ending already.
            let _ending = self.ended.send(description);
        }
    }
}

/// Receiver of the threads of this process that ended by a panic.
#[derive(Debug)]
pub struct PanickedThreads(mpsc::UnboundedReceiver<String>);

impl PanickedThreads {
    /// Watches all threads from now on. May be called once in a process.
    #[must_use]
    pub fn watch() -> Self {
        let (ended, threads) = mpsc::unbounded_channel();
        let log_and_print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            log_and_print(info);
            if tokio::task::try_id().is_none() {
                let panicked = Panicked {
                    description: Some(describe(info)),
                    ended: ended.clone(),
                };
                // A panic while the thread's variables are dropped has nowhere to wait.
                let _late = LAST.try_with(|last| {
                    if let Some(survived) = last.borrow_mut().replace(panicked) {
                        survived.forget();
                    }
                });
            }
        }));
        Self(threads)
    }

    /// Returns a description of the next such thread: name, place and message.
    pub async fn next(&mut self) -> String {
        match self.0.recv().await {
            Some(description) => description,
            // Another hook has replaced this one.
            None => std::future::pending().await,
        }
    }
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name").to_owned();
    let place = info
        .location()
        .map_or_else(String::new, |at| format!(" at {at}"));
    let message = info.payload_as_str().unwrap_or("no message");
    format!("thread {name} panicked{place}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one test of the hook, which belongs to the whole process.
    #[tokio::test]
    async fn the_end_of_a_thread_by_a_panic_is_reported_and_nothing_else() {
        let mut threads = PanickedThreads::watch();
        let survivor = thread::spawn(|| {
            let survived = std::panic::catch_unwind(|| panic!("by foreign code"));
            assert!(survived.is_err());
            panic!("by its own");
        });
        assert!(tokio::spawn(async { panic!("in a task") }).await.is_err());
        let blocking = tokio::task::spawn_blocking(|| panic!("in blocking work"));
        assert!(blocking.await.is_err());
        thread::Builder::new()
            .name("well".to_owned())
            .spawn(|| {})
            .unwrap()
            .join()
            .unwrap();
        assert!(survivor.join().is_err());
        let ended = threads.next().await;
        assert!(ended.ends_with("by its own"), "{ended}");
        assert!(ended.contains("program/src/panics.rs"), "{ended}");
        let named = thread::Builder::new().name("deletion-1".to_owned());
        assert!(named.spawn(|| panic!("again")).unwrap().join().is_err());
        let ended = threads.next().await;
        assert!(
            ended.starts_with("thread deletion-1 panicked at"),
            "{ended}"
        );
    }
}
