//! One value that all requests share: taken from the node's owner at a bounded rate, one at a time.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Age up to which health checks and scrapes share a value: at most four are taken in a second for
/// any number of clients.
const RECENT_AGE_MAX: Duration = Duration::from_millis(250);

/// Least time between two values taken for readers who need the present: at most twenty a second.
const CURRENT_INTERVAL: Duration = Duration::from_millis(50);

/// A reader's demand on the age of a shared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// At most [`RECENT_AGE_MAX`] old.
    Recent,
    /// Taken after the reader asked. A client that has just started a container sees it.
    Current,
}

/// A value with its age. The lock is held while the next one is taken, so that requests that arrive
/// meanwhile share that one; it is the only work done under the lock.
#[derive(Debug)]
pub(super) struct Shared<T> {
    last: Mutex<Option<Taken<T>>>,
}

#[derive(Debug)]
struct Taken<T> {
    /// Time just before `value` was asked for.
    at: Instant,
    value: T,
}

impl<T: Clone> Shared<T> {
    pub(super) fn new() -> Self {
        Self {
            last: Mutex::new(None),
        }
    }

    /// Returns the last value, if it is fresh enough, or what `take` gives; `None` when that does.
    pub(super) async fn get(
        &self,
        freshness: Freshness,
        take: impl AsyncFnOnce() -> Option<T>,
    ) -> Option<T> {
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(last) = &*last {
            let fresh = match freshness {
                Freshness::Recent => last.at.elapsed() < RECENT_AGE_MAX,
                Freshness::Current => last.at > asked_at,
            };
            if fresh {
                return Some(last.value.clone());
            }
            sleep_until(last.at + CURRENT_INTERVAL).await;
        }
        let at = Instant::now();
        let value = take().await?;
        *last = Some(Taken {
            at,
            value: value.clone(),
        });
        Some(value)
    }
}

/// Bound on the rate of what requests cannot share: one at a time, and at most twenty a second.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Time just before the last one was asked for.
    last: Mutex<Option<Instant>>,
}

impl Pace {
    /// Returns what `take` gives, when it is its turn.
    pub(super) async fn take<T>(&self, take: impl AsyncFnOnce() -> T) -> T {
        let mut last = self.last.lock().await;
        if let Some(last) = *last {
            sleep_until(last + CURRENT_INTERVAL).await;
        }
        *last = Some(Instant::now());
        take().await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;

    /// A shared number of how often it was taken; taking it lasts 5 ms.
    struct Counter {
        shared: Shared<u32>,
        taken: AtomicU32,
    }

    impl Counter {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                shared: Shared::new(),
                taken: AtomicU32::new(0),
            })
        }

        async fn get(&self, freshness: Freshness) -> u32 {
            let take = async || {
                sleep(Duration::from_millis(5)).await;
                Some(self.taken.fetch_add(1, Ordering::Relaxed) + 1)
            };
            self.shared.get(freshness, take).await.unwrap()
        }

        /// Lets 30 clients ask without a pause for a second; returns how often the value was taken.
        async fn taken_by_many(self: &Arc<Self>, freshness: Freshness) -> u32 {
            let end = Instant::now() + Duration::from_secs(1);
            let mut clients = JoinSet::new();
            for _ in 0..30 {
                let counter = Arc::clone(self);
                clients.spawn(async move {
                    while Instant::now() < end {
                        counter.get(freshness).await;
                        sleep(Duration::from_millis(1)).await;
                    }
                });
            }
            clients.join_all().await;
            self.taken.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_scrapers_cost_a_few_values_a_second() {
        let taken = Counter::new().taken_by_many(Freshness::Recent).await;
        assert!((4..=5).contains(&taken), "{taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn many_readers_cost_a_bounded_number_of_values_a_second() {
        let taken = Counter::new().taken_by_many(Freshness::Current).await;
        assert!((15..=21).contains(&taken), "{taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_shared_is_taken_at_a_bounded_rate() {
        let pace = Pace::default();
        let begun = Instant::now();
        for _ in 0..21 {
            pace.take(async || ()).await;
        }
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_current_value_is_taken_after_it_was_asked_for() {
        let counter = Counter::new();
        assert_eq!(counter.get(Freshness::Recent).await, 1);
        assert_eq!(counter.get(Freshness::Current).await, 2);
        assert_eq!(counter.get(Freshness::Recent).await, 2);
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_value_that_cannot_be_had() {
        let shared = Shared::<u32>::new();
        assert_eq!(shared.get(Freshness::Recent, async || None).await, None);
        let taken = shared.get(Freshness::Recent, async || Some(1)).await;
        assert_eq!(taken, Some(1));
    }
}
