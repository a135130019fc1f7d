//! Counts of the spans of containers' traces, read when scraped.

use std::fmt;
use std::sync::OnceLock;

use prometheus::IntCounter;

use super::family::Maker;

/// Spans since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceReading {
    /// Taken by the collector.
    pub sent: u64,
    /// Dropped, because too many waited or the collector did not take them.
    pub dropped: u64,
}

type Read = dyn Fn() -> TraceReading + Send + Sync;

struct Watched {
    sent: IntCounter,
    dropped: IntCounter,
    read: Box<Read>,
}

/// See the help texts. There are no such series before [`watch`](Self::watch), where no collector
/// is configured.
#[derive(Default)]
pub(super) struct TraceSeries(OnceLock<Watched>);

impl TraceSeries {
    pub(super) fn watch(&self, maker: &Maker<'_>, read: Box<Read>) {
        self.0.get_or_init(|| Watched {
            sent: maker.counter(
                "nm_agent_trace_spans_sent_total",
                "Spans of traces that the collector has taken.",
            ),
            dropped: maker.counter(
                "nm_agent_trace_spans_dropped_total",
                "Spans of traces that were dropped: too many waited, or the collector did not take \
                 them.",
            ),
            read,
        });
    }

    pub(super) fn refresh(&self) {
        let Some(watched) = self.0.get() else {
            return;
        };
        let now = (watched.read)();
        for (counter, count) in [(&watched.sent, now.sent), (&watched.dropped, now.dropped)] {
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }
}

impl fmt::Debug for TraceSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceSeries").finish_non_exhaustive()
    }
}
