//! Reports to the ResourceManager on the aggregation of logs. Pure.
//!
//! A report goes with each heartbeat until one with it is answered. A ResourceManager that comes
//! anew gets the last report of each application again (Hadoop: `NMLogAggregationStatusTracker`).

use std::collections::{BTreeMap, VecDeque};

use records::{ApplicationId, MonoMillis};
use wire::proto::hadoop_yarn::LogAggregationReportProto;

/// Reports that wait for a heartbeat. The oldest is dropped for one more; a ResourceManager that is
/// away for long gets the last ones when the node registers.
const PENDING_MAX: usize = 4096;

/// Reports in one heartbeat: some hundred bytes each.
const PER_HEARTBEAT_MAX: usize = 512;

/// Time for which the last report of an application is kept for a new ResourceManager, in
/// milliseconds (Hadoop: `yarn.log-aggregation-status.time-out.ms`).
const KEPT_MS: u64 = 600_000;

/// Reports that are kept for a new ResourceManager.
const KEPT_MAX: usize = 4096;

/// Result of one cycle of an application's aggregation on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cycle {
    /// Logs were uploaded.
    Uploaded,
    /// No logs were to upload.
    Nothing,
    /// The upload failed.
    Failed,
}

/// Report on a cycle, or on the whole aggregation of an application.
#[derive(Clone, Debug)]
pub(crate) struct LogReport {
    /// Id of the application.
    pub(crate) application: ApplicationId,
    /// Result of the cycle, or of the last one.
    pub(crate) cycle: Cycle,
    /// Whether the report is on the whole.
    pub(crate) is_end: bool,
    /// Text for people.
    pub(crate) diagnostics: String,
}

/// Reports that are due, and the last ones.
#[derive(Debug, Default)]
pub(crate) struct LogReports {
    pending: VecDeque<LogReport>,
    /// Number of reports taken off `pending` so far: a delivery names them by this count.
    taken: u64,
    last: BTreeMap<ApplicationId, (MonoMillis, LogReport)>,
    by_age: VecDeque<(MonoMillis, ApplicationId)>,
}

impl LogReports {
    /// Adds the reports of a cycle, one of the cycle and, if it is the last, one of the whole, as
    /// Hadoop does. `node` is the node's name in file names, `time` is in Java's form.
    pub(crate) fn add(
        &mut self,
        id: ApplicationId,
        cycle: Cycle,
        is_last: bool,
        (node, time): (&str, &str),
        now: MonoMillis,
    ) {
        let how = match cycle {
            Cycle::Uploaded => Some("successfully"),
            Cycle::Nothing => None,
            Cycle::Failed => Some("failed"),
        };
        let diagnostics = how.map(|how| {
            format!("Log uploaded {how} for Application: {id} in NodeManager: {node} at {time}\n")
        });
        let of_cycle = LogReport {
            application: id,
            cycle,
            is_end: false,
            diagnostics: diagnostics.unwrap_or_default(),
        };
        let end = is_last.then(|| LogReport {
            is_end: true,
            diagnostics: String::new(),
            ..of_cycle.clone()
        });
        self.push(of_cycle, now);
        if let Some(end) = end {
            self.push(end, now);
        }
    }

    fn push(&mut self, report: LogReport, now: MonoMillis) {
        let id = report.application;
        self.pending.push_back(report.clone());
        if self.pending.len() > PENDING_MAX {
            self.pending.pop_front();
            self.taken += 1;
        }
        self.last.insert(id, (now, report));
        self.by_age.push_back((now, id));
        while let Some((at, id)) = self.by_age.front().copied()
            && (at + KEPT_MS <= now || self.by_age.len() > KEPT_MAX)
        {
            self.by_age.pop_front();
            if self.last.get(&id).is_some_and(|(added, _)| *added == at) {
                self.last.remove(&id);
            }
        }
    }

