//! What a node and its proxy observe of containers, as steps of their traces.

use std::sync::Arc;
use std::time::Duration;

use amrm_proxy::observe::{Observation, Observer};
use node_core::Observed;
use node_view::outcome::CallOutcome;
use node_web::metrics::Metrics;
use sched::Note;
use traces::{Step, Traces};

/// Returns the step that an observation of the node's core tells of, if it tells of one.
fn step(observed: &Observed) -> Option<Step> {
    match observed {
        Observed::Accepted { id, .. } => Some(Step::Accepted(*id)),
        Observed::Localized {
            id, outcome, took, ..
        } => Some(Step::Localized {
            id: *id,
            took: *took,
            has_failed: *outcome == CallOutcome::Error,
        }),
        Observed::Note(Note::Started {
            id,
            queue_wait_ms,
            resumed,
            ..
        }) => Some(Step::Started {
            id: *id,
            waited: Duration::from_millis(*queue_wait_ms),
            is_resumed: *resumed,
        }),
        Observed::Launched { id, timings, .. } => Some(Step::Launched {
            id: *id,
            took: Duration::from_micros(timings.prepare_us.saturating_add(timings.spawn_us)),
        }),
        Observed::Completed { completion, .. } => Some(Step::Completed {
            id: completion.id,
            exit_status: completion.exit_status.0,
        }),
        Observed::Note(_)
        | Observed::StopRequested { .. }
        | Observed::Reinit { .. }
        | Observed::LogsUploaded { .. }
        | Observed::OfferAnswered { .. }
        | Observed::LaunchFailed => None,
    }
}

/// Tells the traces of what the node's core observed.
pub(crate) fn tell(traces: &Traces, observed: &Observed) {
    if let Some(step) = step(observed) {
        traces.tell(step);
    }
}

/// Observer of the proxy: its numbers, and the containers that it allocates.
#[derive(Debug)]
pub(crate) struct ProxyObserver {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Traces>,
}

impl Observer for ProxyObserver {
    fn observe(&self, observation: &Observation) {
        self.metrics.observe(observation);
        if let (Some(traces), Observation::Allocated { id, latency, .. }) =
            (&self.traces, observation)
        {
            traces.tell(Step::Allocated {
                id: *id,
                took: *latency,
            });
        }
    }
}
