//! Series of Spark's shuffle, one of each for each service, read from their counts when scraped.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use node_view::outcome::CallOutcome;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec};

use super::family::Maker;
use super::labels::Label as _;

/// Label of the service's name.
const SERVICE: &str = "service";

/// Counts of a service since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct SparkShuffleReading {
    /// Bytes of blocks that were sent.
    pub block_bytes: u64,
    /// Blocks that were sent.
    pub blocks_ok: u64,
    /// Blocks that could not be found or sent whole.
    pub blocks_failed: u64,
    /// Executors that are registered.
    pub executors: u64,
    /// Open connections.
    pub connections: u64,
}

type Read = dyn Fn() -> SparkShuffleReading + Send + Sync;

/// See the help texts.
pub(super) struct SparkShuffleSeries {
    block_bytes: IntCounterVec,
    blocks: IntCounterVec,
    executors: IntGaugeVec,
    connections: IntGaugeVec,
    watched: Mutex<Vec<(String, Box<Read>)>>,
}

impl SparkShuffleSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            block_bytes: maker.named_counters(
                "nm_agent_spark_shuffle_block_bytes_total",
                "Bytes of blocks sent to Spark's clients.",
                &[SERVICE],
            ),
            blocks: maker.named_counters(
                "nm_agent_spark_shuffle_blocks_total",
                "Blocks asked for by Spark's clients, by whether they were sent.",
                &[SERVICE, CallOutcome::NAME],
            ),
            executors: maker.named_gauges(
                "nm_agent_spark_shuffle_executors",
                "Executors of Spark that are registered.",
                SERVICE,
            ),
            connections: maker.named_gauges(
                "nm_agent_spark_shuffle_connections",
                "Open connections of Spark's clients.",
                SERVICE,
            ),
            watched: Mutex::default(),
        }
    }

    pub(super) fn watch(&self, service: String, read: Box<Read>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.push((service, read));
    }

    pub(super) fn refresh(&self) {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for (service, read) in watched.iter() {
            let now = read();
            let service = service.as_str();
            raise(
                &self.block_bytes.with_label_values(&[service]),
                now.block_bytes,
            );
            let blocks =
                |outcome: CallOutcome| self.blocks.with_label_values(&[service, outcome.value()]);
            raise(&blocks(CallOutcome::Ok), now.blocks_ok);
            raise(&blocks(CallOutcome::Error), now.blocks_failed);
            let set = |gauges: &IntGaugeVec, value| {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                gauges.with_label_values(&[service]).set(value);
            };
            set(&self.executors, now.executors);
            set(&self.connections, now.connections);
        }
    }
}

fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

impl fmt::Debug for SparkShuffleSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SparkShuffleSeries").finish_non_exhaustive()
    }
}
