//! Choice of nodes during one heartbeat of an attempt.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use records::NodeId;

use super::node::{Placement, RemoteNode};
use super::preference::{HostPreferences, PreferenceKey, Preferred};
use crate::allocator::Locality;
use crate::allocator::ask::{Ask, AskKey};
use crate::allocator::places::Places;
use crate::random::{Draw, SplitMix64};

/// Node that may take containers in this heartbeat.
pub(super) struct Candidate<'a> {
    pub(super) node: &'a RemoteNode,
    /// Position in the last list that had the node.
    pub(super) rank: usize,
    /// Containers of earlier heartbeats: under [`Placement::ListOrder`] those that the list does
    /// not reflect, under the others those that have not ended.
    pub(super) given: u32,
    /// Containers of this heartbeat.
    pub(super) used: u32,
}

/// Candidates by the name of a place, as indexes in ascending order.
type ByPlace<'a> = BTreeMap<&'a str, Vec<usize>>;

/// Candidates of a partition, as indexes in ascending order. An ask that names places finds its
/// candidates without visiting all others: an attempt may have many asks that no candidate
/// satisfies. Most asks name none, so candidates are put in the order of places when one does.
#[derive(Default)]
struct Partition<'a> {
    all: Vec<usize>,
    /// Candidates of `all` that draws have not found closed; `None` before the first draw.
    drawn_from: Option<Vec<usize>>,
    by_host: OnceCell<ByPlace<'a>>,
    by_rack: OnceCell<ByPlace<'a>>,
    /// Number of candidates that still take containers of asks that do not name their host.
    open: usize,
    /// Containers of earlier heartbeats on the candidate that has the fewest.
    least_given: u32,
}

impl<'a> Partition<'a> {
    fn by_host(&self, candidates: &[Candidate<'a>]) -> &ByPlace<'a> {
        let by_host = || self.by_place(candidates, |node| &node.node_id.host);
        self.by_host.get_or_init(by_host)
    }

    fn by_rack(&self, candidates: &[Candidate<'a>]) -> &ByPlace<'a> {
        let by_rack = || self.by_place(candidates, |node| &node.rack);
        self.by_rack.get_or_init(by_rack)
    }

    fn by_place(
        &self,
        candidates: &[Candidate<'a>],
        name: impl Fn(&'a RemoteNode) -> &'a str,
    ) -> ByPlace<'a> {
        let mut by_place = ByPlace::new();
        for at in &self.all {
            let node = candidates[*at].node;
            by_place.entry(name(node)).or_default().push(*at);
        }
        by_place
    }
}

/// Partitions by name. The default one has the empty text as its name and is usually the only one.
/// It is kept apart from the map because comparing two empty texts is slow: they have no address in
/// memory, and over such addresses the C library's comparison for AVX-512 takes a quarter of a
/// microsecond, a hundred times as long as over a name.
#[derive(Default)]
struct Partitions<'a> {
    default: Partition<'a>,
    named: BTreeMap<&'a str, Partition<'a>>,
}

impl<'a> Partitions<'a> {
    fn get(&self, name: &str) -> Option<&Partition<'a>> {
        if name.is_empty() {
            return Some(&self.default);
        }
        self.named.get(name)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Partition<'a>> {
        if name.is_empty() {
            return Some(&mut self.default);
        }
        self.named.get_mut(name)
    }

    fn get_or_add(&mut self, name: &'a str) -> &mut Partition<'a> {
        if name.is_empty() {
            return &mut self.default;
        }
        self.named.entry(name).or_default()
    }
}

/// Returns the candidates at places of an ask, in no particular order. Walks over the shorter of
/// the two lists.
fn at_places<'b>(
    index: &'b BTreeMap<&str, Vec<usize>>,
    places: &'b Places,
) -> impl Iterator<Item = usize> + 'b {
    let is_longer = places.len() > index.len();
    let named = places.iter().filter(move |_| !is_longer);
    let named = named.filter_map(|(name, _)| index.get(name.as_str()));
    let present = index.iter().filter(move |_| is_longer);
    let present = present.filter(|(name, _)| places.has(name));
    let present = present.map(|(_, candidates)| candidates);
    named.chain(present).flatten().copied()
}

/// Most containers for one node in one heartbeat of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::allocator) struct Shares {
    /// Bound for asks that name the node's host.
    pub(in crate::allocator) local: u32,
    /// Bound for asks that name only its rack, or no place.
    pub(in crate::allocator) elsewhere: u32,
}

/// Node of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::allocator) enum Taken<'a> {
    /// A candidate, which is counted.
    Node(&'a RemoteNode, Locality),
    /// Under [`Placement::Look`]: any node that the caller's looks allow.
    Anywhere,
}

/// Choice of a node in the order of an ask's wishes.
enum Choice {
    /// The candidate with this index.
    Candidate(usize, Locality),
    /// Any node, because no candidate that the ask names or prefers is left.
    Anywhere,
    /// No node in this heartbeat.
    Nothing,
}

/// Choice of nodes during one heartbeat.
pub(in crate::allocator) struct Turn<'a> {
    placement: Placement,
    candidates: Vec<Candidate<'a>>,
    partitions: Partitions<'a>,
    shares: Shares,
    given: &'a mut BTreeMap<NodeId, u32>,
    random: &'a mut SplitMix64,
    preferred: Option<Preferred<'a>>,
}

