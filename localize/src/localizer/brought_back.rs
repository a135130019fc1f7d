//! A look at a container's resources just before they are used, and the way back for those that
//! were removed from the disk since the localization.

use std::path::{Path, PathBuf};

use records::ContainerId;

use super::super::cache::{Place, RequestId};
use super::super::disk_health::DirKind;
use super::super::error::{DirsError, LocalizeError};
use super::super::kept;
use super::super::layout::Scope;
use super::super::resource::LocalizedResource;
use super::super::turns::Turns;
use super::super::user_name::UserName;
use super::download::is_there;
use super::{Command, Localizer, Reply, Shared};

/// Resources of a container that are gone from the disk.
pub(super) struct Gone {
    container: ContainerId,
    user: UserName,
    /// Links with the paths that have nothing any more.
    resources: Vec<(String, PathBuf)>,
}

impl Localizer {
    /// Looks on the disks for resources that a container has got, and returns those that are gone,
    /// in their order. One on a disk that has failed is gone. Waits for the disks, some
    /// microseconds for each resource: to be called on a thread of the container's own.
    #[must_use]
    pub fn gone(&self, resources: &[LocalizedResource]) -> Vec<LocalizedResource> {
        if resources.is_empty() {
            return Vec::new();
        }
        let disks = self.shared.dirs.readable(DirKind::Local);
        let is_gone = |path: &Path| {
            !disks.iter().any(|disk| {
                let below = path.strip_prefix(&disk.path);
                below.is_ok_and(|below| is_there(disk, below))
            })
        };
        let gone = resources.iter().filter(|resource| is_gone(&resource.path));
        gone.cloned().collect()
    }

    /// Localizes resources again that [`Self::gone`] has found gone, for a container of this user,
    /// and then calls `reply`, exactly once, on a localization thread, with the resources in the
    /// same order. It must not block. The resources stay until [`Self::release`].
    pub fn bring_back(
        &self,
        container: ContainerId,
        user: UserName,
        gone: Vec<LocalizedResource>,
        reply: impl FnOnce(Result<Vec<LocalizedResource>, LocalizeError>) + Send + 'static,
    ) {
        let resources = gone.into_iter();
        let gone = Gone {
            container,
            user,
            resources: resources.map(|gone| (gone.link, gone.path)).collect(),
        };
        self.send(Command::BringBack(gone, Reply(Some(Box::new(reply)))));
    }
}

impl Shared {
    /// Has the resources wait for their downloads like those of any other request.
    pub(super) fn bring_back(&self, gone: Gone, reply: Reply, to_begin: &mut Turns<RequestId>) {
        if let Err(DirsError::DisksFailed { report }) = self.dirs.require_enough() {
            return reply.answer(Err(LocalizeError::DisksFailed { report }));
        }
        let Gone {
            container,
            user,
            resources,
        } = gone;
        let local_dirs = self.dirs.local_dirs();
        // A disk that has failed keeps its path.
        let path_of = |scope: &Scope, place: &Place| {
            let disk = local_dirs.get(place.disk).cloned().unwrap_or_default();
            disk.join(kept::path_below(scope, place))
        };
        let mut state = self.state();
        let lost = state
            .cache
            .bring_back(container, user.clone(), &resources, path_of);
        let Some(lost) = lost else {
            // It was released meanwhile.
            drop(state);
            return reply.answer(Err(LocalizeError::Cancelled));
        };
        self.forget(&lost.forgotten);
        state.replies.insert(lost.request, reply);
        to_begin.queue(&user, lost.request);
    }
}
