//! What nodes claim in looks, checked against the attempt's own containers.
//!
//! A node that claims to be idle gets whatever looks for a place. A claim is proven wrong by
//! containers of this attempt that the node must have had when it made it: placed well before, and
//! by the ResourceManager's answers not ended well after. What such a node claims is not used for a
//! while, twice as long each time, so that it gets no more than a node that nobody has seen. Its
//! claim need not be checked by anyone else: each attempt has its own containers.

use std::collections::BTreeMap;

use records::{MonoMillis, NodeId};

/// Longest time from an answer with a container until its node has it: the master calls the node,
/// and the node takes the container in. Java's take some hundred milliseconds for each on an idle
/// machine, and seconds on a busy one, in its first calls or for many containers in one.
pub(super) const STARTED_MS: u64 = 10_000;

/// Time until the ResourceManager's answers have told an end: heartbeats of the node and of the
/// master.
const TOLD_MS: u64 = 10_000;

/// Time for which nothing that a node claims is used after its first wrong claim; doubled with each
/// further one.
const DISTRUST_MIN_MS: u64 = 60_000;

/// Longest time without use of its claims.
const DISTRUST_MAX_MS: u64 = 3_600_000;

/// Most nodes of which a claim is waiting for its check, and most that are not trusted.
const NODES_MAX: usize = 4_096;

/// Load that a node has claimed.
#[derive(Clone, Copy, Debug)]
struct Claim {
    at: MonoMillis,
    containers: u32,
}

#[derive(Clone, Copy, Debug)]
struct Distrust {
    until: MonoMillis,
    times: u32,
}

/// Claims of nodes, for one attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Claims {
    /// Time of the registration with the present ResourceManager. A former one may have known of
    /// ends that nobody tells any more.
    since: MonoMillis,
    open: BTreeMap<NodeId, Claim>,
    distrusted: BTreeMap<NodeId, Distrust>,
}

impl Claims {
    /// Begins with a ResourceManager at this time.
    pub(super) fn begin(&mut self, now: MonoMillis) {
        self.since = now;
        self.open.clear();
    }

    /// Notes that a node on which the attempt has containers claims to have this many of anybody. A
    /// claim that waits for its check stays.
    pub(super) fn note(&mut self, node: &NodeId, containers: u32, at: MonoMillis) {
        if self.open.len() < NODES_MAX && !self.open.contains_key(node) {
            self.open.insert(node.clone(), Claim { at, containers });
        }
    }

    /// Checks the claims that are old enough. `told_at`: time of the ResourceManager's last answer.
    /// `live`: containers of the attempt that had not ended by it, with their nodes and the times
    /// at which they were placed. Walked over only when there is a claim to check.
    pub(super) fn check<'a>(
        &mut self,
        told_at: MonoMillis,
        live: impl Iterator<Item = (&'a NodeId, MonoMillis)>,
        now: MonoMillis,
    ) {
        let is_due = |claim: &Claim| claim.at + TOLD_MS <= told_at;
        if !self.open.values().any(is_due) {
            return;
        }
        let mut had: BTreeMap<&NodeId, u32> = BTreeMap::new();
        for (node, placed) in live {
            let claim = self.open.get(node).filter(|claim| is_due(claim));
            let claim = claim.filter(|_| placed >= self.since);
            if claim.is_some_and(|claim| placed + STARTED_MS <= claim.at) {
                *had.entry(node).or_default() += 1;
            }
        }
        let due = self.open.extract_if(.., |_, claim| is_due(claim));
        for (node, claim) in due {
            let had = had.get(&node).copied().unwrap_or(0);
            if had > claim.containers {
                let times = self.distrusted.get(&node).map_or(0, |known| known.times);
                let pause_ms = DISTRUST_MIN_MS << times.min(16);
                let distrust = Distrust {
                    until: now + pause_ms.min(DISTRUST_MAX_MS),
                    times: times + 1,
                };
                if self.distrusted.len() < NODES_MAX || times > 0 {
                    self.distrusted.insert(node, distrust);
                }
            } else if had > 0 {
                self.distrusted.remove(&node);
            }
        }
    }

