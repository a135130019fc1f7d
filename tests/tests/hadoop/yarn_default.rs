//! Every property of Hadoop's `yarn-default.xml` with each value that its description names: the
//! agent refuses none with which a Java NodeManager starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use hadoop_conf::Unit;
use node_manager::config::{Loaded, keys};
use tests::conf::Properties;
use tests::{hadoop, java, require};

/// Properties of the file at least: a comparison of fewer has lost some on the way.
const PROPERTIES_MIN: usize = 240;

/// A property as the file describes it.
struct Described {
    name: String,
    default: String,
    description: String,
}

/// Returns the text of an element, without the entities that XML defines.
fn element(text: &str, name: &str) -> String {
    let start = format!("<{name}>");
    let inner = text.split_once(&start).map_or("", |(_, rest)| rest);
    let inner = inner.split_once("</").map_or("", |(inner, _)| inner);
    let inner = inner.replace("&lt;", "<").replace("&gt;", ">");
    inner.replace("&amp;", "&").trim().to_owned()
}

/// Reads the properties of the file in Hadoop's jar that the NodeManager knows.
fn described(folder: &Path) -> Vec<Described> {
    let jars = hadoop::jar_files();
    let is_common = |jar: &&std::path::PathBuf| {
        let name = jar.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("hadoop-yarn-common-")
    };
    let jar = jars.iter().find(is_common).expect("Hadoop has it");
    let mut extract = Command::new(java::home().expect("it is required").join("bin/jar"));
    let extract = extract.arg("xf").arg(jar).arg("yarn-default.xml");
    let status = extract.current_dir(folder).status().expect("a JDK has it");
    assert!(status.success(), "{status}");
    let text = fs::read_to_string(folder.join("yarn-default.xml")).expect("it is in the jar");
    let properties = text.split("<property>").skip(1).map(|text| Described {
        name: element(text, "name"),
        default: element(text, "value"),
        description: element(text, "description"),
    });
    properties
        .filter(|property| keys::class_of(&property.name).is_some())
        .collect()
}

/// Returns the values to try: the default, the usual special ones, and what the description names:
/// numbers, words in capitals and quoted words.
fn values(property: &Described) -> BTreeSet<String> {
    let mut values: BTreeSet<String> = [property.default.clone()].into();
    let unit = keys::find(&property.name).map(|key| key.unit);
    let is_number = property.default.parse::<f64>().is_ok() && unit != Some(Unit::Octal);
    if is_number {
        values.extend(["0", "-1"].map(str::to_owned));
    }
    if ["true", "false"].contains(&property.default.as_str()) {
        values.extend(["true", "false", "TRUE", "0", "no"].map(str::to_owned));
    }
    let word = |c: char| c.is_whitespace() || "()[],;:'".contains(c);
    for part in property.description.split(word) {
        let bare = part.trim_matches(|c: char| ".\"".contains(c));
        let is_value = if is_number {
            bare.parse::<f64>().is_ok()
        } else {
            let is_capital = |c: char| c.is_ascii_uppercase() || c == '_';
            let is_constant = bare.contains('_') && bare.chars().all(is_capital);
            let is_quoted = part.starts_with('"') && part.ends_with('"');
            is_constant || is_quoted && !bare.starts_with("yarn.")
        };
        if is_value {
            values.insert(bare.to_owned());
        }
    }
    values
}

/// Hadoop's NodeManager does not start either.
const THROWS: &str = "the code of Hadoop that reads it throws";
/// Neither does it with this value alone.
const OTHER_MISSING: &str = "another property has to be set too, in Hadoop as well";
/// The word stands in the description, and is no value.
const NO_CLASS: &str = "Hadoop takes it for the name of a class, which does not exist";
/// Hadoop starts, and protects what the agent would leave open.
const PROTECTION: &str = "a protection that the agent lacks";

