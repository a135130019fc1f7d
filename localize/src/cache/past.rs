//! What became of the resources of containers that have ended, for as long as their AMs may ask.
//!
//! The bytes have a limit. Beyond it, the user with the most loses what is oldest of theirs: so
//! whoever has less than an equal share loses nothing to the others.

use std::collections::BTreeMap;
use std::mem::size_of;

use records::ContainerId;

use super::super::resource::{ResourceStatus, SetNumber};
use super::super::user_name::UserName;

/// Bytes of all statuses: those of some thousands of containers with twenty resources each.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// A resource of a set, and what became of it.
pub(super) type Told = (SetNumber, ResourceStatus);

/// Statuses of the resources of ended containers.
#[derive(Debug)]
pub(super) struct Past {
    bytes_max: usize,
    bytes: usize,
    containers: BTreeMap<ContainerId, Ended>,
    users: BTreeMap<UserName, Share>,
    /// Counter, source of the order of ends.
    ends: u64,
}

/// An ended container.
#[derive(Debug)]
struct Ended {
    user: UserName,
    end: u64,
    bytes: usize,
    told: Vec<Told>,
}

/// Remains of one user's containers.
#[derive(Debug, Default)]
struct Share {
    bytes: usize,
    by_end: BTreeMap<u64, ContainerId>,
}

impl Past {
    /// Returns one that keeps at most this many bytes.
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            containers: BTreeMap::new(),
            users: BTreeMap::new(),
            ends: 0,
        }
    }

    /// Keeps the statuses of a user's container that has ended.
    pub(super) fn keep(&mut self, container: ContainerId, user: UserName, mut told: Vec<Told>) {
        self.forget(container);
        told.shrink_to_fit();
        let bytes = size_of::<Ended>() + told.iter().map(bytes_of).sum::<usize>();
        self.ends += 1;
        let share = self.users.entry(user.clone()).or_default();
        share.by_end.insert(self.ends, container);
        share.bytes += bytes;
        self.bytes += bytes;
        let ended = Ended {
            user,
            end: self.ends,
            bytes,
            told,
        };
        self.containers.insert(container, ended);
        while self.bytes > self.bytes_max {
            let most = self.users.values().max_by_key(|share| share.bytes);
            let Some(oldest) = most.and_then(|share| share.by_end.values().next().copied()) else {
                break;
            };
            self.forget(oldest);
        }
    }

    /// Forgets a container, if it is kept.
    pub(super) fn forget(&mut self, container: ContainerId) {
        let Some(ended) = self.containers.remove(&container) else {
            return;
        };
        self.bytes -= ended.bytes;
        if let Some(share) = self.users.get_mut(&ended.user) {
            share.bytes -= ended.bytes;
            share.by_end.remove(&ended.end);
            if share.by_end.is_empty() {
                self.users.remove(&ended.user);
            }
        }
    }

    /// Returns what became of a container's resources, in the order of its requests; empty for one
    /// that is not kept.
    pub(super) fn of(&self, container: ContainerId) -> impl Iterator<Item = &Told> {
        let ended = self.containers.get(&container);
        ended.into_iter().flat_map(|ended| &ended.told)
    }
}

fn bytes_of((_, status): &Told) -> usize {
    size_of::<Told>() + status.link.capacity() + status.diagnostics.capacity()
}

#[cfg(test)]
mod tests {
    use super::super::super::resource::LocalizationState;
    use super::*;

    fn container(n: i64) -> ContainerId {
        records::ApplicationId::new(1, 1).attempt(1).container(n)
    }

    fn keep(past: &mut Past, n: i64, user: &str, link_bytes: usize) {
        let status = ResourceStatus {
            link: "x".repeat(link_bytes),
            state: LocalizationState::Completed,
            diagnostics: String::new(),
        };
        past.keep(
            container(n),
            user.parse().unwrap(),
            vec![(SetNumber(0), status)],
        );
        let kept: usize = past.users.values().map(|share| share.bytes).sum();
        assert!(kept == past.bytes && past.bytes <= past.bytes_max);
    }

    fn kept(past: &Past) -> Vec<i64> {
        past.containers
            .keys()
            .map(|container| container.id)
            .collect()
    }

    #[test]
    fn who_has_the_most_loses_their_oldest_and_nobody_else_anything() {
        let mut past = Past::new(10_000);
        keep(&mut past, 1, "bob", 1_000);
        for n in 2..100 {
            keep(&mut past, n, "eve", 2_000);
        }
        let all = kept(&past);
        assert_eq!((all[0], all.last()), (1, Some(&99)), "{all:?}");
        // What alone is too much is not kept, and takes no other user's room.
        keep(&mut past, 200, "eve", 20_000);
        assert_eq!(kept(&past), [1]);
    }

    #[test]
    fn nothing_is_left_of_those_that_are_forgotten() {
        let mut past = Past::new(10_000);
        keep(&mut past, 1, "bob", 100);
        keep(&mut past, 1, "bob", 200);
        keep(&mut past, 2, "eve", 100);
        for n in [1, 2, 3] {
            past.forget(container(n));
        }
        assert!(past.bytes == 0 && past.containers.is_empty() && past.users.is_empty());
    }
}
