//! A directory that is open, and the choice between several by their free space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::{DirHandle, DirLock, Owner};
use rand::{Rng, RngExt};

use super::error::DirsError;
use super::layout::{self, Step};
use super::room::room_bytes;

/// A local or log directory and its handle.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) path: PathBuf,
    pub(super) root: Arc<DirHandle>,
    /// Lock of the directory, held while anything uses the disk; `None`: its file system has none.
    pub(super) _lock: Option<Arc<DirLock>>,
}

impl Disk {
    /// Opens the folder at the end of the steps, and creates missing ones. Those of users belong to
    /// `owner`, as does what is made through the handle; `None`: to the agent's user.
    pub(super) fn ensure(
        &self,
        steps: &[Step],
        owner: Option<Owner>,
    ) -> Result<DirHandle, DirsError> {
        let fail = |source| DirsError::Io {
            action: "create",
            path: layout::path_of(&self.path, steps),
            source,
        };
        let Some((last, parents)) = steps.split_last() else {
            return self.root.try_clone().map_err(fail);
        };
        // The folders above a container's mostly exist, and its own does not.
        let above = layout::path_of(Path::new("."), parents);
        let owner_of_last = owner.filter(|_| last.of_user);
        let at_once = match self.root.open_beneath(&above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(fail(error)),
            Ok(above) => {
                let above = above.owned_by(owner_of_last);
                let folder = above.create_or_open(&last.name, last.mode).map_err(fail)?;
                let is_owners = match owner_of_last {
                    Some(owner) => folder.user().map_err(fail)? == owner.user,
                    None => true,
                };
                is_owners.then_some(folder)
            }
        };
        if let Some(folder) = at_once {
            return Ok(folder);
        }
        let made = self.root.try_clone().and_then(|root| {
            let mut steps = steps.iter();
            steps.try_fold(root, |above, step| take(above, step, owner))
        });
        made.map_err(fail)
    }
}

/// Opens a folder, or creates it for its owner.
fn take(above: DirHandle, step: &Step, owner: Option<Owner>) -> io::Result<DirHandle> {
    let owner = owner.filter(|_| step.of_user);
    let folder = above.owned_by(owner).ensure(&step.name, step.mode)?;
    check_user(folder, owner, step.mode)
}

/// Checks that a folder belongs to the user who is to use it. One of an earlier run may have been
/// made for containers that ran as another, or left half made.
fn check_user(folder: DirHandle, owner: Option<Owner>, mode: u32) -> io::Result<DirHandle> {
    let Some(Owner { user, .. }) = owner else {
        return Ok(folder);
    };
    if folder.user()? == user || folder.complete_half_made(mode)? {
        return Ok(folder);
    }
    let found = folder.user()?;
    if found == user {
        // Another thread has completed it meanwhile.
        return Ok(folder);
    }
    let why = format!(
        "the folder belongs to user id {found} and not to {user}, which containers of its user run \
         as; remove it"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Creates the folder on the chosen disk, and on the others where possible. Returns the disks that
/// have it, and the handle of the one on the chosen disk.
pub(super) fn make_on_all<'a>(
    disks: &'a [Arc<Disk>],
    chosen: &Arc<Disk>,
    steps: &[Step],
    owner: Option<Owner>,
) -> Result<(Vec<&'a Arc<Disk>>, DirHandle), DirsError> {
    let folder = chosen.ensure(steps, owner)?;
    let has_it = |disk: &&Arc<Disk>| {
        Arc::ptr_eq(disk, chosen)
            || disk
                .ensure(steps, owner)
                .inspect_err(|error| {
                    tracing::warn!(
                        error = crate::error_chain(error),
                        "directory left out for this container"
                    );
                })
                .is_ok()
    };
    Ok((disks.iter().filter(has_it).collect(), folder))
}

/// Chooses a disk at random, weighted by its room for downloads, or by free space if none has any.
pub(super) fn choose<'a>(
    disks: &'a [Arc<Disk>],
    rng: &mut impl Rng,
) -> Result<&'a Arc<Disk>, DirsError> {
    if let [only] = disks {
        return Ok(only);
    }
    let free = |disk: &Arc<Disk>| disk.root.free_bytes().unwrap_or(0);
    let index = pick_weighted(&rooms(disks), rng)
        .or_else(|| pick_weighted(&disks.iter().map(free).collect::<Vec<_>>(), rng));
    let disk = index.and_then(|index| disks.get(index));
    disk.ok_or(DirsError::NoRoom { bytes: 1 })
}

/// Returns the bytes that may be downloaded to each disk; 0 for one that does not answer, so that
/// it is not chosen.
pub(super) fn rooms(disks: &[Arc<Disk>]) -> Vec<u64> {
    let room = |disk: &Arc<Disk>| disk.root.space().map_or(0, room_bytes);
    disks.iter().map(room).collect()
}

/// Returns an index at random, weighted; `None` if all weights are 0.
pub(super) fn pick_weighted(weights: &[u64], rng: &mut impl Rng) -> Option<usize> {
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return None;
    }
    let mut left = rng.random_range(0..total);
    for (index, weight) in weights.iter().enumerate() {
        let weight = u128::from(*weight);
        if left < weight {
            return Some(index);
        }
        left -= weight;
    }
    None
}

/// Returns the first index from a random start with more than `bytes` free.
pub(super) fn pick_with_room(free: &[u64], bytes: u64, rng: &mut impl Rng) -> Option<usize> {
    if free.is_empty() {
        return None;
    }
    let start = rng.random_range(0..free.len());
    let mut order = (start..free.len()).chain(0..start);
    order.find(|index| free.get(*index).is_some_and(|free| *free > bytes))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn full_disks_are_never_chosen() {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..200 {
            assert_eq!(pick_weighted(&[0, 9, 0], &mut rng), Some(1));
            assert_eq!(pick_with_room(&[10, 11, 3], 10, &mut rng), Some(1));
        }
        assert_eq!(pick_weighted(&[0, 0], &mut rng), None);
        assert_eq!(pick_with_room(&[10, 10], 10, &mut rng), None);
    }

    #[test]
    fn more_free_space_is_chosen_more_often() {
        let mut rng = StdRng::seed_from_u64(7);
        let picks = (0..4000).map(|_| pick_weighted(&[u64::MAX / 4, u64::MAX / 4 * 3], &mut rng));
        let second = picks.filter(|index| *index == Some(1)).count();
        assert!((2800..3200).contains(&second), "{second}");
    }
}
