//! From folders and an environment to a [`Config`], with all that is worth telling about the way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hadoop_conf::site_xml::{Environment, Notice, Origin, Properties};

use super::keys::{self, DefaultSource, KeyClass, Unit};
use super::problem::{ConfigProblems, Problem, Warning};
use super::reader::PropertyReader;
use super::secret::Secrets;
use super::sections::Config;
use super::{parse, read_cgroups, read_node, read_proxy, read_work, unknown};

/// Suggestions take time, and nobody reads more.
const SUGGESTIONS_MAX: usize = 50;
const YARN_SITE: &str = "yarn-site.xml";
const OWN_PREFIX: &str = "yarn.nodemanager.";

/// What reading a configuration gave, whether or not it can be used.
#[derive(Debug)]
pub struct Loaded {
    /// Every property, Hadoop's defaults included.
    pub properties: Properties,
    /// Which of them must not be shown.
    pub secrets: Secrets,
    /// The typed configuration, or everything that is wrong.
    pub config: Result<Config, ConfigProblems>,
    /// What works, though perhaps not as meant.
    pub warnings: Vec<Warning>,
    /// Properties that are set but mean nothing here, with where; for a debug log.
    pub ignored: Vec<(String, Origin)>,
}

impl Config {
    /// Reads Hadoop's files from `conf_dirs` (each file from the first folder that has it) and checks all values. `env` is
    /// the environment that `${env.…}` and Hadoop's start scripts would see.
    ///
    /// # Errors
    /// Everything that is wrong, together.
    pub fn load(
        conf_dirs: &[PathBuf],
        env: &BTreeMap<String, String>,
    ) -> Result<Self, ConfigProblems> {
        Loaded::read(conf_dirs, env).config
    }
}

impl Loaded {
    /// Reads as [`Config::load`] does, and keeps what it found on the way.
    #[must_use]
    pub fn read(conf_dirs: &[PathBuf], env: &BTreeMap<String, String>) -> Self {
        let mut problems = Vec::new();
        for folder in conf_dirs.iter().filter(|folder| !folder.is_dir()) {
            problems.push(Problem::NoFolder(folder.clone()));
        }
        let mut warnings = Vec::new();
        let properties = read_files(conf_dirs, env, &mut problems, &mut warnings);
        let patterns = properties.get("hadoop.security.sensitive-config-keys");
        let patterns = patterns
            .ok()
            .flatten()
            .map_or_else(String::new, |value| value.text);
        let secrets = Secrets::new(&patterns);
        let mut reader = PropertyReader::new(&properties, &secrets);
        let config = build(&mut reader);
        let ignored = look_at_names(&mut reader);
        let (found, told, _) = reader.finish();
        problems.extend(found);
        warnings.extend(told);
        Self {
            config: match ConfigProblems::new(problems) {
                Some(problems) => Err(problems),
                None => Ok(config),
            },
            properties,
            secrets,
            warnings,
            ignored,
        }
    }
}

/// The folder that the command line names, or those that Hadoop's scripts would take: `HADOOP_CONF_DIR`,
/// `YARN_CONF_DIR`, `HADOOP_HOME/etc/hadoop`, at last `/etc/hadoop/conf` if it exists. May be empty.
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

