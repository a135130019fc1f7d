//! Rests of those with whom something was tried in vain: longer each time.

use std::collections::BTreeMap;

use records::MonoMillis;

#[derive(Clone, Copy, Debug)]
struct Rest {
    until: MonoMillis,
    length_ms: u64,
    /// Whether it has worked since.
    has_worked: bool,
}

/// Those that rest, each until a time. A bounded number; beyond it those are forgotten first whose
/// rest ends first.
#[derive(Clone, Debug)]
pub struct Rests<K> {
    first_ms: u64,
    longest_ms: u64,
    count_max: usize,
    rests: BTreeMap<K, Rest>,
}

impl<K: Ord + Clone> Rests<K> {
    /// Has the first rest take `first_ms` milliseconds and none more than `longest_ms`.
    #[must_use]
    pub const fn new(first_ms: u64, longest_ms: u64, count_max: usize) -> Self {
        Self {
            first_ms,
            longest_ms,
            count_max,
            rests: BTreeMap::new(),
        }
    }

    /// Begins a rest, twice as long as the last one unless it has [worked](Self::worked) meanwhile.
    /// What fails during a rest was tried before.
    pub fn begin(&mut self, key: K, now: MonoMillis) {
        let before = self.rests.get(&key);
        if before.is_some_and(|before| now < before.until) {
            return;
        }
        let again = before.filter(|before| !before.has_worked);
        let length_ms = again.map_or(self.first_ms, |before| 2 * before.length_ms);
        let length_ms = length_ms.min(self.longest_ms);
        if before.is_none() && self.rests.len() >= self.count_max {
            let first = self.rests.iter().min_by_key(|(_, rest)| rest.until);
            let first = first.map(|(key, _)| key.clone());
            first.map(|first| self.rests.remove(&first));
        }
        let rest = Rest {
            until: MonoMillis(now.0.saturating_add(length_ms)),
            length_ms,
            has_worked: false,
        };
        self.rests.insert(key, rest);
    }

    /// Notes that it has worked: the next rest is a first one. The present one goes on.
    pub fn worked(&mut self, key: &K) {
        if let Some(rest) = self.rests.get_mut(key) {
            rest.has_worked = true;
        }
    }

    /// Forgets that there were rests.
    pub fn forget(&mut self, key: &K) {
        self.rests.remove(key);
    }

    /// Returns whether it rests.
    #[must_use]
    pub fn has(&self, key: &K, now: MonoMillis) -> bool {
        let rest = self.rests.get(key);
        rest.is_some_and(|rest| now < rest.until)
    }

    /// Returns how many rest.
    #[must_use]
    pub fn count(&self, now: MonoMillis) -> usize {
        let rests = self.rests.values();
        rests.filter(|rest| now < rest.until).count()
    }

    /// Returns whether no rest is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rests.is_empty()
    }
}
