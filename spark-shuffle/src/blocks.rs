//! Ids of the blocks of a stream, kept as small as they came.

use thiserror::Error;

use crate::cursor::{Cursor, Malformed, Texts};

/// Ids that make no stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoBlockIds {
    /// Bytes that are no list, or a name that is no block's.
    #[error("{0}")]
    Malformed(Malformed),
    /// Lists of maps and of reduces that do not belong together.
    #[error("the numbers of map ids and of lists of reduce ids differ, or a batch is no range")]
    Lengths,
    /// Blocks of several kinds or shuffles, or a name that is no block's.
    #[error("Block ids of one kind and of one shuffle are expected")]
    Mixed,
    /// Chunks of merged blocks.
    #[error("merged blocks")]
    Merged,
}

impl From<Malformed> for NoBlockIds {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}

/// Ids of the blocks of a stream, a chunk each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BlockIds {
    /// Partitions of maps' outputs: `ends[n]` is where those of the map `n` end in `reduces`.
    Shuffle {
        /// Number of the shuffle.
        shuffle: i32,
        /// Ids of the maps.
        maps: Vec<i64>,
        /// Ids of the reduces of all maps.
        reduces: Vec<i32>,
        /// Ends of the maps' parts of `reduces`.
        ends: Vec<u32>,
        /// Whether each map has one range of reduces, which is one chunk.
        batch: bool,
    },
    /// Partitions of cached data sets: number and partition.
    Rdd(Vec<(i32, i32)>),
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Partitions of a map's output.
    Shuffle {
        /// Number of the shuffle.
        shuffle: i32,
        /// Id of the map.
        map: i64,
        /// First partition.
        start: i32,
        /// Partition after the last.
        end: i32,
    },
    /// Partition of a cached data set.
    Rdd {
        /// Number of the data set.
        rdd: i32,
        /// Number of the partition.
        partition: i32,
    },
}

impl BlockIds {
    /// Reads the rest of `FetchShuffleBlocks`.
    pub(crate) fn of_shuffle(fields: &mut Cursor<'_>) -> Result<Self, NoBlockIds> {
        let shuffle = fields.i32()?;
        let maps = fields.i64s()?;
        let (reduces, ends) = fields.i32_lists()?;
        let batch = fields.u8()? != 0;
        let ranges = || (1..).zip(&ends).all(|(map, end)| *end == 2 * map);
        if maps.len() != ends.len() || (batch && !ranges()) {
            return Err(NoBlockIds::Lengths);
        }
        Ok(Self::Shuffle {
            shuffle,
            maps,
            reduces,
            ends,
            batch,
        })
    }

    /// Reads the names of `OpenBlocks`, whose kind is that of the first.
    pub(crate) fn named(names: Texts<'_>) -> Result<Self, NoBlockIds> {
        let mut peeked = names;
        let first = peeked.next().unwrap_or_default();
        if first.starts_with("shuffleChunk_") {
            return Err(NoBlockIds::Merged);
        }
        if first.starts_with("rdd_") {
            let parse = |name: &str| Some(numbers::<2>(name.strip_prefix("rdd_")?)?.map(to_i32));
            let blocks = names.map(|name| match parse(name)? {
                [Some(rdd), Some(partition)] => Some((rdd, partition)),
                _too_large => None,
            });
            let blocks: Option<Vec<_>> = blocks.collect();
            return blocks.map(Self::Rdd).ok_or(NoBlockIds::Mixed);
        }
        Self::named_shuffle(names).ok_or(NoBlockIds::Mixed)
    }

