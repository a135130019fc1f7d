//! Containers that the application has accepted, and the phase of each (Slider: `RoleInstance` and
//! the maps of `AppState`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use records::{ContainerId, MonoMillis};

use crate::node_entry::Phase;
use crate::node_index::NodeIndex;
use crate::role::RoleId;

/// Choice of the containers to release when a role shrinks. Only confirmed starts are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReleaseChoice {
    /// Containers on the nodes with the most containers of the role first, until each node has one,
    /// then the newest ones (documents: "advanced strategy").
    #[default]
    CrowdedNodesFirst,
    /// Newest containers first, wherever they are (Slider: `MostRecentContainerReleaseSelector`).
    NewestFirst,
}

/// Accepted container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    pub(crate) role: RoleId,
    pub(crate) node: NodeIndex,
    pub(crate) phase: Phase,
    pub(crate) releasing: bool,
    /// Time of the confirmed start.
    pub(crate) started_at: Option<MonoMillis>,
    /// Place in the order of starts.
    created: u64,
}

/// Accepted containers by id, and those of a role by their age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Containers {
    by_id: BTreeMap<ContainerId, Tracked>,
    by_age: BTreeMap<(RoleId, u64), ContainerId>,
    /// Containers whose end is counted already, or of no interest: surplus ones and those whose
    /// start failed. The ResourceManager reports the end of each once, which removes it.
    ended: BTreeSet<ContainerId>,
    last_created: u64,
}

impl Containers {
    pub(crate) fn get(&self, container: ContainerId) -> Option<&Tracked> {
        self.by_id.get(&container)
    }

    pub(crate) fn get_mut(&mut self, container: ContainerId) -> Option<&mut Tracked> {
        self.by_id.get_mut(&container)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ContainerId, &Tracked)> {
        self.by_id.iter().map(|(&id, tracked)| (id, tracked))
    }

    /// Returns whether the id was seen before, so that its allocation is a duplicate.
    pub(crate) fn is_known(&self, container: ContainerId) -> bool {
        self.by_id.contains_key(&container) || self.ended.contains(&container)
    }

    pub(crate) fn insert(
        &mut self,
        container: ContainerId,
        role: RoleId,
        node: NodeIndex,
        phase: Phase,
    ) {
        let created = self.next_turn();
        let tracked = Tracked {
            role,
            node,
            phase,
            releasing: false,
            started_at: None,
            created,
        };
        self.by_id.insert(container, tracked);
        self.by_age.insert((role, created), container);
    }

    /// Makes a container the newest of its role.
    pub(crate) fn set_newest(&mut self, container: ContainerId) {
        let turn = self.next_turn();
        if let Some(tracked) = self.by_id.get_mut(&container) {
            let (role, before) = (tracked.role, tracked.created);
            tracked.created = turn;
            self.by_age.remove(&(role, before));
            self.by_age.insert((role, turn), container);
        }
    }

    pub(crate) fn remove(&mut self, container: ContainerId) -> Option<Tracked> {
        let tracked = self.by_id.remove(&container)?;
        self.by_age.remove(&(tracked.role, tracked.created));
        Some(tracked)
    }

    /// Notes a container whose completion is to be ignored.
    pub(crate) fn ignore(&mut self, container: ContainerId) {
        self.ended.insert(container);
    }

    /// Returns whether this completion is to be ignored, and forgets the container.
    pub(crate) fn take_ignored(&mut self, container: ContainerId) -> bool {
        self.ended.remove(&container)
    }

    /// Returns up to `count` containers of the role to release, all chosen together: counters
    /// change only when the releases are submitted.
    pub(crate) fn to_release(
        &self,
        role: RoleId,
        count: usize,
        choice: ReleaseChoice,
    ) -> Vec<ContainerId> {
        let mut on_node: BTreeMap<NodeIndex, usize> = BTreeMap::new();
        let of_role = self.by_age.range((role, 0)..=(role, u64::MAX));
        // From the oldest: each container's rank is the number of containers that its node has up
        // to and including this one. Taking the highest ranks first empties crowded nodes evenly.
        let mut candidates: Vec<_> = of_role
            .filter_map(|(_, &container)| Some((container, self.get(container)?)))
            .filter(|(_, tracked)| tracked.phase == Phase::Live && !tracked.releasing)
            .map(|(container, tracked)| {
                let rank = on_node.entry(tracked.node).or_insert(0);
                *rank += 1;
                (container, *rank)
            })
            .collect();
        candidates.reverse();
        match choice {
            ReleaseChoice::CrowdedNodesFirst => {
                candidates.sort_by_key(|&(_, rank)| Reverse(rank));
            }
            ReleaseChoice::NewestFirst => {}
        }
        let chosen = candidates.into_iter().take(count);
        chosen.map(|(container, _)| container).collect()
    }

    fn next_turn(&mut self) -> u64 {
        self.last_created += 1;
        self.last_created
    }
}

#[cfg(test)]
mod tests {
    use records::ApplicationId;

    use super::*;

    const STORE: RoleId = RoleId::new(1).unwrap();

    fn id(number: i64) -> ContainerId {
        ApplicationId::new(1, 1).attempt(1).container(number)
    }

    /// Creates live containers, numbered from 1, on these nodes.
    fn live(nodes: &[u32]) -> Containers {
        let mut containers = Containers::default();
        for (number, &node) in (1..).zip(nodes) {
            containers.insert(id(number), STORE, NodeIndex(node), Phase::Live);
        }
        containers
    }

    fn chosen(containers: &Containers, count: usize, choice: ReleaseChoice) -> Vec<i64> {
        let chosen = containers.to_release(STORE, count, choice);
        chosen.into_iter().map(|container| container.id).collect()
    }

    #[test]
    fn the_newest_containers_go_first() {
        let containers = live(&[1, 2, 3]);
        let newest = ReleaseChoice::NewestFirst;
        assert_eq!(chosen(&containers, 2, newest), [3, 2]);
        assert_eq!(chosen(&containers, 9, newest), [3, 2, 1]);
    }

    #[test]
    fn crowded_nodes_are_emptied_to_one_container_each_before_others() {
        // Node 1 has three containers, node 2 two, nodes 3 and 4 one each.
        let containers = live(&[1, 1, 2, 1, 2, 3, 4]);
        let crowded = ReleaseChoice::CrowdedNodesFirst;
        assert_eq!(chosen(&containers, 3, crowded), [4, 5, 2]);
        assert_eq!(chosen(&containers, 5, crowded), [4, 5, 2, 7, 6]);
    }

    #[test]
    fn containers_that_start_or_are_being_released_are_not_chosen() {
        let mut containers = live(&[1, 2]);
        containers.insert(id(3), STORE, NodeIndex(3), Phase::Starting);
        containers.get_mut(id(2)).unwrap().releasing = true;
        assert_eq!(chosen(&containers, 9, ReleaseChoice::NewestFirst), [1]);
    }

    #[test]
    fn a_submitted_start_makes_a_container_the_newest() {
        let mut containers = live(&[1, 2]);
        containers.set_newest(id(1));
        assert_eq!(chosen(&containers, 1, ReleaseChoice::NewestFirst), [1]);
    }
}
