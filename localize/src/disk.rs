//! A directory that is open, and the choice between several by their free space.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dir_handle::{DirHandle, Owner};
use rand::{Rng, RngExt};

use super::error::DirsError;
use super::layout::{self, Step};

/// A local or log directory and its handle.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) path: PathBuf,
    pub(super) root: Arc<DirHandle>,
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
        let made = match self.root.open_beneath(&above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.root.try_clone().and_then(|root| {
                    steps
                        .iter()
                        .try_fold(root, |above, step| take(above, step, owner))
                })
            }
            opened => opened.and_then(|above| {
                let owner = owner.filter(|_| last.of_user);
                let folder = above
                    .owned_by(owner)
                    .create_or_open(&last.name, last.mode)?;
                check_user(folder, owner)
            }),
        };
        made.map_err(fail)
    }
}

/// Opens a folder, or creates it for its owner.
fn take(above: DirHandle, step: &Step, owner: Option<Owner>) -> io::Result<DirHandle> {
    let owner = owner.filter(|_| step.of_user);
    let folder = above.owned_by(owner).ensure(&step.name, step.mode)?;
    check_user(folder, owner)
}

/// Checks that a folder belongs to the user who is to use it. One of an earlier run may have been
/// made for containers that ran as another.
fn check_user(folder: DirHandle, owner: Option<Owner>) -> io::Result<DirHandle> {
    let Some(Owner { user, .. }) = owner else {
        return Ok(folder);
    };
    let found = folder.user()?;
    if found == user {
        return Ok(folder);
    }
    let why = format!(
        "the folder belongs to user id {found} and not to {user}, which containers of its user run \
         as; remove it"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Creates the folder on the chosen disk, and on the others where possible. Returns the disks that
/// have it.
pub(super) fn make_on_all<'a>(
    disks: &'a [Arc<Disk>],
    chosen: &Arc<Disk>,
    steps: &[Step],
    owner: Option<Owner>,
) -> Result<Vec<&'a Arc<Disk>>, DirsError> {
    let mut made = Vec::with_capacity(disks.len());
    for disk in disks {
        match disk.ensure(steps, owner) {
            Ok(_) => made.push(disk),
            Err(error) if Arc::ptr_eq(disk, chosen) => return Err(error),
            Err(error) => tracing::warn!(
                error = crate::error_chain(&error),
                "directory left out for this container"
            ),
        }
    }
    Ok(made)
}

/// Chooses a disk at random, weighted by free space.
pub(super) fn choose<'a>(
    disks: &'a [Arc<Disk>],
    rng: &mut impl Rng,
) -> Result<&'a Arc<Disk>, DirsError> {
    if let [only] = disks {
        return Ok(only);
    }
    let index = pick_weighted(&free_bytes(disks), rng);
    let disk = index.and_then(|index| disks.get(index));
    disk.ok_or(DirsError::NoRoom { bytes: 1 })
}

/// Returns the free bytes of each disk; 0 for one that does not answer, so that it is not chosen.
pub(super) fn free_bytes(disks: &[Arc<Disk>]) -> Vec<u64> {
    let free = |disk: &Arc<Disk>| disk.root.free_bytes().unwrap_or(0);
    disks.iter().map(free).collect()
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
