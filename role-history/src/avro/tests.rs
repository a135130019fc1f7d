//! Golden files in `golden/` are written by hand from the schema of each version.

use std::collections::BTreeMap;
use std::io::{BufReader, Cursor, Read};

use proptest::prelude::*;
use records::EpochMillis;
use serde_json::Value;

use super::*;
use crate::saved::{SavedEntry, SavedHistory};

const HOYA: &str = include_str!("../../golden/hoya-2013.json");
const SLIDER_0_70: &str = include_str!("../../golden/slider-0.70.json");
const SLIDER_0_80: &str = include_str!("../../golden/slider-0.80.json");
const PRETTY: &str = include_str!("../../golden/pretty-printed.json");

const HEADER: &str = r#"{"entry":{"org.apache.slider.server.avro.RoleHistoryHeader":{"version":1,"saved":5,"savedx":"5","savedate":"","roles":1}}}"#;
const FOOTER: &str = r#"{"entry":{"org.apache.slider.server.avro.RoleHistoryFooter":{"count":0}}}"#;

fn read(text: &str) -> Result<ReadHistory, ReadHistoryError> {
    read_history(text.as_bytes(), ReadLimits::default())
}

fn accepted(text: &str) -> SavedHistory {
    let read = read(text).unwrap();
    assert_eq!(read.warnings, []);
    read.history
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

fn entries(history: &SavedHistory) -> Vec<(&str, i32, bool, i64)> {
    let entries = history.iter();
    let entries = entries.map(|(host, e)| (host, e.role, e.active, e.last_used.0));
    entries.collect()
}

fn written(history: &SavedHistory) -> String {
    let mut bytes = Vec::new();
    write_history(history, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_file_of_hoya_is_read() {
    let history = accepted(HOYA);
    assert_eq!(history.saved, EpochMillis(1_386_331_200_000));
    assert_eq!((history.roles, &history.role_map), (2, &None));
    assert_eq!(
        entries(&history),
        [
            ("rack2-n07", 0, true, 0),
            ("rack2-n09", 1, false, 1_386_320_000_000)
        ]
    );
}

#[test]
fn a_file_without_mapping_is_read() {
    let history = accepted(SLIDER_0_70);
    assert_eq!(history.role_map, None);
    assert_eq!(
        entries(&history),
        [("rack2-n07", 1, true, 1_420_027_200_000)]
    );
}

#[test]
fn a_file_with_mapping_is_read_and_written_byte_for_byte() {
    let history = accepted(SLIDER_0_80);
    let names = [("agent-am", 0), ("query", 4), ("store", 1)];
    let names: BTreeMap<_, _> = names.map(|(name, id)| (name.to_owned(), id)).into();
    assert_eq!(history.role_map, Some(names));
    assert_eq!(written(&history), SLIDER_0_80);
}

#[test]
fn white_space_and_unknown_fields_do_not_matter() {
    assert_eq!(entries(&accepted(PRETTY)), [("192.168.1.85", 1, true, 0)]);
}

#[test]
fn what_is_written_has_the_fields_and_types_of_the_schema_in_its_order() {
    let is_int = |value: &Value| value.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
    let fits = |kind: &str, value: &Value| match kind {
        "int" => is_int(value),
        "long" => value.is_i64(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "map of int" => value
            .as_object()
            .is_some_and(|map| map.values().all(is_int)),
        _ => unreachable!("{kind}"),
    };
    let entry: &[_] = &[
        ("host", "string"),
        ("role", "int"),
        ("active", "boolean"),
        ("last_used", "long"),
    ];
    let header: &[_] = &[
        ("version", "int"),
        ("saved", "long"),
        ("savedx", "string"),
        ("savedate", "string"),
        ("roles", "int"),
    ];
    let schema = [
        ("RoleHistoryHeader", header),
        ("RoleHistoryMapping", &[("rolemap", "map of int")]),
        ("NodeEntryRecord", entry),
        ("NodeEntryRecord", entry),
        ("RoleHistoryFooter", &[("count", "long")]),
    ];
    let written = written(&accepted(SLIDER_0_80));
    assert_eq!(written.lines().count(), schema.len());
    for (line, (record, fields)) in written.lines().zip(schema) {
        let value: Value = serde_json::from_str(line).unwrap();
        let outer: Vec<_> = value.as_object().unwrap().keys().collect();
        assert_eq!(outer, ["entry"], "{line}");
        let union = value["entry"].as_object().unwrap();
        let (name, found) = union.iter().next().unwrap();
        let full_name = format!("org.apache.slider.server.avro.{record}");
        assert_eq!((union.len(), name), (1, &full_name), "{line}");
        assert_eq!(found.as_object().unwrap().len(), fields.len(), "{line}");
        for (field, kind) in fields {
            assert!(fits(kind, &found[field]), "{field} in {line}");
        }
        // A map of this JSON reader is sorted, so the order is that of the text.
        let place = |field| line.find(&format!("\"{field}\":")).unwrap();
        assert!(
            fields.iter().map(|(field, _)| place(field)).is_sorted(),
            "{line}"
        );
    }
}

#[test]
fn hexadecimal_and_date_are_those_of_the_time() {
    for (saved, savedx, date) in [
        (0, "0", "1 Jan 1970 00:00:00 GMT"),
        (1_456_747_199_999, "1532ce63dff", "29 Feb 2016 11:59:59 GMT"),
        (i64::MAX, "7fffffffffffffff", ""),
    ] {
        let text = written(&SavedHistory::new(EpochMillis(saved), 1, None));
        let expected = format!("\"savedx\":\"{savedx}\",\"savedate\":\"{date}\"");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn an_empty_file_and_one_of_white_space_are_no_history() {
    for text in ["", "\n \t\r\n"] {
        assert!(matches!(read(text), Err(ReadHistoryError::Empty)));
    }
}

#[test]
fn every_truncation_of_a_file_is_an_error() {
    for end in 0..SLIDER_0_80.len() {
        let found = read(&SLIDER_0_80[..end]);
        assert!(
            matches!(
                found,
                Err(ReadHistoryError::Empty
                    | ReadHistoryError::Truncated { .. }
                    | ReadHistoryError::NoFooter { .. })
            ),
            "{end}: {found:?}"
        );
    }
    assert_eq!(
        error(&SLIDER_0_80[..SLIDER_0_80.len() - 1]),
        "the record at line 5 is cut off"
    );
}

#[test]
fn a_foreign_version_is_refused() {
    let text = SLIDER_0_80.replacen("\"version\":1", "\"version\":2", 1);
    assert_eq!(error(&text), "line 1: version 2 of the history is unknown");
}

#[test]
fn the_order_of_records_is_checked() {
    assert_eq!(error(FOOTER), "line 1 is not a header");
    assert_eq!(
        error(&format!("{HEADER}\n{HEADER}\n{FOOTER}")),
        "line 2 is a second header"
    );
    assert_eq!(
        error(&format!("{HEADER}\n")),
        "the history ends at line 1 without a footer"
    );
    assert_eq!(
        error(&format!("{HEADER}\n{FOOTER}\n{FOOTER}")),
        "line 3 follows the footer"
    );
}

#[test]
fn text_that_is_no_json_is_refused_with_its_line() {
    assert_eq!(
        error(&format!("{HEADER}\n\nhello\n{FOOTER}")),
        "line 3 has text that is not a JSON object"
    );
    assert_eq!(
        error(&format!("[{HEADER},{FOOTER}]")),
        "line 1 has text that is not a JSON object"
    );
    assert_eq!(
        error(&format!("{HEADER}\n{{\"entry\"::1}}\n{FOOTER}")),
        "line 2: field entry: expected value"
    );
}

#[test]
fn a_wrong_field_is_named_with_its_line() {
    let entry = |fields: &str| {
        error(&format!(
            "{HEADER}\n{{\"entry\":{{\"org.apache.slider.server.avro.NodeEntryRecord\":{{{fields}}}}}}}\n{FOOTER}"
        ))
    };
    let path = "line 2: field entry.org.apache.slider.server.avro.NodeEntryRecord";
    assert_eq!(
        entry(r#""host":"n1","role":"x","active":true,"last_used":0"#),
        format!("{path}.role: invalid type: string \"x\", expected i32")
    );
    assert_eq!(
        entry(r#""host":"n1","role":1.5,"active":true,"last_used":0"#),
        format!("{path}.role: invalid type: floating point `1.5`, expected i32")
    );
    assert_eq!(
        entry(r#""host":null,"role":1,"active":true,"last_used":0"#),
        format!("{path}.host: invalid type: null, expected a string")
    );
    assert_eq!(
        entry(r#""host":"n1","role":1,"active":1,"last_used":0"#),
        format!("{path}.active: invalid type: integer `1`, expected a boolean")
    );
    assert_eq!(
        entry(r#""host":"n1","role":1,"active":true,"last_used":9223372036854775808"#),
        format!("{path}.last_used: invalid value: integer `9223372036854775808`, expected i64")
    );
    assert_eq!(
        entry(r#""role":1,"active":true,"last_used":0"#),
        format!("{path}: missing field `host`")
    );
}

#[test]
fn the_line_of_a_wrong_field_inside_a_long_record_is_its_own() {
    let text = PRETTY.replacen("\"active\" : true", "\"active\" : 7", 1);
    assert!(
        error(&text).starts_with("line 17: field entry."),
        "{}",
        error(&text)
    );
}

#[test]
fn a_union_with_no_or_two_records_is_refused() {
    for entry in ["{}", r#"{"a":1,"b":2}"#, "7", "null"] {
        let text = format!("{HEADER}\n{{\"entry\":{entry}}}\n{FOOTER}");
        assert!(
            matches!(read(&text), Err(ReadHistoryError::Record { line: 2, .. })),
            "{entry}"
        );
    }
}

#[test]
fn odd_files_are_read_with_a_warning() {
    let warnings = |text: &str| read(text).unwrap().warnings;
    let count = FOOTER.replacen('0', "9", 1);
    assert_eq!(
        warnings(&format!("{HEADER}{count}")),
        [ReadWarning::FooterCount { stated: 9, read: 0 }]
    );
    let unknown = r#"{"entry":{"org.example.New":{"a":[1,{"b":"}{"}]}}}"#;
    assert_eq!(
        warnings(&format!("{HEADER}{unknown}{unknown}{FOOTER}")),
        [ReadWarning::UnknownRecords { count: 2 }]
    );
    let mapping = |id| {
        format!(
            r#"{{"entry":{{"org.apache.slider.server.avro.RoleHistoryMapping":{{"rolemap":{{"store":{id}}}}}}}}}"#
        )
    };
    let text = format!(
        "{HEADER}\n{}\n{}\n{}\n{FOOTER}",
        mapping(1),
        mapping(2),
        mapping(3)
    );
    let read = read(&text).unwrap();
    assert_eq!(read.warnings, [ReadWarning::SecondMapping { line: 3 }]);
    assert_eq!(read.history.role_map.unwrap()["store"], 1);
}

#[test]
fn a_record_beyond_the_limit_is_refused_before_it_is_kept() {
    // An endless string: the reader must stop by itself.
    let endless = HEADER.as_bytes().chain(&b"{\""[..]);
    let endless = BufReader::new(endless.chain(std::io::repeat(b'x')));
    let found = read_history(endless, ReadLimits::default()).unwrap_err();
    assert_eq!(
        found.to_string(),
        "the record at line 1 is longer than 1048576 bytes"
    );
}

#[test]
fn deep_nesting_costs_no_stack() {
    let deep = "{\"a\":".repeat(100_000);
    let close = "}".repeat(100_000);
    let unknown = format!("{{\"entry\":{{\"org.example.New\":{deep}1{close}}}}}");
    let read = read(&format!("{HEADER}\n{unknown}\n{FOOTER}")).unwrap();
    assert_eq!(read.warnings, [ReadWarning::UnknownRecords { count: 1 }]);
}

#[test]
fn entries_beyond_the_limit_are_refused() {
    let limits = ReadLimits {
        entries_max: 1,
        ..ReadLimits::default()
    };
    let found = read_history(SLIDER_0_80.as_bytes(), limits).unwrap_err();
    assert_eq!(
        found.to_string(),
        "line 4 has more than the 1 entries that a history may have"
    );
}

#[test]
fn hostile_names_do_not_make_long_errors() {
    let name = "x".repeat(100_000);
    let text = format!("{HEADER}\n{{\"entry\":{{\"{name}\":1,\"{name}\":2}}}}\n{FOOTER}");
    assert!(error(&text).len() < 1_000);
}

#[test]
fn an_error_of_the_stream_is_passed_on_with_its_line() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk gone"))
        }
    }
    let input = BufReader::new(Cursor::new(format!("{HEADER}\n")).chain(Broken));
    let found = read_history(input, ReadLimits::default()).unwrap_err();
    assert!(matches!(found, ReadHistoryError::Read { line: 2, .. }));
}

fn history() -> impl Strategy<Value = SavedHistory> {
    let entry = (any::<String>(), any::<i32>(), any::<bool>(), any::<i64>());
    let names = prop::option::of(prop::collection::btree_map(
        any::<String>(),
        any::<i32>(),
        0..5,
    ));
    let entries = prop::collection::vec(entry, 0..20);
    (any::<i64>(), any::<i32>(), names, entries).prop_map(|(saved, roles, names, entries)| {
        let mut history = SavedHistory::new(EpochMillis(saved), roles, names);
        for (host, role, active, last_used) in entries {
            let last_used = EpochMillis(last_used);
            let entry = SavedEntry {
                role,
                active,
                last_used,
            };
            history.push(&host, entry);
        }
        history
    })
}

proptest! {
    #[test]
    fn every_history_reads_back(history in history(), buffer in 1..64_usize) {
        let text = written(&history);
        let input = BufReader::with_capacity(buffer, text.as_bytes());
        let read = read_history(input, ReadLimits::default()).unwrap();
        prop_assert_eq!(read.history, history);
        prop_assert_eq!(read.warnings, vec![]);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_history(bytes.as_slice(), ReadLimits::default());
    }

    #[test]
    fn a_file_with_a_wrong_byte_is_read_or_refused(at in 0..SLIDER_0_80.len(), byte: u8) {
        let mut bytes = SLIDER_0_80.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = read_history(bytes.as_slice(), ReadLimits::default());
    }
}
