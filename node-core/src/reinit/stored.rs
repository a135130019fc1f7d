//! Re-initializations over a restart of the agent: what a record tells of one, and how it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use localize::SetNumber;
use records::{ContainerId, Now};
use sched::{ContainerState, Event};
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;

use super::{Reinit, Setup};
use crate::effect::{Effect, LocalizeFor};
use crate::recovery::{LocalizingRecord, RestartingRecord, SetupRecord, StateRecord};
use crate::restore::localized_of;
use crate::{ContainerRecord, Core};

impl Core {
    /// Gives a container of an earlier agent the setups that its record names. The launch contexts
    /// are found by their numbers.
    pub(crate) fn restore_setups(
        &self,
        own: &mut ContainerRecord,
        record: &StateRecord,
        contexts: &BTreeMap<u64, ContainerLaunchContextProto>,
    ) {
        own.set = SetNumber(record.context);
        own.last_set = SetNumber(contexts.keys().copied().max().unwrap_or(0));
        let user = Arc::clone(&own.user);
        let hold = |number: u64| self.hold_again(&user, contexts.get(&number)?.clone());
        let setup = |setup: &SetupRecord| {
            let mut context = hold(setup.context)?;
            if let Some(held) = Arc::get_mut(&mut context) {
                held.context.resources.clear();
            }
            Some(Setup {
                context,
                localized: localized_of(&setup.links, &setup.resources),
                set: SetNumber(setup.context),
            })
        };
        own.previous = record.previous.as_ref().and_then(setup);
        if let Some(RestartingRecord { next, previous }) = &record.restarting {
            let next = next.as_ref().and_then(setup);
            let previous = previous.as_ref().and_then(setup);
            own.reinit = next.map(|next| Reinit::Restarting { next, previous });
        } else if let Some(localizing) = &record.localizing {
            own.reinit = hold(localizing.context).map(|context| Reinit::Localizing {
                context,
                auto_commit: localizing.auto_commit,
                set: SetNumber(localizing.context),
            });
        }
    }

    /// Goes on where an earlier agent was with the re-initialization of a container.
    pub(crate) fn go_on_with_reinit(&mut self, id: ContainerId, now: Now) {
        let summary = self.scheduler.summary(&id);
        let runs = summary.is_some_and(|it| matches!(it.state, ContainerState::Running { .. }));
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let can_roll_back = record.previous.is_some();
        match record.reinit.take() {
            Some(Reinit::Restarting { next, previous }) if runs => {
                if let Err(error) = self.restart_with(id, next, previous, now) {
                    tracing::warn!(container = %id, %error, "not re-initialized");
                }
            }
            Some(Reinit::Localizing {
                mut context,
                auto_commit,
                set,
            }) => {
                let held = Arc::get_mut(&mut context);
                let resources = held.map(|held| std::mem::take(&mut held.context.resources));
                let resources = resources.unwrap_or_default();
                let user = Arc::clone(&record.user);
                record.has_resources |= !resources.is_empty();
                record.reinit = Some(Reinit::Localizing {
                    context,
                    auto_commit,
                    set,
                });
                self.effects.push(Effect::Localize {
                    id,
                    user,
                    resources,
                    set,
                    purpose: LocalizeFor::Reinit,
                });
            }
            other @ (Some(Reinit::Restarting { .. }) | None) => record.reinit = other,
        }
        if can_roll_back {
            self.must_feed(Event::CanRollBack { id, can_roll_back }, now);
        }
    }
}

impl Setup {
    fn record(&self) -> SetupRecord {
        let mut record = SetupRecord {
            context: self.set.0,
            ..SetupRecord::default()
        };
        for resource in &self.localized {
            if let Some(path) = resource.path.to_str() {
                record.resources.push(path.to_owned());
                record.links.push(resource.link.clone());
            }
        }
        record
    }
}

impl ContainerRecord {
    /// Sets the launch context in force, those to which it may return, and that which is to come.
    pub(crate) fn set_setups(&self, state: &mut StateRecord) {
        state.context = self.set.0;
        state.previous = self.previous.as_ref().map(Setup::record);
        match &self.reinit {
            Some(Reinit::Localizing {
                auto_commit, set, ..
            }) => {
                state.localizing = Some(LocalizingRecord {
                    context: set.0,
                    auto_commit: *auto_commit,
                });
            }
            Some(Reinit::Restarting { next, previous }) => {
                state.restarting = Some(RestartingRecord {
                    next: Some(next.record()),
                    previous: previous.as_ref().map(Setup::record),
                });
            }
            None => {}
        }
    }
}
