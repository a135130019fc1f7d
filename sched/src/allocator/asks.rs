//! Outstanding asks of one attempt, absolute per priority, allocation request id, size and place
//! (Hadoop: `OpportunisticContainerContext.addToOutstandingReqs`, `LocalityAppPlacementAllocator`).
//!
//! The count at `*` is the total of an ask; hosts and racks are preferences within it. A container
//! lowers every line that it satisfies: its host's, its rack's and the total. The
//! ApplicationMaster's own client library does the same before it sends the lines again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use records::{
    ExecutionTypeRequest, MonoMillis, Priority, Resource, ResourceName, ResourceRequest,
};
use thiserror::Error;

use super::ContainerAllocation;
use super::ask::{Ask, AskKey, Footprint};
use super::places::{Line, Places};

/// Most outstanding asks of one attempt, each with another priority, allocation request id or size.
/// A call may visit all of them. Jobs have some tens; jobs that number every container, as the
/// distributed shell of this project does, have up to 10,000.
pub const ASKS_MAX: usize = 20_000;

/// Most outstanding lines of one attempt: asks and the places of each. A job that names every host
/// of a cluster of 10,000 at ten priorities needs as many.
pub const ASK_LINES_MAX: usize = 100_000;

/// Most memory of the outstanding lines, in bytes: those of such a job, with names of 30 bytes,
/// take about 10 MB.
pub const ASK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest name of a host or rack, in bytes. Host names cannot be longer; rack paths of a few
/// levels are far shorter.
pub const RESOURCE_NAME_BYTES_MAX: usize = 255;

/// Most hosts on the blacklist of one attempt: twice the size of the largest clusters.
pub const BLACKLIST_MAX: usize = 20_000;

/// Rejection of an ask; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// More asks outstanding than [`ASKS_MAX`].
    #[error(
        "containers of more than {ASKS_MAX} priorities, allocation request ids and sizes are outstanding"
    )]
    TooManyAsks,
    /// More lines outstanding than [`ASK_LINES_MAX`].
    #[error("more than {ASK_LINES_MAX} resource requests are outstanding")]
    TooManyLines,
    /// More memory for lines than [`ASK_BYTES_MAX`].
    #[error("outstanding resource requests take more than {ASK_BYTES_MAX} bytes")]
    TooManyBytes,
    /// More hosts on the blacklist than [`BLACKLIST_MAX`].
    #[error("more than {BLACKLIST_MAX} hosts are on the blacklist")]
    BlacklistTooLong,
    /// Resource name longer than [`RESOURCE_NAME_BYTES_MAX`].
    #[error("resource name of {0} bytes, more than {RESOURCE_NAME_BYTES_MAX}")]
    NameTooLong(usize),
    /// Container without memory or without virtual cores. Callers raise asks to the minimum size
    /// first.
    #[error("container size {0} without memory or virtual cores")]
    EmptyCapability(Resource),
}

/// Order and interpretation of a table of asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRules {
    /// Most urgent first; `relax_locality` is respected; without a line for `*` nothing is wanted.
    /// Hadoop's rules for guaranteed containers.
    Strict,
    /// Least urgent first; `relax_locality` is ignored; a place named before any `*` sets the total
    /// until `*` comes. Hadoop's rules for opportunistic containers.
    HadoopOpportunistic,
}

/// Rejects a name that is longer than any real one.
pub(super) fn check_name(name: &str) -> Result<(), AskError> {
    if name.len() > RESOURCE_NAME_BYTES_MAX {
        return Err(AskError::NameTooLong(name.len()));
    }
    Ok(())
}

/// Read-only view of an outstanding ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskView<'a> {
    /// Urgency among the asks of the application.
    pub priority: Priority,
    /// Number that the application gave the ask.
    pub allocation_request_id: i64,
    /// Size of each container.
    pub capability: Resource,
    /// Containers still wanted.
    pub count: u32,
    /// Node partition, from the line for `*` or, until that comes, from the first line.
    pub node_label_expression: Option<&'a str>,
    /// Time at which the ask was first seen.
    pub asked_at: MonoMillis,
}

/// Table of one attempt's outstanding asks, bounded by [`ASKS_MAX`], [`ASK_LINES_MAX`] and
/// [`ASK_BYTES_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstandingAsks {
    rules: AskRules,
    asks: BTreeMap<AskKey, Ask>,
    footprint: Footprint,
}

impl OutstandingAsks {
    /// Creates a table without asks.
    #[must_use]
    pub const fn new(rules: AskRules) -> Self {
        Self {
            rules,
            asks: BTreeMap::new(),
            footprint: Footprint::NOTHING,
        }
    }

    /// Applies the lines of one request in their order. A line replaces the one for the same
    /// priority, allocation request id, size and place; a count of 0 removes it. The line for `*`
    /// also selects the node partition of the ask. The execution type is ignored: the caller
    /// decides which table a line belongs to.
    ///
    /// # Errors
    /// The lines exceed the memory or work allowed for an attempt, or one of them asks for nothing.
    /// Nothing has changed then.
    pub fn update(
        &mut self,
        requests: &[ResourceRequest],
        now: MonoMillis,
    ) -> Result<(), AskError> {
        self.check(requests)?;
        for request in requests {
            self.set(request, now);
        }
        Ok(())
    }