/// Values that the agent refuses, with the reason.
#[rustfmt::skip] // One value a line: the table is read and searched line by line.
const REFUSED: &[(&str, &str, &str)] = &[
    ("yarn.http.policy", "HTTPS_ONLY", OTHER_MISSING),
    ("yarn.intermediate-data-encryption.enable", "TRUE", PROTECTION),
    ("yarn.intermediate-data-encryption.enable", "true", PROTECTION),
    ("yarn.nodemanager.delete.thread-count", "-1", THROWS),
    ("yarn.nodemanager.disk-health-checker.interval-ms", "-1", THROWS),
    ("yarn.nodemanager.disk-health-checker.interval-ms", "0", THROWS),
    ("yarn.nodemanager.local-cache.max-files-per-directory", "-1", THROWS),
    ("yarn.nodemanager.local-cache.max-files-per-directory", "0", THROWS),
    ("yarn.nodemanager.local-cache.max-files-per-directory", "36", THROWS),
    ("yarn.nodemanager.local-cache.max-files-per-directory", "4", THROWS),
    ("yarn.nodemanager.localizer.cache.cleanup.interval-ms", "-1", THROWS),
    ("yarn.nodemanager.localizer.cache.cleanup.interval-ms", "0", THROWS),
    ("yarn.nodemanager.localizer.fetch.thread-count", "-1", THROWS),
    ("yarn.nodemanager.localizer.fetch.thread-count", "0", THROWS),
    ("yarn.nodemanager.node-attributes.provider", "ConfigurationNodeLabelsProvider", NO_CLASS),
    ("yarn.nodemanager.node-attributes.provider", "ScriptBasedNodeAttributesProvider", NO_CLASS),
    ("yarn.nodemanager.node-attributes.provider", "script", OTHER_MISSING),
    ("yarn.nodemanager.node-labels.provider", "ConfigurationNodeLabelsProvider", NO_CLASS),
    ("yarn.nodemanager.node-labels.provider", "ScriptNodeLabelsProvider", NO_CLASS),
    ("yarn.nodemanager.node-labels.provider", "distributed", NO_CLASS),
    ("yarn.nodemanager.node-labels.provider", "script", OTHER_MISSING),
    ("yarn.nodemanager.recovery.enabled", "TRUE", OTHER_MISSING),
    ("yarn.nodemanager.recovery.enabled", "true", OTHER_MISSING),
    ("yarn.nodemanager.resource.cpu-vcores", "0", THROWS),
    ("yarn.nodemanager.resource.memory-mb", "0", THROWS),
    ("yarn.nodemanager.resource.percentage-physical-cpu-limit", "-1", THROWS),
    ("yarn.nodemanager.resource.percentage-physical-cpu-limit", "0", THROWS),
    ("yarn.nodemanager.vmem-pmem-ratio", "-1", THROWS),
    ("yarn.nodemanager.vmem-pmem-ratio", "0", THROWS),
    ("yarn.resourcemanager.connect.retry-interval.ms", "-1", THROWS),
    ("yarn.resourcemanager.ha.enabled", "TRUE", OTHER_MISSING),
    ("yarn.resourcemanager.ha.enabled", "true", OTHER_MISSING),
];

#[test]
fn no_value_that_a_description_names_is_refused_where_java_starts() {
    require!(java, hadoop);
    let folder = tempfile::tempdir().unwrap();
    let described = described(folder.path());
    assert!(described.len() >= PROPERTIES_MIN, "{}", described.len());
    let logs = folder.path().display().to_string();
    let environment: BTreeMap<String, String> = [("HADOOP_LOG_DIR".to_owned(), logs)].into();
    let conf = tempfile::tempdir().unwrap();
    let mut tried = 0;
    let mut refused = BTreeMap::new();
    for property in &described {
        for value in values(property) {
            let mut site = Properties::default();
            site.set(&property.name, &value);
            fs::write(conf.path().join("yarn-site.xml"), site.to_xml()).unwrap();
            let loaded = Loaded::read(&[conf.path().to_owned()], &environment);
            tried += 1;
            if let Err(problems) = loaded.config {
                refused.insert((property.name.clone(), value), problems.to_string());
            }
        }
    }
    assert!(tried > 2 * described.len(), "{tried}");
    let expected: BTreeSet<(String, String)> = REFUSED
        .iter()
        .map(|(name, value, _)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let found: BTreeSet<(String, String)> = refused.keys().cloned().collect();
    let unexpected: Vec<_> = refused
        .iter()
        .filter(|(key, _)| !expected.contains(key))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let reasons = [THROWS, OTHER_MISSING, NO_CLASS, PROTECTION];
    assert!(
        REFUSED
            .iter()
            .all(|(_, _, reason)| reasons.contains(reason))
    );
    let stale: Vec<_> = expected.difference(&found).collect();
    assert!(stale.is_empty(), "accepted by now: {stale:#?}");
}
