//! Condition of the node: its health, its drain, and what pages show of it.
//!
//! What looks at the health reports here, and heartbeats and pages have the sum. As in Hadoop
//! (`NodeHealthCheckerService`), the node is healthy if all of them find it so; its report is
//! theirs, joined by `;` in the order disks, scripts, launches, services. A drain adds its words to
//! the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use health_script::Verdict;
use localize::DisksReport;
use node_view::snapshot::{About, DirNumbers, NodeHealth, RecoveryNotice};
use records::{EpochMillis, MonoMillis, Now};

use crate::drain::Drain;
use crate::launch_health::LaunchHealth;

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
    /// The host of auxiliary services does not stay up, or does so again.
    AuxServices {
        /// Whether it stays up.
        is_healthy: bool,
        /// Reason if it does not.
        report: String,
    },
}

/// Last finding of one part.
#[derive(Clone, Debug)]
struct Finding {
    is_healthy: bool,
    report: String,
    at: EpochMillis,
}

/// Condition of the node.
#[derive(Debug)]
pub(crate) struct Condition {
    /// Facts about the node that pages show, with the sum of all findings.
    about: Arc<About>,
    disks: Option<Finding>,
    /// By the index of the script; one that has not run yet is missing.
    scripts: BTreeMap<usize, Finding>,
    /// Outcomes of launches, and what they say of the node; `None` before the first complaint.
    launches: (LaunchHealth, Option<Finding>),
    /// `None` before the first finding.
    services: Option<Finding>,
    /// Drain that an operator has ordered.
    drain: Option<Drain>,
}

/// Whether pages look different after a change of the node's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Shows(pub(crate) bool);

impl Condition {
    /// Returns the condition of a node that nobody has looked at.
    pub(crate) fn new(about: Arc<About>) -> Self {
        Self {
            about,
            disks: None,
            scripts: BTreeMap::new(),
            launches: Default::default(),
            services: None,
            drain: None,
        }
    }

    /// Returns the facts about the node.
    pub(crate) const fn about(&self) -> &Arc<About> {
        &self.about
    }

    /// Returns the notice on works of an earlier agent, to be changed.
    pub(crate) fn recovery_notice(&mut self) -> &mut RecoveryNotice {
        &mut Arc::make_mut(&mut self.about).recovery
    }

    /// Returns the drain in force; `None`: the node is in service.
    pub(crate) const fn drain(&self) -> Option<&Drain> {
        self.drain.as_ref()
    }

    /// Drains the node, or puts it into service.
    pub(crate) fn set_drain(&mut self, drain: Option<Drain>) -> Shows {
        Arc::make_mut(&mut self.about).drain = drain.as_ref().map(Drain::notice);
        self.drain = drain;
        self.add_up()
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        let scripts = self.scripts.values();
        let others = self.launches.1.iter().chain(&self.services);
        self.disks.iter().chain(scripts).chain(others)
    }

    /// Returns the time at which a launch may be tried again.
    pub(crate) fn next_deadline(&self) -> Option<MonoMillis> {
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

    /// Takes a finding.
    pub(crate) fn looked_at(&mut self, event: HealthEvent, now: Now) -> Shows {
        let about = Arc::make_mut(&mut self.about);
        match event {
            HealthEvent::Disks(disks) => {
                about.local_dirs = figures(disks.local);
                about.log_dirs = figures(disks.log);
                about.log_roots = disks.readable_log_dirs;
                self.disks = Some(Finding {
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
                self.scripts.insert(index, finding);
            }
            HealthEvent::AuxServices { is_healthy, report } => {
                self.services = Some(Finding {
                    is_healthy,
                    report,
                    at: now.wall,
                });
            }
        }
        self.add_up()
    }

    /// Counts a launch: a process was started, or the node itself lacked something.
    pub(crate) fn launch_outcome(&mut self, outcome: Result<(), &str>, now: Now) -> Shows {
        match outcome {
            Ok(()) => self.launches.0.succeeded(),
            Err(cause) => self.launches.0.failed(cause, now.mono),
        }
        self.judge_launches(now)
    }

    /// Counts the node as healthy again after a pause, until the next launch shows what it is.
    pub(crate) fn probe_launches(&mut self, now: Now) -> Shows {
        self.launches.0.tick(now.mono);
        self.judge_launches(now)
    }

    fn judge_launches(&mut self, now: Now) -> Shows {
        let (launches, finding) = &mut self.launches;
        let complaint = launches.complaint();
        let is_healthy = complaint.is_none();
        if finding.as_ref().is_none_or(|before| before.is_healthy) == is_healthy {
            return Shows(false);
        }
        *finding = Some(Finding {
            is_healthy,
            report: complaint.unwrap_or_default(),
            at: now.wall,
        });
        self.add_up()
    }

    /// Makes the sum of all findings known.
    fn add_up(&mut self) -> Shows {
        let Some(mut sum) = self.sum() else {
            return Shows(false);
        };
        if let Some(drain) = &self.drain {
            drain.add_to(&mut sum);
        }
        let about = Arc::make_mut(&mut self.about);
        let before = std::mem::replace(&mut about.health, sum);
        let (health, report) = (about.health.healthy, &about.health.report);
        if before.healthy != health {
            if health {
                tracing::info!("this node is healthy again");
            } else {
                tracing::error!(report, "this node is unhealthy");
            }
        }
        Shows(before.report != *report)
    }
}

fn figures(numbers: localize::DirNumbers) -> DirNumbers {
    DirNumbers {
        bad: numbers.bad,
        good_utilization_percent: numbers.good_utilization_percent,
    }
}