    /// Returns whether what a node claims is not used.
    pub(super) fn is_distrusted(&self, node: &NodeId, now: MonoMillis) -> bool {
        let distrust = self.distrusted.get(node);
        distrust.is_some_and(|distrust| distrust.until > now)
    }
}

#[cfg(test)]
mod tests {
    use test_support::ids::node;

    use super::*;

    const T0: MonoMillis = MonoMillis(1_000_000);

    /// Checks a claim of this many containers, made at [`T0`], of a node with containers placed
    /// this long before it; returns whether the node is trusted.
    fn is_trusted(claimed: u32, placed_before_ms: &[u64], told_after_ms: u64) -> bool {
        let mut claims = Claims::default();
        let id = node("a");
        claims.note(&id, claimed, T0);
        // A later claim does not put off the check.
        claims.note(&id, 100, T0 + 9_000);
        let told_at = T0 + told_after_ms;
        let placed = placed_before_ms
            .iter()
            .map(|before| MonoMillis(T0.0 - before));
        let other = node("b");
        let live = placed
            .map(|placed| (&id, placed))
            .chain([(&other, MonoMillis(0))]);
        claims.check(told_at, live, told_at);
        !claims.is_distrusted(&id, told_at)
    }

    #[test]
    fn a_claim_is_wrong_if_the_node_had_more_containers_of_this_attempt() {
        assert!(!is_trusted(1, &[10_000, 19_000], 10_000));
        assert!(is_trusted(2, &[10_000, 19_000], 10_000));
        // One may not have been started yet, and one may have ended untold.
        assert!(is_trusted(1, &[9_999, 19_000], 10_000));
        assert!(is_trusted(1, &[10_000, 19_000], 9_999));
        assert!(is_trusted(0, &[], 10_000));
    }

    #[test]
    fn ends_that_a_former_resource_manager_knew_prove_nothing() {
        let id = node("a");
        for (registered, is_trusted) in [(T0, false), (T0 + 1, true)] {
            let mut claims = Claims::default();
            claims.begin(registered);
            let claimed = T0 + STARTED_MS;
            claims.note(&id, 0, claimed);
            let told_at = claimed + TOLD_MS;
            claims.check(told_at, [(&id, T0)].into_iter(), told_at);
            assert_eq!(claims.is_distrusted(&id, told_at), !is_trusted);
        }
    }

    #[test]
    fn a_liar_is_left_alone_longer_and_longer_until_a_claim_is_right() {
        let mut claims = Claims::default();
        let id = node("a");
        let mut now = T0;
        let mut claim = |claimed, now: &mut MonoMillis| {
            claims.note(&id, claimed, *now);
            *now = *now + TOLD_MS;
            claims.check(*now, [(&id, MonoMillis(0))].into_iter(), *now);
            let is_out = |at: u64| claims.is_distrusted(&id, *now + at);
            [30_000, 60_000, 120_000, 3_600_000].map(is_out)
        };
        assert_eq!(claim(0, &mut now), [true, false, false, false]);
        assert_eq!(claim(0, &mut now), [true, true, false, false]);
        for _ in 0..100 {
            claim(0, &mut now);
        }
        assert_eq!(claim(0, &mut now), [true, true, true, false]);
        assert_eq!(claim(1, &mut now), [false; 4]);
        assert_eq!(claim(0, &mut now), [true, false, false, false]);
    }

    #[test]
    fn claims_take_bounded_memory() {
        let mut claims = Claims::default();
        let nodes: Vec<_> = (0..NODES_MAX + 10).map(|n| node(&n.to_string())).collect();
        for id in &nodes {
            claims.note(id, 0, T0);
        }
        assert_eq!(claims.open.len(), NODES_MAX);
        let told_at = T0 + TOLD_MS;
        for id in &nodes {
            claims.note(id, 0, T0);
            claims.check(told_at, nodes.iter().map(|id| (id, MonoMillis(0))), told_at);
        }
        assert!(claims.open.is_empty());
        assert_eq!(claims.distrusted.len(), NODES_MAX);
    }
}