impl<'a> Turn<'a> {
    /// Starts a heartbeat with these candidates, in the list's order.
    pub(super) fn new(
        placement: Placement,
        mut candidates: Vec<Candidate<'a>>,
        shares: Shares,
        given: &'a mut BTreeMap<NodeId, u32>,
        random: &'a mut SplitMix64,
    ) -> Self {
        // Stable sort: nodes with equal counts keep the list's order.
        candidates.sort_by_key(|candidate| candidate.given);
        let mut partitions = Partitions::default();
        for (at, Candidate { node, given, .. }) in candidates.iter().enumerate() {
            let partition = partitions.get_or_add(&node.partition);
            if partition.all.is_empty() {
                partition.least_given = *given;
            }
            partition.all.push(at);
            partition.open += 1;
        }
        Self {
            placement,
            candidates,
            partitions,
            shares,
            given,
            random,
            preferred: None,
        }
    }

    /// Returns the number of candidates.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Makes asks prefer hosts. `run_time_ms` is the mean run time of the attempt's containers.
    pub(in crate::allocator) fn set_preferences(
        &mut self,
        preferences: &'a HostPreferences,
        run_time_ms: Option<u64>,
    ) {
        self.preferred = Some(Preferred {
            preferences,
            run_time_ms,
            candidates: BTreeMap::new(),
        });
    }

