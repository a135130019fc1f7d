//! A store of records on a simulated disk. Changes are gathered and committed as one transaction,
//! as `state-store` does; a crash loses those that were not committed.

use std::collections::BTreeMap;

/// Change of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Stores a record.
    Put {
        /// Key space of the record.
        space: &'static str,
        /// Key of the record.
        key: String,
        /// Bytes of the record.
        value: Vec<u8>,
    },
    /// Removes a record.
    Remove {
        /// Key space of the record.
        space: &'static str,
        /// Key of the record.
        key: String,
    },
    /// Removes all records whose key begins with a prefix.
    Clear {
        /// Key space of the records.
        space: &'static str,
        /// Prefix of the keys.
        prefix: String,
    },
}

/// Records of a key space, by key.
pub type Records = BTreeMap<String, Vec<u8>>;

/// The disk of one machine.
#[derive(Debug, Default)]
pub struct Disk {
    committed: BTreeMap<&'static str, Records>,
    in_flight: Vec<Write>,
    pending: Vec<Write>,
    /// Number of changes so far.
    written: u64,
    /// Number of them that are committed.
    durable: u64,
    is_committing: bool,
}

impl Disk {
    /// Takes a change, which is committed later.
    pub fn write(&mut self, write: Write) {
        self.written += 1;
        self.pending.push(write);
    }

    /// Returns a mark of all changes so far, for [`Self::is_durable`].
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.written
    }

    /// Returns whether all changes before a mark are committed.
    #[must_use]
    pub const fn is_durable(&self, mark: u64) -> bool {
        self.durable >= mark
    }

    /// Begins to commit all changes so far as one transaction. Returns false if a commit is under
    /// way or nothing has changed.
    pub fn begin_commit(&mut self) -> bool {
        if self.is_committing || self.pending.is_empty() {
            return false;
        }
        self.is_committing = true;
        self.in_flight = std::mem::take(&mut self.pending);
        true
    }

    /// Ends the commit under way: its changes survive a crash.
    pub fn end_commit(&mut self) {
        if !std::mem::take(&mut self.is_committing) {
            return;
        }
        for write in std::mem::take(&mut self.in_flight) {
            self.durable += 1;
            self.apply(write);
        }
    }

    /// The program or the machine ends. Changes that no commit has taken are lost. The commit under
    /// way has reached the disk or has not, which the caller decides.
    pub fn crash(&mut self, commit_succeeds: bool) {
        if commit_succeeds {
            self.end_commit();
        }
        self.is_committing = false;
        self.in_flight.clear();
        self.pending.clear();
        self.durable = self.written;
    }

    /// Returns the committed records of a key space.
    #[must_use]
    pub fn records(&self, space: &str) -> Records {
        self.committed.get(space).cloned().unwrap_or_default()
    }

    /// Returns the size of the committed records, keys included, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let records = self.committed.values().flatten();
        records.map(|(key, value)| key.len() + value.len()).sum()
    }

    /// Returns the number of committed records.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.committed.values().map(Records::len).sum()
    }

    fn apply(&mut self, write: Write) {
        match write {
            Write::Put { space, key, value } => {
                self.committed.entry(space).or_default().insert(key, value);
            }
            Write::Remove { space, key } => {
                self.committed.entry(space).or_default().remove(&key);
            }
            Write::Clear { space, prefix } => {
                let records = self.committed.entry(space).or_default();
                let keys = records.range(prefix.clone()..).map(|(key, _)| key);
                let keys: Vec<String> = keys
                    .take_while(|key| key.starts_with(&prefix))
                    .cloned()
                    .collect();
                for key in keys {
                    records.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Write {
        Write::Put {
            space: "space",
            key: key.to_owned(),
            value: vec![1],
        }
    }

    fn keys(disk: &Disk) -> Vec<String> {
        disk.records("space").into_keys().collect()
    }

    #[test]
    fn a_crash_loses_what_was_not_committed() {
        for (succeeds, left) in [(false, vec!["a"]), (true, vec!["a", "b"])] {
            let mut disk = Disk::default();
            disk.write(put("a"));
            assert!(disk.begin_commit());
            disk.end_commit();
            disk.write(put("b"));
            let mark = disk.mark();
            assert!(disk.begin_commit() && !disk.begin_commit());
            disk.write(put("c"));
            assert!(!disk.is_durable(mark));
            disk.crash(succeeds);
            assert_eq!(keys(&disk), left);
            assert!(!disk.begin_commit(), "nothing is left to commit");
        }
    }

    #[test]
    fn changes_are_durable_from_their_commit_on() {
        let mut disk = Disk::default();
        assert!(disk.is_durable(disk.mark()) && !disk.begin_commit());
        disk.write(put("a"));
        let mark = disk.mark();
        assert!(disk.begin_commit());
        disk.end_commit();
        assert!(disk.is_durable(mark));
        assert_eq!((disk.bytes(), disk.record_count()), (2, 1));
    }

    #[test]
    fn a_prefix_clears_its_records_and_no_others() {
        let mut disk = Disk::default();
        for key in ["a/1", "a/2", "b/1"] {
            disk.write(put(key));
        }
        disk.write(Write::Clear {
            space: "space",
            prefix: "a/".to_owned(),
        });
        disk.write(Write::Remove {
            space: "space",
            key: "none".to_owned(),
        });
        disk.begin_commit();
        disk.end_commit();
        assert_eq!(keys(&disk), ["b/1"]);
    }
}
