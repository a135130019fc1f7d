//! The page of all properties, `docs/properties.md`, against the table that the agent reads by.

use std::fmt::Write as _;
use std::path::Path;

use hadoop_conf::{Key, KeyClass};

use crate::config::keys;

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

Read from the file that `hadoop.ssl.server.conf` names, and from no other ([shuffle.md](shuffle.md)).

| Property | Default |
|---|---|
";

const OWN: &str = "yarn.nodemanager.agent.";

type Section = (&'static str, &'static str, fn(&Key) -> bool);

const SECTIONS: [Section; 5] = [
    (
        "Obeyed",
        "As in Hadoop, unless a page of these docs says otherwise.",
        |key| key.class == KeyClass::Honoured && !key.name.starts_with(OWN),
    ),
    ("Of this agent", "A Java NodeManager ignores them.", |key| {
        key.class == KeyClass::Honoured && key.name.starts_with(OWN)
    }),
    (
        "Taken over while the agent runs",
        "By `nm-agent reload` and SIGHUP. All others take effect at the next start, and are named then.",
        |key| keys::is_taken_at_run_time(key.name),
    ),
    (
        "Not obeyed yet",
        "A value that differs from the default is reported by `nm-agent check` and in the log at start.",
        |key| key.class == KeyClass::Later,
    ),
    (
        "Without meaning here",
        "They are about Java, Windows or plug-ins, and are ignored in silence.",
        |key| key.class == KeyClass::NotApplicable,
    ),
];

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
    for (title, text, belongs) in SECTIONS {
        write!(
            page,
            "\n## {title}\n\n{text}\n\n| Property | Default |\n|---|---|\n"
        )
        .unwrap();
        let mut rows: Vec<String> = keys::all().filter(|key| belongs(key)).map(row).collect();
        rows.sort();
        for row in rows {
            writeln!(page, "{row}").unwrap();
        }
    }
    write!(page, "{SSL_SERVER_HEAD}").unwrap();
    let of_file = keys::SSL_SERVER.keys.iter().copied().flatten();
    let mut rows: Vec<String> = of_file.map(row).collect();
    rows.sort();
    for row in rows {
        writeln!(page, "{row}").unwrap();
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
