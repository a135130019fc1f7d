//! Files of exit statuses that keepers leave, read while they grow.

use std::fs;

use keeper::ExitRecords;

use crate::{Memory, Target, in_pieces};

pub(crate) const TARGET: Target = Target {
    name: "keeper_records",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 128 * 1024,
        per_byte: 128,
    },
    run,
    seeds,
};

fn run(input: &[u8]) {
    let (piece, records) = in_pieces(input);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("the kernel's file");
    let whole = [format!("exits 1 {}\n", boot.trim()).as_bytes(), records].concat();
    let folder = tempfile::tempdir().expect("a folder");
    // No process has this pid: pids are smaller.
    let path = folder.path().join("999999999-1.exits");
    fs::write(
        &path,
        &whole[..whole.len() - records.len() + piece.min(records.len())],
    )
    .expect("the beginning is written");
    let mut grown = ExitRecords::read(folder.path()).expect("any content is read");
    fs::write(&path, &whole).expect("the file is written");
    grown.refresh().expect("any content is read");
    let at_once = ExitRecords::read(folder.path()).expect("any content is read");
    assert_eq!(grown.left(), at_once.left());
    for left in at_once.left() {
        let status = at_once.status(&left.process);
        assert_eq!(grown.status(&left.process), status);
    }
    assert!(at_once.left().len() <= records.len() / 8);
    assert!(at_once.keepers().is_empty());
    // A file of another boot, or of none, holds nothing.
    fs::write(&path, input).expect("the file is written");
    let others = ExitRecords::read(folder.path()).expect("any content is read");
    assert!(others.left().is_empty(), "{:?}", others.left());
}

fn seeds() -> Vec<Vec<u8>> {
    let text = "\x1f17 4711 left container_1700000000000_0007_01_000002\n18 4712 left -\n\
                17 4711 ended 143\n18 4712 ended 0\n19 1 end";
    vec![
        text.as_bytes().to_vec(),
        b"\x00exits 1 another\n1 2 left -\n".to_vec(),
    ]
}
