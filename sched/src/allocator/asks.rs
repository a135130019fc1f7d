//! What one attempt still wants: its asks, absolute per priority, allocation request id, size and place (Hadoop:
//! `OpportunisticContainerContext.addToOutstandingReqs`, `LocalityAppPlacementAllocator`).
//!
//! The count at `*` is the total of an ask; hosts and racks say where parts of it are preferred. A container lowers every
//! line that it answers: its host's, its rack's and the total, which is also what the ApplicationMaster's own client
//! library does before it sends the lines again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use records::{ExecutionType, MonoMillis, Priority, Resource, ResourceName, ResourceRequest};
use thiserror::Error;

use super::Locality;

/// Most lines one attempt may have outstanding: sizes and the places of each. A job that names every host of a cluster
/// of 10,000 at ten priorities needs as many; they cost some 10 MiB.
pub const ASK_LINES_MAX: usize = 100_000;

/// Longest name of a host or rack, in bytes. Host names end at 255, rack paths of a few levels well below this.
pub const RESOURCE_NAME_BYTES_MAX: usize = 1_024;

/// Most hosts one attempt may have on its blacklist: twice the largest clusters.
pub const BLACKLIST_MAX: usize = 20_000;

/// An ask that is not taken in; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// More lines than [`ASK_LINES_MAX`].
    #[error("more than {ASK_LINES_MAX} resource requests are outstanding")]
    TooManyLines,
    /// More hosts than [`BLACKLIST_MAX`].
    #[error("more than {BLACKLIST_MAX} hosts on the blacklist")]
    BlacklistTooLong,
    /// A name longer than [`RESOURCE_NAME_BYTES_MAX`].
    #[error("a resource name of {0} bytes")]
    NameTooLong(usize),
    /// A container of no memory or no virtual cores. Asks are to be brought to the minimum size before.
    #[error("a container of {0}")]
    EmptyCapability(Resource),
}

/// Refuses a name that is longer than any real one.
pub(super) fn check_name(name: &str) -> Result<(), AskError> {
    if name.len() > RESOURCE_NAME_BYTES_MAX {
        return Err(AskError::NameTooLong(name.len()));
    }
    Ok(())
}

/// What tells asks of one attempt apart. The order is that of Hadoop's scheduler keys, then of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskKey {
    pub(super) priority: Priority,
    pub(super) allocation_request_id: i64,
    memory_mb: u64,
    vcores: u32,
}

impl AskKey {
    fn of(request: &ResourceRequest) -> Self {
        Self {
            priority: request.priority,
            allocation_request_id: request.allocation_request_id,
            memory_mb: request.capability.memory_mb,
            vcores: request.capability.vcores,
        }
    }

    pub(super) const fn capability(&self) -> Resource {
        Resource::new(self.memory_mb, self.vcores)
    }
}

/// A place that an ask allows, as [`Ask::sweep`] offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    Host(&'a str),
    Rack(&'a str),
    Any,
}

/// What is wanted at a host or on a rack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    count: u32,
    relax_locality: bool,
}

/// What is wanted of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The total, of which the places' counts are preferences.
    count: u32,
    relax_locality: bool,
    hosts: BTreeMap<String, Line>,
    racks: BTreeMap<String, Line>,
    asked_at: MonoMillis,
    node_label_expression: Option<String>,
}

impl Ask {
    pub(super) const fn asked_at(&self) -> MonoMillis {
        self.asked_at
    }

    /// Lines this ask counts for in [`ASK_LINES_MAX`].
    fn lines(&self) -> usize {
        1 + self.hosts.len() + self.racks.len()
    }

    fn is_over(&self) -> bool {
        self.count == 0 && self.hosts.is_empty() && self.racks.is_empty()
    }

    /// Offers the ask's places, nearest first, and each again until its count is met or `place` says no, that is,
    /// answers `None`; otherwise it answers with the rack of the node it took. No more than `budget` containers are
    /// placed, and `budget` is lowered by them.
    pub(super) fn sweep(
        &mut self,
        budget: &mut u32,
        mut place: impl FnMut(Place<'_>, Locality) -> Option<String>,
    ) {
        let Self {
            count,
            hosts,
            racks,
            ..
        } = self;
        let mut left = (*count).min(*budget);
        let wanted = left;
        hosts.retain(|host, line| {
            while line.count > 0 && left > 0 {
                let Some(rack) = place(Place::Host(host), Locality::NodeLocal) else {
                    break;
                };
                line.count -= 1;
                left -= 1;
                if let Some(line) = racks.get_mut(&rack) {
                    line.count = line.count.saturating_sub(1);
                }
            }
            line.count > 0
        });
        racks.retain(|rack, line| {
            while line.relax_locality && line.count > 0 && left > 0 {
                if place(Place::Rack(rack), Locality::RackLocal).is_none() {
                    break;
                }
                line.count -= 1;
                left -= 1;
            }
            line.count > 0
        });
        while self.relax_locality && left > 0 {
            if place(Place::Any, Locality::OffSwitch).is_none() {
                break;
            }
            left -= 1;
        }
        let placed = wanted - left;
        *count -= placed;
        *budget -= placed;
    }
}

/// One outstanding ask as others may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskView<'a> {
    /// How urgent.
    pub priority: Priority,
    /// The application's own number.
    pub allocation_request_id: i64,
    /// How large each container.
    pub capability: Resource,
    /// How many are still wanted.
    pub count: u32,
    /// The node partition of its first line.
    pub node_label_expression: Option<&'a str>,
    /// When it was first seen.
    pub asked_at: MonoMillis,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutstandingAsks {
    execution_type: ExecutionType,
    asks: BTreeMap<AskKey, Ask>,
    lines: usize,
}

impl OutstandingAsks {
    /// Without asks. The type decides in which order they are served and how [`Self::update`] reads them.
    #[must_use]
    pub const fn new(execution_type: ExecutionType) -> Self {
        Self {
            execution_type,
            asks: BTreeMap::new(),
            lines: 0,
        }
    }

