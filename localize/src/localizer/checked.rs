//! Requests that were checked, and those that are answered without a look at the disk.

use std::sync::{Arc, TryLockError};

use records::ContainerId;

use super::super::cache::{BEGIN_MAX, Belief, Place, Wanted};
use super::super::error::LocalizeError;
use super::super::layout::Scope;
use super::super::resource::{
    LocalizeRequest, LocalizedResource, ResourceSpec, SetNumber, Visibility,
};
use super::super::user_name::UserName;
use super::Shared;

/// Resources up to which a request is checked, and perhaps answered, on its caller's thread, which
/// takes some microseconds for each. A MapReduce task has three to five, a Spark executor three.
pub(super) const AT_ONCE_MAX: usize = 64;

// A request that is complete as soon as it begins begins in one step.
const _: () = assert!(AT_ONCE_MAX <= BEGIN_MAX);

/// A request in the terms of the cache index.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) container: ContainerId,
    pub(super) set: SetNumber,
    pub(super) user: UserName,
    pub(super) wanted: Vec<Wanted>,
}

/// Checks a request and converts it for the cache index.
pub(super) fn check(request: LocalizeRequest) -> Result<Checked, LocalizeError> {
    let container = request.container;
    let user: UserName = request.user.parse()?;
    let application = container.application_id();
    let wanted = |(link, spec): (String, ResourceSpec)| {
        let Some(name) = spec.url.name().map(str::to_owned) else {
            let url = spec.url.to_string();
            return Err(LocalizeError::NoName { link, url });
        };
        let scope = match spec.visibility {
            Visibility::Public => Scope::Public,
            Visibility::Private => Scope::Private(user.clone()),
            Visibility::Application => Scope::Application(user.clone(), application),
        };
        Ok(Wanted {
            link,
            scope,
            name,
            spec: Arc::new(spec),
        })
    };
    let wanted: Result<_, _> = request.resources.into_iter().map(wanted).collect();
    Ok(Checked {
        container,
        set: request.set,
        wanted: wanted?,
        user,
    })
}

impl Shared {
    /// Returns the resources of a request if the node has all of them, by looks at the disk that
    /// still count. Waits for nothing.
    ///
    /// # Errors
    /// The request, for the thread that keeps the books: a resource has to be looked at or
    /// downloaded, too few disks are good, or somebody holds the lock.
    pub(super) fn answer_at_once(
        &self,
        checked: Checked,
    ) -> Result<Vec<LocalizedResource>, Checked> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(checked),
        };
        let belief = Belief {
            now_ms: self.now_ms(),
            age_ms: self.looks_count_ms,
        };
        // A place on a disk that has failed is known to nobody any more.
        let is_usable = |place: &Place| self.dirs.local(place.disk).is_some();
        let is_answered = !state.is_stopping
            && self.dirs.require_enough().is_ok()
            && state.cache.has_all(&checked.wanted, belief, is_usable);
        if !is_answered {
            return Err(checked);
        }
        let Checked {
            container,
            set,
            user,
            wanted,
        } = checked;
        let request = state.cache.register(container, set, user, wanted);
        let begun = state.cache.begin(request, &[]);
        drop(state);
        let complete = begun.complete.expect("the cache has all of the request");
        Ok(self.localized(complete))
    }
}
