//! The queue of spans, and the task that sends them in batches.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use records::error_chain;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::document::document;
use crate::endpoint::{Endpoint, SendError};
use crate::span::Span;
use crate::steps::{Step, Steps};

/// Spans that wait to be sent: some seconds of a node that is kept busy. One more is dropped.
pub(crate) const QUEUE_SPANS: usize = 4096;

/// Spans of a request.
const BATCH_SPANS: usize = 512;

/// Time for which spans are gathered.
const GATHER: Duration = Duration::from_secs(1);

/// Time for a collector to take a batch, the connection included.
const SEND_LIMIT: Duration = Duration::from_secs(5);

/// Time for what waits when the agent stops.
const LAST_LIMIT: Duration = Duration::from_secs(1);

/// Pause after a batch that was not taken; doubled from one to the next.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Numbers of spans since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Taken by the collector.
    pub sent: u64,
    /// Dropped: the queue was full, or the collector did not take them.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Sender of containers' steps to the traces. Cloned for each part that tells some.
#[derive(Clone, Debug)]
pub struct Traces {
    steps: Arc<Mutex<Steps>>,
    queue: mpsc::Sender<Span>,
    counts: Arc<Counts>,
}

impl Traces {
    /// Takes in a step that is over now. Never waits.
    pub fn tell(&self, step: Step) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let spans = steps.take(step, now_ns);
        drop(steps);
        for span in spans {
            if self.queue.try_send(span).is_err() {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns the numbers so far.
    #[must_use]
    pub fn reading(&self) -> Reading {
        Reading {
            sent: self.counts.sent.load(Ordering::Relaxed),
            dropped: self.counts.dropped.load(Ordering::Relaxed),
        }
    }
}

/// The task that sends spans, before it runs.
#[derive(Debug)]
pub struct Export {
    endpoint: Endpoint,
    host: String,
    queue: mpsc::Receiver<Span>,
    counts: Arc<Counts>,
}

impl Export {
    /// Makes the task and where it is told of steps. `host` names the node.
    #[must_use]
    pub fn new(endpoint: Endpoint, host: String) -> (Self, Traces) {
        let (sender, queue) = mpsc::channel(QUEUE_SPANS);
        let counts = Arc::new(Counts::default());
        let traces = Traces {
            steps: Arc::default(),
            queue: sender,
            counts: Arc::clone(&counts),
        };
        let export = Self {
            endpoint,
            host,
            queue,
            counts,
        };
        (export, traces)
    }

    /// Sends until `stop`, and then what waits, for a second at most.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut pause = PAUSE;
        let mut batch = Vec::with_capacity(BATCH_SPANS);
        loop {
            tokio::select! {
                count = self.queue.recv_many(&mut batch, BATCH_SPANS) => if count == 0 {
                    return;
                },
                () = stop.cancelled() => break,
            }
            tokio::select! {
                () = self.gather(&mut batch) => {}
                () = stop.cancelled() => {}
            }
            let result = self.send(&batch, &stop).await;
            self.count(&batch, &result);
            batch.clear();
            let Err(error) = result else {
                pause = PAUSE;
                continue;
            };
            // Once, until the collector takes one again.
            if pause == PAUSE {
                let error = error_chain(&error);
                let endpoint = &self.endpoint;
                tracing::warn!(%endpoint, error, "the collector takes no traces; they are dropped");
            }
            tokio::select! {
                () = sleep(pause) => pause = (2 * pause).min(PAUSE_MAX),
                () = stop.cancelled() => break,
            }
        }
        while let Ok(span) = self.queue.try_recv() {
            batch.push(span);
        }
        if !batch.is_empty() {
            let result = self.send(&batch, &stop).await;
            self.count(&batch, &result);
        }
    }

    /// Sends a batch: within [`SEND_LIMIT`], and within [`LAST_LIMIT`] once the agent stops.
    async fn send(&self, batch: &[Span], stop: &CancellationToken) -> Result<(), SendError> {
        let sending = timeout(SEND_LIMIT, self.endpoint.send(document(&self.host, batch)));
        tokio::pin!(sending);
        tokio::select! {
            result = &mut sending => result?,
            () = stop.cancelled() => timeout(LAST_LIMIT, sending).await??,
        }
    }

    /// Fills the batch for [`GATHER`] at most.
    async fn gather(&mut self, batch: &mut Vec<Span>) {
        let filled = async {
            while batch.len() < BATCH_SPANS {
                let room = BATCH_SPANS - batch.len();
                if self.queue.recv_many(batch, room).await == 0 {
                    return;
                }
            }
        };
        let _filled_or_late = timeout(GATHER, filled).await;
    }

    fn count(&self, batch: &[Span], result: &Result<(), SendError>) {
        let counter = match result {
            Ok(()) => &self.counts.sent,
            Err(_) => &self.counts.dropped,
        };
        counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
