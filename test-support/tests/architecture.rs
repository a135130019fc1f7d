//! The table of crates in ARCHITECTURE.md is the workspace: every crate stands in it once, with the
//! crates that it depends on, all of them above it.

#![expect(clippy::unwrap_used, reason = "helpers of a test: they fail with it")]

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// A crate of the workspace and the crates of the workspace that it depends on, without those of
/// its tests.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    uses: BTreeSet<String>,
}

/// Reads the rows of the section "Crates", from the first to the last.
fn drawn(text: &str) -> Vec<Crate> {
    let section = text.split("\n## ").find(|part| part.starts_with("Crates"));
    let section = section.expect("ARCHITECTURE.md has a section named Crates");
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _subject, uses] = cells[..] else {
            panic!("a row has crate, subject and uses: {row}");
        };
        let names = |cell: &str| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let name: Vec<String> = names(name);
        Crate {
            name: name.concat(),
            uses: names(uses).into_iter().collect(),
        }
    })
    .collect()
}

/// Asks cargo for the crates of the workspace.
fn built() -> Vec<Crate> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let shipped = dependencies.filter(|dependency| dependency["kind"] != "dev");
            Crate {
                name: name(package),
                uses: shipped
                    .map(name)
                    .filter(|name| members.contains(name))
                    .collect(),
            }
        })
        .collect()
}

#[test]
fn every_edge_between_crates_is_drawn_and_none_points_upwards() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../ARCHITECTURE.md");
    let mut drawn = drawn(&std::fs::read_to_string(path).unwrap());
    let mut above = BTreeSet::new();
    for row in &drawn {
        for used in &row.uses {
            assert!(
                above.contains(used),
                "ARCHITECTURE.md: {} uses {used}, which does not stand above it",
                row.name
            );
        }
        above.insert(row.name.clone());
    }
    drawn.sort();
    let mut built = built();
    built.sort();
    let differing = |these: &[Crate], those: &[Crate]| {
        let only = these.iter().filter(|one| !those.contains(one));
        only.map(|one| format!("{one:?}"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(
        drawn,
        built,
        "\ndrawn only:\n{}\nbuilt only:\n{}\n",
        differing(&drawn, &built),
        differing(&built, &drawn)
    );
}
