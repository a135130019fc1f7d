//! Circuit breaker of the recovery: work that was in progress when the agent crashed, twice in a
//! row, is not begun a third time. Pure: records in, a judgement out.
//!
//! | last end | in progress at it and at the crash before | judgement |
//! |---|---|---|
//! | in order, or by an order from outside | | everything goes on at once |
//! | crash | nothing | adoptions go on; the others follow once these have gone well |
//! | crash | one work, which nothing else was beside now | it fails |
//! | crash | several, or one beside others | all go on one after the other |
//! | crash while one of these was tried | that work | it fails |
//!
//! A work that is tried goes on like any other; what else was in progress begins when it has gone
//! well. So a work fails only if no other that had been there before can have been at fault.

use std::collections::{BTreeMap, BTreeSet};

use records::ApplicationId;
use sched::RecoveredStage;

use super::decide::Recovered;
use super::record::{ApplicationRecord, ApplicationStage, SuspectsRecord};
use super::work::Work;

/// Knowledge that the next start needs if the agent crashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Works that were in progress at the last crash.
    pub last: BTreeSet<Work>,
    /// Works that this agent has begun at its start and not ended, and that no other record tells.
    pub begun: BTreeSet<Work>,
    /// The one that is tried alone; `None`: nothing is.
    pub tried: Option<Work>,
    /// Works that have not begun: they follow one after the other if one is tried, and otherwise
    /// all together.
    pub held: BTreeSet<Work>,
}

impl Suspects {
    /// Reads a record. What names no work is left out.
    #[must_use]
    pub fn of_record(record: &SuspectsRecord) -> Self {
        let read =
            |texts: &Vec<String>| texts.iter().filter_map(|text| text.parse().ok()).collect();
        Self {
            last: read(&record.last),
            begun: read(&record.begun),
            tried: record.tried.as_ref().and_then(|text| text.parse().ok()),
            held: read(&record.held),
        }
    }

    /// Returns the record; `None`: there is nothing to know.
    #[must_use]
    pub fn record(&self) -> Option<SuspectsRecord> {
        let texts = |works: &BTreeSet<Work>| works.iter().map(Work::to_string).collect();
        (*self != Self::default()).then(|| SuspectsRecord {
            last: texts(&self.last),
            begun: texts(&self.begun),
            tried: self.tried.as_ref().map(Work::to_string),
            held: texts(&self.held),
        })
    }
}

/// Works that an agent has left to the next start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Works that the records of containers and applications tell to be in progress.
    pub recorded: BTreeSet<Work>,
    /// Works that each start begins anew, and that no record of their subject tells: adoptions, and
    /// localizations for containers that wait in the queue.
    pub renewed: BTreeSet<Work>,
}

impl Pending {
    /// Returns the works for these containers and applications.
    #[must_use]
    pub fn of(
        containers: &[Recovered],
        applications: &BTreeMap<ApplicationId, ApplicationRecord>,
    ) -> Self {
        let mut pending = Self::default();
        let mut live = BTreeSet::new();
        for goes in containers {
            let name = goes.spec.id.name();
            let has_resources = !goes.context.local_resources.is_empty();
            if !matches!(goes.stage, RecoveredStage::Done(_)) {
                live.insert(goes.spec.id.application_id());
            }
            match goes.stage {
                RecoveredStage::Done(_) => {}
                RecoveredStage::Starting => drop(pending.recorded.insert(Work::Start(name))),
                RecoveredStage::Accepted if has_resources => {
                    pending.recorded.insert(Work::Start(name));
                }
                RecoveredStage::Waiting if has_resources => {
                    pending.renewed.insert(Work::Start(name));
                }
                RecoveredStage::Accepted | RecoveredStage::Waiting => {}
                RecoveredStage::Running | RecoveredStage::Paused | RecoveredStage::Killing => {
                    if goes.process.is_some() {
                        pending.renewed.insert(Work::Adoption(name));
                    }
                    if goes.record.localizing.is_some() {
                        pending.recorded.insert(Work::Start(name));
                    }
                }
            }
        }
        let ending = applications.iter().filter(|(id, application)| {
            application.stage() == ApplicationStage::Finishing && !live.contains(id)
        });
        pending
            .recorded
            .extend(ending.map(|(id, _)| Work::Upload(*id)));
        pending
    }

    fn all(&self) -> BTreeSet<Work> {
        self.recorded.union(&self.renewed).copied().collect()
    }

    /// Returns the works that had begun at the end of an agent with this record.
    fn in_progress(&self, record: &Suspects) -> BTreeSet<Work> {
        let renewed = record.begun.intersection(&self.renewed);
        let begun = self.recorded.iter().chain(renewed);
        let begun = begun.filter(|work| !record.held.contains(work));
        begun.copied().collect()
    }
}

/// How a start goes about the works of the last agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The work that fails.
    pub failed: Option<Work>,
    /// Works that go on now and later, for the next start.
    pub suspects: Suspects,
}

/// Judges the works that the last agent has left, which had this record.
#[must_use]
pub fn judge(has_crashed: bool, record: &Suspects, pending: &Pending) -> Judgement {
    let mut suspects = Suspects::default();
    let mut failed = None;
    if has_crashed {
        let now = pending.in_progress(record);
        let twice: BTreeSet<Work> = record.last.intersection(&now).copied().collect();
        let alone = twice.first().filter(|_| twice.len() == 1 && twice == now);
        failed = record.tried.filter(|tried| now.contains(tried));
        failed = failed.or(alone.copied());
        if failed.is_none() {
            suspects.held = pending.all();
            suspects.tried = twice.first().copied();
            let has_adoptions = pending.renewed.iter().any(Work::is_adoption);
            match suspects.tried {
                Some(tried) => drop(suspects.held.remove(&tried)),
                None if has_adoptions => suspects.held.retain(|work| !work.is_adoption()),
                None => suspects.held.clear(),
            }
            suspects.last = now;
        }
    }
    let begun = pending.renewed.difference(&suspects.held).copied();
    suspects.begun = begun.filter(|work| Some(*work) != failed).collect();
    Judgement { failed, suspects }
}

#[cfg(test)]
mod tests;
