//! What a start must leave where an earlier run has put it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use records::{ApplicationId, ContainerName};

use super::kept::KeptResource;

/// Files of an earlier run that must stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Applications whose folders and logs stay.
    pub applications: BTreeSet<ApplicationId>,
    /// Containers whose work folders stay.
    pub containers: BTreeSet<ContainerName>,
    /// Paths of localized resources that containers have links to.
    pub resources: BTreeSet<PathBuf>,
    /// Applications that have ended here, of which only the logs stay.
    pub logs: BTreeSet<ApplicationId>,
    /// Resources in the caches by their records, which stay if they are what was recorded.
    pub cached: Vec<KeptResource>,
    /// Containers have links to resources that no record names, so that all of them stay.
    pub has_unknown_resources: bool,
}

impl Needed {
    /// Returns whether an application's log folder stays.
    pub(super) fn has_logs_of(&self, id: ApplicationId) -> bool {
        self.applications.contains(&id) || self.logs.contains(&id)
    }
}
