//! Resources of a container that were localized again, because they were gone before a launch.

use std::collections::BTreeMap;
use std::path::PathBuf;

use records::{ContainerId, Now};

use super::super::Core;
use super::{Reinit, Setup};

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
        let mut setups: Vec<&mut Setup> = record.previous.iter_mut().collect();
        if let Some(Reinit::Restarting { next, previous }) = &mut record.reinit {
            setups.push(next);
            setups.extend(previous);
        }
        let of_setups = setups.into_iter().flat_map(|setup| &mut setup.localized);
        for resource in record.localized.iter_mut().chain(of_setups) {
            if let Some(path) = paths.get(&resource.path) {
                resource.path.clone_from(path);
            }
        }
        self.remember([id], now);
    }
}
