//! Setups of one container: the one in force, the one that may come back, and the one to come.
//!
//! Owns launch contexts and localized resources as long as a launch may need them, and the state
//! that [`SetupState`] has for a setup. The core tells it what happens to the container and turns
//! its answers into effects and events of the scheduler.

mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use launch_context::{HeldContext, ServiceData};
use localize::{LocalizedResource, ResourceSpec, SetNumber, UsedSets, UserName};
use sched::{ContainerRetryContext, RunProfile};

use crate::setup_state::{NextContext, Setup, SetupState, Step};

/// Names of links in the work folder, each with its resource.
pub(crate) type Resources = Vec<(String, ResourceSpec)>;

/// Setups of one container.
#[derive(Debug, Default)]
pub(crate) struct Setups {
    /// Launch context in force. Kept until the last launch of an opportunistic container, and until
    /// the end of others; it may hold kilobytes.
    context: Option<Arc<HeldContext>>,
    /// Resources in force.
    localized: Vec<LocalizedResource>,
    /// Last set of resources that the container has.
    set: SetNumber,
    /// Last number that a set of resources got.
    last_set: SetNumber,
    /// Resources that `localize` calls asked for.
    added: usize,
    /// Set once a localization has been ordered, whose resources must be released.
    has_resources: bool,
    /// Setup before the last re-initialization, until that is committed.
    previous: Option<Setup>,
    /// Whether the setup in force is that of the next launch, and whether its resources are there.
    state: SetupState,
}

/// Answer to the order of a launch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The setup in force is launched.
    InForce,
    /// Another setup is in force now, and is launched.
    Changed,
    /// The launch waits for resources.
    Waits,
    /// The launch fails for want of a resource, for this reason.
    Lacks(String),
}

impl Setups {
    /// Returns the setups of a container that has nothing yet but a launch context.
    pub(crate) fn new(context: Option<Arc<HeldContext>>) -> Self {
        Self {
            context,
            ..Self::default()
        }
    }

    /// Takes a step of the state. Panics at an illegal one: a defect of the core.
    fn step(&mut self, step: Step) {
        let state = std::mem::take(&mut self.state);
        let after = state.after(step);
        self.state = after.unwrap_or_else(|illegal| panic!("{illegal}"));
    }

    /// Returns whether a re-initialization, restart or rollback is under way.
    pub(crate) const fn is_changing(&self) -> bool {
        self.state.is_changing()
    }

    /// Returns whether resources of the next launch context are being localized.
    pub(crate) const fn is_localizing(&self) -> bool {
        matches!(self.state, SetupState::Localizing(_))
    }

    /// Returns whether the process is ended for the next setup, or that waits for its launch.
    pub(crate) const fn is_restarting(&self) -> bool {
        matches!(self.state, SetupState::Restarting { .. })
    }

    /// Returns whether resources of the setup in force are being localized again.
    pub(crate) const fn is_fetching(&self) -> bool {
        self.state.is_fetching()
    }

    /// Returns whether a launch may be followed by the setup before.
    pub(crate) const fn can_roll_back(&self) -> bool {
        self.previous.is_some()
    }

    /// Returns whether a localization has been ordered, whose resources must be released.
    pub(crate) const fn has_resources(&self) -> bool {
        self.has_resources
    }

    /// Returns the last set of resources that the container has.
    pub(crate) const fn set(&self) -> SetNumber {
        self.set
    }

    /// Returns the resources in force.
    #[cfg(test)]
    pub(crate) fn localized(&self) -> &[LocalizedResource] {
        &self.localized
    }

    /// Returns whether a launch context is kept.
    pub(crate) const fn has_context(&self) -> bool {
        self.context.is_some()
    }

    /// Returns the retry policy in force, if the launch context is kept.
    pub(crate) fn policy(&self) -> Option<ContainerRetryContext> {
        Some(self.context.as_ref()?.context.retry.clone())
    }

    /// Returns what the launch context in force tells of how long the container runs, if it is
    /// kept.
    pub(crate) fn run_profile(&self, user: &UserName) -> Option<RunProfile> {
        Some(self.context.as_ref()?.context.run_profile(user))
    }

