//! Reason for a wrong checksum of a block (Spark: `ShuffleChecksumHelper.diagnoseCorruption`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::blocks::Block;
use crate::executors::Place;
use crate::files::{data_name, locate, open};
use crate::message::{Cause, Diagnosis};

/// Bytes that are read at once. Between two reads other connections get the thread.
const TURN_BYTES: usize = 256 * 1024;

/// Checksum that is being computed.
enum Checksum {
    Adler32(adler2::Adler32),
    Crc32(crc32fast::Hasher),
    Crc32c(u32),
}

impl Checksum {
    fn named(algorithm: &str) -> Option<Self> {
        match algorithm {
            "ADLER32" => Some(Self::Adler32(adler2::Adler32::new())),
            "CRC32" => Some(Self::Crc32(crc32fast::Hasher::new())),
            "CRC32C" => Some(Self::Crc32c(0)),
            _other => None,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler32(sum) => sum.write_slice(bytes),
            Self::Crc32(hasher) => hasher.update(bytes),
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
        }
    }

    fn finish(self) -> i64 {
        i64::from(match self {
            Self::Adler32(sum) => sum.checksum(),
            Self::Crc32(hasher) => hasher.finalize(),
            Self::Crc32c(sum) => sum,
        })
    }
}

/// Compares the checksum of a block with the one that its writer stored and the one that a client
/// computed. What cannot be read leaves the cause unknown.
pub(crate) async fn diagnose(place: Option<Place>, asked: Diagnosis<'_>) -> Cause {
    let Some(checksum) = Checksum::named(asked.algorithm) else {
        return Cause::UnsupportedAlgorithm;
    };
    let Some(place) = place else {
        return Cause::Unknown;
    };
    let Ok((stored, computed)) = checksums(&place, asked, checksum).await else {
        return Cause::Unknown;
    };
    if stored != computed {
        Cause::Disk
    } else if stored != asked.checksum {
        Cause::Network
    } else {
        Cause::Fine
    }
}

/// Returns the stored checksum and that of the block as it is.
async fn checksums(
    place: &Place,
    asked: Diagnosis<'_>,
    mut checksum: Checksum,
) -> io::Result<(i64, i64)> {
    let data = data_name(asked.shuffle, asked.map);
    let name = data.replace(".data", &format!(".checksum.{}", asked.algorithm));
    let file = open(&place.folders, &place.executor, &name)?;
    let stored = read_stored(&file, asked.reduce)?;
    let block = Block::Shuffle {
        shuffle: asked.shuffle,
        map: asked.map,
        start: asked.reduce,
        end: asked.reduce.wrapping_add(1),
    };
    let range = locate(&place.folders, &place.executor, block).map_err(io::Error::other)?;
    let mut buffer = vec![0; TURN_BYTES.min(usize::try_from(range.length).unwrap_or(TURN_BYTES))];
    let (mut position, mut left) = (range.start, range.length);
    while left > 0 {
        let turn = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(TURN_BYTES));
        range.file.read_exact_at(&mut buffer[..turn], position)?;
        checksum.add(&buffer[..turn]);
        position += turn as u64;
        left -= turn as u64;
        tokio::task::yield_now().await;
    }
    Ok((stored, checksum.finish()))
}

fn read_stored(file: &File, reduce: i32) -> io::Result<i64> {
    let reduce = u64::try_from(reduce).map_err(io::Error::other)?;
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, reduce * 8)?;
    Ok(i64::from_be_bytes(bytes))
}
