//! A network that delays, loses, duplicates and reorders messages, and that can be partitioned.

use std::collections::BTreeSet;

use crate::distribution::Distribution;
use crate::random::Random;

/// Behaviour of the network between any two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// Milliseconds from sending to arrival. Messages overtake each other by its spread.
    pub delay_ms: Distribution,
    /// Probability that a message is lost, in parts per million.
    pub loss_per_million: u32,
    /// Probability that a message arrives twice, in parts per million.
    pub duplicate_per_million: u32,
}

/// The network. `M` names a machine.
#[derive(Debug)]
pub struct Network<M> {
    link: LinkModel,
    /// Directions in which nothing arrives.
    cut: BTreeSet<(M, M)>,
    random: Random,
}

impl<M: Copy + Ord> Network<M> {
    /// Returns a network without partitions.
    #[must_use]
    pub const fn new(link: LinkModel, random: Random) -> Self {
        Self {
            link,
            cut: BTreeSet::new(),
            random,
        }
    }

    /// Changes the behaviour for messages from now on.
    pub const fn set_link(&mut self, link: LinkModel) {
        self.link = link;
    }

    /// Stops all messages from one machine to another. The other direction is not concerned.
    pub fn cut(&mut self, from: M, to: M) {
        self.cut.insert((from, to));
    }

    /// Ends a cut.
    pub fn heal(&mut self, from: M, to: M) {
        self.cut.remove(&(from, to));
    }

    /// Ends all cuts.
    pub fn heal_all(&mut self) {
        self.cut.clear();
    }

    /// Returns the delays, in milliseconds, after which copies of a message arrive: none if it is
    /// lost. A message to the same machine is neither lost nor duplicated.
    pub fn deliveries(&mut self, from: M, to: M) -> impl Iterator<Item = u64> + use<M> {
        let LinkModel {
            delay_ms,
            loss_per_million,
            duplicate_per_million,
        } = self.link;
        let random = &mut self.random;
        let (first, second) = if from == to {
            (Some(0), None)
        } else if self.cut.contains(&(from, to)) || random.chance(loss_per_million) {
            (None, None)
        } else {
            let first = delay_ms.sample(random);
            let is_doubled = random.chance(duplicate_per_million);
            (Some(first), is_doubled.then(|| delay_ms.sample(random)))
        };
        first.into_iter().chain(second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    fn network(loss_per_million: u32, duplicate_per_million: u32) -> Network<u8> {
        let link = LinkModel {
            delay_ms: Distribution::Uniform(1, 9),
            loss_per_million,
            duplicate_per_million,
        };
        Network::new(link, Streams::new(1).stream("network", 0))
    }

    #[test]
    fn messages_are_lost_and_doubled_as_often_as_asked_for() {
        let mut network = network(100_000, 200_000);
        let counts: Vec<usize> = (0..10_000)
            .map(|_| network.deliveries(1, 2).count())
            .collect();
        let of = |count| counts.iter().filter(|found| **found == count).count();
        assert!((900..1_100).contains(&of(0)), "{}", of(0));
        assert!((1_700..1_900).contains(&of(2)), "{}", of(2));
    }

    #[test]
    fn a_cut_stops_one_direction_until_it_is_healed() {
        let mut network = network(0, 0);
        network.cut(1, 2);
        assert_eq!(network.deliveries(1, 2).count(), 0);
        assert_eq!(network.deliveries(2, 1).count(), 1);
        network.heal(1, 2);
        assert_eq!(network.deliveries(1, 2).count(), 1);
        network.cut(1, 2);
        network.heal_all();
        assert_eq!(network.deliveries(1, 2).count(), 1);
    }

    #[test]
    fn a_machine_reaches_itself() {
        let mut network = network(1_000_000, 0);
        assert_eq!(network.deliveries(3, 3).collect::<Vec<_>>(), [0]);
    }
}
