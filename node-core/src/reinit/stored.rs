//! Re-initializations over a restart of the agent: what a record tells of one, and how it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use localize::SetNumber;
use records::{ContainerId, Now};
use sched::{ContainerState, Event};
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;

use crate::effect::{Effect, LocalizeFor};
use crate::recovery::{LocalizingRecord, RestartingRecord, SetupRecord, StateRecord};
use crate::restore::localized_of;
use crate::setup_state::{NextContext, Setup, SetupState};
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
        let user = own.user.clone();
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
            let restarting = next.map(|next| SetupState::Restarting { next, previous });
            own.setup_state = restarting.unwrap_or_default();
        } else if let Some(localizing) = &record.localizing {
            let next = hold(localizing.context).map(|context| NextContext {
                context,
                auto_commit: localizing.auto_commit,
                set: SetNumber(localizing.context),
            });
            own.setup_state = next.map_or_else(SetupState::default, SetupState::Localizing);
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
        match &mut record.setup_state {
            SetupState::Restarting { .. } if runs => {
                if let Err(error) = self.end_for_restart(id, now) {
                    tracing::warn!(container = %id, %error, "not re-initialized");
                }
            }
            SetupState::Localizing(next) => {
                let set = next.set;
                let held = Arc::get_mut(&mut next.context);
                let resources = held.map(|held| std::mem::take(&mut held.context.resources));
                let resources = resources.unwrap_or_default();
                let user = record.user.clone();
                record.has_resources |= !resources.is_empty();
                self.effects.push(Effect::Localize {
                    id,
                    user,
                    resources,
                    set,
                    purpose: LocalizeFor::Reinit,
                });
            }
            SetupState::Restarting { .. }
            | SetupState::InForce
            | SetupState::Fetching
            | SetupState::LaunchDue
            | SetupState::Incomplete(_) => {}
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
        match &self.setup_state {
            SetupState::Localizing(next) => {
                state.localizing = Some(LocalizingRecord {
                    context: next.set.0,
                    auto_commit: next.auto_commit,
                });
            }
            SetupState::Restarting { next, previous } => {
                state.restarting = Some(RestartingRecord {
                    next: Some(next.record()),
                    previous: previous.as_ref().map(Setup::record),
                });
            }
            SetupState::InForce
            | SetupState::Fetching
            | SetupState::LaunchDue
            | SetupState::Incomplete(_) => {}
        }
    }
}
