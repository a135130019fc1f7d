//! Aggregated logs, which are in a folder of their application's user.

use std::io::{self, BufReader, Read as _};

use crc32fast::Hasher;
use log_aggregation::aggregated_log::{AggregatedLog, find};
use log_aggregation::tfile::Compression;
use test_support::ids::container;

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "aggregated_log",
    bytes_max: 4 * 1024,
    // The longest key, and a decompressor for each block.
    memory: Memory {
        base: 512 * 1024,
        per_byte: 8,
    },
    run,
    seeds,
};

const NAME: &str = "stdout";

fn run(input: &[u8]) {
    let (piece, log) = in_pieces(input);
    for compression in [Compression::None, Compression::Gz] {
        let at_once = read(log, usize::MAX, compression);
        let in_pieces = read(log, piece, compression);
        // A decompressor sees a fault the later, the fewer bytes it has.
        if compression == Compression::None || (at_once.is_ok() && in_pieces.is_ok()) {
            assert_eq!(at_once, in_pieces);
        }
    }
}

/// Returns length and checksum of a log file, or the kind of the error.
fn read(log: &[u8], piece: usize, compression: Compression) -> Result<(u64, u32), io::ErrorKind> {
    let log = BufReader::with_capacity(piece.min(log.len().max(1)), log);
    let mut content =
        find(log, compression, container(2).name(), NAME).map_err(|error| error.kind())?;
    let (mut length, mut sum, mut buffer) = (0, Hasher::new(), [0; 512]);
    loop {
        let read = content.read(&mut buffer).map_err(|error| error.kind())?;
        if read == 0 {
            break;
        }
        length += read as u64;
        sum.update(&buffer[..read]);
    }
    assert_eq!(length, content.length());
    Ok((length, sum.finalize()))
}

/// Logs of two containers, in both compressions.
fn seeds() -> Vec<Vec<u8>> {
    let log = |compression| {
        let acls = vec![];
        let log = AggregatedLog::new(Vec::new(), compression, "joe", &acls);
        let mut log = log.expect("memory takes all bytes");
        for number in [1, 2] {
            let appended = log.append_container(container(number).name(), |files| {
                for (name, content) in [("stderr", &b""[..]), (NAME, b"hello"), ("app.1", b"x")] {
                    files.append(name, content.len() as u64, &mut &*content)?;
                }
                Ok(())
            });
            appended.expect("memory takes all bytes");
        }
        let log = log.finish().expect("memory takes all bytes");
        [&[2][..], &log].concat()
    };
    vec![log(Compression::None), log(Compression::Gz)]
}
