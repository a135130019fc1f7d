//! Resources of a container that were localized again, because they were gone before a launch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use records::{ContainerId, Now};

use super::super::Core;

impl Core {
    /// Has the later launches of a container find resources where they are now, and so the next
    /// agent.
    pub(in super::super) fn resources_moved(
        &mut self,
        id: ContainerId,
        paths: &BTreeMap<PathBuf, PathBuf>,
        now: Now,
    ) {
        let Some(record) = self.containers.get_mut(&id) else {
            return;
        };
        let setups = record.previous.iter_mut();
        let setups = setups.chain(record.setup_state.setups_mut());
        let of_setups = setups.flat_map(|setup| &mut setup.localized);
        for resource in record.localized.iter_mut().chain(of_setups) {
            if let Some(path) = paths.get(&resource.path) {
                resource.path.clone_from(path);
            }
        }
        self.remember([id], now);
    }
}