    fn named_shuffle(names: Texts<'_>) -> Option<Self> {
        let (mut maps, mut reduces, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        let mut of = None;
        for name in names {
            let [shuffle, map, reduce] = numbers(name.strip_prefix("shuffle_")?)?;
            if *of.get_or_insert(shuffle) != shuffle {
                return None;
            }
            maps.push(map);
            reduces.push(to_i32(reduce)?);
            ends.push(u32::try_from(reduces.len()).ok()?);
        }
        Some(Self::Shuffle {
            shuffle: to_i32(of?)?,
            maps,
            reduces,
            ends,
            batch: false,
        })
    }

    /// Returns the number of blocks.
    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Shuffle {
                maps, batch: true, ..
            } => maps.len(),
            Self::Shuffle { reduces, .. } => reduces.len(),
            Self::Rdd(blocks) => blocks.len(),
        }
    }

    /// Returns whether there are no blocks.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the ids take.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Shuffle {
                maps,
                reduces,
                ends,
                ..
            } => 8 * maps.capacity() + 4 * reduces.capacity() + 4 * ends.capacity(),
            Self::Rdd(blocks) => 8 * blocks.capacity(),
        }
    }

    /// Returns the block of a number, from 0.
    #[must_use]
    pub(crate) fn get(&self, number: usize) -> Option<Block> {
        match self {
            Self::Shuffle {
                shuffle,
                maps,
                reduces,
                ends,
                batch,
            } => {
                let block = |map: usize, start: i32, end: i32| {
                    let (shuffle, map) = (*shuffle, *maps.get(map)?);
                    Some(Block::Shuffle {
                        shuffle,
                        map,
                        start,
                        end,
                    })
                };
                if *batch {
                    let start = *reduces.get(2 * number)?;
                    return block(number, start, *reduces.get(2 * number + 1)?);
                }
                let reduce = *reduces.get(number)?;
                let map = ends.partition_point(|end| *end as usize <= number);
                // Beyond the largest id is no partition, which the index will tell.
                block(map, reduce, reduce.wrapping_add(1))
            }
            Self::Rdd(blocks) => {
                let (rdd, partition) = *blocks.get(number)?;
                Some(Block::Rdd { rdd, partition })
            }
        }
    }
}

fn to_i32(number: i64) -> Option<i32> {
    i32::try_from(number).ok()
}

/// Reads decimal numbers with `_` between them: digits only, as they stand in files' names.
pub(crate) fn numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let mut numbers = [0; N];
    let mut parts = text.split('_');
    for number in &mut numbers {
        let part = parts.next()?;
        if !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::{put_bytes, put_count};

    fn named(names: &[&str]) -> Result<BlockIds, NoBlockIds> {
        let mut bytes = Vec::new();
        put_count(&mut bytes, names.len());
        for name in names {
            put_bytes(&mut bytes, name.as_bytes());
        }
        BlockIds::named(Cursor::new(&bytes).texts(255).unwrap())
    }

    #[test]
    fn names_of_one_kind_are_a_stream_and_others_are_not() {
        let shuffle = named(&["shuffle_3_9999999999_1", "shuffle_3_6_0"]).unwrap();
        assert_eq!(shuffle.len(), 2);
        let block = |map, start| Block::Shuffle {
            shuffle: 3,
            map,
            start,
            end: start + 1,
        };
        assert_eq!(shuffle.get(0), Some(block(9_999_999_999, 1)));
        assert_eq!(shuffle.get(1), Some(block(6, 0)));
        assert_eq!(shuffle.get(2), None);
        let cached = named(&["rdd_4_0", "rdd_4_1"]).unwrap();
        let last = Block::Rdd {
            rdd: 4,
            partition: 1,
        };
        assert_eq!(cached.get(1), Some(last));
        for names in [
            &["shuffle_3_5_0", "shuffle_4_5_0"][..],
            &["shuffle_3_5_0", "rdd_1_1"],
            &["rdd_1_1", "shuffle_3_5_0"],
            &["rdd_1"],
            &["rdd_1_1_1"],
            &["rdd_+1_1"],
            &["rdd_1_../x"],
            &["rdd_99999999999_1"],
            &["shuffle_3_5_99999999999"],
            &["broadcast_1"],
            &[],
        ] {
            assert_eq!(named(names), Err(NoBlockIds::Mixed), "{names:?}");
        }
        let merged = named(&["shuffleChunk_1_0_0_0"]);
        assert_eq!(merged, Err(NoBlockIds::Merged));
    }
}