    /// Returns the reports for a heartbeat, and a mark for [`LogReports::delivered`].
    #[must_use]
    pub(crate) fn for_heartbeat(&self) -> (Vec<LogAggregationReportProto>, u64) {
        let reports: Vec<_> = self
            .pending
            .iter()
            .take(PER_HEARTBEAT_MAX)
            .map(Into::into)
            .collect();
        let mark = self.taken + reports.len() as u64;
        (reports, mark)
    }

    /// Removes the reports that a heartbeat with this mark has delivered.
    pub(crate) fn delivered(&mut self, mark: u64) {
        while self.taken < mark && self.pending.pop_front().is_some() {
            self.taken += 1;
        }
    }

    /// Returns the last report of each application, for a registration.
    #[must_use]
    pub(crate) fn for_registration(&self) -> Vec<LogAggregationReportProto> {
        self.last
            .values()
            .map(|(_, report)| report.into())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::application;

    use super::*;

    fn add(reports: &mut LogReports, number: i32, cycle: Cycle, is_last: bool, now: u64) {
        let about = ("host_1", "Mon");
        reports.add(application(number), cycle, is_last, about, MonoMillis(now));
    }

    fn texts(reports: &[LogAggregationReportProto]) -> Vec<String> {
        let text = |report: &LogAggregationReportProto| {
            let id = report.application_id.as_ref().unwrap().id();
            format!(
                "{id} {:?} {}",
                report.log_aggregation_status(),
                report.diagnostics()
            )
        };
        reports.iter().map(text).collect()
    }

    #[test]
    fn reports_are_hadoops() {
        let mut reports = LogReports::default();
        add(&mut reports, 1, Cycle::Failed, false, 0);
        add(&mut reports, 1, Cycle::Uploaded, true, 0);
        add(&mut reports, 2, Cycle::Nothing, true, 0);
        let app = application(1);
        assert_eq!(
            texts(&reports.for_heartbeat().0),
            [
                format!(
                    "1 LogRunningWithFailure Log uploaded failed for Application: {app} in NodeManager: host_1 at Mon\n"
                ),
                format!(
                    "1 LogRunning Log uploaded successfully for Application: {app} in NodeManager: host_1 at Mon\n"
                ),
                "1 LogSucceeded ".to_owned(),
                "2 LogRunning ".to_owned(),
                "2 LogSucceeded ".to_owned(),
            ]
        );
        let last = texts(&reports.for_registration());
        assert_eq!(last, ["1 LogSucceeded ", "2 LogSucceeded "]);
    }

    #[test]
    fn a_report_is_repeated_until_a_heartbeat_with_it_is_answered() {
        let mut reports = LogReports::default();
        add(&mut reports, 1, Cycle::Nothing, false, 0);
        let (first, mark) = reports.for_heartbeat();
        assert_eq!(reports.for_heartbeat().0, first);
        add(&mut reports, 2, Cycle::Nothing, false, 0);
        reports.delivered(mark);
        assert_eq!(texts(&reports.for_heartbeat().0), ["2 LogRunning "]);
        reports.delivered(mark);
        assert_eq!(reports.for_heartbeat().0.len(), 1, "once for each report");
    }

    #[test]
    fn the_number_of_reports_is_bounded() {
        let mut reports = LogReports::default();
        for number in 1..=5000 {
            add(&mut reports, number, Cycle::Nothing, false, 0);
        }
        let (heartbeat, mark) = reports.for_heartbeat();
        assert_eq!(heartbeat.len(), PER_HEARTBEAT_MAX);
        assert_eq!(texts(&heartbeat)[0], "905 LogRunning ");
        reports.delivered(mark);
        assert_eq!(texts(&reports.for_heartbeat().0)[0], "1417 LogRunning ");
        assert_eq!(reports.for_registration().len(), KEPT_MAX);
        add(&mut reports, 6000, Cycle::Nothing, false, KEPT_MS);
        assert_eq!(reports.for_registration().len(), 1);
    }
}
