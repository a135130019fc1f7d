//! State machine of a container's setup, beside the scheduler's of the container itself: which
//! launch context and resources the next launch takes, and whether they are there.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use launch_context::HeldContext;
use localize::{LocalizedResource, SetNumber};

/// Launch context and resources of a container: what a re-initialization replaces and a rollback
/// restores.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) context: Arc<HeldContext>,
    pub(super) localized: Vec<LocalizedResource>,
    /// Last set that the resources are of.
    pub(super) set: SetNumber,
}

/// Launch context to use next, whose resources are being localized.
#[derive(Clone, Debug)]
pub(super) struct NextContext {
    /// Launch context, without its resources.
    pub(super) context: Arc<HeldContext>,
    /// Whether the present setup is dropped at once.
    pub(super) auto_commit: bool,
    /// Set of the resources.
    pub(super) set: SetNumber,
}

/// State of a container's setup.
///
/// ```text
///                    ┌───────────── launch ◀───────────────┐
///                    ▼                                     │
///   restored ┌─── InForce ──── restart, rollback ────▶ Restarting
///            │     ▲ ▲ │ reinitialize                      ▲
///            │     │ │ └────────────▶ Localizing ──────────┘ all resources are there
///            │     │ └─── abandon ────────┘
///            ▼     │ fetched
///        Fetching ─┴─▶ (launch ordered) LaunchDue ─▶ InForce, and the launch follows
///            │ missing                     │ missing
///            └──────────▶ Incomplete ◀─────┘
/// ```
///
/// `Fetching`, `LaunchDue` and `Incomplete` are states of a container that an earlier agent has
/// accepted: it has its place in the queue, and its resources are localized again meanwhile. An end
/// leads from all others to `InForce`.
#[derive(Clone, Debug, Default)]
pub(super) enum SetupState {
    /// The next launch takes the setup in force.
    #[default]
    InForce,
    /// Resources of the setup in force are localized again while the container waits.
    Fetching,
    /// As `Fetching`, and the launch follows at once.
    LaunchDue,
    /// A resource of the setup in force is missing: every launch fails, for this reason.
    Incomplete(String),
    /// The process runs while resources of the next launch context are localized.
    Localizing(NextContext),
    /// The process is being ended, or the container waits for its launch.
    Restarting {
        /// Setup of the next launch.
        next: Setup,
        /// Setup to which a rollback returns.
        previous: Option<Setup>,
    },
}

/// Step from one state to another.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Resources of another launch context are ordered.
    Reinitialize(NextContext),
    /// The container is to be launched again with the setup `next`.
    Restart {
        /// Setup of the next launch.
        next: Setup,
        /// Setup to which a rollback returns.
        previous: Option<Setup>,
    },
    /// The container goes on with the setup in force.
    Abandon,
    /// Resources of the setup in force are ordered again.
    Fetch,
    /// These resources are there.
    Fetched,
    /// One of these resources is missing, for this reason.
    Missing(String),
    /// The scheduler orders a launch.
    Launch,
    /// The scheduler orders the end of a launch.
    EndLaunch,
    /// The container has ended.
    End,
}

/// Error for a step that the state does not allow: a defect in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step} is illegal in setup state {state}")]
pub(super) struct IllegalStep {
    state: &'static str,
    step: &'static str,
}

impl SetupState {
    /// Returns the state after `step`. Lists every legal pair.
    pub(super) fn after(self, step: Step) -> Result<Self, IllegalStep> {
        use SetupState as S;
        Ok(match (self, step) {
            (S::InForce, Step::Reinitialize(next)) => S::Localizing(next),
            (S::InForce | S::Localizing(_), Step::Restart { next, previous }) => {
                S::Restarting { next, previous }
            }
            (S::Localizing(_) | S::Restarting { .. }, Step::Abandon) => S::InForce,
            (S::InForce, Step::Fetch) => S::Fetching,
            (S::Fetching | S::LaunchDue, Step::Fetched) => S::InForce,
            (S::Fetching | S::LaunchDue, Step::Missing(reason)) => S::Incomplete(reason),
            (S::Fetching, Step::Launch) => S::LaunchDue,
            (S::Restarting { .. }, Step::Launch) => S::InForce,
            // The first launch, and retries: a re-initialization goes on, and a lack stays.
            (state @ (S::InForce | S::Localizing(_) | S::Incomplete(_)), Step::Launch) => state,
            (S::LaunchDue, Step::EndLaunch) => S::Fetching,
            (S::InForce | S::Localizing(_) | S::Restarting { .. }, Step::End) => S::InForce,
            // The localizer still answers.
            (S::Fetching | S::LaunchDue, Step::End) => S::Fetching,
            (S::Incomplete(reason), Step::End) => S::Incomplete(reason),
            (state, step) => {
                return Err(IllegalStep {
                    state: state.name(),
                    step: step.name(),
                });
            }
        })
    }

    /// Returns whether a re-initialization, restart or rollback is under way.
    pub(super) const fn is_changing(&self) -> bool {
        matches!(self, Self::Localizing(_) | Self::Restarting { .. })
    }

    /// Returns whether resources of the setup in force are being localized again.
    pub(super) const fn is_fetching(&self) -> bool {
        matches!(self, Self::Fetching | Self::LaunchDue)
    }

    /// Returns the set of resources of the launch to come, if a change is under way.
    pub(super) const fn next_set(&self) -> Option<SetNumber> {
        match self {
            Self::Localizing(next) => Some(next.set),
            Self::Restarting { next, .. } => Some(next.set),
            Self::InForce | Self::Fetching | Self::LaunchDue | Self::Incomplete(_) => None,
        }
    }

    /// Returns the setups of launches to come.
    pub(super) fn setups_mut(&mut self) -> impl Iterator<Item = &mut Setup> {
        let (next, previous) = match self {
            Self::Restarting { next, previous } => (Some(next), previous.as_mut()),
            Self::InForce
            | Self::Fetching
            | Self::LaunchDue
            | Self::Incomplete(_)
            | Self::Localizing(_) => (None, None),
        };
        next.into_iter().chain(previous)
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::InForce => "InForce",
            Self::Fetching => "Fetching",
            Self::LaunchDue => "LaunchDue",
            Self::Incomplete(_) => "Incomplete",
            Self::Localizing(_) => "Localizing",
            Self::Restarting { .. } => "Restarting",
        }
    }
}

impl Step {
    const fn name(&self) -> &'static str {
        match self {
            Self::Reinitialize(_) => "Reinitialize",
            Self::Restart { .. } => "Restart",
            Self::Abandon => "Abandon",
            Self::Fetch => "Fetch",
            Self::Fetched => "Fetched",
            Self::Missing(_) => "Missing",
            Self::Launch => "Launch",
            Self::EndLaunch => "EndLaunch",
            Self::End => "End",
        }
    }
}
