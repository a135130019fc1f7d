//! Estimate of queue waits by simulation.
//!
//! The simulation runs this node forward: containers that hold an allocation free it when they end,
//! and waiting containers take it strictly in the order in force. The end of each is drawn from
//! observed run times ([`crate::run_times`]). Several paths are simulated with different draws, and
//! their mean is the estimate: the wait for the first of many ends is far shorter than the mean of
//! those ends, which a single path of means would miss. Over the paths, the draws for each
//! container cover every part of its distribution once (Latin hypercube sampling: McKay, Beckman
//! and Conover, Technometrics 21, 1979), so that the mean of few paths does not depend on luck.
//!
//! Not simulated, because nothing announces them: guaranteed containers that come later, and
//! evictions for them. Nor is simulated that others may pass a container that does not fit, so the
//! estimate is too long while one waits.
//!
//! The work is bounded. Each path costs one heap operation for each container that holds an
//! allocation or waits, and all paths together [`STEPS_MAX`] of them, except that at least one path
//! is always completed. With 10,000 in the queue that is one path, and its length averages out as
//! well as many paths of a short queue. The estimate runs for a heartbeat, never for an event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::{Draw, SplitMix64};
use crate::run_times::{WHOLE, remaining_ms};
use crate::utilization::Amount;

/// Cap of every estimate, in milliseconds. A Java ResourceManager adds up the waits of all nodes in
/// 32 bits: an hour each allows for about 600 nodes at the cap.
pub(crate) const WAIT_MAX_MS: u64 = 3_600_000;

/// Paths simulated for a short queue.
const PATHS_MAX: usize = 64;

/// Containers visited over all paths: about a millisecond.
const STEPS_MAX: usize = 20_000;

/// Seed of the draws. Constant: equal situations have equal estimates, and two heartbeats differ by
/// events between them, not by luck.
const SEED: u64 = 0x5EED;

/// Demand of a container that holds an allocation or waits for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    /// Size of the allocation.
    pub(crate) amount: Amount,
    /// Time for which it is held.
    pub(crate) run: Run<'a>,
}

/// Remaining time of a container with an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Run<'a> {
    /// Being killed or frozen, which takes at most `within_ms` milliseconds.
    Ending { within_ms: u64 },
    /// Has run for `ran_ms`. `known` are the run times of similar containers, shortest first.
    Running { known: &'a [u64], ran_ms: u64 },
}

/// Start state of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Situation<'a> {
    /// Resources that the node offers.
    pub(crate) node: Amount,
    /// Containers that hold an allocation.
    pub(crate) holding: Vec<Load<'a>>,
    /// Waiting containers in queue order.
    pub(crate) waiting: Vec<Load<'a>>,
    /// Size of another opportunistic container.
    pub(crate) newcomer: Amount,
    /// Number of waiting containers before that one; those behind it do not count for it.
    pub(crate) newcomer_at: usize,
}

/// Estimated waits in milliseconds from now, each at most [`WAIT_MAX_MS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Waits of the waiting containers in queue order; never decreasing.
    pub(crate) waiting: Vec<u64>,
    /// Wait of another opportunistic container.
    pub(crate) newcomer: u64,
}

impl Waits {
    /// Waits where nothing waits and another container would start at once.
    pub(crate) const NONE: Self = Self {
        waiting: Vec::new(),
        newcomer: 0,
    };
}

