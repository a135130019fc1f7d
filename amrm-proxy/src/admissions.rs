//! The table of attempts that have a pipeline, and of the AMs among them that have started. Pure.
//!
//! ```text
//!         begin_start         mark_started
//!   (none) ──────────▶ pending ──────────▶ started: ends the pipelines of lower attempts
//!      ▲                  │                   │
//!      └──────────────────┴───────────────────┘
//!        its last start      a higher attempt has started,
//!        was refused         or the application ends
//! ```
//!
//! A start may still be refused after the proxy has seen it, may arrive twice, and two starts may
//! overtake each other. So no pipeline ends because a start has arrived: only because another has
//! succeeded, or because no start is left that could.

use std::collections::BTreeMap;
use std::sync::Arc;

use records::{ApplicationAttemptId, ApplicationId};

/// Pipeline of an attempt, and the state of its starts.
#[derive(Debug)]
struct Entry<P> {
    pipeline: Arc<P>,
    /// Starts of the AM whose outcome is open.
    starts: usize,
    has_started: bool,
}

/// Reason for which an attempt gets no pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionRefusal {
    /// The table is full.
    Full,
    /// This later attempt of the application has started.
    Superseded(ApplicationAttemptId),
}

/// Table of pipelines by attempt. Owns the decision which pipeline begins and which ends.
#[derive(Debug)]
pub(crate) struct Admissions<P> {
    by_attempt: BTreeMap<ApplicationAttemptId, Entry<P>>,
    max: usize,
}

/// Returns the range of all attempts of one application, in their order.
fn attempts_of(application_id: ApplicationId) -> std::ops::RangeInclusive<ApplicationAttemptId> {
    let attempt = |attempt_id| ApplicationAttemptId {
        application_id,
        attempt_id,
    };
    attempt(i32::MIN)..=attempt(i32::MAX)
}

impl<P> Admissions<P> {
    /// Makes an empty table for at most `max` pipelines.
    pub(crate) const fn new(max: usize) -> Self {
        Self {
            by_attempt: BTreeMap::new(),
            max,
        }
    }

    /// Notes a new start of this attempt's AM and returns its pipeline, made by `make` if there is
    /// none. A call of [`settle_start`](Self::settle_start) follows for each start.
    pub(crate) fn begin_start(
        &mut self,
        attempt: ApplicationAttemptId,
        make: impl FnOnce() -> Arc<P>,
    ) -> Result<Arc<P>, AdmissionRefusal> {
        if let Some(entry) = self.by_attempt.get_mut(&attempt) {
            entry.starts += 1;
            return Ok(Arc::clone(&entry.pipeline));
        }
        if let Some(later) = self.later_started(attempt) {
            return Err(AdmissionRefusal::Superseded(later));
        }
        if self.by_attempt.len() >= self.max {
            return Err(AdmissionRefusal::Full);
        }
        let pipeline = make();
        let entry = Entry {
            pipeline: Arc::clone(&pipeline),
            starts: 1,
            has_started: false,
        };
        self.by_attempt.insert(attempt, entry);
        Ok(pipeline)
    }

    /// Marks the AM of this pipeline as started. Removes and returns the pipelines that end by
    /// that: those of earlier attempts.
    pub(crate) fn mark_started(
        &mut self,
        attempt: ApplicationAttemptId,
        pipeline: &Arc<P>,
    ) -> Vec<Arc<P>> {
        let Some(entry) = self.entry(attempt, pipeline) else {
            return Vec::new();
        };
        entry.has_started = true;
        let earlier = attempts_of(attempt.application_id);
        let ended = self.by_attempt.range(*earlier.start()..attempt);
        let ended: Vec<_> = ended.map(|(attempt, _)| *attempt).collect();
        self.remove(ended)
    }

    /// Notes that the outcome of one start is known. Removes and returns the pipeline if no start
    /// of it has succeeded and none is open.
    pub(crate) fn settle_start(
        &mut self,
        attempt: ApplicationAttemptId,
        pipeline: &Arc<P>,
    ) -> Option<Arc<P>> {
        let entry = self.entry(attempt, pipeline)?;
        entry.starts = entry.starts.saturating_sub(1);
        let is_over = entry.starts == 0 && !entry.has_started;
        is_over.then(|| self.remove(vec![attempt]).pop())?
    }

    /// Removes and returns the pipelines of an application that has ended.
    pub(crate) fn end(&mut self, id: ApplicationId) -> Vec<Arc<P>> {
        let attempts = self.by_attempt.range(attempts_of(id));
        let attempts = attempts.map(|(attempt, _)| *attempt).collect();
        self.remove(attempts)
    }

    /// Returns the pipeline of this attempt, whether its AM has started or is about to.
    pub(crate) fn get(&self, attempt: ApplicationAttemptId) -> Option<&Arc<P>> {
        self.by_attempt.get(&attempt).map(|entry| &entry.pipeline)
    }

