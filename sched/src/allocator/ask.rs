//! An ask: number and size of containers, and the places that some of them prefer.

use std::ops::{AddAssign, SubAssign};

use records::{MonoMillis, Priority, Resource, ResourceRequest};

use super::places::Places;
use super::{ContainerAllocation, Locality};

/// Memory of an ask without its names, in bytes: key and value, and a share of the tree's unused
/// node space.
const ASK_OVERHEAD_BYTES: usize = 256;

/// Memory of a place without its name, in bytes: entry in the tree, and the rounding of the memory
/// allocator.
const PLACE_OVERHEAD_BYTES: usize = 64;

/// Size of a part of the table of asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) asks: usize,
    /// Lines: one for the total of each ask and one for each place.
    pub(super) lines: usize,
    /// Memory in bytes, estimated.
    pub(super) bytes: usize,
    /// Containers still wanted.
    pub(super) containers: u64,
}

impl Footprint {
    pub(super) const NOTHING: Self = Self::of_places(0, 0);

    /// Returns the size of an ask without places; its containers are not counted.
    pub(super) const fn of_ask(label: Option<&str>) -> Self {
        let label_bytes = match label {
            Some(label) => label.len(),
            None => 0,
        };
        Self {
            asks: 1,
            lines: 1,
            bytes: ASK_OVERHEAD_BYTES + label_bytes,
            containers: 0,
        }
    }

    /// Returns the size of `count` places whose names have `name_bytes` bytes together.
    pub(super) const fn of_places(count: usize, name_bytes: usize) -> Self {
        Self {
            asks: 0,
            lines: count,
            bytes: count * PLACE_OVERHEAD_BYTES + name_bytes,
            containers: 0,
        }
    }
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        self.asks += other.asks;
        self.lines += other.lines;
        self.bytes += other.bytes;
        self.containers += other.containers;
    }
}

impl SubAssign for Footprint {
    fn sub_assign(&mut self, other: Self) {
        self.asks -= other.asks;
        self.lines -= other.lines;
        self.bytes -= other.bytes;
        self.containers -= other.containers;
    }
}

/// Key of an ask within its attempt. Ordered by Hadoop's scheduler keys, then by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AskKey {
    pub(super) priority: Priority,
    pub(super) allocation_request_id: i64,
    memory_mb: u64,
    vcores: u32,
}

impl AskKey {
    pub(super) fn of(request: &ResourceRequest) -> Self {
        Self {
            priority: request.priority,
            allocation_request_id: request.allocation_request_id,
            memory_mb: request.capability.memory_mb,
            vcores: request.capability.vcores,
        }
    }

    pub(super) const fn of_allocation(allocation: &ContainerAllocation) -> Self {
        Self {
            priority: allocation.priority,
            allocation_request_id: allocation.allocation_request_id,
            memory_mb: allocation.resource.memory_mb,
            vcores: allocation.resource.vcores,
        }
    }

    pub(super) const fn capability(&self) -> Resource {
        Resource::new(self.memory_mb, self.vcores)
    }
}

/// Place that an ask allows, passed to the callback of [`Ask::sweep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    Host(&'a str),
    Rack(&'a str),
    Any,
}

/// Outstanding containers of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// Total; the counts of the places are preferences within it.
    pub(super) count: u32,
    pub(super) relax_locality: bool,
    pub(super) hosts: Places,
    pub(super) racks: Places,
    pub(super) asked_at: MonoMillis,
    pub(super) node_label_expression: Option<String>,
}

impl Ask {
    pub(super) const fn asked_at(&self) -> MonoMillis {
        self.asked_at
    }

    /// Returns the node partition of the ask; the default one is the empty text.
    pub(super) fn partition(&self) -> &str {
        self.node_label_expression.as_deref().unwrap_or_default()
    }

    /// Returns whether the ask prefers this rack and accepts any host on it.
    pub(super) fn wants_rack(&self, rack: &str) -> bool {
        self.racks.get(rack).is_some_and(|line| line.relax_locality)
    }

    /// Returns whether the ask accepts any node.
    pub(super) const fn wants_any(&self) -> bool {
        self.relax_locality
    }

    /// Lowers the counts by one container that was placed on `host` in `rack`.
    pub(super) fn answer(&mut self, host: &str, rack: &str, locality: Locality) {
        match locality {
            Locality::NodeLocal => {
                self.hosts.lower(host);
                self.racks.lower(rack);
            }
            Locality::RackLocal => self.racks.lower(rack),
            Locality::OffSwitch => {}
        }
        self.count = self.count.saturating_sub(1);
    }

    /// Raises the counts that a container on `host` in `rack` has lowered.
    pub(super) fn restore(&mut self, host: &str, rack: &str, locality: Locality) {
        match locality {
            Locality::NodeLocal => {
                self.hosts.raise(host, true);
                self.racks.raise(rack, self.relax_locality);
            }
            Locality::RackLocal => self.racks.raise(rack, true),
            Locality::OffSwitch => {}
        }
        self.count = self.count.saturating_add(1);
    }

    /// Returns the size that counts towards the bounds of the table.
    pub(super) fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::of_ask(self.node_label_expression.as_deref());
        footprint.containers = self.count.into();
        for places in [&self.hosts, &self.racks] {
            footprint += Footprint::of_places(places.len(), places.name_bytes());
        }
        footprint
    }

    pub(super) fn is_over(&self) -> bool {
        self.count == 0 && self.hosts.is_empty() && self.racks.is_empty()
    }

    /// Calls `place` for the ask's places, nearest first, and repeats each until its count is met
    /// or `place` returns `None`. On success `place` returns the rack of the node that it used.
    /// Places no more than `budget` containers, and lowers `budget` by their number.
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
        hosts.sweep(|host, line| {
            while line.count > 0 && left > 0 {
                let Some(rack) = place(Place::Host(host), Locality::NodeLocal) else {
                    break;
                };
                line.count -= 1;
                left -= 1;
                racks.lower(&rack);
            }
        });
        racks.sweep(|rack, line| {
            while line.relax_locality && line.count > 0 && left > 0 {
                if place(Place::Rack(rack), Locality::RackLocal).is_none() {
                    break;
                }
                line.count -= 1;
                left -= 1;
            }
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