    /// Returns the sets that the container uses or may go back to; `None`: it has no resources.
    pub(crate) fn used_sets(&self) -> Option<UsedSets> {
        self.has_resources.then(|| UsedSets {
            last: self.set,
            back_to: self.previous.as_ref().map(|previous| previous.set),
            next: self.state.next_set(),
        })
    }

    /// Takes the data for auxiliary services and the resources out of the launch context, which
    /// nobody else has before the first launch.
    pub(crate) fn take_wishes(&mut self) -> (BTreeMap<String, ServiceData>, Resources) {
        let Some(held) = self.context.as_mut().and_then(Arc::get_mut) else {
            return Default::default();
        };
        let service_data = std::mem::take(&mut held.context.service_data);
        let resources = std::mem::take(&mut held.context.resources);
        self.has_resources |= !resources.is_empty();
        (service_data, resources)
    }

    /// Takes the resources of a container that has its place in the queue already, which are
    /// localized again. None is ordered if none is returned.
    pub(crate) fn fetch_again(&mut self) -> Resources {
        let (_, resources) = self.take_wishes();
        if !resources.is_empty() {
            self.step(Step::Fetch);
        }
        resources
    }

    /// Takes the resources that [`Self::fetch_again`] asked for, or the lack of one. Returns
    /// whether a launch waits for them.
    pub(crate) fn fetched(&mut self, result: Result<Vec<LocalizedResource>, String>) -> bool {
        let is_due = matches!(self.state, SetupState::LaunchDue);
        match result {
            Ok(resources) => {
                self.localized = resources;
                self.step(Step::Fetched);
            }
            Err(reason) => self.step(Step::Missing(reason)),
        }
        is_due
    }

    /// Takes the resources of the first launch.
    pub(crate) fn set_localized(&mut self, resources: Vec<LocalizedResource>) {
        self.localized = resources;
    }

    /// Counts further resources for the process that runs.
    ///
    /// # Errors
    /// Their number with those before, if it is above `max`.
    pub(crate) fn add(&mut self, resources: usize, max: usize) -> Result<(), usize> {
        let asked = self.added.saturating_add(resources);
        if asked > max {
            return Err(asked);
        }
        self.added = asked;
        self.has_resources |= resources > 0;
        Ok(())
    }

    /// Takes further resources, which were asked for when their set was in force: into that setup
    /// and those that have come since, which have them unless resources of a later set have the
    /// same links. Returns those of the setup in force.
    pub(crate) fn added(&mut self, resources: &[LocalizedResource]) -> Vec<LocalizedResource> {
        let setups = self.previous.iter_mut().chain(self.state.setups_mut());
        for setup in setups {
            take_more(&mut setup.localized, setup.set, resources);
        }
        take_more(&mut self.localized, self.set, resources)
    }

    /// Returns the number of links that the container would have with further resources.
    pub(crate) fn links_with(&self, resources: &Resources) -> usize {
        let present = self.localized.iter().map(|resource| &resource.link);
        let links: BTreeSet<_> = present
            .chain(resources.iter().map(|(link, _)| link))
            .collect();
        links.len()
    }

    /// Takes the launch context to use next. Returns the number and the resources of its set.
    pub(crate) fn reinitialize(
        &mut self,
        mut held: HeldContext,
        auto_commit: bool,
    ) -> (SetNumber, Resources) {
        let resources = std::mem::take(&mut held.context.resources);
        self.has_resources |= !resources.is_empty();
        self.last_set.0 += 1;
        let set = self.last_set;
        self.step(Step::Reinitialize(NextContext {
            context: Arc::new(held),
            auto_commit,
            set,
        }));
        (set, resources)
    }

    /// Orders the restart with the launch context to use next, whose resources are there. Returns
    /// whether there was one.
    pub(crate) fn restart_with(&mut self, resources: Vec<LocalizedResource>) -> bool {
        let SetupState::Localizing(NextContext {
            context,
            auto_commit,
            set,
        }) = self.state.clone()
        else {
            return false;
        };
        let present = self.in_force();
        // Links of the new context replace those of the same name.
        let is_replaced =
            |old: &LocalizedResource| resources.iter().any(|new| new.link == old.link);
        let kept = self.localized.iter().filter(|old| !is_replaced(old));
        let localized = kept.chain(&resources).cloned().collect();
        let next = Setup {
            context,
            localized,
            set,
        };
        let previous = present.filter(|_| !auto_commit);
        self.step(Step::Restart { next, previous });
        true
    }

