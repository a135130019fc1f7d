//! Index of a map output: where each reducer's partition lies in `file.out`.
//!
//! ```text
//! file.out.index   for each reduce: start i64 | raw length i64 | part length i64,  then CRC-32 i64
//! ```
//! Integers are big-endian; the CRC is of all bytes before it. A raw length leaves out, and a part
//! length has in it, the 4 bytes of CRC-32 after each partition. Source: `SpillRecord` of Hadoop
//! 3.4.2. Pure but for [`SpillIndex::read`].

use std::fs::File;
use std::io::{self, Read as _};

use thiserror::Error;

/// Bytes of one partition in an index.
const ENTRY_BYTES: usize = 24;

/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 8;

/// Longest index, in bytes: a million reducers. A job may write any file of that name, and one
/// thread reads it whole.
const INDEX_BYTES_MAX: usize = 1_000_000 * ENTRY_BYTES + CHECKSUM_BYTES;

/// Place of one reducer's partition in a map output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Offset of the first byte in `file.out`.
    pub start: u64,
    /// Length of the records before compression, in bytes.
    pub raw_length: u64,
    /// Length in `file.out`, in bytes.
    pub part_length: u64,
}

/// Partitions of a map output, by the number of the reducer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpillIndex(Box<[Partition]>);

/// Reason why an index cannot be used.
#[derive(Debug, Error)]
pub enum SpillError {
    /// The file is empty, ends inside an entry, or is longer than any real one.
    #[error("an index of {0} bytes")]
    Length(usize),
    /// The checksum is not that of the entries.
    #[error("Checksum error reading spill index")]
    Checksum,
    /// A partition has a negative offset or length, or ends beyond the range of a file.
    #[error("partition {0} lies in no file")]
    Partition(usize),
    /// The file cannot be read.
    #[error("reading the index")]
    Io(#[from] io::Error),
}

impl SpillIndex {
    /// Reads an index from its file.
    ///
    /// # Errors
    /// [`SpillError`], also for a file of more than a million partitions.
    pub fn read(file: &File) -> Result<Self, SpillError> {
        let mut bytes = Vec::new();
        let longest = u64::try_from(INDEX_BYTES_MAX).unwrap_or(u64::MAX);
        file.take(longest + 1).read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    /// Reads an index from its bytes.
    ///
    /// # Errors
    /// All of [`SpillError`] but `Io`.
    pub fn parse(bytes: &[u8]) -> Result<Self, SpillError> {
        let length = SpillError::Length(bytes.len());
        if bytes.len() > INDEX_BYTES_MAX {
            return Err(length);
        }
        let Some((entries, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(length);
        };
        if !entries.len().is_multiple_of(ENTRY_BYTES) {
            return Err(length);
        }
        if u64::from_be_bytes(*checksum) != u64::from(crc32fast::hash(entries)) {
            return Err(SpillError::Checksum);
        }
        let partitions = entries.chunks_exact(ENTRY_BYTES).enumerate();
        let partitions =
            partitions.map(|(number, entry)| partition(entry).ok_or(SpillError::Partition(number)));
        Ok(Self(partitions.collect::<Result<_, _>>()?))
    }

    /// Returns the number of partitions, which is that of the job's reducers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no partition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the partition of one reducer.
    #[must_use]
    pub fn get(&self, reduce: usize) -> Option<Partition> {
        self.0.get(reduce).copied()
    }

    /// Returns the bytes that the index takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

fn partition(entry: &[u8]) -> Option<Partition> {
    let mut numbers = entry.chunks_exact(size_of::<i64>()).map(|bytes| {
        let number = i64::from_be_bytes(bytes.try_into().ok()?);
        u64::try_from(number).ok()
    });
    let mut next = || numbers.next().flatten();
    let partition = Partition {
        start: next()?,
        raw_length: next()?,
        part_length: next()?,
    };
    let end = partition.start.checked_add(partition.part_length)?;
    (i64::try_from(end).is_ok()).then_some(partition)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Returns the bytes of an index file.
    pub(crate) fn encode(partitions: &[Partition]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for partition in partitions {
            let Partition {
                start,
                raw_length,
                part_length,
            } = *partition;
            for number in [start, raw_length, part_length] {
                bytes.extend(number.to_be_bytes());
            }
        }
        let checksum = u64::from(crc32fast::hash(&bytes));
        bytes.extend(checksum.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|c| c.to_digit(16))
            .map(|digit| u8::try_from(digit).unwrap())
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    /// Recorded from Hadoop 3.4.2.
    #[test]
    fn an_index_of_hadoop_is_read() {
        let bytes = unhex(
            "0000000000000000 000000000000000c 0000000000000010 \
             0000000000000010 0000000000000002 0000000000000006 00000000cd744220",
        );
        let index = SpillIndex::parse(&bytes).unwrap();
        assert_eq!(index.len(), 2);
        let second = Partition {
            start: 16,
            raw_length: 2,
            part_length: 6,
        };
        assert_eq!(index.get(1), Some(second));
        assert_eq!(index.get(2), None);
    }

    #[test]
    fn a_changed_byte_is_a_checksum_error() {
        let partition = Partition {
            start: 0,
            raw_length: 12,
            part_length: 16,
        };
        let good = testing::encode(&[partition, partition]);
        for place in 0..good.len() {
            let mut bytes = good.clone();
            bytes[place] ^= 1;
            let error = SpillIndex::parse(&bytes).unwrap_err();
            assert!(matches!(error, SpillError::Checksum), "{place}: {error}");
        }
    }

    #[test]
    fn numbers_that_no_file_has_are_refused() {
        for (start, part_length) in [(1 << 63, 0), (0, u64::MAX), (i64::MAX as u64, 1)] {
            let partition = Partition {
                start,
                raw_length: 0,
                part_length,
            };
            let error = SpillIndex::parse(&testing::encode(&[partition])).unwrap_err();
            assert!(matches!(error, SpillError::Partition(0)), "{error}");
        }
    }

    #[test]
    fn lengths_that_no_index_has_are_refused() {
        for length in [0, 7, 9, 31, INDEX_BYTES_MAX + ENTRY_BYTES] {
            let error = SpillIndex::parse(&vec![0; length]).unwrap_err();
            assert!(matches!(error, SpillError::Length(_)), "{length}: {error}");
        }
        assert!(SpillIndex::parse(&[0; 8]).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            numbers in proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 40), 0..50)
        ) {
            let partitions: Vec<_> = numbers
                .into_iter()
                .map(|(start, part_length)| Partition { start, raw_length: start, part_length })
                .collect();
            let index = SpillIndex::parse(&testing::encode(&partitions)).unwrap();
            prop_assert_eq!(&*index.0, &*partitions);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _read_or_refused = SpillIndex::parse(&bytes);
        }
    }
}
