//! Cache of parsed indexes, bounded in bytes: the one used longest ago goes first.
//!
//! Every reducer of a job fetches from every map, so an index is read once and used as often as the
//! job has reducers. Hadoop's cache has the map's name alone as its key and outlives the job; here
//! the key has the job's registration in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::outputs::MapId;
use crate::spill::SpillIndex;

/// Bytes of an entry beside its index and its name: two map entries and the counts of the `Arc`.
const ENTRY_OVERHEAD_BYTES: usize = 160;

type IndexKey = (u64, MapId);

/// Parsed indexes by registration and map.
#[derive(Debug)]
pub(crate) struct Indexes {
    cache: Mutex<Cache>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Cache {
    entries: BTreeMap<IndexKey, Entry>,
    /// Keys by the time of their last use.
    by_use: BTreeMap<u64, IndexKey>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    index: Arc<SpillIndex>,
    last_use: u64,
}

impl Indexes {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            cache: Mutex::default(),
            bytes_max,
        }
    }

    /// Returns the index of a map, read by `read` if it is not in the cache. Threads that ask for
    /// the same one at once read it each.
    pub(crate) fn get_or_read<E>(
        &self,
        serial: u64,
        map: &MapId,
        read: impl FnOnce() -> Result<SpillIndex, E>,
    ) -> Result<Arc<SpillIndex>, E> {
        let key = (serial, map.clone());
        if let Some(index) = self.lock().get(&key) {
            return Ok(index);
        }
        let index = Arc::new(read()?);
        self.lock().insert(key, Arc::clone(&index), self.bytes_max);
        Ok(index)
    }

    // No code that may panic runs under the lock, so the cache is whole even if it is poisoned.
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn get(&mut self, key: &IndexKey) -> Option<Arc<SpillIndex>> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        let key = self.by_use.remove(&entry.last_use)?;
        entry.last_use = self.uses;
        self.by_use.insert(self.uses, key);
        Some(Arc::clone(&entry.index))
    }

    /// Adds an index and removes others until all fit. One that would not fit alone is not kept.
    fn insert(&mut self, key: IndexKey, index: Arc<SpillIndex>, bytes_max: usize) {
        let bytes = entry_bytes(&key, &index);
        if bytes > bytes_max || self.entries.contains_key(&key) {
            return;
        }
        self.uses += 1;
        self.bytes += bytes;
        let last_use = self.uses;
        self.by_use.insert(last_use, key.clone());
        self.entries.insert(key, Entry { index, last_use });
        while self.bytes > bytes_max {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                return;
            };
            if let Some(entry) = self.entries.remove(&oldest) {
                self.bytes -= entry_bytes(&oldest, &entry.index);
            }
        }
    }
}

fn entry_bytes(key: &IndexKey, index: &SpillIndex) -> usize {
    // The name stands in both maps.
    index.bytes() + 2 * key.1.as_str().len() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spill::{Partition, testing};

    fn index(partitions: usize) -> SpillIndex {
        let partition = Partition {
            start: 0,
            raw_length: 1,
            part_length: 5,
        };
        SpillIndex::parse(&testing::encode(&vec![partition; partitions])).unwrap()
    }

    fn map(name: &str) -> MapId {
        MapId::parse(name).unwrap()
    }

    /// Asks for an index; returns whether it had to be read.
    fn is_read(indexes: &Indexes, serial: u64, name: &str, partitions: usize) -> bool {
        let mut read = false;
        let result: Result<_, ()> = indexes.get_or_read(serial, &map(name), || {
            read = true;
            Ok(index(partitions))
        });
        assert_eq!(result.unwrap().len(), partitions);
        read
    }

    #[test]
    fn an_index_is_read_once_for_each_registration() {
        let indexes = Indexes::new(1 << 20);
        assert!(is_read(&indexes, 1, "m0", 2));
        assert!(!is_read(&indexes, 1, "m0", 2));
        assert!(is_read(&indexes, 2, "m0", 3));
        assert!(!is_read(&indexes, 1, "m0", 2));
    }

    #[test]
    fn the_index_used_longest_ago_makes_place() {
        let one = entry_bytes(&(1, map("m0")), &index(10));
        let indexes = Indexes::new(2 * one);
        assert!(is_read(&indexes, 1, "m0", 10));
        assert!(is_read(&indexes, 1, "m1", 10));
        assert!(!is_read(&indexes, 1, "m0", 10));
        assert!(is_read(&indexes, 1, "m2", 10));
        assert!(!is_read(&indexes, 1, "m0", 10));
        assert!(is_read(&indexes, 1, "m1", 10));
        assert!(indexes.lock().bytes <= 2 * one);
        assert_eq!(indexes.lock().by_use.len(), 2);
    }

    #[test]
    fn an_index_larger_than_the_cache_is_used_and_not_kept() {
        let indexes = Indexes::new(1_000);
        assert!(is_read(&indexes, 1, "m0", 1));
        assert!(is_read(&indexes, 1, "m1", 1_000));
        assert!(is_read(&indexes, 1, "m1", 1_000));
        assert!(!is_read(&indexes, 1, "m0", 1));
    }

    #[test]
    fn a_failure_is_not_kept() {
        let indexes = Indexes::new(1 << 20);
        let failed = indexes.get_or_read(1, &map("m0"), || Err("truncated"));
        assert_eq!(failed.unwrap_err(), "truncated");
        assert!(is_read(&indexes, 1, "m0", 2));
    }
}
