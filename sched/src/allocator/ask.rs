//! One ask: how many containers of one size, and where parts of them are preferred.

use std::collections::BTreeMap;

use records::{MonoMillis, Priority, Resource, ResourceRequest};

use super::Locality;

/// What tells asks of one attempt apart. The order is that of Hadoop's scheduler keys, then of sizes.
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
pub(super) struct Line {
    pub(super) count: u32,
    pub(super) relax_locality: bool,
}

/// What is wanted of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    /// The total, of which the places' counts are preferences.
    pub(super) count: u32,
    pub(super) relax_locality: bool,
    pub(super) hosts: BTreeMap<String, Line>,
    pub(super) racks: BTreeMap<String, Line>,
    pub(super) asked_at: MonoMillis,
    pub(super) node_label_expression: Option<String>,
}

impl Ask {
    pub(super) const fn asked_at(&self) -> MonoMillis {
        self.asked_at
    }

    /// The node partition that it is for; the default one is the empty text.
    pub(super) fn partition(&self) -> &str {
        self.node_label_expression.as_deref().unwrap_or_default()
    }

    /// Whether any host is named.
    pub(super) fn names_hosts(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether a container on this host is wanted more than one elsewhere.
    pub(super) fn wants_host(&self, host: &str) -> bool {
        self.hosts.get(host).is_some_and(|line| line.count > 0)
    }

    /// Whether a container on this rack is wanted more than one elsewhere, and may be on any host of it.
    pub(super) fn wants_rack(&self, rack: &str) -> bool {
        let line = self.racks.get(rack);
        line.is_some_and(|line| line.count > 0 && line.relax_locality)
    }

    /// Whether a container may be anywhere.
    pub(super) const fn wants_any(&self) -> bool {
        self.relax_locality
    }

    /// One container less is wanted: it was placed on `host` in `rack`.
    pub(super) fn answer(&mut self, host: &str, rack: &str, locality: Locality) {
        match locality {
            Locality::NodeLocal => {
                lower(&mut self.hosts, host);
                lower(&mut self.racks, rack);
            }
            Locality::RackLocal => lower(&mut self.racks, rack),
            Locality::OffSwitch => {}
        }
        self.count = self.count.saturating_sub(1);
    }

    /// Lines this ask counts for in [`ASK_LINES_MAX`](super::ASK_LINES_MAX).
    pub(super) fn lines(&self) -> usize {
        1 + self.hosts.len() + self.racks.len()
    }

    pub(super) fn is_over(&self) -> bool {
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

/// One less is wanted at a place, if any is.
fn lower(lines: &mut BTreeMap<String, Line>, name: &str) {
    if let Some(line) = lines.get_mut(name) {
        line.count = line.count.saturating_sub(1);
        if line.count == 0 {
            lines.remove(name);
        }
    }
}

/// Replaces the line of a place, or takes it away.
pub(super) fn set_line(lines: &mut BTreeMap<String, Line>, name: &str, line: Line) {
    if line.count == 0 {
        lines.remove(name);
    } else if let Some(known) = lines.get_mut(name) {
        *known = line;
    } else {
        lines.insert(name.to_owned(), line);
    }
}