    /// Takes in one line of an ask. It replaces the line for the same priority, allocation request id, size and place; a
    /// count of 0 removes it. The execution type of the line is not looked at: which table it goes to is the caller's
    /// decision.
    ///
    /// Opportunistic asks ignore `relax_locality`, and a place named before any `*` sets the total until `*` comes;
    /// without a `*` guaranteed asks want nothing. Both as in Hadoop.
    ///
    /// # Errors
    /// A line that would take more memory than is meant for an attempt, or that asks for nothing.
    pub fn update(&mut self, request: &ResourceRequest, now: MonoMillis) -> Result<(), AskError> {
        check_name(request.resource_name.as_str())?;
        check_name(request.node_label_expression.as_deref().unwrap_or_default())?;
        if request.capability.memory_mb == 0 || request.capability.vcores == 0 {
            return Err(AskError::EmptyCapability(request.capability));
        }
        let key = AskKey::of(request);
        let known = self.asks.get(&key).map_or(0, Ask::lines);
        if request.num_containers == 0 {
            if known == 0 {
                return Ok(());
            }
        } else if self.lines + self.new_lines(&key, &request.resource_name) > ASK_LINES_MAX {
            return Err(AskError::TooManyLines);
        }
        let ignores_locality = self.execution_type == ExecutionType::Opportunistic;
        let ask = self.asks.entry(key).or_insert_with(|| Ask {
            count: if ignores_locality {
                request.num_containers
            } else {
                0
            },
            relax_locality: true,
            hosts: BTreeMap::new(),
            racks: BTreeMap::new(),
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
            }
            ResourceName::Rack(name) => set_line(&mut ask.racks, name, line),
            ResourceName::Host(name) => set_line(&mut ask.hosts, name, line),
        }
        if ask.is_over() {
            self.lines -= known;
            self.asks.remove(&key);
        } else {
            self.lines = self.lines - known + ask.lines();
        }
        Ok(())
    }

    /// How many lines a count at a place adds.
    fn new_lines(&self, key: &AskKey, name: &ResourceName) -> usize {
        let ask = self.asks.get(key);
        let own = usize::from(ask.is_none());
        let known = ask.is_some_and(|ask| match name {
            ResourceName::Any => true,
            ResourceName::Rack(name) => ask.racks.contains_key(name),
            ResourceName::Host(name) => ask.hosts.contains_key(name),
        });
        own + usize::from(*name != ResourceName::Any && !known)
    }

    /// Shows every ask to `visit`, which may lower it; an ask whose total reached 0 by that is removed with its places.
    /// Guaranteed asks come most urgent first; opportunistic ones least urgent first, as Hadoop walks them. Ends early if
    /// `visit` breaks: there is nothing left to give.
    pub(super) fn for_each(&mut self, mut visit: impl FnMut(&AskKey, &mut Ask) -> ControlFlow<()>) {
        let lines = &mut self.lines;
        let mut over = Vec::new();
        let mut step = |(key, ask): (&AskKey, &mut Ask)| {
            if ask.count == 0 {
                return ControlFlow::Continue(());
            }
            let before = ask.lines();
            let flow = visit(key, ask);
            let met = ask.count == 0;
            if met {
                over.push(*key);
            }
            *lines = *lines - before + if met { 0 } else { ask.lines() };
            flow
        };
        let mut asks = self.asks.iter_mut();
        // What was not visited stays as it is.
        let _stopped_early: ControlFlow<()> = match self.execution_type {
            ExecutionType::Guaranteed => asks.try_for_each(&mut step),
            ExecutionType::Opportunistic => asks.rev().try_for_each(&mut step),
        };
        for key in over {
            self.asks.remove(&key);
        }
    }

    /// How many containers are wanted in all.
    #[must_use]
    pub fn containers(&self) -> u64 {
        self.asks.values().map(|ask| u64::from(ask.count)).sum()
    }

    /// Whether no container is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asks.values().all(|ask| ask.count == 0)
    }

    /// The asks that want something, most urgent first.
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
}

fn set_line(lines: &mut BTreeMap<String, Line>, name: &str, line: Line) {
    if line.count == 0 {
        lines.remove(name);
    } else if let Some(known) = lines.get_mut(name) {
        *known = line;
    } else {
        lines.insert(name.to_owned(), line);
    }
}
