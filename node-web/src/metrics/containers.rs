//! Counters and histograms of what containers go through: localization, launch, end.

use std::time::Duration;

use node_view::outcome::{CacheUse, CallOutcome};
use prometheus::{Histogram, IntCounter};
use sched::Completion;

use super::family::{Maker, PerLabel, PerPair};
use super::labels::{Label as _, LaunchPhase, Outcome, TypeLabel};

/// Seconds. A launch takes milliseconds when all is well, half a minute on a machine that swaps.
const LAUNCH_BUCKETS: [f64; 13] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];
/// Seconds. From links into the cache to gigabytes over a slow network.
const LOCALIZATION_BUCKETS: [f64; 10] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

/// Containers that have ended since the agent started, in Hadoop's three classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnds {
    /// With exit status 0.
    pub completed: u64,
    /// Ended with another status, without an order of this node.
    pub failed: u64,
    /// Ended by an order.
    pub killed: u64,
}

impl ContainerEnds {
    fn of(&mut self, outcome: Outcome) -> &mut u64 {
        match outcome {
            Outcome::Succeeded => &mut self.completed,
            Outcome::Failed
            | Outcome::Signalled
            | Outcome::LaunchFailed
            | Outcome::LocalizationFailed
            | Outcome::Lost
            | Outcome::Unknown => &mut self.failed,
            Outcome::KilledByApplicationMaster
            | Outcome::KilledByResourceManager
            | Outcome::KilledAfterApplication
            | Outcome::KilledByContainerScheduler
            | Outcome::Preempted
            | Outcome::ExceededMemory
            | Outcome::ExceededLogs => &mut self.killed,
        }
    }
}

/// Launches that worked since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Launches {
    /// Number of launches.
    pub count: u64,
    /// How long they took together, from `startContainers` until the process existed.
    pub seconds: f64,
}

/// Localizations since the agent started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Localizations {
    /// Containers whose resources all came.
    pub count: u64,
    /// How long they took together.
    pub seconds: f64,
    /// Resources that were in the cache.
    pub hits: Resources,
    /// Resources that were downloaded.
    pub misses: Resources,
}

/// Local resources that containers got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Number of resources.
    pub files: u64,
    /// Size of the files on the disk, in bytes.
    pub bytes: u64,
}

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

    pub(super) fn ends(&self) -> ContainerEnds {
        let mut ends = ContainerEnds::default();
        for execution_type in TypeLabel::ALL {
            for outcome in Outcome::ALL {
                let count = self.completions.of(*execution_type, *outcome).get();
                *ends.of(*outcome) += count;
            }
        }
        ends
    }

    pub(super) fn launches(&self) -> Launches {
        let total = self.launch_seconds.of(LaunchPhase::Total);
        Launches {
            count: total.get_sample_count(),
            seconds: total.get_sample_sum(),
        }
    }

    pub(super) fn localizations(&self) -> Localizations {
        let resources = |cache| Resources {
            files: self.resources.of(cache).get(),
            bytes: self.resource_bytes.of(cache).get(),
        };
        Localizations {
            count: self.localization_seconds.get_sample_count(),
            seconds: self.localization_seconds.get_sample_sum(),
            hits: resources(CacheUse::Hit),
            misses: resources(CacheUse::Miss),
        }
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
            // A refused or cancelled localization shows nothing about how long one takes.
            CallOutcome::Error => {}
        }
    }
}
