//! What a service's history leaves to others after a call, at intervals: a copy for the thread that
//! saves, a view for readers, records for a restart of the agent.

use records::{MonoMillis, Now};
use role_history::Snapshot;

use super::view::{HistorySource, RoleHistoryView};
use super::{ServiceHistory, persisted, publish};
use crate::interceptor::Action;
use crate::store::Part;

/// Asks that name nodes of a role history in the place of any node.
pub(super) const ASKS: Part = Part::new("role-history");

/// Hosts and racks that these asks name.
pub(super) const PLACES: Part = Part::new("role-history-places");

/// Effect of a service's history outside of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Save this copy of the history, off the call's path.
    Save(Box<Snapshot>),
    /// Publish this view of the history for readers.
    Publish(Box<RoleHistoryView>),
}

/// Interval between saves, between views, and between records of the named places, in milliseconds
/// for each [`INTERVAL_ENTRIES`] entries. Each takes up to some milliseconds per so many.
const INTERVAL_MS: u64 = 1_000;

/// Most times that the interval between saves doubles while they fail.
const SAVE_BACKOFF_MAX: u32 = 6;

/// Number of entries per [`INTERVAL_MS`].
const INTERVAL_ENTRIES: usize = 10_000;

impl ServiceHistory {
    /// Returns the interval between saves, views or records of a history of this size.
    pub(super) fn interval_ms(&self) -> u64 {
        let entries = self.service.history.nodes().entries();
        let size = u64::try_from(1 + entries / INTERVAL_ENTRIES);
        INTERVAL_MS.saturating_mul(size.unwrap_or(u64::MAX))
    }

    /// Saves what changed, if the files are known and the last save was long enough ago.
    pub(super) fn save(&mut self, now: Now, is_last: bool, effects: &mut Vec<Effect>) {
        let is_ready = match self.source {
            HistorySource::Loading | HistorySource::Unavailable => false,
            HistorySource::New | HistorySource::File { .. } => true,
        };
        // A file system that is down is not asked each second.
        let interval_ms = self.interval_ms() << self.save_failures.min(SAVE_BACKOFF_MAX);
        let is_due = !self.is_saving && now.mono.since(self.saved_at) >= interval_ms;
        if is_ready
            && (is_due || is_last)
            && let Some(snapshot) = self.service.snapshot(now)
        {
            self.is_saving = true;
            self.saved_at = now.mono;
            effects.push(Effect::Save(Box::new(snapshot)));
        }
    }

    /// Publishes the view, if the last one is old enough. What changes after it comes with a later
    /// call, which every AM makes.
    pub(super) fn publish(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_fresh = |at: MonoMillis| now.mono.since(at) < self.interval_ms();
        if self.viewed_at.is_some_and(is_fresh) {
            return;
        }
        self.viewed_at = Some(now.mono);
        self.view.source = self.source;
        publish::fill(&mut self.view, &self.service);
        effects.push(Effect::Publish(Box::new(self.view.clone())));
    }

    pub(super) fn persist(&mut self, now: MonoMillis, actions: &mut Vec<Action>) {
        if !self.opt_in.is_guaranteed {
            return;
        }
        if std::mem::take(&mut self.is_unpersisted) {
            let record = persisted::encode(&self.asks);
            actions.push(Action::Persist(ASKS, record));
        }
        let is_due = |at: MonoMillis| now.since(at) >= self.interval_ms();
        if self.are_places_unpersisted && self.places_at.is_none_or(is_due) {
            self.are_places_unpersisted = false;
            self.places_at = Some(now);
            let record = persisted::encode_places(&self.asks);
            actions.push(Action::Persist(PLACES, record));
        }
    }

    pub(super) fn saved(&mut self, snapshot: &Snapshot) {
        self.is_saving = false;
        self.save_failures = 0;
        self.service.history.set_saved(snapshot);
        self.view.saved_at = Some(snapshot.history.saved);
    }
}
