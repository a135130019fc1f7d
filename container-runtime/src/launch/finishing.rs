//! Places for the work that is left when a container's processes are gone.

use super::places::UserPlaces;

/// Exits whose files of one kind are read or removed at the same time, half of them of one user.
pub(super) const FINISHING_MAX: usize = 8;

/// Places for work on the files of containers that have ended. Disks may hang without taking the
/// places of the cgroups.
pub(super) struct Finishing {
    pub(super) log_dirs: UserPlaces,
    pub(super) cgroups: UserPlaces,
}

impl Default for Finishing {
    fn default() -> Self {
        Self {
            log_dirs: UserPlaces::new(FINISHING_MAX),
            cgroups: UserPlaces::new(FINISHING_MAX),
        }
    }
}
