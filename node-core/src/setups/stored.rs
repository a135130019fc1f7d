//! Setups in records: what the next agent is told, and what an earlier one has told.

use std::collections::BTreeMap;
use std::sync::Arc;

use launch_context::HeldContext;
use localize::{LocalizedResource, SetNumber};
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;

use super::{Resources, Setups};
use crate::recovery::{LocalizingRecord, RestartingRecord, SetupRecord, StateRecord};
use crate::setup_state::{NextContext, Setup, SetupState};

impl Setups {
    /// Returns the setups of a container of an earlier agent, with a launch context if it may be
    /// launched. `has_links`: it has links to the resources that its record names.
    pub(crate) fn restored(
        context: Option<Arc<HeldContext>>,
        record: &StateRecord,
        has_links: bool,
    ) -> Self {
        let mut setups = Self::new(context);
        setups.has_resources = record.used_resources().next().is_some();
        let held = setups.context.as_mut().and_then(Arc::get_mut);
        // Older records do not name the links.
        let is_known = has_links && record.links.len() == record.resources.len();
        if let Some(held) = held.filter(|_| is_known) {
            held.context.resources.clear();
            setups.localized = localized_of(&record.links, &record.resources);
        }
        setups
    }

    /// Takes the other setups that a record names. Their launch contexts are found by their
    /// numbers, and held by `hold`.
    pub(crate) fn restore(
        &mut self,
        record: &StateRecord,
        contexts: &BTreeMap<u64, ContainerLaunchContextProto>,
        hold: impl Fn(ContainerLaunchContextProto) -> Option<Arc<HeldContext>>,
    ) {
        self.set = SetNumber(record.context);
        self.last_set = SetNumber(contexts.keys().copied().max().unwrap_or(0));
        let hold = |number: u64| hold(contexts.get(&number)?.clone());
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
        self.previous = record.previous.as_ref().and_then(setup);
        if let Some(RestartingRecord { next, previous }) = &record.restarting {
            let next = next.as_ref().and_then(setup);
            let previous = previous.as_ref().and_then(setup);
            let restarting = next.map(|next| SetupState::Restarting { next, previous });
            self.state = restarting.unwrap_or_default();
        } else if let Some(localizing) = &record.localizing {
            let next = hold(localizing.context).map(|context| NextContext {
                context,
                auto_commit: localizing.auto_commit,
                set: SetNumber(localizing.context),
            });
            self.state = next.map_or_else(SetupState::default, SetupState::Localizing);
        }
    }

    /// Returns the number and the resources of the set that an earlier agent was localizing for the
    /// next launch; `None`: it was not.
    pub(crate) fn localize_next_again(&mut self) -> Option<(SetNumber, Resources)> {
        let SetupState::Localizing(next) = &mut self.state else {
            return None;
        };
        let held = Arc::get_mut(&mut next.context);
        let resources = held.map(|held| std::mem::take(&mut held.context.resources));
        let resources = resources.unwrap_or_default();
        self.has_resources |= !resources.is_empty();
        Some((next.set, resources))
    }

    /// Sets the launch context in force, those to which it may return, and that which is to come.
    pub(crate) fn store(&self, state: &mut StateRecord) {
        state.context = self.set.0;
        state.previous = self.previous.as_ref().map(setup_record);
        match &self.state {
            SetupState::Localizing(next) => {
                state.localizing = Some(LocalizingRecord {
                    context: next.set.0,
                    auto_commit: next.auto_commit,
                });
            }
            SetupState::Restarting { next, previous } => {
                state.restarting = Some(RestartingRecord {
                    next: Some(setup_record(next)),
                    previous: previous.as_ref().map(setup_record),
                });
            }
            SetupState::InForce
            | SetupState::Fetching
            | SetupState::LaunchDue
            | SetupState::Incomplete(_) => {}
        }
    }

    /// Sets the resources in force and their links.
    pub(crate) fn store_resources(&self, state: &mut StateRecord, stored: Option<&StateRecord>) {
        (state.resources, state.links) = texts_of(&self.localized);
        // The list is dropped with the launch context, and older records did not name the links.
        let is_lost = |stored: &&StateRecord| {
            !self.has_context() || stored.links.len() < stored.resources.len()
        };
        if let (true, Some(stored)) = (state.resources.is_empty(), stored.filter(is_lost)) {
            state.resources.clone_from(&stored.resources);
            state.links.clone_from(&stored.links);
        }
    }
}

fn setup_record(setup: &Setup) -> SetupRecord {
    let (resources, links) = texts_of(&setup.localized);
    SetupRecord {
        context: setup.set.0,
        resources,
        links,
    }
}

/// Returns the paths of resources and the names of their links. A path that is no text is left out.
fn texts_of(localized: &[LocalizedResource]) -> (Vec<String>, Vec<String>) {
    let texts = localized.iter().filter_map(|resource| {
        let path = resource.path.to_str()?.to_owned();
        Some((path, resource.link.clone()))
    });
    texts.unzip()
}

/// Returns resources that were localized by an earlier agent. Their sets are not kept: what comes
/// from now on is as new as the last of them.
fn localized_of(links: &[String], paths: &[String]) -> Vec<LocalizedResource> {
    let localized = links.iter().zip(paths);
    let localized = localized.map(|(link, path)| LocalizedResource {
        link: link.clone(),
        path: path.into(),
        set: SetNumber::default(),
        bytes: 0,
        was_cached: true,
    });
    localized.collect()
}
