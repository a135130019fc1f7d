//! Series of the MapReduce shuffle, read from its counts when scraped.

use std::fmt;
use std::sync::OnceLock;

use node_view::outcome::CallOutcome;
use prometheus::{IntCounter, IntGauge};

use super::family::{Maker, PerLabel};

/// Counts of the shuffle since its start. The names are of Hadoop's `ShuffleMetrics`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShuffleReading {
    /// Bytes of map outputs and their headers that were sent.
    pub output_bytes: u64,
    /// Map outputs that could not be found or sent whole.
    pub outputs_failed: u64,
    /// Map outputs that were sent.
    pub outputs_ok: u64,
    /// Open connections of reducers.
    pub connections: u64,
}

type Read = dyn Fn() -> ShuffleReading + Send + Sync;

/// See the help texts.
pub(super) struct ShuffleSeries {
    output_bytes: IntCounter,
    outputs: PerLabel<CallOutcome, IntCounter>,
    connections: IntGauge,
    watched: OnceLock<Box<Read>>,
}

impl ShuffleSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            output_bytes: maker.counter(
                "nm_agent_shuffle_output_bytes_total",
                "Bytes of map outputs sent to reducers.",
            ),
            outputs: maker.counters(
                "nm_agent_shuffle_outputs_total",
                "Map outputs asked for by reducers, by whether they were sent.",
            ),
            connections: maker.gauge(
                "nm_agent_shuffle_connections",
                "Open connections of reducers.",
            ),
            watched: OnceLock::new(),
        }
    }

    pub(super) fn watch(&self, read: Box<Read>) {
        let _watched_already = self.watched.set(read);
    }

    pub(super) fn read(&self) -> Option<ShuffleReading> {
        self.watched.get().map(|read| read())
    }

    pub(super) fn refresh(&self) {
        let Some(now) = self.read() else {
            return;
        };
        raise(&self.output_bytes, now.output_bytes);
        raise(self.outputs.of(CallOutcome::Ok), now.outputs_ok);
        raise(self.outputs.of(CallOutcome::Error), now.outputs_failed);
        let connections = i64::try_from(now.connections).unwrap_or(i64::MAX);
        self.connections.set(connections);
    }
}

fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

impl fmt::Debug for ShuffleSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShuffleSeries").finish_non_exhaustive()
    }
}
