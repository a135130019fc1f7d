//! A container as the core knows it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use localize::{ContainerDirs, UserName};
use sched::ContainerView;

use crate::messages::Status;
use crate::setups::Setups;
use crate::token::TokenFacts;

/// Container, beside the scheduler's state of it.
#[derive(Debug)]
pub(crate) struct Container {
    /// Facts of the last token.
    pub(crate) facts: Arc<TokenFacts>,
    /// User of the application.
    pub(crate) user: UserName,
    /// Launch contexts and resources.
    pub(crate) setups: Setups,
    /// Folders that the first launch made, for the launches after it.
    pub(crate) dirs: Arc<OnceLock<ContainerDirs>>,
    /// Duration of the localization; zero for a container without resources.
    pub(crate) localized_in: Duration,
    /// Time at which the `startContainers` call arrived, for the launch histogram.
    pub(crate) accepted_us: u64,
    /// Set once a process has been started: then statuses contain the node's address.
    pub(crate) had_process: bool,
    /// Set once the completion is in the ledger.
    pub(crate) completion_noted: bool,
    /// The RM has acknowledged a completion that has not happened here yet: it took the container
    /// for lost or expired. It is forgotten when it is done, and reported like any other until
    /// then.
    pub(crate) acknowledged_early: bool,
    /// Set while auxiliary services know the container: its end must reach them.
    pub(crate) is_known_to_services: bool,
}

impl Container {
    /// Returns a container that has nothing yet but this.
    pub(crate) fn new(facts: TokenFacts, user: UserName, setups: Setups) -> Self {
        Self {
            facts: Arc::new(facts),
            user,
            setups,
            dirs: Arc::default(),
            localized_in: Duration::ZERO,
            accepted_us: 0,
            had_process: false,
            completion_noted: false,
            acknowledged_early: false,
            is_known_to_services: false,
        }
    }

    /// Returns the status of the container, of which the scheduler has this view.
    pub(crate) fn status(&self, view: ContainerView) -> Status {
        Status {
            view,
            facts: Arc::clone(&self.facts),
            had_process: self.had_process,
        }
    }
}
