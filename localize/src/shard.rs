//! Numbered sub-directories of a cache, so that no directory grows without end.
//!
//! The rule is Hadoop's `LocalCacheDirectoryManager`: a directory takes files up to its limit; then
//! new ones go to `0`, `1`, … `z`, `0/0`, … `z/z`, `0/0/0`, …. Ids of resources start at 10, so
//! that no id equals one of these single characters.

use std::collections::{BTreeSet, VecDeque};

/// Number of sub-directories of one directory: the digits and the letters.
const FANOUT: u32 = 36;

/// Lowest value of `yarn.nodemanager.local-cache.max-files-per-directory`: space for the
/// sub-directories and one file.
pub(super) const FILES_PER_DIRECTORY_MIN: u32 = FANOUT + 1;

/// Assignment of resources to the directories of a cache. One for each cache and disk.
#[derive(Clone, Debug)]
pub(super) struct Shards {
    /// Number of files that one directory takes besides its sub-directories.
    limit: u32,
    /// Number of files in each directory, by its number; the root is 0.
    counts: Vec<u32>,
    /// Directories below the limit, in the order in which they are filled.
    open: VecDeque<usize>,
    /// Set of the directories in `open`.
    is_open: BTreeSet<usize>,
}

impl Shards {
    /// Returns an empty cache's directories. `files_per_directory` includes the sub-directories;
    /// values below [`FILES_PER_DIRECTORY_MIN`] count as that.
    pub(super) fn new(files_per_directory: u32) -> Self {
        let limit = files_per_directory.max(FILES_PER_DIRECTORY_MIN) - FANOUT;
        Self {
            limit,
            counts: vec![0],
            open: VecDeque::from([0]),
            is_open: BTreeSet::from([0]),
        }
    }

    /// Returns the directory for the next resource, and counts the resource.
    pub(super) fn take(&mut self) -> usize {
        let directory = match self.open.front() {
            Some(first) => *first,
            None => {
                self.counts.push(0);
                let new = self.counts.len() - 1;
                self.reopen(new);
                new
            }
        };
        let full = self.counts.get_mut(directory).is_none_or(|count| {
            *count += 1;
            *count >= self.limit
        });
        if full {
            self.open.pop_front();
            self.is_open.remove(&directory);
        }
        directory
    }

    /// Counts a resource of an earlier run in this directory.
    pub(super) fn count(&mut self, directory: usize) {
        while self.counts.len() <= directory {
            self.counts.push(0);
            self.reopen(self.counts.len() - 1);
        }
        if let Some(count) = self.counts.get_mut(directory) {
            *count += 1;
            if *count >= self.limit && self.is_open.remove(&directory) {
                self.open.retain(|open| *open != directory);
            }
        }
    }

    /// Uncounts a removed resource of this directory.
    pub(super) fn release(&mut self, directory: usize) {
        if let Some(count) = self.counts.get_mut(directory) {
            *count = count.saturating_sub(1);
            self.reopen(directory);
        }
    }

    fn reopen(&mut self, directory: usize) {
        if self.is_open.insert(directory) {
            self.open.push_back(directory);
        }
    }
}

/// Returns the path of a directory by its number, one name per level; empty for the root.
pub(super) fn names(directory: usize) -> Vec<String> {
    // Directory 1 is "0", 36 is "z", 37 is "0/0": without the numbers of all shorter paths, the
    // rest has a fixed number of digits.
    const BASE: usize = FANOUT as usize;
    let Some(mut rest) = directory.checked_sub(1) else {
        return Vec::new();
    };
    let (mut levels, mut size) = (1_usize, BASE);
    while rest >= size {
        rest -= size;
        levels += 1;
        size = size.saturating_mul(BASE);
    }
    let mut names = vec![String::new(); levels];
    for name in names.iter_mut().rev() {
        let digit = u32::try_from(rest % BASE).unwrap_or(0);
        name.extend(char::from_digit(digit, FANOUT));
        rest /= BASE;
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn shards(files_per_directory: u32) -> Shards {
        Shards::new(files_per_directory)
    }

    /// Returns `Directory.getRelativePath` as Hadoop computes it, where that is right (two levels).
    fn hadoop(directory: usize) -> Vec<String> {
        let n = directory - 1;
        let digit = |d: usize| {
            char::from_digit(u32::try_from(d).unwrap(), 36)
                .unwrap()
                .to_string()
        };
        if n < 36 {
            vec![digit(n)]
        } else {
            vec![digit(n / 36 - 1), digit(n % 36)]
        }
    }

    #[test]
    fn names_are_hadoops() {
        assert_eq!(names(0), [""; 0]);
        for directory in 1..=36 + 35 * 36 {
            assert_eq!(names(directory), hadoop(directory), "{directory}");
        }
        assert_eq!(names(36 + 36 * 36), ["z", "z"]);
        assert_eq!(names(36 + 36 * 36 + 1), ["0", "0", "0"]);
    }

    #[test]
    fn the_root_is_filled_before_the_first_sub_directory() {
        let mut shards = shards(38);
        let taken: Vec<_> = (0..5).map(|_| shards.take()).collect();
        assert_eq!(taken, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn room_that_was_given_back_is_used_again() {
        let mut shards = shards(37);
        assert_eq!([shards.take(), shards.take(), shards.take()], [0, 1, 2]);
        shards.release(1);
        assert_eq!([shards.take(), shards.take()], [1, 3]);
    }

    #[test]
    fn resources_of_an_earlier_run_take_the_room_that_they_took() {
        let mut shards = shards(38);
        for directory in [0, 2, 0] {
            shards.count(directory);
        }
        let taken: Vec<_> = (0..4).map(|_| shards.take()).collect();
        assert_eq!(taken, [1, 1, 2, 3]);
    }

    #[test]
    fn a_limit_below_the_least_is_taken_as_the_least() {
        let mut shards = shards(1);
        assert_eq!([shards.take(), shards.take()], [0, 1]);
    }

    proptest! {
        #[test]
        fn no_two_directories_have_one_name(a in 0..200_000_usize, b in 0..200_000_usize) {
            prop_assert_eq!(names(a) == names(b), a == b);
        }

        #[test]
        fn no_directory_holds_more_than_its_limit(limit in 1..5_u32, steps in prop::collection::vec(prop::option::of(0..20_usize), 0..200)) {
            let mut shards = shards(limit + FANOUT);
            let mut held: BTreeMap<usize, u32> = BTreeMap::new();
            for step in steps {
                match step {
                    None => *held.entry(shards.take()).or_default() += 1,
                    Some(directory) => {
                        if let Some(count) = held.get_mut(&directory).filter(|count| **count > 0) {
                            *count -= 1;
                            shards.release(directory);
                        }
                    }
                }
                prop_assert!(held.values().all(|count| *count <= limit));
            }
        }
    }
}
