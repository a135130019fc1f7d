use super::numbers::write_number;
use super::*;
use crate::tfile_reader::{Entries, read_number};

use std::io::Read as _;

use proptest::prelude::*;

fn encoded(number: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_number(&mut bytes, number).unwrap();
    bytes
}

#[test]
fn numbers_take_the_shortest_form_that_holds_them() {
    let cases: [(i64, &[u8]); 14] = [
        (0, &[0]),
        (127, &[127]),
        (-32, &[0xe0]),
        (128, &[0xcc, 0x80]),
        (-33, &[0xcb, 0xdf]),
        (20 * 256 - 1, &[0xdf, 0xff]),
        (20 * 256, &[0xa8, 0x14, 0x00]),
        (-20 * 256 - 1, &[0xa7, 0xeb, 0xff]),
        ((16 << 16) - 1, &[0xb7, 0xff, 0xff]),
        (16 << 16, &[0x90, 0x10, 0x00, 0x00]),
        (8 << 24, &[0x83, 0x08, 0x00, 0x00, 0x00]),
        (1 << 31, &[0x84, 0x00, 0x80, 0x00, 0x00, 0x00]),
        (
            i64::MAX,
            &[0x87, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        (i64::MIN, &[0x87, 0x80, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (number, bytes) in cases {
        assert_eq!(encoded(number), bytes, "{number}");
    }
}

fn written(entries: &[(Vec<u8>, Vec<Vec<u8>>)], compression: Compression) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), compression).unwrap();
    for (key, parts) in entries {
        let value = |out: &mut dyn Write| parts.iter().try_for_each(|part| out.write_all(part));
        writer.append(key, value).unwrap();
    }
    writer.finish().unwrap()
}

/// Parts of a value: a few bytes, or more than a chunk and than a block.
fn parts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let part = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (0..400_000_usize, any::<u8>()).prop_map(|(length, seed)| {
            (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap() ^ seed).collect()
        }),
    ];
    prop::collection::vec(part, 0..5)
}

proptest! {
    #[test]
    fn every_number_is_read_back(number in any::<i64>(), shift in 0..64_u32) {
        let number = number >> shift;
        let bytes = encoded(number);
        let mut rest = &bytes[..];
        prop_assert_eq!(read_number(&mut rest), number);
        prop_assert!(rest.is_empty());
        let mut rest = &bytes[..];
        prop_assert_eq!(super::numbers::read_number(&mut rest).unwrap(), Some(number));
        prop_assert!(rest.is_empty());
        prop_assert!(super::numbers::read_number(&mut &bytes[..bytes.len() - 1]).ok().flatten().is_none());
    }

    #[test]
    fn entries_are_read_back_in_order(
        entries in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), parts()), 0..6),
        gz in any::<bool>(),
    ) {
        let compression = if gz { Compression::Gz } else { Compression::None };
        let file = written(&entries, compression);
        let read = Entries::read(&file);
        let expected: Vec<_> = entries.iter().map(|(key, parts)| (key.clone(), parts.concat())).collect();
        prop_assert_eq!(&read.entries, &expected);
        let mut reader = Reader::new(&file[..], compression).unwrap();
        for (key, bytes) in expected {
            let (found, mut value) = reader.next_entry().unwrap().unwrap();
            prop_assert_eq!(found, key);
            let mut read = Vec::new();
            value.read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, bytes);
            reader = value.skip().unwrap();
        }
    }
}

#[test]
fn a_block_ends_with_the_first_value_that_fills_it() {
    let entry = |bytes: usize| (b"k".to_vec(), vec![vec![7; bytes]]);
    let entries = [entry(200_000), entry(200_000), entry(10), entry(1_000_000)];
    let read = Entries::read(&written(&entries, Compression::None));
    assert_eq!(read.block_entries, [2, 2]);
    let read = Entries::read(&written(&entries, Compression::Gz));
    assert_eq!(
        read.block_entries,
        [4],
        "few compressed bytes fill no block"
    );
}

#[test]
fn the_bytes_of_a_small_file_are_these() {
    let file = written(
        &[(b"key".to_vec(), vec![b"value".to_vec()])],
        Compression::None,
    );
    let mut expected = vec![
        0xd1, 0x11, 0xd3, 0x68, 0x91, 0xb5, 0xd7, 0xb6, 0x39, 0xdf, 0x41, 0x40, 0x92, 0xba, 0xe1,
        0x50,
    ];
    let magic = expected.clone();
    expected.extend_from_slice(b"\x03key\x05value");
    // TFile.meta at 26: version, one entry, no comparator.
    expected.extend_from_slice(&[0, 1, 0, 0, 1, 0]);
    // TFile.index at 32: the first key; the last key of the block and its one entry.
    expected.extend_from_slice(b"\x04\x03key\x05\x03key\x01");
    // BCFile.index at 43: one block of 10 bytes at 16.
    expected.extend_from_slice(b"\x04none\x01\x10\x0a\x0a");
    // The meta index at 52.
    expected.extend_from_slice(b"\x03\x11data:BCFile.index\x04none\x2b\x09\x09");
    expected.extend_from_slice(b"\x10data:TFile.index\x04none\x20\x0b\x0b");
    expected.extend_from_slice(b"\x0fdata:TFile.meta\x04none\x1a\x06\x06");
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 52, 0, 1, 0, 0]);
    expected.extend_from_slice(&magic);
    assert_eq!(file, expected);
}
