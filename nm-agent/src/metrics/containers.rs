//! Counters and histograms of what containers go through: localization, queue, launch, eviction, end.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};
use sched::{Completion, Note};

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{
    CacheUse, CallOutcome, Direction, How, LaunchPhase, Outcome, RejectLabel, TypeLabel,
};

/// Seconds. A launch takes milliseconds when all is well, half a minute on a machine that swaps.
const LAUNCH_BUCKETS: [f64; 13] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];
/// Seconds. A queued container waits for others to end, which takes up to hours. Run times are of the same order.
const QUEUE_BUCKETS: [f64; 12] = [
    0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0,
];
/// Seconds. From links into the cache to gigabytes over a slow network.
const LOCALIZATION_BUCKETS: [f64; 10] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// See the help texts.
#[derive(Debug)]
pub(super) struct ContainerSeries {
    queued: PerLabel<TypeLabel, IntCounter>,
    starts: PerLabel<TypeLabel, IntCounter>,
    resumes: IntCounter,
    queue_wait_seconds: PerLabel<TypeLabel, Histogram>,
    evictions: PerLabel<How, IntCounter>,
    evicted_run_seconds: PerLabel<How, Histogram>,
    sheds: IntCounter,
    rejections: PerLabel<RejectLabel, IntCounter>,
    type_changes: PerLabel<Direction, IntCounter>,
    completions: PerPair<TypeLabel, Outcome, IntCounter>,
    launch_seconds: PerLabel<LaunchPhase, Histogram>,
    launch_failures: IntCounter,
    localizations: PerLabel<CallOutcome, IntCounter>,
    localization_seconds: Histogram,
    resources: PerLabel<CacheUse, IntCounter>,
    resource_bytes: PerLabel<CacheUse, IntCounter>,
}

impl ContainerSeries {
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
            resumes: maker.counter(
                "nm_agent_container_resumes_total",
                "Times that a paused container was thawed.",
            ),
            queue_wait_seconds: maker.histograms(
                "nm_agent_container_queue_wait_seconds",
                "From ready to run until handed to the launcher.",
                &QUEUE_BUCKETS,
            ),
            evictions: maker.counters(
                "nm_agent_container_evictions_total",
                "Running opportunistic containers that made room for a guaranteed one.",
            ),
            evicted_run_seconds: maker.histograms(
                "nm_agent_container_evicted_run_seconds",
                "How long evicted containers had run: work that a kill throws away.",
                &QUEUE_BUCKETS,
            ),
            sheds: maker.counter(
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
            completions: maker.counter_pairs(
                "nm_agent_container_completions_total",
                "Containers that ended, by their type at the end.",
            ),
            launch_seconds: maker.histograms(
                "nm_agent_container_launch_seconds",
                "Parts of a launch; total is from startContainers until the process exists.",
                &LAUNCH_BUCKETS,
            ),
            launch_failures: maker.counter(
                "nm_agent_container_launch_failures_total",
                "Launches that brought no process about.",
            ),
            localizations: maker.counters(
                "nm_agent_localizations_total",
                "Containers whose resources were localized, or one could not be had.",
            ),
            localization_seconds: maker.histogram(
                "nm_agent_localization_seconds",
                "From the order until all resources of a container are there.",
                &LOCALIZATION_BUCKETS,
            ),
            resources: maker.counters(
                "nm_agent_localized_resources_total",
                "Local resources that containers got.",
            ),
            resource_bytes: maker.counters(
                "nm_agent_localized_bytes_total",
                "Size of the local resources that containers got.",
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
                ..
            } => {
                self.starts.of(execution_type).inc();
                self.queue_wait_seconds
                    .of(execution_type)
                    .observe(seconds(queue_wait_ms));
            }
            Note::Rejected { reason, .. } => self.rejections.of(reason).inc(),
            Note::Shed { .. } => self.sheds.inc(),
            Note::Evicted { paused, ran_ms, .. } => {
                let how = if paused { How::Pause } else { How::Kill };
                self.evictions.of(how).inc();
                self.evicted_run_seconds.of(how).observe(seconds(ran_ms));
            }
            Note::Promoted(_) => self.type_changes.of(Direction::Promotion).inc(),
            Note::Demoted(_) => self.type_changes.of(Direction::Demotion).inc(),
        }
    }

    pub(super) fn observe_completion(&self, completion: &Completion) {
        let outcome = Outcome::from(completion.exit_status);
        self.completions
            .of(completion.execution_type.into(), outcome)
            .inc();
    }

    pub(super) fn observe_launch(&self, phase: LaunchPhase, took: Duration) {
        self.launch_seconds.of(phase).observe(took.as_secs_f64());
    }

    pub(super) fn count_launch_failure(&self) {
        self.launch_failures.inc();
    }

    pub(super) fn observe_resource(&self, cache: CacheUse, bytes: u64) {
        self.resources.of(cache).inc();
        self.resource_bytes.of(cache).inc_by(bytes);
    }

    pub(super) fn observe_localization(&self, outcome: CallOutcome, took: Duration) {
        self.localizations.of(outcome).inc();
        match outcome {
            CallOutcome::Ok => self.localization_seconds.observe(took.as_secs_f64()),
            // A refused or cancelled localization says nothing about how long one takes.
            CallOutcome::Error => {}
        }
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}
