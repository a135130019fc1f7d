//! What containers have used and hold, by their cgroups, for the monitor's thread: files are opened
//! anew at each look, so that ten thousand containers hold no descriptor.

use std::fmt;
use std::sync::Arc;

use cgroup::{Account, Cgroup, Resource};
use records::{ContainerId, ExecutionType};

use super::Isolation;
use super::executor::Places;
use super::state::{Group, other};

/// Reader of the accounts of containers. Cheap to clone.
#[derive(Clone)]
pub struct AccountReader {
    places: Arc<Places>,
}

impl fmt::Debug for AccountReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountReader").finish_non_exhaustive()
    }
}

/// Findings about one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupAccount {
    /// Sum over its cgroups.
    pub(crate) account: Account,
    /// Microseconds in which a task waited since the cgroup was created, by CPU, memory and IO;
    /// `None`: the kernel does not report them.
    pub(crate) stalled_us: Option<[u64; 3]>,
}

impl Isolation {
    /// Returns the reader of the accounts of containers.
    #[must_use]
    pub fn accounts(&self) -> AccountReader {
        AccountReader {
            places: Arc::clone(&self.places),
        }
    }
}

impl AccountReader {
    /// Reads the account of a container, which is in `class`: of a container whose type has
    /// changed also the cgroup in the other class, which keeps the memory charged there. `None`: it
    /// has no cgroup.
    pub(crate) fn read(&self, id: ContainerId, class: ExecutionType) -> Option<GroupAccount> {
        let group = |class| self.places.group(Group { class, id }).ok();
        let own = group(class).and_then(|own| Some((own.account().ok()?, own)));
        let former = group(other(class)).and_then(|former| former.account().ok());
        let (account, own) = match own {
            Some((account, own)) => (account, Some(own)),
            None => (former?, None),
        };
        let stalled_us = own.as_ref().and_then(stalled_us);
        let account = match (own, former) {
            (Some(_), Some(former)) => account.and(former),
            (Some(_) | None, _) => account,
        };
        Some(GroupAccount {
            account,
            stalled_us,
        })
    }
}

fn stalled_us(group: &Cgroup) -> Option<[u64; 3]> {
    let total = |resource| {
        let pressure = group.pressure(resource).ok().flatten();
        pressure.map(|pressure| pressure.some.total_us)
    };
    Some([
        total(Resource::Cpu)?,
        total(Resource::Memory)?,
        total(Resource::Io)?,
    ])
}