/// All files in the order in which Hadoop's NodeManager loads them.
fn read_files(
    conf_dirs: &[PathBuf],
    env: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Warning>,
) -> Properties {
    let mut properties = Properties::new(Environment::new(env));
    let mut add = |properties: &mut Properties, name: &str| {
        let result = properties.add_file(conf_dirs, name);
        result.unwrap_or_else(|error| {
            problems.push(error.into());
            true
        })
    };
    properties.add_defaults(defaults(DefaultSource::CoreDefault));
    add(&mut properties, "core-site.xml");
    properties.add_defaults(defaults(DefaultSource::YarnDefault));
    if !add(&mut properties, YARN_SITE) {
        let folders: Vec<_> = conf_dirs
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        let folders = if folders.is_empty() {
            "any folder".to_owned()
        } else {
            folders.join(", ")
        };
        warnings.push(Warning::NoYarnSite(folders));
    }
    add(&mut properties, "resource-types.xml");
    add(&mut properties, "node-resources.xml");
    properties.add_fallbacks(defaults(DefaultSource::Code));
    let notices = properties.notices().iter().cloned();
    warnings.extend(notices.map(|notice| match notice {
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
    properties
}

fn defaults(source: DefaultSource) -> impl Iterator<Item = (&'static str, &'static str)> {
    keys::all()
        .filter(move |key| key.source == source)
        .filter_map(|key| Some((key.name, key.default?)))
}

pub(super) fn build(reader: &mut PropertyReader<'_>) -> Config {
    read_work::security(reader);
    let rm = read_node::resource_manager(reader);
    Config {
        addresses: read_node::addresses(reader),
        amrm_proxy: read_proxy::amrm_proxy(reader, &rm),
        rm,
        capacity: read_node::capacity(reader),
        scheduler: read_work::scheduler(reader),
        launch: read_work::launch(reader),
        dirs: read_node::dirs(reader),
        localizer: read_work::localizer(reader),
        deletion: read_work::deletion(reader),
        logs: read_work::logs(reader),
        web: read_work::web(reader),
        health: read_node::health(reader),
        cgroups: read_cgroups::cgroups(reader),
        monitor: read_node::monitor(reader),
        recovery: read_node::recovery(reader),
        aux_services: read_work::aux_services(reader),
    }
}

/// Warns of names that files set and that nothing obeys; gives those that mean nothing here.
fn look_at_names(reader: &mut PropertyReader<'_>) -> Vec<(String, Origin)> {
    let set: BTreeSet<String> = reader
        .properties()
        .names()
        .filter(|name| name.starts_with(OWN_PREFIX) || keys::find(name).is_some())
        .filter(|name| reader.origin(name) != Origin::Default)
        .map(str::to_owned)
        .collect();
    let mut ignored = Vec::new();
    let mut suggestions = 0;
    for name in set {
        match keys::class_of(&name) {
            Some(KeyClass::Honoured) => {}
            Some(KeyClass::NotApplicable) => ignored.push((name.clone(), reader.origin(&name))),
            Some(KeyClass::Later) => {
                if differs_from_default(reader, &name) {
                    reader.not_yet(&name);
                }
            }
            // A service chooses the names under its own; nothing is known about them.
            None if is_of_a_service(reader, &name) => {}
            None => {
                suggestions += 1;
                let suggestion = (suggestions <= SUGGESTIONS_MAX)
                    .then(|| unknown::suggest(&name))
                    .flatten();
                let origin = reader.origin(&name);
                reader.warn(Warning::UnknownName {
                    name,
                    origin,
                    suggestion,
                });
            }
        }
    }
    ignored
}

/// Whether a file says something else than the default, not only in other words.
fn differs_from_default(reader: &PropertyReader<'_>, name: &str) -> bool {
    let set = reader.properties().raw(name).unwrap_or("");
    let key = keys::find(name);
    let default = key.and_then(|key| key.default).unwrap_or("");
    let differs = |same: Option<bool>| !same.unwrap_or(parse::trim(set) == default);
    let Some(key) = key else { return true };
    match key.unit {
        Unit::Flag => differs(parse::flag(set).map(|value| Some(value) == parse::flag(default))),
        Unit::Duration => {
            let value = parse::duration_ms(set);
            differs(value.map(|value| Some(value) == parse::duration_ms(default)))
        }
        Unit::Count
        | Unit::Millis
        | Unit::Seconds
        | Unit::Mebibytes
        | Unit::Bytes
        | Unit::Characters
        | Unit::MegabitsPerSecond
        | Unit::Percent
        | Unit::Ratio => {
            let value = parse::number(set);
            differs(value.map(|value| Some(value) == parse::number(default)))
        }
        Unit::List | Unit::Paths => parse::list(set) != parse::list(default),
        Unit::Text | Unit::Address | Unit::ClassName | Unit::Octal => differs(None),
    }
}

fn is_of_a_service(reader: &mut PropertyReader<'_>, name: &str) -> bool {
    let prefix = "yarn.nodemanager.aux-services.";
    let Some((service, _)) = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let services = reader.list("yarn.nodemanager.aux-services");
    services.iter().any(|known| known == service)
}
