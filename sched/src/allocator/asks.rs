//! What one attempt still wants: its asks, absolute per priority, allocation request id, size and place (Hadoop:
//! `OpportunisticContainerContext.addToOutstandingReqs`, `LocalityAppPlacementAllocator`).
//!
//! The count at `*` is the total of an ask; hosts and racks say where parts of it are preferred. A container lowers every
//! line that it answers: its host's, its rack's and the total, which is also what the ApplicationMaster's own client
//! library does before it sends the lines again.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use records::{
    ExecutionTypeRequest, MonoMillis, Priority, Resource, ResourceName, ResourceRequest,
};
use thiserror::Error;

use super::ask::{Ask, AskKey, Line, set_line};

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

/// How a table of asks is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRules {
    /// The most urgent first; `relax_locality` counts; without a `*` nothing is wanted. As Hadoop reads asks for
    /// guaranteed containers.
    Strict,
    /// The least urgent first; `relax_locality` is ignored; a place named before any `*` sets the total until `*` comes. As
    /// Hadoop reads asks for opportunistic containers.
    HadoopOpportunistic,
}

/// Refuses a name that is longer than any real one.
pub(super) fn check_name(name: &str) -> Result<(), AskError> {
    if name.len() > RESOURCE_NAME_BYTES_MAX {
        return Err(AskError::NameTooLong(name.len()));
    }
    Ok(())
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
    rules: AskRules,
    asks: BTreeMap<AskKey, Ask>,
    lines: usize,
    /// The sum of all counts.
    containers: u64,
}

impl OutstandingAsks {
    /// Without asks.
    #[must_use]
    pub const fn new(rules: AskRules) -> Self {
        Self {
            rules,
            asks: BTreeMap::new(),
            lines: 0,
            containers: 0,
        }
    }

    /// Takes in one line of an ask. It replaces the line for the same priority, allocation request id, size and place; a
    /// count of 0 removes it. The execution type of the line is not looked at: which table it goes to is the caller's
    /// decision.
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
        let wanted = self.asks.get(&key).map_or(0, |ask| ask.count);
        if request.num_containers == 0 {
            if known == 0 {
                return Ok(());
            }
        } else if self.lines + self.new_lines(&key, &request.resource_name) > ASK_LINES_MAX {
            return Err(AskError::TooManyLines);
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
        self.containers = self.containers - u64::from(wanted) + u64::from(ask.count);
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
    /// They come in the order of the [rules](AskRules). Ends early if `visit` breaks: there is nothing left to give.
    pub(super) fn for_each(&mut self, mut visit: impl FnMut(&AskKey, &mut Ask) -> ControlFlow<()>) {
        let (lines, containers) = (&mut self.lines, &mut self.containers);
        let mut over = Vec::new();
        let mut step = |(key, ask): (&AskKey, &mut Ask)| {
            if ask.count == 0 {
                return ControlFlow::Continue(());
            }
            let (before, wanted) = (ask.lines(), ask.count);
            let flow = visit(key, ask);
            *containers = *containers - u64::from(wanted) + u64::from(ask.count);
            let met = ask.count == 0;
            if met {
                over.push(*key);
            }
            *lines = *lines - before + if met { 0 } else { ask.lines() };
            flow
        };
        let mut asks = self.asks.iter_mut();
        // What was not visited stays as it is.
        let _stopped_early: ControlFlow<()> = match self.rules {
            AskRules::Strict => asks.try_for_each(&mut step),
            AskRules::HadoopOpportunistic => asks.rev().try_for_each(&mut step),
        };
        for key in over {
            self.asks.remove(&key);
        }
    }

    /// Shows asks in turns, in the order of the [rules](AskRules): an ask that `visit` has lowered, as it says, is shown
    /// again when all others had their turn. Ends when no ask was lowered in a round, or `visit` breaks.
    pub(super) fn in_turns(
        &mut self,
        mut visit: impl FnMut(&AskKey, &mut Ask) -> ControlFlow<(), bool>,
    ) {
        let mut keys: Vec<AskKey> = self.asks.keys().copied().collect();
        if self.rules == AskRules::HadoopOpportunistic {
            keys.reverse();
        }
        while !keys.is_empty() {
            let mut again = Vec::new();
            for key in keys {
                let Some(ask) = self.asks.get_mut(&key).filter(|ask| ask.count > 0) else {
                    continue;
                };
                let (before, wanted) = (ask.lines(), ask.count);
                let flow = visit(&key, ask);
                self.containers = self.containers - u64::from(wanted) + u64::from(ask.count);
                let is_met = ask.count == 0;
                self.lines = self.lines - before + if is_met { 0 } else { ask.lines() };
                if is_met {
                    self.asks.remove(&key);
                }
                match flow {
                    ControlFlow::Break(()) => return,
                    ControlFlow::Continue(was_lowered) if was_lowered && !is_met => again.push(key),
                    ControlFlow::Continue(_) => {}
                }
            }
            keys = again;
        }
    }

    /// The lines that make the same table again, `*` before places: what has to be kept over a restart.
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

    /// How many containers are wanted in all.
    #[must_use]
    pub const fn containers(&self) -> u64 {
        self.containers
    }

    /// Whether no container is wanted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.containers == 0
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
