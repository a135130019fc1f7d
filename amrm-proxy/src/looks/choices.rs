//! Choices of nodes that are remembered, to be explained.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use records::{ContainerName, EpochMillis, NodeId, Resource};
use sched::Sight;

/// Most choices that are remembered; the oldest are forgotten first. One takes some 300 bytes.
const CHOICES_MAX: usize = 10_000;

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
    /// Looks of the call.
    pub looks: CallLooks,
    /// Time of the choice.
    pub at: EpochMillis,
}

impl fmt::Display for Choice {
    /// Writes the choice and its reason in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, looks, .. } = self;
        write!(f, "Placed on {node} by this node's AMRMProxy: ")?;
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
    in_order: VecDeque<ContainerName>,
}

impl Choices {
    pub(super) fn remember(&mut self, choices: Vec<Choice>) {
        for choice in choices {
            let container = choice.container;
            if self.by_container.insert(container, choice).is_none() {
                self.in_order.push_back(container);
            }
        }
        let excess = self.in_order.len().saturating_sub(CHOICES_MAX);
        for old in self.in_order.drain(..excess) {
            self.by_container.remove(&old);
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
            looks: CallLooks {
                asked: 4,
                answered: 3,
                held_back: 7,
            },
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
        unseen.looks.held_back = 0;
        assert_eq!(
            unseen.to_string(),
            "Placed on n1:8041 by this node's AMRMProxy: no look has shown its load; 3 of 4 nodes \
             answered looks"
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
        assert!(!known(5) && known(6) && known(count));
        assert_eq!(choices.in_order.len(), CHOICES_MAX);
    }
}
