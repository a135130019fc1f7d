use super::*;
use crate::DefaultSource::YarnDefault;
use crate::KeyClass::Honoured;
use crate::{Guard, Key, Lenient, Unit, key};

const TABLE: KeyTable = KeyTable {
    keys: &[&[
        row("size", Some("10")),
        row("clamped", Some("50")),
        row("threads", Some("4")),
        row("word", Some("A")),
        row("flag", Some("true")),
        row("lists", Some("false")),
        row("own.flag", Some("false")),
        row("wait", Some("900000")),
    ]],
    families: &[],
    lenient: &[
        Lenient::below("size"),
        Lenient::clamped("clamped"),
        Lenient::default_for_all("threads"),
        Lenient::default_for_other("word"),
    ],
    guards: &[Guard {
        name: "lists",
        protects: true,
    }],
    own_prefix: Some("own."),
};

const fn row(name: &'static str, default: Option<&'static str>) -> Key {
    key(Honoured, YarnDefault, name, default, Unit::Text)
}

/// Reads one property; returns what is read, the problems and the warnings.
fn read<T>(
    name: &str,
    value: &str,
    read: impl FnOnce(&mut PropertyReader<'_>) -> T,
) -> (T, Vec<String>, Vec<String>) {
    let properties = TABLE.properties(&[(name, value)]);
    let mut reader = PropertyReader::new(&properties, &TABLE);
    let value = read(&mut reader);
    let (problems, warnings, _) = reader.finish();
    let problems = problems.iter().map(ToString::to_string).collect();
    let warnings = warnings.iter().map(ToString::to_string).collect();
    (value, problems, warnings)
}

#[test]
fn a_number_outside_is_replaced_where_the_table_has_a_rule() {
    for (name, value, expected, told) in [
        ("size", "-1", Some(0), 1),
        ("size", "7", Some(7), 0),
        ("size", "0x10", Some(16), 0),
        ("clamped", "101", Some(100), 1),
        ("clamped", "-3", Some(0), 1),
        ("threads", "-3", Some(4), 1),
        ("threads", "many", Some(4), 1),
        ("size", "101", None, 0),
        ("size", "ten", None, 0),
    ] {
        let integer = |reader: &mut PropertyReader<'_>| reader.integer_if_set(name, 0..=100);
        let (read, problems, warnings) = read(name, value, integer);
        assert_eq!(read, expected, "{name} = {value}");
        assert_eq!(problems.is_empty(), read.is_some(), "{problems:?}");
        assert_eq!(warnings.len(), told, "{warnings:?}");
    }
    let number = |reader: &mut PropertyReader<'_>| reader.number("clamped", 0.0..=1.0);
    let (read, _, warnings) = read("clamped", "1.5", number);
    assert!((read - 1.0).abs() < f64::EPSILON, "{read}");
    assert!(
        warnings[0].contains("read as 1, as Hadoop does"),
        "{warnings:?}"
    );
}

#[test]
fn a_word_that_is_not_known_is_refused_or_the_default() {
    let choice =
        |name| move |reader: &mut PropertyReader<'_>| reader.choice(name, ("A", 1), &[("B", 2)]);
    assert_eq!(read("word", "B", choice("word")).0, 2);
    let (read_as, problems, warnings) = read("word", "b", choice("word"));
    assert_eq!((read_as, problems.len(), warnings.len()), (1, 0, 1));
    let (_, problems, _) = read("flag", "b", choice("flag"));
    assert!(problems[0].contains("one of A, B"), "{problems:?}");
}

#[test]
fn a_flag_is_the_default_unless_that_leaves_something_open() {
    for (name, value, expected, problem) in [
        ("flag", "0", true, false),
        ("flag", "FALSE ", false, false),
        ("lists", "0", false, false),
        ("lists", "1", false, true),
        ("own.flag", "0", false, true),
    ] {
        let (flag, problems, _) = read(name, value, |reader| reader.flag(name));
        assert_eq!(flag, expected, "{name} = {value}");
        assert_eq!(problems.len(), usize::from(problem), "{name} = {value}");
    }
}

#[test]
fn a_time_may_have_a_unit() {
    for (value, expected, problem) in [
        ("15m", 900_000, false),
        ("7", 7, false),
        ("1h", 3_600_000, false),
        ("soon", 1, true),
        ("-1s", 1, true),
    ] {
        let duration = |reader: &mut PropertyReader<'_>| reader.duration_ms("wait", 1);
        let (read, problems, _) = read("wait", value, duration);
        assert_eq!((read, !problems.is_empty()), (expected, problem), "{value}");
    }
}

#[test]
fn a_problem_is_told_once_and_only_of_properties_that_count() {
    let twice = |reader: &mut PropertyReader<'_>| {
        let _ = (reader.u32("flag", 1), reader.u32("flag", 1));
    };
    assert_eq!(read("flag", "x", twice).1.len(), 1);
    let unread = |reader: &mut PropertyReader<'_>| {
        reader.only_if(false, "without it", |reader| reader.u32("flag", 1));
    };
    let (_, problems, warnings) = read("flag", "x", unread);
    assert!(problems.is_empty(), "{problems:?}");
    assert!(
        warnings[0].ends_with("it is not read without it"),
        "{warnings:?}"
    );
    let then_read = |reader: &mut PropertyReader<'_>| {
        unread(reader);
        reader.u32("flag", 1);
    };
    assert_eq!(read("flag", "x", then_read).1.len(), 1);
    let own = |reader: &mut PropertyReader<'_>| {
        reader.only_if(false, "without it", |reader| reader.flag("own.flag"));
    };
    assert_eq!(read("own.flag", "x", own).1.len(), 1);
}