    /// Iterates over all pipelines, in the order of their attempts.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Arc<P>> {
        self.by_attempt.values().map(|entry| &entry.pipeline)
    }

    /// Returns the entry of this pipeline; `None` also when the attempt has another pipeline by
    /// now.
    fn entry(&mut self, attempt: ApplicationAttemptId, pipeline: &Arc<P>) -> Option<&mut Entry<P>> {
        let entry = self.by_attempt.get_mut(&attempt)?;
        Arc::ptr_eq(&entry.pipeline, pipeline).then_some(entry)
    }

    /// Returns the later attempt of the application whose AM has started, for an attempt that has
    /// no pipeline. There is one at most: its start has ended the earlier ones.
    fn later_started(&self, attempt: ApplicationAttemptId) -> Option<ApplicationAttemptId> {
        let all = attempts_of(attempt.application_id);
        let mut later = self.by_attempt.range(attempt..=*all.end());
        let (later, _) = later.find(|(_, entry)| entry.has_started)?;
        Some(*later)
    }

    fn remove(&mut self, attempts: Vec<ApplicationAttemptId>) -> Vec<Arc<P>> {
        let removed = attempts
            .into_iter()
            .filter_map(|attempt| self.by_attempt.remove(&attempt));
        removed.map(|entry| entry.pipeline).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attempt(attempt_id: i32) -> ApplicationAttemptId {
        test_support::ids::application(1).attempt(attempt_id)
    }

    type Names = Admissions<i32>;

    fn begin(admissions: &mut Names, attempt_id: i32) -> Arc<i32> {
        let made = admissions.begin_start(attempt(attempt_id), || Arc::new(attempt_id));
        made.unwrap()
    }

    #[test]
    fn a_start_that_is_refused_ends_no_other_attempt() {
        let mut admissions = Names::new(10);
        let first = begin(&mut admissions, 1);
        admissions.mark_started(attempt(1), &first);
        let second = begin(&mut admissions, 2);
        assert_eq!(admissions.settle_start(attempt(2), &second), Some(second));
        assert_eq!(admissions.get(attempt(1)), Some(&first));
    }

    #[test]
    fn a_start_that_succeeds_ends_the_attempts_before_it() {
        let mut admissions = Names::new(10);
        let first = begin(&mut admissions, 1);
        admissions.mark_started(attempt(1), &first);
        let second = begin(&mut admissions, 2);
        assert_eq!(admissions.mark_started(attempt(2), &second), [first]);
        let late = admissions.begin_start(attempt(1), || Arc::new(1));
        assert_eq!(late, Err(AdmissionRefusal::Superseded(attempt(2))));
    }

    #[test]
    fn an_attempt_that_started_too_late_ends_no_other() {
        let mut admissions = Names::new(10);
        let first = begin(&mut admissions, 1);
        let second = begin(&mut admissions, 2);
        assert_eq!(
            admissions.mark_started(attempt(2), &second),
            [Arc::clone(&first)]
        );
        assert_eq!(admissions.mark_started(attempt(1), &first), []);
        let mut admissions = Names::new(10);
        let third = begin(&mut admissions, 3);
        admissions.mark_started(attempt(3), &third);
        assert_eq!(admissions.mark_started(attempt(1), &first), []);
    }

    #[test]
    fn of_two_deliveries_the_refused_one_leaves_the_started_one_alone() {
        let mut admissions = Names::new(10);
        let first = begin(&mut admissions, 1);
        let again = begin(&mut admissions, 1);
        assert!(Arc::ptr_eq(&first, &again));
        admissions.mark_started(attempt(1), &again);
        assert_eq!(admissions.settle_start(attempt(1), &again), None);
        assert_eq!(admissions.settle_start(attempt(1), &first), None);
        assert!(admissions.get(attempt(1)).is_some());
    }

    #[test]
    fn what_was_over_before_concerns_no_pipeline_of_later() {
        let mut admissions = Names::new(10);
        let old = begin(&mut admissions, 1);
        assert_eq!(admissions.end(attempt(1).application_id).len(), 1);
        let new = begin(&mut admissions, 1);
        assert_eq!(admissions.settle_start(attempt(1), &old), None);
        assert_eq!(admissions.get(attempt(1)), Some(&new));
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let mut admissions = Names::new(2);
        begin(&mut admissions, 1);
        begin(&mut admissions, 2);
        let refused = admissions.begin_start(attempt(3), || Arc::new(3));
        assert_eq!(refused, Err(AdmissionRefusal::Full));
        begin(&mut admissions, 2);
    }

    proptest! {
        /// Starts in any order and with any outcome: the latest attempt that started has its
        /// pipeline, and when all outcomes are known no other attempt has one.
        #[test]
        fn the_latest_attempt_that_started_stays(
            steps in prop::collection::vec((0..6_usize, 1..4_i32, any::<bool>()), 1..40),
        ) {
            let mut admissions = Names::new(10);
            let mut open: Vec<(i32, Arc<i32>)> = Vec::new();
            let mut latest = None;
            for (kind, attempt_id, succeeds) in steps {
                if kind < 3 || open.is_empty() {
                    if let Ok(pipeline) = admissions.begin_start(attempt(attempt_id), || Arc::new(attempt_id)) {
                        open.push((attempt_id, pipeline));
                    }
                } else {
                    let (id, pipeline) = open.swap_remove(kind % open.len());
                    if succeeds {
                        admissions.mark_started(attempt(id), &pipeline);
                        latest = latest.max(Some(id));
                    }
                    admissions.settle_start(attempt(id), &pipeline);
                }
                if let Some(latest) = latest {
                    prop_assert!(admissions.get(attempt(latest)).is_some());
                }
            }
            for (id, pipeline) in open {
                admissions.settle_start(attempt(id), &pipeline);
            }
            let left: Vec<i32> = admissions.pipelines().map(|pipeline| **pipeline).collect();
            prop_assert_eq!(left, Vec::from_iter(latest));
        }
    }
}
