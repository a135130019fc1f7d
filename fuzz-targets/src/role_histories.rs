//! Files of role histories in Slider's format.

use std::io::BufReader;

use records::EpochMillis;
use role_history::avro::{ReadHistory, ReadLimits, read_history, write_history};
use role_history::{SavedEntry, SavedHistory};

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "role_history",
    bytes_max: 8 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 256,
    },
    run,
    seeds,
};

const LIMITS: ReadLimits = ReadLimits {
    record_bytes_max: 1024,
    entries_max: 64,
};

fn run(input: &[u8]) {
    let (piece, file) = in_pieces(input);
    let read = read_history(file, LIMITS);
    let in_pieces = read_history(BufReader::with_capacity(piece, file), LIMITS);
    let Ok(ReadHistory { history, warnings }) = read else {
        assert!(in_pieces.is_err(), "what is broken is broken in pieces too");
        return;
    };
    let in_pieces = in_pieces.expect("a history is one in pieces too");
    assert_eq!(
        (&in_pieces.history, &in_pieces.warnings),
        (&history, &warnings)
    );
    assert!(history.len() <= LIMITS.entries_max);
    let mut written = Vec::new();
    write_history(&history, &mut written).expect("a vector grows");
    // Escapes may make a record longer than the one that was read.
    let again = read_history(&*written, ReadLimits::default()).expect("what was written is read");
    assert_eq!(again.history, history);
}

fn seeds() -> Vec<Vec<u8>> {
    let roles = [("store".to_owned(), 1)].into();
    let mut history = SavedHistory::new(EpochMillis(1_700_000_000_000), 1, Some(roles));
    for (host, active) in [("n1", true), ("n2", false)] {
        let entry = SavedEntry {
            role: 1,
            active,
            last_used: EpochMillis(1_700_000_000_000),
        };
        history.push(host, entry);
    }
    let mut file = vec![0xff];
    write_history(&history, &mut file).expect("a vector grows");
    let mut empty = vec![3];
    let nothing = SavedHistory::new(EpochMillis(0), 0, None);
    write_history(&nothing, &mut empty).expect("a vector grows");
    vec![file, empty]
}
