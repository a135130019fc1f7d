//! The page of all properties, `docs/properties.md`, against the table that the agent reads by.

use std::fmt::Write as _;
use std::path::Path;

use hadoop_conf::{Key, KeyClass, Unit};

use super::odd_values::IN_WORDS;
use crate::config::keys;
use crate::config::read_security::PROTECTIONS;

/// Variable with which the test writes the page instead of comparing it.
const WRITE: &str = "NM_AGENT_WRITE_PAGES";

const HEAD: &str = "# Properties

Every property that the agent knows, with its default. `nm-agent check` prints the values in force on a
node with the file that each comes from, what is wrong with them, and a suggestion for names that
nobody knows. This page is made from the table that the agent itself reads by:
`NM_AGENT_WRITE_PAGES=1 cargo test -p node-manager page_of_properties` writes it anew.
";

const SSL_SERVER_HEAD: &str = "
## In `ssl-server.xml`

Read from the file that `hadoop.ssl.server.conf` names, and from no other ([shuffle.md](shuffle.md)); for
[pages](monitoring.md#over-tls) from `ssl-server.xml`, as in Hadoop.

| Property | Default |
|---|---|
";

const SPARK_SHUFFLE_HEAD: &str = "
## Of Spark's shuffle

Read for each service of its class from `yarn-site.xml`, and over it from `spark-shuffle-site.xml` in the
folders of the service's class path ([spark-shuffle.md](spark-shuffle.md)).

| Property | Default |
|---|---|
";

const OWN: &str = "yarn.nodemanager.agent.";

const PROTECTIONS_HEAD: &str = "
## Protections that the agent lacks

A property that asks for one of them is a problem, and the agent does not start, unless
`yarn.nodemanager.agent.accept-unsafe` lists the property: then the lack is a warning.

| Property | With it accepted |
|---|---|
";

/// Title, text, column of odd values, and which properties belong to it.
type Section = (&'static str, &'static str, bool, fn(&Key) -> bool);

const SECTIONS: [Section; 5] = [
    (
        "Obeyed",
        "As in Hadoop, unless a page of these docs says otherwise.

A value that a property is not meant for is read as Hadoop reads it. Where Hadoop's NodeManager does not
start, the agent does not either (\"refused\"); where it goes on with another value, so does the agent, with a
warning that names it. A flag that protects is refused where Hadoop's reading would leave open what may
have been meant to be closed: `yarn.acl.enable` = `0` is read as `false`, and `yes` is refused. Properties
of a part that is off are not judged.",
        true,
        |key| key.class == KeyClass::Honoured && !key.name.starts_with(OWN),
    ),
    (
        "Of this agent",
        "A Java NodeManager ignores them. Odd values are refused.",
        false,
        |key| key.class == KeyClass::Honoured && key.name.starts_with(OWN),
    ),
    (
        "Taken over while the agent runs",
        "By `nm-agent reload` and SIGHUP. All others take effect at the next start, and are named then.",
        false,
        |key| keys::is_taken_at_run_time(key.name),
    ),
    (
        "Not obeyed yet",
        "A value that differs from the default is reported by `nm-agent check` and in the log at start.",
        false,
        |key| key.class == KeyClass::Later,
    ),
    (
        "Without meaning here",
        "They are about Java, Windows, or ports that this agent does not have, and are ignored in silence.",
        false,
        |key| key.class == KeyClass::NotApplicable,
    ),
];

/// Returns what becomes of odd values, for people.
fn odd(key: &Key) -> String {
    let in_words = IN_WORDS.iter().find(|(name, _)| *name == key.name);
    if let Some((_, words)) = in_words {
        return (*words).to_owned();
    }
    if let Some(rule) = keys::TABLE.lenient(key.name) {
        return rule.to_string();
    }
    match key.unit {
        Unit::Flag => match keys::TABLE.guard(key.name) {
            Some(guard) if key.default != Some(flag(guard.protects)) => format!(
                "the default; refused where it may mean `{}`",
                flag(guard.protects)
            ),
            Some(_) | None => "the default".to_owned(),
        },
        Unit::Text | Unit::List => String::new(),
        Unit::Count
        | Unit::Millis
        | Unit::Seconds
        | Unit::Duration
        | Unit::Mebibytes
        | Unit::Bytes
        | Unit::Characters
        | Unit::MegabitsPerSecond
        | Unit::Percent
        | Unit::Ratio
        | Unit::Address
        | Unit::Paths
        | Unit::ClassName
        | Unit::Octal => "refused".to_owned(),
    }
}

const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn row(key: &Key) -> String {
    let unit = key.unit.suffix();
    let default = match key.default {
        None => "none".to_owned(),
        Some("") => "empty".to_owned(),
        Some(text) if unit.is_empty() => format!("`{}`", text.replace('|', "\\|")),
        Some(text) => format!("`{text}` {unit}"),
    };
    format!("| `{}` | {default} |", key.name)
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, text, with_odd, belongs) in SECTIONS {
        let columns = if with_odd {
            "| Property | Default | Odd values |\n|---|---|---|"
        } else {
            "| Property | Default |\n|---|---|"
        };
        write!(page, "\n## {title}\n\n{text}\n\n{columns}\n").unwrap();
        let row_of = |key: &Key| {
            let row = row(key);
            if with_odd {
                format!("{row} {} |", odd(key))
            } else {
                row
            }
        };
        let mut rows: Vec<String> = keys::all().filter(|key| belongs(key)).map(row_of).collect();
        rows.sort();
        for row in rows {
            writeln!(page, "{row}").unwrap();
        }
    }
    write!(page, "{PROTECTIONS_HEAD}").unwrap();
    for protection in PROTECTIONS {
        writeln!(page, "| `{}` | {} |", protection.name, protection.lack).unwrap();
    }
    for (head, table) in [
        (SSL_SERVER_HEAD, &keys::SSL_SERVER),
        (SPARK_SHUFFLE_HEAD, &keys::SPARK_SHUFFLE),
    ] {
        write!(page, "{head}").unwrap();
        let of_file = table.keys.iter().copied().flatten();
        let obeyed = of_file.filter(|key| key.class == KeyClass::Honoured);
        let mut rows: Vec<String> = obeyed.map(row).collect();
        rows.sort();
        for row in rows {
            writeln!(page, "{row}").unwrap();
        }
    }
    page.push_str(
        "\n## Names with a part that the operator chooses\n\n| Name | Here |\n|---|---|\n",
    );
    for family in keys::TABLE.families {
        for suffix in family.suffixes {
            let here = match family.class {
                KeyClass::Honoured => "obeyed",
                KeyClass::Later => "not obeyed yet",
                KeyClass::NotApplicable => "without meaning",
            };
            writeln!(page, "| `{}NAME{suffix}` | {here} |", family.prefix).unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_properties_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/properties.md");
    let expected = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found
        .lines()
        .zip(expected.lines())
        .find(|(one, other)| one != other);
    assert!(
        found == expected,
        "docs/properties.md is out of date: set {WRITE}=1 to write it; first difference: {differs:?}"
    );
}
