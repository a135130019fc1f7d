use super::*;

const GOLDEN: &str = include_str!("../../../role-history/golden/slider-0.80.json");
const HOYA: &str = include_str!("../../../role-history/golden/hoya-2013.json");

const HEADER: &str = r#"{"entry":{"org.apache.slider.server.avro.RoleHistoryHeader":{"version":1,"saved":1000,"savedx":"3e8","savedate":"","roles":1}}}"#;

fn entry(host: &str, last_used: i64) -> String {
    format!(
        r#"{{"entry":{{"org.apache.slider.server.avro.NodeEntryRecord":{{"host":{host},"role":1,"active":false,"last_used":{last_used}}}}}}}"#
    )
}

fn footer(count: usize) -> String {
    format!(
        r#"{{"entry":{{"org.apache.slider.server.avro.RoleHistoryFooter":{{"count":{count}}}}}}}"#
    )
}

fn shown(text: &str) -> (Outcome, String, String) {
    let (mut out, mut problems) = (Vec::new(), Vec::new());
    let now = EpochMillis(1_452_081_600_000 + 3 * 60_000);
    let outcome = show(text.as_bytes(), now, &mut out, &mut problems).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (outcome, text(out), text(problems))
}

fn checked(text: &str) -> (Outcome, String) {
    let mut out = Vec::new();
    let outcome = check(text.as_bytes(), &mut out).unwrap();
    (outcome, String::from_utf8(out).unwrap())
}

#[test]
fn a_history_is_printed_with_every_field() {
    let (outcome, table, problems) = shown(GOLDEN);
    assert_eq!((outcome, problems.as_str()), (Outcome::Sound, ""));
    let expected = "\
saved  2016-01-06 12:00:00, 3 min 00 s ago
roles  3
role   0 is agent-am
role   4 is query
role   1 is store

LAST USED (UTC)      AGE AT SAVE  ROLE       NODE
2016-01-05 13:20:00  running      store      rack2-n07
2016-01-05 10:33:20  1 d 1 h      query      rack3-n01

2 entries, 1 of them running at the save
";
    assert_eq!(table, expected);
}

#[test]
fn a_history_without_names_has_the_numbers_of_its_roles() {
    let (outcome, table, _) = shown(HOYA);
    assert_eq!(outcome, Outcome::Sound);
    assert!(
        table.contains("\nnever                running      role 0     rack2-n07\n"),
        "{table}"
    );
}

#[test]
fn times_beyond_the_save_and_the_calendar_are_printed() {
    let text = [
        HEADER,
        &entry("\"n1\"", 2_000),
        &entry("\"n2\"", i64::MIN),
        &entry("\"n3\"", i64::MAX),
        &footer(3),
    ];
    let (outcome, table, _) = shown(&text.join("\n"));
    assert_eq!(outcome, Outcome::Sound);
    for line in [
        "1970-01-01 00:00:02  after save   role 1     n1",
        "-9223372036854775808  after save   role 1     n2",
        "9223372036854775807  after save   role 1     n3",
    ] {
        assert!(table.contains(line), "{line} in {table}");
    }
}

#[test]
fn a_broken_history_is_printed_as_far_as_it_can_be_read() {
    let broken = GOLDEN.replacen("\"last_used\":1451990000000", "\"last_used\":\"x\"", 1);
    let (outcome, table, problems) = shown(&broken);
    assert_eq!(outcome, Outcome::Wrong);
    assert!(table.ends_with("rack2-n07\n"), "{table}");
    assert_eq!(
        problems,
        "line 4: field entry.org.apache.slider.server.avro.NodeEntryRecord.last_used: invalid type: \
         string \"x\", expected i64\n"
    );
}

#[test]
fn an_odd_history_is_printed_whole_with_a_warning() {
    let odd = GOLDEN.replacen("\"count\":2", "\"count\":3", 1);
    let (outcome, _, problems) = shown(&odd);
    let warning = "warning: the footer counts 3 entries, but there are 2\n";
    assert_eq!((outcome, problems.as_str()), (Outcome::Sound, warning));
    let (outcome, found) = checked(&odd);
    assert_eq!(outcome, Outcome::Wrong);
    assert!(found.starts_with("the footer counts 3"), "{found}");
}

#[test]
fn a_check_of_a_sound_history_counts_its_entries() {
    let sound = "a complete history of 2 entries\n".to_owned();
    assert_eq!(checked(GOLDEN), (Outcome::Sound, sound));
}

#[test]
fn a_check_goes_on_after_a_wrong_record() {
    let wrong = entry("7", 1);
    let text = [HEADER, &wrong, &entry("\"n\"", 1), &wrong, &footer(3)].join("\n");
    let (outcome, found) = checked(&text);
    assert_eq!(outcome, Outcome::Wrong);
    let field = "field entry.org.apache.slider.server.avro.NodeEntryRecord.host: invalid type: \
                 integer `7`, expected a string";
    assert_eq!(found, format!("line 2: {field}\nline 4: {field}\n"));
}

#[test]
fn a_check_lists_only_the_first_problems() {
    let wrong = entry("7", 1);
    let mut lines = vec![HEADER];
    lines.extend(std::iter::repeat_n(wrong.as_str(), 25));
    let (_, found) = checked(&lines.join("\n"));
    // The last one is that there is no footer.
    assert_eq!(found.lines().count(), 21);
    assert!(found.ends_with("\nand 6 more\n"), "{found}");
}

#[test]
fn no_character_of_a_file_steers_a_terminal() {
    let hostile = r#""a\u001b[2Jb\u0007\u009bc\r\n\u202ed""#;
    let mapping = format!(
        r#"{{"entry":{{"org.apache.slider.server.avro.RoleHistoryMapping":{{"rolemap":{{{hostile}:1}}}}}}}}"#
    );
    let raw = "{\"entry\":{\"\u{9b}2J\":1,\"x\":2}}";
    let text = [HEADER, &mapping, &entry(hostile, 1), raw, &footer(1)].join("\n");
    let (_, table, problems) = shown(&text);
    let (_, found) = checked(&text);
    for printed in [&table, &problems, &found] {
        let steers = |char: char| (char.is_control() && char != '\n') || char == '\u{202e}';
        assert!(!printed.contains(steers), "{printed:?}");
    }
    assert!(table.contains("  a\\u{1b}[2Jb"), "{table}");
    assert_eq!(
        table.lines().filter(|line| line.contains("2Jb")).count(),
        2,
        "{table}"
    );
}
