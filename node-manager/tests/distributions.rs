//! Configurations with the values that distributions ship: each starts a node, or is refused for
//! what the node has not, where there is one with the property that has it start all the same.

#![expect(
    clippy::unwrap_used,
    reason = "bodies of tests are tests too: a panic is a failed test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use node_manager::config::Loaded;

use Verdict::{Refused, Starts, StartsWith};

/// Property that has a node start without auxiliary services that it has not.
const SKIP: &str = "yarn.nodemanager.agent.aux-services.skip-unavailable";

/// Judgement of a configuration.
enum Verdict {
    /// The node starts.
    Starts,
    /// The node starts once this property is `true`, which each problem names.
    StartsWith(&'static str),
    /// The node does not start: these properties ask for what it has not, and some have no way out.
    Refused(&'static [&'static str]),
}

const DISTRIBUTIONS: [(&str, Verdict); 10] = [
    ("alibaba-emr-5", Starts),
    ("ambari-hdp-2", StartsWith(SKIP)),
    ("ambari-hdp-3", StartsWith(SKIP)),
    ("apache-docker", Starts),
    ("bigtop-3", Starts),
    ("cdh-6", Starts),
    ("cdp-7", StartsWith(SKIP)),
    ("dataproc-2", Starts),
    ("emr-6", Starts),
    // A secured cluster; the machine of the test has not its keytab.
    (
        "tdp-1",
        Refused(&[
            "yarn.nodemanager.keytab",
            "hadoop.http.authentication.kerberos.keytab",
            "ssl.server.keystore.location",
            "yarn.nodemanager.aux-services",
        ]),
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/distributions")
}

/// Returns the problems of a configuration, as `run` prints them, a line for each.
fn problems(folder: &Path) -> Vec<String> {
    match Loaded::read(&[folder.to_owned()], &BTreeMap::new()).config {
        Ok(_) => Vec::new(),
        Err(problems) => {
            let text = problems.to_string();
            text.lines().skip(1).map(str::to_owned).collect()
        }
    }
}

/// Copies a configuration and sets a property to `true`.
fn with_property(from: &Path, property: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["core-site.xml", "yarn-site.xml"] {
        let set = format!(
            "<property><name>{property}</name><value>true</value></property></configuration>"
        );
        let text = fs::read_to_string(from.join(name)).unwrap();
        let text = text.replace("</configuration>", &set);
        fs::write(copy.path().join(name), text).unwrap();
    }
    copy
}

#[test]
fn each_starts_or_names_the_property_that_accepts_what_it_cannot_do() {
    let mut wrong = Vec::new();
    for (name, verdict) in DISTRIBUTIONS {
        let folder = folder().join(name);
        let found = problems(&folder);
        let is_as_expected = match verdict {
            Starts => found.is_empty(),
            StartsWith(property) => {
                let way_out = format!("with {property} = true");
                let accepted = with_property(&folder, property);
                !found.is_empty()
                    && found.iter().all(|problem| problem.contains(&way_out))
                    && problems(accepted.path()).is_empty()
            }
            Refused(properties) => {
                let named = properties
                    .iter()
                    .map(|name| format!(": {name} = "))
                    .filter(|named| found.iter().any(|problem| problem.contains(named)));
                named.count() == properties.len() && found.len() == properties.len()
            }
        };
        if !is_as_expected {
            wrong.push((name, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_configuration_of_the_folder_is_judged() {
    let entries = fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let judged = DISTRIBUTIONS.iter().map(|(name, _)| (*name).to_owned());
    assert_eq!(names.collect::<BTreeSet<_>>(), judged.collect());
}
