//! Choices of nodes that are remembered, to be explained.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use records::{ContainerName, EpochMillis, NodeId, Resource};
use sched::Sight;

/// Most choices that are remembered. One takes some 300 bytes. Beyond that the oldest of the user
/// with the most is forgotten, so that nobody's burst takes away the share of another.
const CHOICES_MAX: usize = 10_000;

/// Part of a user's choices that is forgotten at once.
const CHOICES_DROPPED_PART: usize = 64;

/// Looks of the call that chose a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLooks {
    /// Nodes that were asked.
    pub asked: u32,
    /// Nodes that have answered in time.
    pub answered: u32,
    /// Containers that were left to a later call.
    pub held_back: u32,
}

/// Choice of the node of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Container that was placed.
    pub container: ContainerName,
    /// User of the application. Chosen by a peer, so escaped wherever it is shown.
    pub user: String,
    /// Size of the container.
    pub size: Resource,
    /// Node that it was placed on.
    pub node: NodeId,
    /// Load of the node before the call placed any container; `None` if no look has shown it.
    pub sight: Option<Sight>,
    /// Looks of the call; `None`: the node had offered room, to which the container was bound.
    pub looks: Option<CallLooks>,
    /// Time of the choice.
    pub at: EpochMillis,
}

impl fmt::Display for Choice {
    /// Writes the choice and its reason in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, looks, .. } = self;
        write!(f, "Placed on {node} by this node's AMRMProxy: ")?;
        let Some(looks) = looks else {
            return f.write_str("it had room, and had offered it to this application first");
        };
        match self.sight {
            Some(Sight {
                running, queued, ..
            }) => write!(f, "{running} ran and {queued} waited there")?,
            None => write!(f, "no look has shown its load")?,
        }
        let CallLooks {
            asked,
            answered,
            held_back,
        } = looks;
        write!(f, "; {answered} of {asked} nodes answered looks")?;
        if *held_back > 0 {
            write!(f, ", and {held_back} containers found no room")?;
        }
        Ok(())
    }
}

/// The last choices of this node.
#[derive(Debug, Default)]
pub(super) struct Choices {
    by_container: BTreeMap<ContainerName, Choice>,
    /// Containers of each user, the oldest first.
    by_user: BTreeMap<String, VecDeque<ContainerName>>,
}

impl Choices {
    pub(super) fn remember(&mut self, choices: Vec<Choice>) {
        for choice in choices {
            let (container, user) = (choice.container, choice.user.clone());
            if self.by_container.insert(container, choice).is_none() {
                self.by_user.entry(user).or_default().push_back(container);
            }
        }
        while self.by_container.len() > CHOICES_MAX {
            let users = self.by_user.values_mut();
            let Some(most) = users.max_by_key(|containers| containers.len()) else {
                return;
            };
            // Leave a few fewer, so that the next call need not search again.
            for old in most.drain(..most.len().div_ceil(CHOICES_DROPPED_PART)) {
                self.by_container.remove(&old);
            }
            self.by_user.retain(|_, containers| !containers.is_empty());
        }
    }

    pub(super) fn of(&self, container: ContainerName) -> Option<&Choice> {
        self.by_container.get(&container)
    }
}

#[cfg(test)]
mod tests {
    use records::MonoMillis;
    use test_support::ids;

    use super::*;

    fn choice(container: i64) -> Choice {
        Choice {
            container: ids::container(container).name(),
            user: "alice".to_owned(),
            size: Resource::new(1_024, 1),
            node: ids::node("n1"),
            sight: Some(Sight {
                running: 5,
                queued: 2,
                free: Resource::new(0, 0),
                seen_at: MonoMillis(0),
            }),
            looks: Some(CallLooks {
                asked: 4,
                answered: 3,
                held_back: 7,
            }),
            at: EpochMillis(0),
        }
    }

    #[test]
    fn a_choice_says_what_was_seen() {
        let seen = choice(1);
        assert_eq!(
            seen.to_string(),
            "Placed on n1:8041 by this node's AMRMProxy: 5 ran and 2 waited there; 3 of 4 nodes \
             answered looks, and 7 containers found no room"
        );
        let mut unseen = Choice {
            sight: None,
            ..seen
        };
        unseen.looks.as_mut().unwrap().held_back = 0;
        assert_eq!(
            unseen.to_string(),
            "Placed on n1:8041 by this node's AMRMProxy: no look has shown its load; 3 of 4 nodes \
             answered looks"
        );
        unseen.looks = None;
        assert_eq!(
            unseen.to_string(),
            "Placed on n1:8041 by this node's AMRMProxy: it had room, and had offered it to this \
             application first"
        );
    }

    #[test]
    fn the_last_choices_are_remembered() {
        let mut choices = Choices::default();
        let count = i64::try_from(CHOICES_MAX).unwrap() + 5;
        choices.remember((1..=count).map(choice).collect());
        // One that is told again is remembered once.
        choices.remember(vec![choice(count)]);
        let known = |n| choices.of(ids::container(n).name()).is_some();
        assert!(!known(5) && known(count / 2) && known(count));
        let left = choices.by_container.len();
        assert!(
            (CHOICES_MAX * 9 / 10..=CHOICES_MAX).contains(&left),
            "{left}"
        );
        assert_eq!(choices.by_user["alice"].len(), left);
    }

    #[test]
    fn the_bursts_of_one_user_leave_the_choices_of_others() {
        let mut choices = Choices::default();
        let half = i64::try_from(CHOICES_MAX / 2).unwrap();
        let of = |user: &str, numbers: std::ops::Range<i64>| {
            let user = |number| Choice {
                user: user.to_owned(),
                ..choice(number)
            };
            numbers.map(user).collect()
        };
        choices.remember(of("bob", 0..half - 200));
        for burst in 1..10 {
            choices.remember(of("alice", burst * half..(burst + 1) * half));
        }
        let known = |n| choices.of(ids::container(n).name()).is_some();
        assert!((0..half - 200).all(known) && known(10 * half - 1));
        assert!(choices.by_container.len() <= CHOICES_MAX);
    }
}
