//! Threads for calls that may wait for a KDC or a name server.

use std::fmt;

use crossbeam_channel::{Sender, TrySendError, bounded};
use threads::ThreadOwner;
use wire::gssapi::GssError;

/// Number of threads. A call that a silent KDC blocks keeps one of them after its caller has given
/// up.
const THREADS: usize = 4;

/// Calls that wait for a thread. A node has one connection to prove at a time, so a full queue
/// means that the name service or all KDCs are silent; further calls are refused.
const QUEUE_LENGTH_MAX: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// The threads and their queue. They end when this is dropped and the queue is empty.
pub(crate) struct Workers {
    // Before the queue, whose end the threads notice.
    _owner: ThreadOwner,
    queue: Sender<Work>,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Starts the threads.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (queue, works) = bounded::<Work>(QUEUE_LENGTH_MAX);
        let owner = ThreadOwner::default();
        for number in 0..THREADS {
            let works = works.clone();
            let serve = move || works.iter().for_each(|work| work());
            owner.start(&format!("gssapi-{number}"), serve)?;
        }
        Ok(Self {
            _owner: owner,
            queue,
        })
    }

    pub(crate) fn submit(&self, work: Work) -> Result<(), GssError> {
        self.queue.try_send(work).map_err(|error| match error {
            TrySendError::Full(_) => GssError(format!(
                "{QUEUE_LENGTH_MAX} calls of the Kerberos library wait already"
            )),
            TrySendError::Disconnected(_) => {
                GssError("the threads of the Kerberos library have ended".to_owned())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_call_beyond_the_queue_is_refused_and_the_others_are_made() {
        let workers = Workers::start().unwrap();
        let (started, is_started) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        let (gate, wait) = bounded::<()>(0);
        let work = || {
            let (started, done, wait) = (started.clone(), done.clone(), wait.clone());
            Box::new(move || {
                started.send(()).unwrap();
                let _opened = wait.recv();
                done.send(()).unwrap();
            })
        };
        for _ in 0..THREADS {
            workers.submit(work()).unwrap();
        }
        for _ in 0..THREADS {
            is_started.recv().unwrap();
        }
        for _ in 0..QUEUE_LENGTH_MAX {
            workers.submit(work()).unwrap();
        }
        assert!(workers.submit(work()).is_err());
        drop(gate);
        for _ in 0..THREADS + QUEUE_LENGTH_MAX {
            is_done.recv().unwrap();
        }
    }
}
