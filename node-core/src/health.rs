//! The node's health: what looks at it reports here, and heartbeats and pages have the sum.
//!
//! As in Hadoop (`NodeHealthCheckerService`), the node is healthy if all of them find it so; its
//! report is theirs, joined by `;` in the order disks, scripts, launches. A drain adds its words to
//! the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use health_script::Verdict;
use localize::DisksReport;
use node_view::snapshot::{DirNumbers, NodeHealth};
use records::{EpochMillis, MonoMillis, Now};

use super::Core;
use super::launch_health::LaunchHealth;

/// Finding of what looks at the node's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthEvent {
    /// All directories were checked.
    Disks(DisksReport),
    /// A health script has run.
    Script {
        /// Index of the script among the configured ones.
        index: usize,
        /// Verdict of the run.
        verdict: Verdict,
    },
}

/// Last finding of one part.
#[derive(Clone, Debug)]
struct Finding {
    is_healthy: bool,
    report: String,
    at: EpochMillis,
}

/// Last findings of all parts.
#[derive(Debug, Default)]
pub(super) struct Health {
    disks: Option<Finding>,
    /// By the index of the script; one that has not run yet is missing.
    scripts: BTreeMap<usize, Finding>,
    /// Outcomes of launches, and what they say of the node; `None` before the first complaint.
    launches: (LaunchHealth, Option<Finding>),
}

impl Health {
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        let scripts = self.scripts.values();
        self.disks.iter().chain(scripts).chain(&self.launches.1)
    }

    /// Returns the time at which a launch may be tried again.
    pub(super) fn next_deadline(&self) -> Option<MonoMillis> {
        self.launches.0.deadline()
    }

    /// Returns the sum; `None` before the first finding.
    fn sum(&self) -> Option<NodeHealth> {
        let reports = self.findings().map(|finding| finding.report.as_str());
        let reports: Vec<_> = reports.filter(|report| !report.is_empty()).collect();
        Some(NodeHealth {
            healthy: self.findings().all(|finding| finding.is_healthy),
            report: reports.join(";"),
            updated_at: self.findings().map(|finding| finding.at).max()?,
        })
    }
}

fn figures(numbers: localize::DirNumbers) -> DirNumbers {
    DirNumbers {
        bad: numbers.bad,
        good_utilization_percent: numbers.good_utilization_percent,
    }
}

impl Core {
    pub(super) fn health_looked_at(&mut self, event: HealthEvent, now: Now) {
        let about = Arc::make_mut(&mut self.config.about);
        match event {
            HealthEvent::Disks(disks) => {
                about.local_dirs = figures(disks.local);
                about.log_dirs = figures(disks.log);
                about.log_roots = disks.readable_log_dirs;
                self.health.disks = Some(Finding {
                    is_healthy: disks.is_healthy,
                    report: disks.report,
                    at: now.wall,
                });
            }
            HealthEvent::Script { index, verdict } => {
                let finding = Finding {
                    is_healthy: verdict.is_healthy,
                    report: verdict.report,
                    at: now.wall,
                };
                self.health.scripts.insert(index, finding);
            }
        }
        self.add_up_health();
    }

    /// Counts a launch: a process was started, or the node itself lacked something.
    pub(super) fn launch_outcome(&mut self, outcome: Result<(), &str>, now: Now) {
        match outcome {
            Ok(()) => self.health.launches.0.succeeded(),
            Err(cause) => self.health.launches.0.failed(cause, now.mono),
        }
        self.judge_launches(now);
    }

    /// Counts the node as healthy again after a pause, until the next launch shows what it is.
    pub(super) fn probe_launches(&mut self, now: Now) {
        self.health.launches.0.tick(now.mono);
        self.judge_launches(now);
    }

    fn judge_launches(&mut self, now: Now) {
        let (launches, finding) = &mut self.health.launches;
        let complaint = launches.complaint();
        let is_healthy = complaint.is_none();
        if finding.as_ref().is_none_or(|before| before.is_healthy) == is_healthy {
            return;
        }
        *finding = Some(Finding {
            is_healthy,
            report: complaint.unwrap_or_default(),
            at: now.wall,
        });
        self.add_up_health();
    }

    /// Makes the sum of all findings known.
    pub(super) fn add_up_health(&mut self) {
        let about = Arc::make_mut(&mut self.config.about);
        let Some(mut sum) = self.health.sum() else {
            return;
        };
        if let Some(drain) = &self.drain {
            drain.add_to(&mut sum);
        }
        let before = std::mem::replace(&mut about.health, sum);
        let (health, report) = (about.health.healthy, &about.health.report);
        if before.healthy != health {
            if health {
                tracing::info!("this node is healthy again");
            } else {
                tracing::error!(report, "this node is unhealthy");
            }
        }
        if before.report != *report {
            self.journal_changed();
        }
    }
}