impl Situation<'_> {
    /// Simulates as many paths as the bounds allow, and returns the mean waits.
    pub(crate) fn estimate(&self) -> Waits {
        let containers = self.holding.len() + self.waiting.len() + 1;
        let paths = (STEPS_MAX / containers).clamp(1, PATHS_MAX);
        let draws = Draws::new(containers, paths);
        let mut sums = vec![0; self.waiting.len() + 1];
        for path in 0..paths {
            self.simulate_path(&draws, path, &mut sums);
        }
        let paths = u64::try_from(paths).unwrap_or(1);
        let mut waiting: Vec<u64> = sums.into_iter().map(|sum| sum / paths).collect();
        let newcomer = waiting.pop().unwrap_or(0);
        Waits { waiting, newcomer }
    }

    /// Simulates one path, and adds the start time of each waiting container to `starts`, that of
    /// the newcomer last.
    fn simulate_path(&self, draws: &Draws, path_number: usize, starts: &mut [u64]) {
        let mut path = Path {
            now_ms: 0,
            held: Amount::default(),
            ends: BinaryHeap::with_capacity(self.holding.len() + self.waiting.len()),
        };
        let mut ends = Vec::with_capacity(self.holding.len());
        for (at, load) in self.holding.iter().enumerate() {
            path.held += load.amount;
            let end_ms = load.run.remaining_ms(draws.fraction(at, path_number));
            ends.push(Reverse((end_ms, at)));
        }
        path.ends.extend(ends);
        let last = self.waiting.len();
        for (at, load) in self.waiting.iter().enumerate() {
            if at == self.newcomer_at {
                // It takes nothing from those behind it: their waits are those without it.
                starts[last] += self.wait_for_room(&mut path.clone(), self.newcomer);
            }
            starts[at] += self.wait_for_room(&mut path, load.amount);
            if path.now_ms >= WAIT_MAX_MS {
                for later in &mut starts[at + 1..last] {
                    *later += WAIT_MAX_MS;
                }
                if at < self.newcomer_at {
                    starts[last] += WAIT_MAX_MS;
                }
                return;
            }
            path.held += load.amount;
            let at = self.holding.len() + at;
            let run_ms = load.run.remaining_ms(draws.fraction(at, path_number));
            path.ends
                .push(Reverse((path.now_ms.saturating_add(run_ms), at)));
        }
        if self.newcomer_at >= last {
            starts[last] += self.wait_for_room(&mut path, self.newcomer);
        }
    }

    /// Advances the path until `amount` fits; returns the time at which it does.
    fn wait_for_room(&self, path: &mut Path, amount: Amount) -> u64 {
        while !(path.held + amount).fits_in(self.node) {
            let Some(Reverse((end_ms, at))) = path.ends.pop() else {
                // The node is empty and `amount` does not fit: a guaranteed container that is
                // larger than the node. It starts alone.
                break;
            };
            path.now_ms = path.now_ms.max(end_ms).min(WAIT_MAX_MS);
            path.held -= self.at(at).amount;
            if path.now_ms == WAIT_MAX_MS {
                break;
            }
        }
        path.now_ms
    }

    fn at(&self, at: usize) -> &Load<'_> {
        match at.checked_sub(self.holding.len()) {
            None => &self.holding[at],
            Some(at) => &self.waiting[at],
        }
    }
}

impl Run<'_> {
    fn remaining_ms(self, fraction: usize) -> u64 {
        match self {
            Self::Ending { within_ms } => within_ms,
            Self::Running { known, ran_ms } => remaining_ms(known, ran_ms, fraction),
        }
    }
}

/// Position of each container in its distribution of run times, on each path.
struct Draws {
    paths: usize,
    /// Fractions, those of one container side by side.
    fractions: Vec<usize>,
}

impl Draws {
    fn new(containers: usize, paths: usize) -> Self {
        let mut random = SplitMix64::new(SEED);
        let mut fractions = Vec::with_capacity(containers * paths);
        for _ in 0..containers {
            let first = fractions.len();
            // One draw in each of as many equal parts as there are paths, in random order.
            for part in 0..paths {
                fractions.push((part * WHOLE + random.below(WHOLE)) / paths);
                let other = first + random.below(part + 1);
                fractions.swap(first + part, other);
            }
        }
        Self { paths, fractions }
    }

    fn fraction(&self, container: usize, path: usize) -> usize {
        self.fractions[container * self.paths + path]
    }
}

/// State of one simulated path.
#[derive(Clone)]
struct Path {
    now_ms: u64,
    held: Amount,
    /// Ends of the containers that hold an allocation, earliest on top.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use records::Resource;

    use super::*;

    fn amount(vcores: u32) -> Amount {
        Amount::new(Resource::new(0, vcores), None)
    }

