use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::config::Loaded;

const QUEUE: &str = "yarn.nodemanager.opportunistic-containers-max-queue-length";
const ADDRESS: &str = "yarn.nodemanager.address";
const LABELS: &str = "yarn.nodemanager.node-labels.provider.configured-node-partition";

/// Reads a configuration with these properties.
fn reading(properties: &[(&str, &str)]) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let properties = properties.iter().map(|(name, value)| {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    });
    let site = properties.collect::<String>();
    let site = format!("<configuration>{site}</configuration>");
    fs::write(folder.path().join("yarn-site.xml"), site).unwrap();
    let (config, reading) =
        Loaded::read(&[folder.path().to_owned()], &BTreeMap::new()).into_config_and_reading();
    config.unwrap();
    reading
}

fn names(outcome: &Outcome) -> (Vec<&str>, Vec<&str>) {
    let applied = outcome.applied.iter().map(|change| change.name.as_str());
    let refused = outcome.refused.iter().map(|(one, _)| one.name.as_str());
    (applied.collect(), refused.collect())
}

#[test]
fn what_may_not_change_is_refused_each_time_and_what_may_is_applied_once() {
    let start = reading(&[(QUEUE, "20"), (ADDRESS, "localhost:1")]);
    let read = reading(&[(QUEUE, "4"), (ADDRESS, "localhost:2")]);
    let first = Outcome::of(&start, &start, &read, false);
    assert_eq!(names(&first), (vec![QUEUE], vec![ADDRESS]));
    let change = &first.applied[0];
    let values = (change.old.as_deref(), change.new.as_deref());
    assert_eq!(values, (Some("20"), Some("4")));
    assert_eq!(
        first.words(),
        "configuration read again: 1 changed, 1 wait for the next start"
    );
    let again = Outcome::of(&start, &read, &read, false);
    assert_eq!(names(&again), (vec![], vec![ADDRESS]));
    let back = Outcome::of(&start, &read, &start, false);
    assert_eq!(names(&back), (vec![QUEUE], vec![]), "4 back to 20");
}

#[test]
fn a_value_that_another_property_expands_to_is_a_change_too() {
    let half = "${yarn.nodemanager.resource.memory-mb}";
    let start = reading(&[
        (QUEUE, half),
        ("yarn.nodemanager.resource.memory-mb", "4096"),
    ]);
    let read = reading(&[
        (QUEUE, half),
        ("yarn.nodemanager.resource.memory-mb", "8192"),
    ]);
    let outcome = Outcome::of(&start, &start, &read, false);
    let memory = "yarn.nodemanager.resource.memory-mb";
    assert_eq!(names(&outcome), (vec![QUEUE], vec![memory]));
}

#[test]
fn the_environments_level_of_the_log_has_the_last_word() {
    let (start, read) = (reading(&[]), reading(&[(LOG_LEVEL, "debug")]));
    let outcome = Outcome::of(&start, &start, &read, true);
    assert_eq!(outcome.applied, []);
    assert_eq!(outcome.refused[0].1, LEVEL_IS_FIXED);
    let free = Outcome::of(&start, &start, &read, false);
    assert_eq!(names(&free), (vec![LOG_LEVEL], vec![]));
}

#[test]
fn a_property_that_is_read_again_by_its_provider_is_neither() {
    let provider = ("yarn.nodemanager.node-labels.provider", "config");
    let labels = |label| reading(&[provider, (LABELS, label)]);
    let outcome = Outcome::of(&labels("one"), &labels("one"), &labels("two"), false);
    assert_eq!(outcome, Outcome::default());
}

#[test]
fn a_name_that_nobody_reads_and_a_secret_are_not_shown() {
    let start = reading(&[("yarn.nodemanager.unknown", "1")]);
    let read = reading(&[("yarn.nodemanager.unknown", "2")]);
    let outcome = Outcome::of(&start, &start, &read, false);
    assert_eq!(outcome, Outcome::default());
    let secret = |value| reading(&[("yarn.nodemanager.admin-env.MY_PASSWORD", value)]);
    let outcome = Outcome::of(&secret("a"), &secret("a"), &secret("b"), false);
    let (change, _) = &outcome.refused[0];
    assert_eq!(change.new.as_deref(), Some("(hidden)"));
}
