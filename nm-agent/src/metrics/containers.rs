//! Counters and histograms of what containers go through: localization, launch, end.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};
use sched::Completion;

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{CacheUse, CallOutcome, LaunchPhase, Outcome, TypeLabel};

/// Seconds. A launch takes milliseconds when all is well, half a minute on a machine that swaps.
const LAUNCH_BUCKETS: [f64; 13] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];
/// Seconds. From links into the cache to gigabytes over a slow network.
const LOCALIZATION_BUCKETS: [f64; 10] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// See the help texts.
#[derive(Debug)]
pub(super) struct ContainerSeries {
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
