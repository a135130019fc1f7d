//! Reads properties from folders and an environment, in the order in which Hadoop loads its files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::site_xml::{Environment, Notice, Properties};
use crate::{DefaultSource, KeyTable, Problem, Warning};

const YARN_SITE: &str = "yarn-site.xml";

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
        let missing = conf_dirs.iter().filter(|folder| !folder.is_dir());
        let mut site = Self {
            properties: Properties::new(Environment::new(env)),
            problems: missing.cloned().map(Problem::NoFolder).collect(),
            warnings: Vec::new(),
        };
        let core = table.defaults(DefaultSource::CoreDefault);
        site.properties.add_defaults(core);
        site.add(conf_dirs, "core-site.xml");
        site.add(conf_dirs, "hdfs-site.xml");
        let yarn = table.defaults(DefaultSource::YarnDefault);
        site.properties.add_defaults(yarn);
        if !site.add(conf_dirs, YARN_SITE) {
            site.warnings.push(Warning::NoYarnSite(names_of(conf_dirs)));
        }
        site.add(conf_dirs, "resource-types.xml");
        site.add(conf_dirs, "node-resources.xml");
        // Hadoop's NodeManager loads it with the class of its shuffle.
        site.add(conf_dirs, "mapred-site.xml");
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
/// exists. May be empty.
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
        .or_else(|| Some(PathBuf::from("/etc/hadoop/conf")).filter(|path| path.is_dir()));
    chosen.into_iter().collect()
}

fn names_of(conf_dirs: &[PathBuf]) -> String {
    let names: Vec<_> = conf_dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    if names.is_empty() {
        "any folder".to_owned()
    } else {
        names.join(", ")
    }
}