    /// Checks whether all lines can be applied, as if all additions came before all removals.
    fn check(&self, requests: &[ResourceRequest]) -> Result<(), AskError> {
        let mut after = self.footprint;
        let mut new_asks = BTreeSet::new();
        for request in requests {
            let label = request.node_label_expression.as_deref();
            check_name(request.resource_name.as_str())?;
            check_name(label.unwrap_or_default())?;
            let capability = request.capability;
            if capability.memory_mb == 0 || capability.vcores == 0 {
                return Err(AskError::EmptyCapability(capability));
            }
            if request.num_containers > 0 {
                after += self.growth(request, &mut new_asks);
            }
        }
        // Existing lines may stay, whatever they take.
        let before = self.footprint;
        if after.asks > ASKS_MAX.max(before.asks) {
            Err(AskError::TooManyAsks)
        } else if after.lines > ASK_LINES_MAX.max(before.lines) {
            Err(AskError::TooManyLines)
        } else if after.bytes > ASK_BYTES_MAX.max(before.bytes) {
            Err(AskError::TooManyBytes)
        } else {
            Ok(())
        }
    }

    /// Returns the growth of the table by a line with a count. `new_asks` are the asks that earlier
    /// lines of the request add.
    fn growth(&self, request: &ResourceRequest, new_asks: &mut BTreeSet<AskKey>) -> Footprint {
        let label = request.node_label_expression.as_deref();
        let key = AskKey::of(request);
        let ask = self.asks.get(&key);
        let (name, is_known) = match &request.resource_name {
            ResourceName::Any => ("", true),
            ResourceName::Rack(name) => (name.as_str(), ask.is_some_and(|ask| ask.racks.has(name))),
            ResourceName::Host(name) => (name.as_str(), ask.is_some_and(|ask| ask.hosts.has(name))),
        };
        let label_bytes = label.map_or(0, str::len);
        let mut growth = match ask {
            None if new_asks.insert(key) => Footprint::of_ask(label),
            None => Footprint {
                bytes: label_bytes,
                ..Footprint::NOTHING
            },
            Some(ask) => Footprint {
                bytes: label_bytes.saturating_sub(ask.partition().len()),
                ..Footprint::NOTHING
            },
        };
        if !is_known {
            growth += Footprint::of_places(1, name.len());
        }
        growth
    }

    fn set(&mut self, request: &ResourceRequest, now: MonoMillis) {
        let key = AskKey::of(request);
        let known = self.asks.get(&key).map(Ask::footprint);
        if request.num_containers == 0 && known.is_none() {
            return;
        }
        let ignores_locality = match self.rules {
            AskRules::Strict => false,
            AskRules::HadoopOpportunistic => true,
        };
        let ask = self.asks.entry(key).or_insert_with(|| Ask {
            count: if ignores_locality {
                request.num_containers
            } else {
                0
            },
            relax_locality: true,
            hosts: Places::default(),
            racks: Places::default(),
            asked_at: now,
            node_label_expression: request.node_label_expression.clone(),
        });
        let line = Line {
            count: request.num_containers,
            relax_locality: request.relax_locality || ignores_locality,
        };
        match &request.resource_name {
            ResourceName::Any => {
                ask.count = line.count;
                ask.relax_locality = line.relax_locality;
                if line.count > 0 {
                    ask.node_label_expression
                        .clone_from(&request.node_label_expression);
                }
            }
            ResourceName::Rack(name) => ask.racks.set(name, line),
            ResourceName::Host(name) => ask.hosts.set(name, line),
        }
        self.footprint -= known.unwrap_or(Footprint::NOTHING);
        if ask.is_over() {
            self.asks.remove(&key);
        } else {
            self.footprint += ask.footprint();
        }
    }

    /// Raises each line by one that the container of this allocation has lowered. The table may
    /// exceed its bounds by these lines, of which there are no more than the caller has allocations
    /// that no ApplicationMaster has got. An ask that was removed meanwhile returns without its
    /// node partition, and without the flag of its rack.
    pub(super) fn restore(&mut self, allocation: &ContainerAllocation, rack: &str) {
        let key = AskKey::of_allocation(allocation);
        let known = self.asks.get(&key).map(Ask::footprint);
        self.footprint -= known.unwrap_or(Footprint::NOTHING);
        let ask = self.asks.entry(key).or_insert_with(|| Ask {
            count: 0,
            relax_locality: allocation.relax_locality,
            hosts: Places::default(),
            racks: Places::default(),
            asked_at: allocation.asked_at,
            node_label_expression: None,
        });
        ask.restore(&allocation.node_id.host, rack, allocation.locality);
        self.footprint += ask.footprint();
    }

