//! Counters and histograms of the scheduler's decisions: which containers wait, start, are evicted,
//! shed or rejected.

use std::time::Duration;

use prometheus::{Counter, Histogram, IntCounter};
use records::ExecutionType;
use sched::Note;

use super::family::{Maker, PerLabel};
use super::labels::{
    Direction, ErrorSide, How, LossLabel, PassLabel, PauseEndLabel, RejectLabel, ShedLabel,
    TypeLabel,
};

/// Seconds. A queued container waits for others to end, which takes up to hours. Run times are of
/// the same order.
const QUEUE_BUCKETS: [f64; 12] = [
    0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0,
];

/// Seconds. Zero when resources are free; otherwise the time that a kill or a freeze takes.
const DELAY_BUCKETS: [f64; 11] = [
    0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 2.5, 30.0,
];

/// See the help texts.
#[derive(Debug)]
pub(super) struct DecisionSeries {
    queued: PerLabel<TypeLabel, IntCounter>,
    starts: PerLabel<TypeLabel, IntCounter>,
    passes: PerLabel<PassLabel, IntCounter>,
    resumes: IntCounter,
    larger_than_node: IntCounter,
    retries: IntCounter,
    waits: WaitSeries,
    evictions: PerLabel<How, IntCounter>,
    evicted_run_seconds: PerLabel<How, Histogram>,
    paused_kills: PerLabel<PauseEndLabel, IntCounter>,
    lost_work_seconds: PerLabel<LossLabel, Counter>,
    sheds: PerLabel<ShedLabel, IntCounter>,
    rejections: PerLabel<RejectLabel, IntCounter>,
    type_changes: PerLabel<Direction, IntCounter>,
}

/// How long containers wait; see the help texts.
#[derive(Debug)]
struct WaitSeries {
    queue_wait_seconds: PerLabel<TypeLabel, Histogram>,
    guaranteed_delay_seconds: Histogram,
    estimate_error_seconds: PerLabel<ErrorSide, Histogram>,
}

impl WaitSeries {
    fn new(maker: &Maker<'_>) -> Self {
        Self {
            queue_wait_seconds: maker.histograms(
                "nm_agent_container_queue_wait_seconds",
                "From ready to run until handed to the launcher.",
                &QUEUE_BUCKETS,
            ),
            guaranteed_delay_seconds: maker.histogram(
                "nm_agent_guaranteed_start_delay_seconds",
                "From a guaranteed container's being ready to run until handed to the launcher.",
                &DELAY_BUCKETS,
            ),
            estimate_error_seconds: maker.histograms(
                "nm_agent_queue_wait_estimate_error_seconds",
                "By how much the wait told to the RM was wrong for the opportunistic containers that came next.",
                &QUEUE_BUCKETS,
            ),
        }
    }
}

impl DecisionSeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            queued: maker.counters(
                "nm_agent_container_queueings_total",
                "Containers that had to wait for room.",
            ),
            starts: maker.counters(
                "nm_agent_container_starts_total",
                "Containers that the scheduler handed to the launcher.",
            ),
            passes: maker.counters(
                "nm_agent_container_passes_total",
                "Opportunistic containers that started before one that waited longer or whose turn it was.",
            ),
            resumes: maker.counter(
                "nm_agent_container_resumes_total",
                "Times that a paused container was thawed.",
            ),
            retries: maker.counter(
                "nm_agent_container_retries_total",
                "Failures of containers that are started again by their retry policy.",
            ),
            larger_than_node: maker.counter(
                "nm_agent_container_larger_than_node_starts_total",
                "Guaranteed containers larger than the node that were started alone on it.",
            ),
            waits: WaitSeries::new(maker),
            evictions: maker.counters(
                "nm_agent_container_evictions_total",
                "Running opportunistic containers that made room for a guaranteed one.",
            ),
            evicted_run_seconds: maker.histograms(
                "nm_agent_container_evicted_run_seconds",
                "How long evicted containers had run: work that a kill throws away.",
                &QUEUE_BUCKETS,
            ),
            paused_kills: maker.counters(
                "nm_agent_container_paused_kills_total",
                "Paused containers that were killed instead of thawed.",
            ),
            lost_work_seconds: maker.float_counters(
                "nm_agent_container_lost_work_seconds_total",
                "How long containers had run that were killed to make room.",
            ),
            sheds: maker.counters(
                "nm_agent_container_sheds_total",
                "Containers taken out of the queue because the RM's limit dropped.",
            ),
            rejections: maker.counters(
                "nm_agent_container_rejections_total",
                "Opportunistic containers that were not admitted to the queue.",
            ),
            type_changes: maker.counters(
                "nm_agent_container_type_changes_total",
                "Containers whose execution type was changed.",
            ),
        }
    }

    pub(super) fn observe_note(&self, note: &Note) {
        match *note {
            Note::Queued { execution_type, .. } => self.queued.of(execution_type).inc(),
            Note::Started { resumed: true, .. } => self.resumes.inc(),
            Note::Started {
                execution_type,
                queue_wait_ms,
                reported_wait_ms,
                ..
            } => {
                self.starts.of(execution_type).inc();
                let wait = seconds(queue_wait_ms);
                self.waits
                    .queue_wait_seconds
                    .of(execution_type)
                    .observe(wait);
                if execution_type == ExecutionType::Guaranteed {
                    self.waits.guaranteed_delay_seconds.observe(wait);
                }
                if let Some(estimated_ms) = reported_wait_ms {
                    let side = if estimated_ms < queue_wait_ms {
                        ErrorSide::TooShort
                    } else {
                        ErrorSide::TooLong
                    };
                    let error = seconds(estimated_ms.abs_diff(queue_wait_ms));
                    self.waits.estimate_error_seconds.of(side).observe(error);
                }
            }
            Note::Passed { reason, .. } => self.passes.of(reason).inc(),
            Note::LargerThanNode { .. } => self.larger_than_node.inc(),
            Note::Rejected { reason, .. } => self.rejections.of(reason).inc(),
            Note::Shed { reason, .. } => self.sheds.of(reason).inc(),
            Note::Evicted { paused, ran_ms, .. } => {
                let how = if paused { How::Pause } else { How::Kill };
                self.evictions.of(how).inc();
                self.evicted_run_seconds.of(how).observe(seconds(ran_ms));
                if !paused {
                    self.lost_work_seconds
                        .of(LossLabel::Evicted)
                        .inc_by(seconds(ran_ms));
                }
            }
            Note::PausedKilled { reason, ran_ms, .. } => {
                self.paused_kills.of(reason).inc();
                self.lost_work_seconds.of(reason).inc_by(seconds(ran_ms));
            }
            Note::Drained { ran_ms, .. } => {
                self.lost_work_seconds
                    .of(LossLabel::Drained)
                    .inc_by(seconds(ran_ms));
            }
            Note::Retried { .. } => self.retries.inc(),
            Note::Promoted(_) => self.type_changes.of(Direction::Promotion).inc(),
            Note::Demoted(_) => self.type_changes.of(Direction::Demotion).inc(),
        }
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}