    /// Orders a restart with `next`; `previous`: the setup to which a rollback returns then.
    pub(crate) fn restart(&mut self, next: Setup, previous: Option<Setup>) {
        self.step(Step::Restart { next, previous });
    }

    /// Goes on with the setup in force.
    pub(crate) fn abandon(&mut self) {
        self.step(Step::Abandon);
    }

    /// Returns the setup in force, if its launch context is kept.
    pub(crate) fn in_force(&self) -> Option<Setup> {
        Some(Setup {
            context: Arc::clone(self.context.as_ref()?),
            localized: self.localized.clone(),
            set: self.set,
        })
    }

    /// Returns the setup to which a rollback returns.
    pub(crate) fn previous(&self) -> Option<Setup> {
        self.previous.clone()
    }

    /// Drops the setup before the last re-initialization. Returns whether there was one.
    pub(crate) fn commit(&mut self) -> bool {
        self.previous.take().is_some()
    }

    /// Puts the setup before the last re-initialization in force again. Returns whether there was
    /// one.
    pub(crate) fn roll_back(&mut self) -> bool {
        let previous = self.previous.take();
        let is_there = previous.is_some();
        if let Some(previous) = previous {
            self.put_in_force(previous);
        }
        is_there
    }

    fn put_in_force(&mut self, setup: Setup) {
        self.context = Some(setup.context);
        self.localized = setup.localized;
        self.set = setup.set;
    }

    /// Takes the order of a launch.
    pub(crate) fn begin_launch(&mut self) -> Begun {
        let before = self.state.clone();
        self.step(Step::Launch);
        match before {
            SetupState::InForce | SetupState::Localizing(_) => Begun::InForce,
            SetupState::Restarting { next, previous } => {
                self.previous = previous;
                self.put_in_force(next);
                Begun::Changed
            }
            SetupState::Fetching | SetupState::LaunchDue => Begun::Waits,
            SetupState::Incomplete(reason) => Begun::Lacks(reason),
        }
    }

    /// Returns launch context and resources for a launch, if the context is kept. They are kept on
    /// if the container may be launched again.
    pub(crate) fn for_launch(
        &mut self,
        is_guaranteed: bool,
    ) -> (Option<Arc<HeldContext>>, Vec<LocalizedResource>) {
        let retried = |held: &Arc<HeldContext>| held.context.retry.can_retry();
        if is_guaranteed || self.context.as_ref().is_some_and(retried) {
            (self.context.clone(), self.localized.clone())
        } else {
            (self.context.take(), std::mem::take(&mut self.localized))
        }
    }

    /// Gives up a launch that waits for resources. Returns whether there was one.
    pub(crate) fn end_launch(&mut self) -> bool {
        let is_due = matches!(self.state, SetupState::LaunchDue);
        if is_due {
            self.step(Step::EndLaunch);
        }
        is_due
    }

    /// Drops what only a launch needs: the container has ended.
    pub(crate) fn end(&mut self) {
        self.context = None;
        self.previous = None;
        self.localized = Vec::new();
        self.step(Step::End);
    }

    /// Finds resources where they are now, by their earlier paths.
    pub(crate) fn moved(&mut self, paths: &BTreeMap<PathBuf, PathBuf>) {
        let setups = self.previous.iter_mut().chain(self.state.setups_mut());
        let of_setups = setups.flat_map(|setup| &mut setup.localized);
        for resource in self.localized.iter_mut().chain(of_setups) {
            if let Some(path) = paths.get(&resource.path) {
                resource.path.clone_from(path);
            }
        }
    }
}

/// Adds resources to those of a setup, and returns those that it has taken. Of two with the same
/// link the localizer keeps the one of the later set.
fn take_more(
    localized: &mut Vec<LocalizedResource>,
    of_setup: SetNumber,
    resources: &[LocalizedResource],
) -> Vec<LocalizedResource> {
    let mut taken = Vec::new();
    for resource in resources {
        let present = localized.iter_mut().find(|old| old.link == resource.link);
        match present {
            _ if resource.set > of_setup => continue,
            Some(old) if resource.set < old.set => continue,
            Some(old) => old.clone_from(resource),
            None => localized.push(resource.clone()),
        }
        taken.push(resource.clone());
    }
    taken
}