    /// Calls `visit` for every ask that wants containers, in the order of the [rules](AskRules).
    /// `visit` may lower the ask; asks whose total reaches 0 are removed with their places. Stops
    /// early if `visit` breaks, because nothing is left to allocate.
    pub(super) fn for_each(&mut self, mut visit: impl FnMut(&AskKey, &mut Ask) -> ControlFlow<()>) {
        let footprint = &mut self.footprint;
        let mut over = Vec::new();
        let mut step = |(key, ask): (&AskKey, &mut Ask)| {
            if ask.count == 0 {
                return ControlFlow::Continue(());
            }
            *footprint -= ask.footprint();
            let flow = visit(key, ask);
            if ask.count == 0 {
                over.push(*key);
            } else {
                *footprint += ask.footprint();
            }
            flow
        };
        let mut asks = self.asks.iter_mut();
        // Asks that were not visited stay unchanged.
        let _stopped_early: ControlFlow<()> = match self.rules {
            AskRules::Strict => asks.try_for_each(&mut step),
            AskRules::HadoopOpportunistic => asks.rev().try_for_each(&mut step),
        };
        for key in over {
            self.asks.remove(&key);
        }
    }

    /// Calls `visit` for asks round-robin, most urgent first: an ask that `visit` reports as
    /// lowered is visited again in the next round. Stops after a round that lowers no ask, or when
    /// `visit` breaks.
    pub(super) fn in_turns(
        &mut self,
        mut visit: impl FnMut(&AskKey, &mut Ask) -> ControlFlow<(), bool>,
    ) {
        let mut keys: Vec<AskKey> = self.asks.keys().copied().collect();
        while !keys.is_empty() {
            let mut again = Vec::new();
            for key in keys {
                let Some(ask) = self.asks.get_mut(&key).filter(|ask| ask.count > 0) else {
                    continue;
                };
                self.footprint -= ask.footprint();
                let flow = visit(&key, ask);
                if ask.count == 0 {
                    self.asks.remove(&key);
                } else {
                    self.footprint += ask.footprint();
                }
                match flow {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(was_lowered) if was_lowered => again.push(key),
                    ControlFlow::Continue(_) => {}
                }
            }
            keys = again;
        }
    }

    /// Returns lines that rebuild the same table, `*` before places: the state to persist over a
    /// restart.
    pub fn requests(&self) -> impl Iterator<Item = ResourceRequest> {
        self.asks.iter().flat_map(|(key, ask)| {
            let line = move |resource_name, line: Line| ResourceRequest {
                priority: key.priority,
                resource_name,
                capability: key.capability(),
                num_containers: line.count,
                relax_locality: line.relax_locality,
                allocation_request_id: key.allocation_request_id,
                execution_type_request: ExecutionTypeRequest::default(),
                node_label_expression: ask.node_label_expression.clone(),
            };
            let total = Line {
                count: ask.count,
                relax_locality: ask.relax_locality,
            };
            let hosts = ask.hosts.iter();
            let hosts =
                hosts.map(move |(name, each)| line(ResourceName::Host(name.clone()), *each));
            let racks = ask.racks.iter();
            let racks =
                racks.map(move |(name, each)| line(ResourceName::Rack(name.clone()), *each));
            std::iter::once(line(ResourceName::Any, total))
                .chain(hosts)
                .chain(racks)
        })
    }

    /// Returns the number of containers wanted in all.
    #[must_use]
    pub const fn containers(&self) -> u64 {
        self.footprint.containers
    }

    /// Returns the number of lines, asks and places, that count towards [`ASK_LINES_MAX`].
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.footprint.lines
    }

    /// Returns whether no container is wanted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.footprint.containers == 0
    }

    /// Returns the asks that want containers, most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = AskView<'_>> {
        self.asks
            .iter()
            .filter(|(_, ask)| ask.count > 0)
            .map(|(key, ask)| AskView {
                priority: key.priority,
                allocation_request_id: key.allocation_request_id,
                capability: key.capability(),
                count: ask.count,
                node_label_expression: ask.node_label_expression.as_deref(),
                asked_at: ask.asked_at,
            })
    }

    /// Returns size, partition and count of the asks that accept any node, most urgent first.
    pub(super) fn for_anywhere(&self) -> impl Iterator<Item = (Resource, &str, u32)> {
        let asks = self.asks.iter();
        asks.filter(|(_, ask)| ask.count > 0 && ask.wants_any())
            .map(|(key, ask)| (key.capability(), ask.partition(), ask.count))
    }

    /// Returns whether an ask names a host or a rack.
    pub(super) const fn names_places(&self) -> bool {
        self.footprint.lines > self.footprint.asks
    }

    /// Returns the size of the table, as maintained.
    #[cfg(test)]
    pub(super) const fn counted(&self) -> Footprint {
        self.footprint
    }

    /// Returns the size of the table, as recounted.
    #[cfg(test)]
    pub(super) fn recounted(&self) -> Footprint {
        let mut sum = Footprint::NOTHING;
        for ask in self.asks.values() {
            sum += ask.footprint();
        }
        sum
    }
}