    fn going(vcores: u32, known: &[u64], ran_ms: u64) -> Load<'_> {
        Load {
            amount: amount(vcores),
            run: Run::Running { known, ran_ms },
        }
    }

    /// Estimates on a node of four cores, for a newcomer of one core.
    fn estimate(holding: Vec<Load<'_>>, waiting: Vec<Load<'_>>) -> Waits {
        let newcomer_at = waiting.len();
        estimate_at(newcomer_at, holding, waiting)
    }

    fn estimate_at(newcomer_at: usize, holding: Vec<Load<'_>>, waiting: Vec<Load<'_>>) -> Waits {
        Situation {
            node: amount(4),
            holding,
            waiting,
            newcomer: amount(1),
            newcomer_at,
        }
        .estimate()
    }

    #[test]
    fn beside_room_nobody_waits() {
        assert_eq!(estimate(vec![going(3, &[50], 0)], vec![]).newcomer, 0);
    }

    #[test]
    fn the_first_end_that_gives_enough_room_back_counts() {
        let holding = vec![going(2, &[50], 20), going(1, &[90], 80), going(1, &[5], 0)];
        assert_eq!(estimate(holding.clone(), vec![]).newcomer, 5);
        let waits = estimate(holding, vec![going(3, &[100], 0)]);
        assert_eq!((waits.waiting, waits.newcomer), (vec![30], 30));
    }

    #[test]
    fn nobody_slips_past_the_head() {
        let holding = vec![going(3, &[40], 0)];
        let waits = estimate(holding, vec![going(4, &[10], 0), going(1, &[10], 0)]);
        assert_eq!((waits.waiting, waits.newcomer), (vec![40, 50], 50));
    }

    #[test]
    fn a_newcomer_that_passes_some_waits_only_for_those_before_it() {
        let holding = vec![going(4, &[40], 0)];
        let waiting = vec![going(4, &[10], 0), going(4, &[20], 0), going(4, &[30], 0)];
        let newcomers = [0, 1, 2, 3].map(|at| {
            let waits = estimate_at(at, holding.clone(), waiting.clone());
            assert_eq!(waits.waiting, [40, 50, 70]);
            waits.newcomer
        });
        assert_eq!(newcomers, [40, 50, 70, 100]);
    }

    #[test]
    fn those_that_started_meanwhile_give_room_back_too() {
        let holding = vec![going(4, &[40], 0)];
        let waiting = vec![going(4, &[10], 0), going(4, &[20], 15)];
        let waits = estimate(holding, waiting);
        assert_eq!((waits.waiting, waits.newcomer), (vec![40, 50], 55));
    }

    #[test]
    fn one_that_is_being_ended_gives_room_back_in_time() {
        let ending = Load {
            amount: amount(4),
            run: Run::Ending { within_ms: 250 },
        };
        assert_eq!(estimate(vec![ending], vec![]).newcomer, 250);
    }

    #[test]
    fn one_larger_than_the_node_starts_alone_and_the_others_wait_for_its_end() {
        let holding = vec![going(1, &[30], 0)];
        let waits = estimate(holding, vec![going(5, &[10], 0), going(1, &[1], 0)]);
        assert_eq!((waits.waiting, waits.newcomer), (vec![30, 40], 40));
    }

    #[test]
    fn of_many_that_may_end_at_any_time_one_ends_soon() {
        let known: Vec<u64> = (1..=32).map(|step| step * 1_000).collect();
        let one = estimate(vec![going(4, &known, 0)], vec![]).newcomer;
        let four = estimate(vec![going(1, &known, 0); 4], vec![]).newcomer;
        // The mean of one is 16.5 s, that of the least of four slightly more than 32 / 5.
        assert!((16_000..17_000).contains(&one), "{one}");
        assert!((6_000..8_000).contains(&four), "{four}");
    }

    #[test]
    fn a_node_with_more_than_it_offers_waits_for_all_of_it() {
        let holding = vec![going(4, &[10], 0), going(2, &[30], 0)];
        assert_eq!(estimate(holding, vec![]).newcomer, 10);
        let holding = vec![going(4, &[30], 0), going(2, &[10], 0)];
        assert_eq!(estimate(holding, vec![]).newcomer, 30);
    }

    proptest! {
        #[test]
        fn waits_never_fall_along_the_queue_and_are_bounded(
            holding in prop::collection::vec((0_u32..6, 0_u64..10_000_000), 0..20),
            waiting in prop::collection::vec((0_u32..6, 0_u64..10_000_000), 0..20),
        ) {
            let known = [1_000, 60_000, 5_000_000];
            let loads = |of: Vec<(u32, u64)>| -> Vec<Load<'static>> {
                let known: &'static [u64] = Box::leak(Box::new(known));
                of.into_iter().map(|(vcores, ran_ms)| going(vcores, known, ran_ms)).collect()
            };
            let waits = estimate(loads(holding), loads(waiting));
            let mut all = waits.waiting;
            all.push(waits.newcomer);
            prop_assert!(all.is_sorted(), "{all:?}");
            prop_assert!(all.iter().all(|wait| *wait <= WAIT_MAX_MS));
        }
    }
}
