//! Choice of the opportunistic containers that must make room for guaranteed ones (Hadoop:
//! `ContainerScheduler.extraOpportContainersToKill`).

mod least_waste;

pub(crate) use least_waste::{Candidate, least_waste};

use std::fmt;

use records::ContainerId;
use serde::{Deserialize, Serialize};

use crate::utilization::Amount;

/// Choice of the running opportunistic containers that make room for guaranteed ones
/// (`yarn.nodemanager.agent.victims.order`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VictimsOrder {
    /// The most recently started ones, as in Hadoop.
    #[default]
    Newest,
    /// The set that loses the least work together: run × size.
    LeastWaste,
}

impl VictimsOrder {
    /// Returns the word for configurations, pages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::LeastWaste => "least-waste",
        }
    }
}

impl fmt::Display for VictimsOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns whether what is wanted is freed in every dimension.
fn is_covered(wanted: Amount, freed: Amount) -> bool {
    wanted.saturating_sub(freed).is_zero()
}

/// Picks victims until nothing is short, and then spares those that are not needed. `newest_first`
/// are the candidates, most recently started first: the newest has the least work to lose.
///
/// Some are not needed if one that was picked later is large enough without them. The oldest of the
/// picked ones is spared first, because it has the most work to lose.
///
/// If even all candidates are too few, all that help are picked, as in Hadoop: the rest may become
/// free by itself. A candidate that has nothing of what is short is skipped, because its end would
/// not help.
pub(crate) fn newest(
    mut short: Amount,
    newest_first: impl Iterator<Item = (ContainerId, Amount)>,
) -> Vec<ContainerId> {
    let wanted = short;
    let mut freed = Amount::default();
    let mut victims = Vec::new();
    for (id, amount) in newest_first {
        if short.is_zero() {
            break;
        }
        let still_short = short.saturating_sub(amount);
        if still_short != short {
            victims.push((id, amount));
            freed += amount;
            short = still_short;
        }
    }
    let mut needed = Vec::with_capacity(victims.len());
    for (id, amount) in victims.into_iter().rev() {
        let without = freed - amount;
        if wanted.saturating_sub(without) == short {
            freed = without;
        } else {
            needed.push(id);
        }
    }
    needed.reverse();
    needed
}

#[cfg(test)]
mod tests {
    use records::Resource;

    use super::*;
    use test_support::ids::container as id;

    fn amount(memory_mb: u64, vcores: u32) -> Amount {
        Amount::new(Resource::new(memory_mb, vcores), None)
    }

    fn selected(short: Amount, newest_first: &[(i64, Amount)]) -> Vec<ContainerId> {
        newest(
            short,
            newest_first
                .iter()
                .map(|&(number, amount)| (id(number), amount)),
        )
    }

    #[test]
    fn nobody_goes_when_nothing_is_short() {
        assert_eq!(selected(Amount::default(), &[(1, amount(1, 1))]), []);
    }

    #[test]
    fn the_newest_go_first_and_only_as_many_as_needed() {
        let running = [(3, amount(2, 1)), (2, amount(2, 1)), (1, amount(2, 1))];
        assert_eq!(selected(amount(3, 0), &running), [id(3), id(2)]);
    }

    #[test]
    fn both_memory_and_cores_must_suffice() {
        let running = [(3, amount(4, 1)), (2, amount(1, 1)), (1, amount(1, 1))];
        assert_eq!(selected(amount(4, 2), &running), [id(3), id(2)]);
    }

    #[test]
    fn all_go_when_all_are_not_enough() {
        let running = [(2, amount(1, 1)), (1, amount(1, 1))];
        assert_eq!(selected(amount(9, 9), &running), [id(2), id(1)]);
    }

    #[test]
    fn those_that_a_larger_one_makes_unnecessary_are_spared() {
        let large_last = [
            (4, amount(1_024, 1)),
            (3, amount(1_024, 1)),
            (2, amount(1_024, 1)),
            (1, amount(4_096, 1)),
        ];
        assert_eq!(selected(amount(4_096, 0), &large_last), [id(1)]);
        assert_eq!(selected(amount(4_096, 2), &large_last), [id(4), id(1)]);
        assert_eq!(selected(amount(5_000, 0), &large_last), [id(4), id(1)]);
    }

    #[test]
    fn of_those_that_could_be_spared_the_oldest_is() {
        let running = [(3, amount(1, 1)), (2, amount(1, 1)), (1, amount(3, 1))];
        assert_eq!(selected(amount(4, 0), &running), [id(3), id(1)]);
    }

    #[test]
    fn one_that_has_nothing_of_what_is_short_is_passed_over() {
        let running = [(3, amount(4, 0)), (2, amount(4, 1))];
        assert_eq!(selected(amount(0, 1), &running), [id(2)]);
    }
}