    /// Chooses and counts the node for the next container of an ask; `None` if the ask gets none in
    /// this heartbeat. If the hosts that the ask names have reached their share, the ask waits
    /// instead of using another node.
    pub(in crate::allocator) fn take(&mut self, key: &AskKey, ask: &Ask) -> Option<Taken<'a>> {
        let (at, locality) = match (self.choose(key, ask), self.placement) {
            (Choice::Candidate(at, locality), _) => (at, locality),
            (Choice::Nothing, _) => return None,
            (Choice::Anywhere, Placement::Look) => return Some(Taken::Anywhere),
            (Choice::Anywhere, Placement::ListOrder) => {
                let at = self.first_least_used(ask.partition())?;
                (at, Locality::OffSwitch)
            }
            (Choice::Anywhere, Placement::Spread) => {
                (self.open_anywhere(ask.partition())?, Locality::OffSwitch)
            }
        };
        let candidate = &mut self.candidates[at];
        candidate.used += 1;
        let node = candidate.node;
        let given = candidate.given.saturating_add(candidate.used);
        if candidate.used == self.shares.elsewhere {
            self.partitions.get_or_add(&node.partition).open -= 1;
        }
        match self.given.get_mut(&node.node_id) {
            Some(known) => *known = given,
            None => {
                self.given.insert(node.node_id.clone(), given);
            }
        }
        Some(Taken::Node(node, locality))
    }

    fn choose(&mut self, key: &AskKey, ask: &Ask) -> Choice {
        let anywhere = match self.placement {
            Placement::Look if ask.wants_any() => Choice::Anywhere,
            Placement::Look | Placement::ListOrder | Placement::Spread => Choice::Nothing,
        };
        let Some(partition) = self.partitions.get(ask.partition()) else {
            return anywhere;
        };
        let mut is_named = false;
        let nowhere = ByPlace::new();
        let by_host = if ask.hosts.is_empty() {
            &nowhere
        } else {
            partition.by_host(&self.candidates)
        };
        let local = at_places(by_host, &ask.hosts).inspect(|_| is_named = true);
        if let Some(at) = self.least_used(local, self.shares.local) {
            return Choice::Candidate(at, Locality::NodeLocal);
        }
        if is_named {
            return Choice::Nothing;
        }
        if partition.open == 0 {
            return anywhere;
        }
        let by_rack = if ask.racks.is_empty() {
            &nowhere
        } else {
            partition.by_rack(&self.candidates)
        };
        let on_rack = at_places(by_rack, &ask.racks)
            .filter(|at| ask.wants_rack(&self.candidates[*at].node.rack));
        let on_rack = match self.placement {
            Placement::ListOrder => self.least_used(on_rack, self.shares.elsewhere),
            Placement::Spread | Placement::Look => {
                let open: Vec<usize> = on_rack.filter(|at| self.is_open(*at)).collect();
                self.better_of_two(&open)
            }
        };
        if let Some(at) = on_rack {
            return Choice::Candidate(at, Locality::RackLocal);
        }
        if !ask.wants_any() {
            return Choice::Nothing;
        }
        let key = (key.priority, key.allocation_request_id);
        match self.take_preferred(key, ask.partition()) {
            Some(at) => Choice::Candidate(at, Locality::OffSwitch),
            None => Choice::Anywhere,
        }
    }

    /// Returns the first candidate on a host that the ask prefers and whose wait is accepted.
    fn take_preferred(&mut self, key: PreferenceKey, partition: &str) -> Option<usize> {
        let elsewhere = self.shares.elsewhere;
        let Preferred {
            preferences,
            run_time_ms,
            candidates,
        } = self.preferred.as_mut()?;
        let hosts = preferences.hosts(key)?;
        let partition = self.partitions.get(partition)?;
        let preferred = candidates.entry(key).or_insert_with(|| {
            let by_host = partition.by_host(&self.candidates);
            let known = hosts.iter().filter_map(|host| by_host.get(&**host));
            known.flatten().copied().collect()
        });
        while let Some(&at) = preferred.front() {
            let candidate = &self.candidates[at];
            let more = (candidate.given + candidate.used).saturating_sub(partition.least_given);
            if candidate.used < elsewhere && preferences.accepts(more, *run_time_ms) {
                return Some(at);
            }
            preferred.pop_front();
        }
        None
    }

    /// Returns the first unused candidate of a partition, or else the first of the least used.
    fn first_least_used(&self, partition: &str) -> Option<usize> {
        let all = &self.partitions.get(partition)?.all;
        let unused = all.iter().find(|at| self.candidates[**at].used == 0);
        unused
            .copied()
            .or_else(|| self.least_used(all.iter().copied(), self.shares.elsewhere))
    }

    /// Returns the better of two random candidates of a partition. Those that have reached their
    /// share leave the list when they are drawn, so a draw costs no walk over the list.
    fn open_anywhere(&mut self, partition: &str) -> Option<usize> {
        let candidates = self.partitions.get_mut(partition)?;
        let drawn_from = candidates.drawn_from.take();
        let mut all = drawn_from.unwrap_or_else(|| candidates.all.clone());
        let mut drawn = [None; 2];
        for place in &mut drawn {
            while !all.is_empty() {
                let position = self.random.below(all.len()) % all.len();
                if self.is_open(all[position]) {
                    *place = Some(all[position]);
                    break;
                }
                all.swap_remove(position);
            }
        }
        self.partitions.get_mut(partition)?.drawn_from = Some(all);
        let [one, other] = drawn;
        self.better(one?, other?)
    }

    fn is_open(&self, at: usize) -> bool {
        self.candidates[at].used < self.shares.elsewhere
    }

    /// Returns the better of two random elements, which may be the same one.
    fn better_of_two(&mut self, open: &[usize]) -> Option<usize> {
        if open.is_empty() {
            return None;
        }
        let mut draw = || open[self.random.below(open.len()) % open.len()];
        let (one, other) = (draw(), draw());
        self.better(one, other)
    }

    fn better(&self, one: usize, other: usize) -> Option<usize> {
        [one, other].into_iter().min_by_key(|at| {
            let candidate = &self.candidates[*at];
            (candidate.given + candidate.used, candidate.rank)
        })
    }

    /// Returns the first of the candidates with the fewest containers, among those below their
    /// share.
    fn least_used(&self, candidates: impl Iterator<Item = usize>, share: u32) -> Option<usize> {
        let with_use = candidates.map(|at| (self.candidates[at].used, at));
        let open = with_use.filter(|(used, _)| *used < share);
        open.min().map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use records::{MonoMillis, Priority, Resource, ResourceName, ResourceRequest};

    use super::super::RemoteNodes;
    use super::*;
    use crate::allocator::asks::{AskRules, OutstandingAsks};

    const HOSTS: [&str; 4] = ["a", "b", "c", "nowhere"];
    const RACKS: [&str; 3] = ["/1", "/2", "/nowhere"];
    const PARTITIONS: [&str; 3] = ["", "gpu", "empty"];

    /// Chooses by visiting every node.
    fn chosen_by_looking(turn: &Turn<'_>, ask: &Ask) -> Option<(usize, Locality)> {
        let mut best = None;
        for (at, candidate) in turn.candidates.iter().enumerate() {
            let node = candidate.node;
            let wants_host = ask.hosts.has(&node.node_id.host);
            let (locality, share) = if node.partition != ask.partition() {
                continue;
            } else if wants_host {
                (Locality::NodeLocal, turn.shares.local)
            } else if ask.wants_rack(&node.rack) {
                (Locality::RackLocal, turn.shares.elsewhere)
            } else if ask.wants_any() {
                (Locality::OffSwitch, turn.shares.elsewhere)
            } else {
                continue;
            };
            let share_is_used = candidate.used >= share;
            let rank = (locality, share_is_used, candidate.used, at);
            let waits = locality == Locality::NodeLocal;
            if waits || !share_is_used {
                best = Some(best.map_or(rank, |other| rank.min(other)));
            }
        }
        let (locality, share_is_used, _, at) = best?;
        (!share_is_used).then_some((at, locality))
    }

    fn any_node() -> impl Strategy<Value = RemoteNode> {
        let host = prop::sample::select(&HOSTS[..3]);
        let rack = prop::sample::select(&RACKS[..2]);
        let partition = prop::sample::select(&PARTITIONS[..2]);
        (host, 1..4_u16, rack, partition).prop_map(|(host, port, rack, partition)| RemoteNode {
            node_id: NodeId {
                host: host.to_owned(),
                port,
            },
            http_address: String::new(),
            rack: rack.to_owned(),
            partition: partition.to_owned(),
        })
    }

    fn any_line() -> impl Strategy<Value = ResourceRequest> {
        let names = [&HOSTS[..], &RACKS, &["*"; 4]].concat();
        let label = prop::sample::select(&PARTITIONS[..]);
        (
            prop::sample::select(names),
            0..4_u32,
            1..4_i32,
            any::<bool>(),
            label,
        )
            .prop_map(
                |(name, count, priority, relax_locality, label)| ResourceRequest {
                    priority: Priority(priority),
                    resource_name: ResourceName::from(name.to_owned()),
                    capability: Resource::new(1, 1),
                    num_containers: count,
                    relax_locality,
                    allocation_request_id: -1,
                    execution_type_request: Default::default(),
                    node_label_expression: Some(label.to_owned()),
                },
            )
    }

    proptest! {
        #[test]
        fn choices_are_those_of_a_look_at_every_node(
            offered in prop::collection::vec(any_node(), 0..12),
            lines in prop::collection::vec(any_line(), 0..12),
            local in 1..4_u32,
            elsewhere in 1..3_u32,
        ) {
            let now = MonoMillis(0);
            let mut nodes = RemoteNodes::new(Placement::ListOrder, 0);
            nodes.replace(offered.into(), now);
            let shares = Shares { local, elsewhere };
            let blacklist = BTreeSet::from(["b".to_owned()]);
            let mut turn = nodes.turn(&blacklist, shares, true, now);
            let mut asks = OutstandingAsks::new(AskRules::Strict);
            asks.update(&lines, now).unwrap();
            let mut differences = Vec::new();
            asks.in_turns(|key, ask| {
                let expected = chosen_by_looking(&turn, ask);
                let expected = expected.map(|(at, locality)| (turn.candidates[at].node, locality));
                let chosen = turn.take(key, ask).map(|taken| match taken {
                    Taken::Node(node, locality) => (node, locality),
                    Taken::Anywhere => panic!("only looks leave the node open"),
                });
                if chosen != expected {
                    differences.push((chosen, expected));
                }
                if let Some((node, locality)) = chosen {
                    ask.answer(&node.node_id.host, &node.rack, locality);
                }
                std::ops::ControlFlow::Continue(chosen.is_some())
            });
            prop_assert_eq!(differences, Vec::new());
        }
    }
}
