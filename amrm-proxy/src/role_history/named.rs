//! Lines that name places in an ask, as the ResourceManager has them and as it shall have them.
//!
//! An ask may name ten thousand hosts, and a call changes a few. So the places where the two may
//! differ are collected, and a call looks at those alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Lines of an ask beside the AM's own: a flag that all of them share, and counts by host or rack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lines {
    /// Whether `*` and racks do not relax.
    is_strict: bool,
    places: BTreeMap<Arc<str>, u32>,
}

/// Lines that the current call changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Whether `*` and racks do not relax.
    pub(super) is_strict: bool,
    /// Whether that is new.
    pub(super) is_flipped: bool,
    /// Counts by host or rack, by name. `None` takes a line back.
    pub(super) places: Vec<(Arc<str>, Option<u32>)>,
}

/// Lines that name places in one ask.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedLines {
    /// Lines that the ResourceManager has. A count of 0 stands for a line that was used up.
    present: Lines,
    /// Lines that it shall have. No count is 0.
    wanted: Lines,
    /// Places where the two may differ, but for those that the current call changes.
    touched: BTreeSet<Arc<str>>,
    in_flight: Option<Changes>,
}

/// Returns whether a place is a rack.
pub(super) fn is_rack(place: &str) -> bool {
    place.starts_with('/')
}

impl NamedLines {
    /// Returns the lines of an ask from before a restart. Nothing is wanted of them.
    pub(super) fn restored(is_strict: bool, places: BTreeMap<Arc<str>, u32>) -> Self {
        Self {
            touched: places.keys().cloned().collect(),
            present: Lines { is_strict, places },
            ..Self::default()
        }
    }

    /// Returns whether the ResourceManager has no line.
    pub(super) fn is_empty(&self) -> bool {
        self.present.places.is_empty()
    }

    /// Returns whether the ResourceManager's lines do not relax.
    pub(super) const fn is_strict(&self) -> bool {
        self.present.is_strict
    }

    /// Returns whether `*` does not relax in the current call.
    pub(super) fn is_strict_in_call(&self) -> bool {
        let changes = self.in_flight.as_ref();
        changes.map_or(self.present.is_strict, |changes| changes.is_strict)
    }

    /// Returns the places that the ResourceManager has lines for, with their counts.
    pub(super) fn places(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, u32)> {
        let places = self.present.places.iter();
        places.map(|(name, &count)| (name, count))
    }

    /// Sets the number of containers wanted on a host, which is in this rack.
    pub(super) fn want(&mut self, host: Arc<str>, count: u32, rack: Arc<str>) {
        let before = self.wanted.places.get(&host).copied().unwrap_or(0);
        let of_rack = self.wanted.places.get(&rack).copied().unwrap_or(0);
        self.set_wanted(rack, of_rack.saturating_sub(before).saturating_add(count));
        self.set_wanted(host, count);
    }

    /// Moves the containers wanted on a host to another rack.
    pub(super) fn move_host(&mut self, host: &str, from: &Arc<str>, to: &Arc<str>) {
        let Some(count) = self.wanted.places.get(host).copied() else {
            return;
        };
        for (rack, change) in [(from, -i64::from(count)), (to, i64::from(count))] {
            let before = self.wanted.places.get(rack).copied().unwrap_or(0);
            let after = u32::try_from(i64::from(before) + change).unwrap_or(0);
            self.set_wanted(Arc::clone(rack), after);
        }
    }

    fn set_wanted(&mut self, place: Arc<str>, count: u32) {
        if count == 0 {
            self.wanted.places.remove(&place);
        } else {
            self.wanted.places.insert(Arc::clone(&place), count);
        }
        self.touched.insert(place);
    }

    /// Sets whether other nodes are excluded. An ask that names no host excludes none.
    pub(super) fn set_strict(&mut self, is_strict: bool) {
        self.wanted.is_strict = is_strict && !self.wanted.places.is_empty();
    }

    /// Takes all lines back.
    pub(super) fn withdraw(&mut self) {
        self.touched.extend(self.wanted.places.keys().cloned());
        self.wanted = Lines::default();
    }

    /// Changes the count of a line as the ResourceManager does when a container is allocated there,
    /// or is wanted again.
    pub(super) fn recount(&mut self, place: &str, recount: impl FnOnce(u32) -> u32) {
        let Some((name, _)) = self.present.places.get_key_value(place) else {
            return;
        };
        let name = Arc::clone(name);
        if let Some(count) = self.present.places.get_mut(place) {
            *count = recount(*count);
        }
        self.touched.insert(name);
    }

    /// Begins a call and returns what it changes. What an earlier call without an answer was to
    /// change is looked at again.
    pub(super) fn begin_call(&mut self) -> &Changes {
        if let Some(before) = self.in_flight.take() {
            let places = before.places.into_iter();
            self.touched.extend(places.map(|(place, _)| place));
        }
        let (present, wanted) = (&self.present, &self.wanted);
        let is_flipped = present.is_strict != wanted.is_strict;
        if is_flipped {
            // '0' follows '/', so this is what begins with a slash.
            let racks = wanted
                .places
                .range::<str, _>((Bound::Included("/"), Bound::Excluded("0")));
            self.touched.extend(racks.map(|(rack, _)| Arc::clone(rack)));
        }
        let touched = std::mem::take(&mut self.touched).into_iter();
        let changed = touched.filter_map(|place| {
            let (has, wants) = (present.places.get(&place), wanted.places.get(&place));
            let must_flip = is_flipped && is_rack(&place) && wants.is_some();
            (has != wants || must_flip).then(|| (place, wants.copied()))
        });
        let changes = Changes {
            is_strict: wanted.is_strict,
            is_flipped,
            places: changed.collect(),
        };
        self.in_flight.insert(changes)
    }

    /// Notes that the ResourceManager has answered the current call.
    pub(super) fn commit(&mut self) {
        let Some(changes) = self.in_flight.take() else {
            return;
        };
        self.present.is_strict = changes.is_strict;
        for (place, count) in changes.places {
            match count {
                Some(count) => self.present.places.insert(place, count),
                None => self.present.places.remove(&place),
            };
        }
    }
}

#[cfg(test)]
mod tests;
