//! Reads properties from folders and an environment, in the order in which Hadoop loads its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::site_xml::{Environment, Notice, Properties};
use crate::{DefaultSource, KeyTable, Problem, Warning};

const CORE_SITE: &str = "core-site.xml";
const HDFS_SITE: &str = "hdfs-site.xml";
const YARN_SITE: &str = "yarn-site.xml";
const RESOURCE_TYPES: &str = "resource-types.xml";
const NODE_RESOURCES: &str = "node-resources.xml";
const MAPRED_SITE: &str = "mapred-site.xml";

/// File with properties of this agent alone, read after `yarn-site.xml`: a Java node that has the
/// same folder ignores it.
pub const AGENT_SITE: &str = "nm-agent-site.xml";

/// Hadoop's files that are read here, one of which a folder of a configuration has.
const FILES: [&str; 6] = [
    CORE_SITE,
    HDFS_SITE,
    YARN_SITE,
    RESOURCE_TYPES,
    NODE_RESOURCES,
    MAPRED_SITE,
];

/// Folder that packages of Hadoop use; it counts when nobody names another.
const OF_PACKAGES: &str = "/etc/hadoop/conf";

/// Contents of a configuration's files, whether or not they can be used.
#[derive(Debug)]
pub struct Site {
    /// Properties of all files, with Hadoop's defaults.
    pub properties: Properties,
    /// Folders and files that cannot be used.
    pub problems: Vec<Problem>,
    /// Settings without an effect, contrary to their author's intent.
    pub warnings: Vec<Warning>,
}

impl Site {
    /// Reads Hadoop's files from `conf_dirs`, each file from the first folder that has it. `env` is
    /// the environment that `${env.…}` and Hadoop's start scripts would see; properties that are
    /// not set have the default of `table`.
    #[must_use]
    pub fn read(conf_dirs: &[PathBuf], env: &BTreeMap<String, String>, table: &KeyTable) -> Self {
        let mut site = Self {
            properties: Properties::new(Environment::new(env)),
            problems: conf_dirs.iter().filter_map(|it| unusable(it)).collect(),
            warnings: Vec::new(),
        };
        let core = table.defaults(DefaultSource::CoreDefault);
        site.properties.add_defaults(core);
        site.add(conf_dirs, CORE_SITE);
        site.add(conf_dirs, HDFS_SITE);
        let yarn = table.defaults(DefaultSource::YarnDefault);
        site.properties.add_defaults(yarn);
        if !site.add(conf_dirs, YARN_SITE) {
            site.warnings.push(Warning::NoYarnSite(names_of(conf_dirs)));
        }
        site.add(conf_dirs, AGENT_SITE);
        site.add(conf_dirs, RESOURCE_TYPES);
        site.add(conf_dirs, NODE_RESOURCES);
        // Hadoop's NodeManager loads it with the class of its shuffle.
        site.add(conf_dirs, MAPRED_SITE);
        let code = table.defaults(DefaultSource::Code);
        site.properties.add_fallbacks(code);
        site.take_notices();
        site
    }

    /// Adds a file and returns whether it exists; one that cannot be used is a problem.
    fn add(&mut self, conf_dirs: &[PathBuf], name: &str) -> bool {
        let result = self.properties.add_file(conf_dirs, name);
        result.unwrap_or_else(|error| {
            self.problems.push(error.into());
            true
        })
    }

    fn take_notices(&mut self) {
        let notices = self.properties.notices().iter().cloned();
        self.warnings.extend(notices.map(|notice| match notice {
            Notice::FinalKept {
                name,
                kept,
                refused,
            } => Warning::FinalKept {
                name,
                kept,
                refused,
            },
            Notice::HiddenByDefault { name, hidden } => Warning::HiddenByDefault { name, hidden },
        }));
    }
}

impl KeyTable {
    /// Returns the properties of a program that reads no file: those that it sets itself, and the
    /// table's defaults.
    #[must_use]
    pub fn properties(&self, set: &[(&str, &str)]) -> Properties {
        let mut properties = Properties::new(Environment::default());
        let defaults = self.all().filter_map(|key| Some((key.name, key.default?)));
        properties.add_defaults(defaults);
        properties.add_defaults(set.iter().copied());
        properties
    }
}

/// Returns the folder that the command line names, or those that Hadoop's scripts would use:
/// `HADOOP_CONF_DIR`, `YARN_CONF_DIR`, `HADOOP_HOME/etc/hadoop`, and last `/etc/hadoop/conf` if it
/// has one of Hadoop's files. May be empty.
#[must_use]
pub fn conf_dirs(named: Option<&Path>, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_path_buf()];
    }
    let variable = |name: &str| {
        env.get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let chosen = variable("HADOOP_CONF_DIR")
        .or_else(|| variable("YARN_CONF_DIR"))
        .or_else(|| Some(variable("HADOOP_HOME")?.join("etc/hadoop")))
        .or_else(|| Some(PathBuf::from(OF_PACKAGES)).filter(|path| has_files(path)));
    chosen.into_iter().collect()
}

/// Returns why a folder is none of a configuration.
fn unusable(folder: &Path) -> Option<Problem> {
    if !folder.is_dir() {
        return Some(Problem::NoFolder(folder.to_owned()));
    }
    (!has_files(folder)).then(|| Problem::NoFiles(folder.to_owned()))
}

fn has_files(folder: &Path) -> bool {
    FILES.iter().any(|name| folder.join(name).exists())
}

fn names_of(conf_dirs: &[PathBuf]) -> String {
    let names: Vec<_> = conf_dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    if names.is_empty() {
        format!(
            "--conf, $HADOOP_CONF_DIR, $YARN_CONF_DIR, $HADOOP_HOME/etc/hadoop or {OF_PACKAGES}"
        )
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_agents_own_file_changes_what_hadoops_say_unless_they_are_final() {
        let folder = tempfile::tempdir().unwrap();
        let property = |name: &str, value: &str, more: &str| {
            format!("<property><name>{name}</name><value>{value}</value>{more}</property>")
        };
        let write = |file: &str, body: String| {
            let text = format!("<configuration>{body}</configuration>");
            fs::write(folder.path().join(file), text).unwrap();
        };
        write(
            YARN_SITE,
            property("open", "theirs", "")
                + &property("closed", "theirs", "<final>true</final>")
                + &property("theirs", "theirs", ""),
        );
        write(
            AGENT_SITE,
            property("open", "ours", "") + &property("closed", "ours", ""),
        );
        let table = KeyTable {
            keys: &[],
            families: &[],
            lenient: &[],
            guards: &[],
            own_prefix: None,
        };
        let site = Site::read(&[folder.path().to_owned()], &BTreeMap::new(), &table);
        let values = ["open", "closed", "theirs"].map(|name| site.properties.raw(name));
        assert_eq!(values, [Some("ours"), Some("theirs"), Some("theirs")]);
        assert!(site.problems.is_empty(), "{:?}", site.problems);
    }
}
