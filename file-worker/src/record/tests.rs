use proptest::prelude::*;

use super::*;

fn records() -> Vec<Record<'static>> {
    let name = &b"a/\xff"[..];
    let region = |offset, length| Region { offset, length };
    let mut records = vec![
        Record::Folder { name },
        Record::File {
            name: b"",
            modified: None,
        },
        Record::Sparse {
            name,
            size: u64::MAX,
            regions: 7,
            modified: Some((-1, 999_999_999)),
        },
        Record::Regions(vec![region(0, 1), region(u64::MAX, 0)]),
        Record::Content(b"content"),
        Record::End,
        Record::SymbolicLink { name, target: b"/" },
        Record::HardLink { name, target: b"b" },
        Record::Skipped { name, bytes: 1 },
        Record::Failed(io::Error::new(io::ErrorKind::InvalidData, "why")),
        Record::BadPattern("pattern"),
        Record::Over,
    ];
    let reasons = [
        Unsupported::NotUtf8,
        Unsupported::SpecialFile,
        Unsupported::Continued,
        Unsupported::UnknownKind(7),
        Unsupported::SparseForm,
        Unsupported::Encrypted,
        Unsupported::Compression(UnknownMethod(99)),
        Unsupported::LengthBehind,
    ];
    records.extend(reasons.map(|reason| Record::Refused { name, reason }));
    records
}

#[test]
fn each_record_arrives_as_it_was_sent() {
    let bytes: Vec<u8> = records().iter().flat_map(Record::encode).collect();
    let mut rest = bytes.as_slice();
    for sent in records() {
        let (record, length) = Record::decode(rest).unwrap();
        assert_eq!(format!("{record:?}"), format!("{sent:?}"));
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_name_that_is_too_long_for_a_file_stays_so() {
    let long = vec![b'n'; 1 << 20];
    let bytes = Record::Folder { name: &long }.encode();
    let (Record::Folder { name }, _) = Record::decode(&bytes).unwrap() else {
        panic!("{} bytes", bytes.len());
    };
    assert_eq!(name.len(), NAME_BYTES_MAX + 1);
}

#[test]
fn times_arrive_before_and_after_the_epoch() {
    let nanos = Duration::from_nanos;
    for distance in [0, 1, 999_999_999, 1_000_000_000, 1_500_000_000] {
        for time in [
            SystemTime::UNIX_EPOCH + nanos(distance),
            SystemTime::UNIX_EPOCH - nanos(distance),
        ] {
            assert_eq!(system_time(time_of(Some(time))), Some(time));
        }
    }
    assert_eq!(time_of(None), None);
}

#[test]
fn records_that_make_nothing_or_too_much_are_refused() {
    let content = vec![0; PIECE_MAX + 1];
    let regions = vec![
        Region {
            offset: 0,
            length: 0
        };
        SOME_REGIONS_MAX + 1
    ];
    for record in [
        Record::Content(b""),
        Record::Content(&content),
        Record::Regions(Vec::new()),
        Record::Regions(regions),
        Record::Skipped {
            name: b"",
            bytes: 0,
        },
        Record::Skipped {
            name: b"",
            bytes: u32::MAX,
        },
    ] {
        assert!(Record::decode(&record.encode()).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_record_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((record, length)) = Record::decode(&bytes) {
            prop_assert!(length <= bytes.len());
            prop_assert!(Record::decode(&record.encode()).is_ok());
        }
    }
}
