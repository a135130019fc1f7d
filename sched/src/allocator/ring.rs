//! Nodes in round-robin order.

use crate::node_load::Offered;
use crate::random::Draw;

/// Nodes in round-robin order, from a drawn one. Each is a name or a place on a list.
pub(super) struct Ring<N> {
    nodes: Vec<N>,
    /// For each node that of the next one; exhausted ones are left out.
    following: Vec<usize>,
    /// Node before the next one.
    before: usize,
    /// Nodes that are left.
    left: usize,
}

impl<N> Ring<N> {
    pub(super) fn new(nodes: Vec<N>, random: &mut impl Draw) -> Self {
        let len = nodes.len();
        let next = match len {
            0 => 0,
            len => random.below(len) % len,
        };
        Self {
            nodes,
            following: (1..len).chain((len > 0).then_some(0)).collect(),
            before: next.checked_sub(1).unwrap_or(len.saturating_sub(1)),
            left: len,
        }
    }

    /// Returns the next node that takes what `offer` offers it, and continues after it at the next
    /// call. Exhausted nodes are left out, so that a burst does not visit them again for every
    /// container.
    pub(super) fn take(&mut self, mut offer: impl FnMut(&N) -> Offered) -> Option<&N> {
        for _ in 0..self.left {
            let at = self.following[self.before];
            match offer(&self.nodes[at]) {
                Offered::Taken => {
                    self.before = at;
                    return self.nodes.get(at);
                }
                Offered::TooLarge => self.before = at,
                Offered::Exhausted => {
                    self.following[self.before] = self.following[at];
                    self.left -= 1;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::random::SplitMix64;

    fn answer() -> impl Strategy<Value = Offered> {
        prop_oneof![
            2 => Just(Offered::Taken),
            1 => Just(Offered::TooLarge),
            1 => Just(Offered::Exhausted),
        ]
    }

    proptest! {
        #[test]
        fn a_ring_goes_around_a_list_from_which_exhausted_nodes_are_removed(
            len in 0..8_usize,
            seed in any::<u64>(),
            answers in prop::collection::vec(answer(), 0..60),
        ) {
            let mut ring = Ring::new((0..len).collect(), &mut SplitMix64::new(seed));
            let mut list: Vec<usize> = (0..len).collect();
            let mut next = match len {
                0 => 0,
                len => SplitMix64::new(seed).below(len),
            };
            let mut answers = answers.into_iter();
            while answers.len() > 0 {
                let mut offered = Vec::new();
                let taken = ring.take(|node| {
                    let answer = answers.next().unwrap_or(Offered::TooLarge);
                    offered.push((*node, answer));
                    answer
                });
                prop_assert!(taken.is_some() || offered.len() == list.len());
                prop_assert_eq!(taken, offered.last().and_then(|(node, answer)| {
                    (*answer == Offered::Taken).then_some(node)
                }));
                for (node, answer) in offered {
                    next %= list.len();
                    prop_assert_eq!(list[next], node);
                    if answer == Offered::Exhausted {
                        list.remove(next);
                    } else {
                        next += 1;
                    }
                }
                if list.is_empty() {
                    break;
                }
            }
        }
    }
}
