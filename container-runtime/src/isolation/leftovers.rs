//! Cgroups that could not be removed when their containers ended, or when the agent started: a
//! process in them waits for a device and does not even die. Their removal is retried.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cgroup::Cgroup;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use threads::ThreadOwner;

/// Most cgroups to be retried. More than a few mean a device that hangs, and then no containers
/// start any more.
const LEFT_MAX: usize = 1_024;
/// Time between two retries.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Queue of cgroups whose removal is retried.
#[derive(Clone, Debug)]
pub(super) struct Leftovers {
    _thread: Arc<ThreadOwner>,
    left: Sender<Cgroup>,
}

impl Leftovers {
    /// Starts the thread that retries; it ends when the last handle is dropped.
    pub(super) fn start() -> io::Result<Self> {
        let (left, retried) = bounded(LEFT_MAX);
        let thread = ThreadOwner::shared("cgroup-leftover", move || serve(&retried))?;
        Ok(Self {
            _thread: thread,
            left,
        })
    }

    /// Queues a cgroup.
    pub(super) fn leave(&self, group: Cgroup) {
        match self.left.try_send(group) {
            Ok(()) => {}
            Err(TrySendError::Full(group) | TrySendError::Disconnected(group)) => {
                tracing::warn!(paths = ?group.paths(), "a cgroup stays until the next start");
            }
        }
    }
}

/// Retries until the last [`Leftovers`] is gone.
fn serve(retried: &Receiver<Cgroup>) {
    let mut left = Left::new();
    let mut next_try = Instant::now();
    loop {
        let received = if left.0.is_empty() {
            next_try = Instant::now() + RETRY_INTERVAL;
            retried
                .recv()
                .map_err(|_gone| RecvTimeoutError::Disconnected)
        } else {
            retried.recv_deadline(next_try)
        };
        match received {
            Ok(group) => {
                if let Some(group) = left.add(group) {
                    tracing::warn!(paths = ?group.paths(), "a cgroup stays until the next start");
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let removed = left.retry(|group| group.destroy(Duration::ZERO).is_ok());
                next_try = Instant::now() + RETRY_INTERVAL;
                if removed > 0 {
                    tracing::info!(
                        removed,
                        left = left.0.len(),
                        "cgroups that were left behind are removed"
                    );
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Cgroups to be retried, at most [`LEFT_MAX`].
struct Left<G>(Vec<G>);

impl<G> Left<G> {
    fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds one, or gives it back if there are too many.
    fn add(&mut self, group: G) -> Option<G> {
        if self.0.len() >= LEFT_MAX {
            return Some(group);
        }
        self.0.push(group);
        None
    }

    /// Drops those that can be removed now; returns how many.
    fn retry(&mut self, mut remove: impl FnMut(&G) -> bool) -> usize {
        let before = self.0.len();
        self.0.retain(|group| !remove(group));
        before - self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_removed_is_tried_again_until_it_can() {
        let mut left = Left::new();
        for group in 1..=3 {
            assert_eq!(left.add(group), None);
        }
        assert_eq!(left.retry(|_| false), 0);
        assert_eq!(left.retry(|group| *group == 2), 1);
        assert_eq!(left.0, [1, 3]);
        assert_eq!(left.retry(|_| true), 2);
        assert_eq!(left.retry(|_| panic!("none is left")), 0);
    }

    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let mut left = Left::new();
        for group in 0..LEFT_MAX {
            assert_eq!(left.add(group), None);
        }
        assert_eq!(left.add(LEFT_MAX), Some(LEFT_MAX));
    }
}
