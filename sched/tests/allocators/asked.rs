//! Unsatisfied asks of one attempt, as a plain list of lines.

use std::collections::{BTreeMap, BTreeSet};

use records::{NodeId, Resource, ResourceName, ResourceRequest};
use sched::{ContainerAllocation, Locality, OutstandingAsks};

type Key = (i32, i64, u64, u32);

/// Last count and flag of each line, by key and place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    lines: BTreeMap<Key, BTreeMap<ResourceName, (u32, bool)>>,
    pub(crate) blacklist: BTreeSet<String>,
    /// Whether a place sets the total as long as there is none, and locality is always relaxed.
    opportunistic: bool,
}

impl Asked {
    pub(crate) fn new(opportunistic: bool) -> Self {
        Self {
            opportunistic,
            ..Self::default()
        }
    }

    pub(crate) fn ask(&mut self, request: &ResourceRequest) {
        let size = request.capability;
        let key = (
            request.priority.0,
            request.allocation_request_id,
            size.memory_mb,
            size.vcores,
        );
        let count = request.num_containers;
        if count == 0 && !self.lines.contains_key(&key) {
            return;
        }
        let opportunistic = self.opportunistic;
        let lines = self.lines.entry(key).or_insert_with(|| {
            let first = if opportunistic { count } else { 0 };
            [(ResourceName::Any, (first, true))].into()
        });
        let relax = request.relax_locality || opportunistic;
        lines.insert(request.resource_name.clone(), (count, relax));
        if lines.values().all(|(count, _)| *count == 0) {
            self.lines.remove(&key);
        }
    }

    /// Subtracts a container from the lines that it satisfies, or returns the rule that it breaks.
    pub(crate) fn give(&mut self, given: &ContainerAllocation, rack: &str) -> Result<(), String> {
        if self.blacklist.contains(&given.node_id.host) {
            return Err(format!("{} is blacklisted", given.node_id));
        }
        let key = (
            given.priority.0,
            given.allocation_request_id,
            given.resource.memory_mb,
            given.resource.vcores,
        );
        let lines = self
            .lines
            .get_mut(&key)
            .ok_or("nothing like it was asked for")?;
        let host = ResourceName::Host(given.node_id.host.clone());
        let rack = ResourceName::Rack(rack.to_owned());
        // A host's own flag has no effect: the container is where it was wanted.
        let (at, may_insist, lowered) = match given.locality {
            Locality::NodeLocal => (host.clone(), false, vec![host, rack]),
            Locality::RackLocal => (rack.clone(), true, vec![rack]),
            Locality::OffSwitch => (ResourceName::Any, true, vec![]),
        };
        let (count, relax) = lines.get(&at).ok_or("a place that was not named")?;
        if *count == 0 || (may_insist && !relax) {
            return Err(format!("not wanted at {at}"));
        }
        for name in lowered {
            if let Some((count, _)) = lines.get_mut(&name) {
                *count = count.saturating_sub(1);
            }
        }
        let (total, _) = lines.get_mut(&ResourceName::Any).ok_or("no total")?;
        *total = total.checked_sub(1).ok_or("more than asked for")?;
        if *total == 0 {
            self.lines.remove(&key);
        }
        Ok(())
    }

    pub(crate) fn total(&self) -> u64 {
        let totals = self
            .lines
            .values()
            .filter_map(|l| l.get(&ResourceName::Any));
        totals.map(|(count, _)| u64::from(*count)).sum()
    }

    /// Checks that the table has the same asks, key by key.
    pub(crate) fn agrees(&self, table: &OutstandingAsks) -> Result<(), String> {
        let of_table: Vec<(Key, u32)> = table
            .iter()
            .map(|view| {
                let size = view.capability;
                let id = view.allocation_request_id;
                (
                    (view.priority.0, id, size.memory_mb, size.vcores),
                    view.count,
                )
            })
            .collect();
        let of_model: Vec<(Key, u32)> = self
            .lines
            .iter()
            .map(|(key, lines)| (*key, lines[&ResourceName::Any].0))
            .filter(|(_, count)| *count > 0)
            .collect();
        if of_table != of_model || table.containers() != self.total() {
            return Err(format!("outstanding {of_table:?}, expected {of_model:?}"));
        }
        Ok(())
    }

    /// Returns the sizes that may still go to a node.
    pub(crate) fn wanted_on(&self, node: &NodeId, rack: &str) -> Vec<Resource> {
        if self.blacklist.contains(&node.host) {
            return Vec::new();
        }
        let host = ResourceName::Host(node.host.clone());
        let rack = ResourceName::Rack(rack.to_owned());
        self.lines
            .iter()
            .filter(|(_, lines)| {
                let wanted = |name, must_relax: bool| {
                    lines
                        .get(name)
                        .is_some_and(|(count, relax)| *count > 0 && (*relax || !must_relax))
                };
                wanted(&ResourceName::Any, false)
                    && (wanted(&host, false)
                        || wanted(&rack, true)
                        || wanted(&ResourceName::Any, true))
            })
            .map(|((_, _, memory_mb, vcores), _)| Resource::new(*memory_mb, *vcores))
            .collect()
    }
}
