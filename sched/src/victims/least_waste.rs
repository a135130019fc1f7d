//! Victims that lose the least work together, instead of the newest.

use records::ContainerId;

use super::{is_covered, newest};
use crate::utilization::Amount;

/// Most candidates among which the best set is looked for. With more the set is a good one.
pub(crate) const EXACT_MAX: usize = 16;

/// Longest run that counts, in milliseconds: 34 years. Products stay within their types.
const RAN_MAX_MS: u64 = 1 << 40;

/// Largest size that counts, in millionths of the node.
const SHARE_MAX: u128 = 1 << 40;

/// Running container that may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: ContainerId,
    pub(crate) amount: Amount,
    /// Milliseconds that it has run.
    pub(crate) ran_ms: u64,
}

/// Candidate that helps, with the work that its end loses: run × size.
#[derive(Clone, Copy, Debug)]
struct Helper {
    /// Position among the candidates, the newest first.
    at: usize,
    amount: Amount,
    waste: u128,
}

/// Returns the candidates that free what is short with the least work lost, the newest first.
/// Among sets that lose as much, one with less work of its single containers is taken, then one of
/// newer containers.
///
/// If all candidates together are too few, the set frees as much as all of them.
pub(crate) fn least_waste(
    short: Amount,
    node: Amount,
    newest_first: &[Candidate],
) -> Vec<ContainerId> {
    let helps = |candidate: &Candidate| short.saturating_sub(candidate.amount) != short;
    let mut helpers: Vec<Helper> = newest_first
        .iter()
        .enumerate()
        .filter(|(_, candidate)| helps(candidate))
        .map(|(at, candidate)| Helper {
            at,
            amount: candidate.amount,
            waste: waste_of(candidate, node),
        })
        .collect();
    let all = helpers
        .iter()
        .fold(Amount::default(), |sum, helper| sum + helper.amount);
    let wanted = short.saturating_sub(short.saturating_sub(all));
    let mut chosen = if helpers.len() <= EXACT_MAX {
        helpers.sort_by_key(|helper| helper.waste);
        Search::new(wanted, &helpers).best()
    } else {
        good(wanted, node, helpers, short, newest_first)
    };
    chosen.sort_unstable();
    chosen.into_iter().map(|at| newest_first[at].id).collect()
}

/// Returns the work that the end of a container loses.
fn waste_of(candidate: &Candidate, node: Amount) -> u128 {
    u128::from(candidate.ran_ms.min(RAN_MAX_MS)) * share_of(candidate.amount, node)
}

/// Returns a size in millionths of the node, memory and cores together.
fn share_of(amount: Amount, node: Amount) -> u128 {
    let part = |of: u128, whole: u128| (of * 1_000_000).checked_div(whole).unwrap_or(0);
    let memory = part(amount.memory_mb(), node.memory_mb());
    let vcores = part(u128::from(amount.vcores()), u128::from(node.vcores()));
    (memory + vcores).min(SHARE_MAX)
}

/// Search through all sets of a few helpers, those with little to lose first. A branch ends when it
/// loses no less than the best set so far, or cannot free enough any more.
struct Search<'a> {
    wanted: Amount,
    helpers: &'a [Helper],
    /// Sum of the helpers from each position on.
    rest: Vec<Amount>,
    best: Option<(u128, u32)>,
}

impl<'a> Search<'a> {
    fn new(wanted: Amount, helpers: &'a [Helper]) -> Self {
        let mut rest = vec![Amount::default(); helpers.len() + 1];
        for at in (0..helpers.len()).rev() {
            rest[at] = rest[at + 1] + helpers[at].amount;
        }
        Self {
            wanted,
            helpers,
            rest,
            best: None,
        }
    }

    /// Returns the best set, as positions among the candidates.
    fn best(mut self) -> Vec<usize> {
        self.branch(0, 0, 0, Amount::default());
        let (_, set) = self.best.unwrap_or_default();
        let helpers = self.helpers.iter().enumerate();
        let in_set = helpers.filter(|(number, _)| set & (1 << number) != 0);
        in_set.map(|(_, helper)| helper.at).collect()
    }

    fn branch(&mut self, number: usize, set: u32, waste: u128, freed: Amount) {
        if self.best.is_some_and(|(best, _)| waste >= best) {
            return;
        }
        if is_covered(self.wanted, freed) {
            self.best = Some((waste, set));
            return;
        }
        let Some(helper) = self.helpers.get(number) else {
            return;
        };
        if !is_covered(self.wanted, freed + self.rest[number]) {
            return;
        }
        let with = (waste + helper.waste, freed + helper.amount);
        self.branch(number + 1, set | 1 << number, with.0, with.1);
        self.branch(number + 1, set, waste, freed);
    }
}

/// Returns a good set of many helpers: those that lose the least for what they free of what is
/// short, until it is free, without those that others make unnecessary. Never worse than the
/// newest.
fn good(
    wanted: Amount,
    node: Amount,
    mut helpers: Vec<Helper>,
    short: Amount,
    newest_first: &[Candidate],
) -> Vec<usize> {
    helpers.sort_by_key(|helper| {
        let useful = wanted.saturating_sub(wanted.saturating_sub(helper.amount));
        helper.waste / share_of(useful, node).max(1)
    });
    let (mut chosen, mut freed) = (Vec::new(), Amount::default());
    for helper in &helpers {
        if is_covered(wanted, freed) {
            break;
        }
        chosen.push(*helper);
        freed += helper.amount;
    }
    chosen.sort_by_key(|helper| helper.waste);
    let mut needed = Vec::with_capacity(chosen.len());
    let mut lost = 0;
    for helper in chosen.into_iter().rev() {
        if is_covered(wanted, freed - helper.amount) {
            freed -= helper.amount;
        } else {
            lost += helper.waste;
            needed.push(helper.at);
        }
    }
    let candidates = newest_first.iter().map(|of| (of.id, of.amount));
    let newest = newest(short, candidates);
    let is_newest = |candidate: &Candidate| newest.contains(&candidate.id);
    let of_newest = newest_first.iter().enumerate();
    let of_newest: Vec<(usize, u128)> = of_newest
        .filter(|(_, candidate)| is_newest(candidate))
        .map(|(at, candidate)| (at, waste_of(candidate, node)))
        .collect();
    if of_newest.iter().map(|(_, waste)| waste).sum::<u128>() < lost {
        return of_newest.into_iter().map(|(at, _)| at).collect();
    }
    needed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use records::Resource;

    use super::*;
    use test_support::ids::container as id;

    fn amount(memory_mb: u64, vcores: u32) -> Amount {
        Amount::new(Resource::new(memory_mb, vcores), None)
    }

    /// Candidates by memory, cores and milliseconds run, the newest first; the ids count from 0.
    fn candidates(of: &[(u64, u32, u64)]) -> Vec<Candidate> {
        let candidate =
            |(number, (memory_mb, vcores, ran_ms)): (i64, &(u64, u32, u64))| Candidate {
                id: id(number),
                amount: amount(*memory_mb, *vcores),
                ran_ms: *ran_ms,
            };
        (0..).zip(of).map(candidate).collect()
    }

    fn chosen(short: Amount, of: &[(u64, u32, u64)]) -> Vec<i64> {
        let ids = least_waste(short, amount(100, 100), &candidates(of));
        ids.into_iter().map(|id| id.id).collect()
    }

    #[test]
    fn an_older_small_one_is_spared_if_a_newer_large_one_is_needed_anyway() {
        assert_eq!(chosen(amount(4, 0), &[(4, 1, 10), (1, 1, 90)]), [0]);
        // The newest alone would not do, and the rule of the newest would end both.
        assert_eq!(
            chosen(amount(4, 0), &[(3, 1, 10), (1, 1, 90), (4, 1, 20)]),
            [2]
        );
    }

    #[test]
    fn of_equal_sizes_the_newest_go_as_under_the_other_order() {
        let running = [(2, 1, 10), (2, 1, 20), (2, 1, 30)];
        assert_eq!(chosen(amount(3, 0), &running), [0, 1]);
        assert_eq!(chosen(amount(0, 0), &running), [] as [i64; 0]);
        assert_eq!(
            chosen(amount(3, 0), &[(2, 1, 0), (2, 1, 0), (2, 1, 0)]),
            [0, 1]
        );
    }

    #[test]
    fn too_few_all_help_and_those_that_do_not_are_spared() {
        assert_eq!(
            chosen(amount(9, 0), &[(2, 1, 1), (0, 5, 1), (2, 1, 1)]),
            [0, 2]
        );
    }

    fn waste(of: &[Candidate], ids: &[ContainerId], node: Amount) -> u128 {
        let lost = of.iter().filter(|candidate| ids.contains(&candidate.id));
        lost.map(|candidate| waste_of(candidate, node)).sum()
    }

    proptest! {
        #[test]
        fn the_set_frees_as_much_as_any_and_loses_the_least(
            of in prop::collection::vec((0_u64..9, 0_u32..5, 0_u64..1_000), 0..24),
            short in (0_u64..40, 0_u32..20),
        ) {
            let (candidates, node) = (candidates(&of), amount(100, 100));
            let short = amount(short.0, short.1);
            let set = least_waste(short, node, &candidates);
            let freed = |ids: &[ContainerId]| {
                let in_set = candidates.iter().filter(|of| ids.contains(&of.id));
                in_set.fold(Amount::default(), |sum, of| sum + of.amount)
            };
            let newest = newest(short, candidates.iter().map(|of| (of.id, of.amount)));
            let left = |ids: &[ContainerId]| short.saturating_sub(freed(ids));
            prop_assert_eq!(left(&set), left(&newest));
            let lost = waste(&candidates, &set, node);
            prop_assert!(lost <= waste(&candidates, &newest, node));
            if candidates.len() <= 12 {
                for subset in 0_u32..1 << candidates.len() {
                    let ids = (0..candidates.len()).filter(|at| subset & 1 << at != 0);
                    let ids: Vec<ContainerId> = ids.map(|at| candidates[at].id).collect();
                    if left(&ids) == left(&newest) {
                        prop_assert!(lost <= waste(&candidates, &ids, node), "{:?}", ids);
                    }
                }
            }
        }
    }
}
