//! From folders and an environment to a [`Config`], with all that is worth telling about the way.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hadoop_conf::site_xml::{Origin, Properties};
use hadoop_conf::{
    ConfigProblems, KeyClass, PropertyReader, Secrets, Site, Unit, Warning, parse, suggest,
};
use hadoop_fs::FsConfig;

use super::reading::Reading;
use super::sections::{AdminConfig, Config};
use super::{
    keys, read_admin, read_cgroups, read_events, read_kerberos, read_labels, read_log, read_logs,
    read_node, read_policy, read_proxy, read_security, read_services, read_traces, read_work,
};

/// Suggestions take time, and nobody reads more.
const SUGGESTIONS_MAX: usize = 50;
const OWN_PREFIX: &str = "yarn.nodemanager.";

/// Result of reading a configuration, whether or not it can be used.
#[derive(Debug)]
pub struct Loaded {
    /// Every property, Hadoop's defaults included.
    pub properties: Properties,
    /// Properties that must not be shown.
    pub secrets: Secrets,
    /// The typed configuration, or everything that is wrong.
    pub config: Result<Config, ConfigProblems>,
    /// Warnings of properties that work, though perhaps not as meant.
    pub warnings: Vec<Warning>,
    /// Properties that are set but mean nothing here, with where; for a debug log.
    pub ignored: Vec<(String, Origin)>,
    /// Names that the configuration was read from.
    asked: BTreeSet<String>,
}

/// Variable by which a service manager names the cgroup that it has delegated for containers, apart
/// from the agent's own: the path below the mount of the unified hierarchy.
pub const CONTAINERS_CGROUP: &str = "NM_AGENT_CONTAINERS_CGROUP";

impl Config {
    /// Reads Hadoop's files from `conf_dirs` (each file from the first folder that has it) and
    /// checks all values. `env` is the environment that `${env.…}` and Hadoop's start scripts would
    /// see.
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

/// Reads what the file systems need from Hadoop's files, for a program that is no node.
///
/// # Errors
/// Files that cannot be read, and wrong values of these properties.
pub fn load_file_systems(
    conf_dirs: &[PathBuf],
    env: &BTreeMap<String, String>,
) -> Result<FsConfig, ConfigProblems> {
    let Site {
        properties,
        mut problems,
        ..
    } = Site::read(conf_dirs, env, &keys::TABLE);
    let mut reader = PropertyReader::new(&properties, &keys::TABLE);
    let config = read_work::file_systems(&mut reader);
    let (found, _, _) = reader.finish();
    problems.extend(found);
    ConfigProblems::new(problems).map_or(Ok(config), Err)
}

/// Reads where the agent's admin socket is, for a program that asks the agent.
///
/// # Errors
/// Files that cannot be read, and wrong values of these properties.
pub fn load_admin(
    conf_dirs: &[PathBuf],
    env: &BTreeMap<String, String>,
) -> Result<AdminConfig, ConfigProblems> {
    let Site {
        properties,
        mut problems,
        ..
    } = Site::read(conf_dirs, env, &keys::TABLE);
    let mut reader = PropertyReader::new(&properties, &keys::TABLE);
    let config = read_admin::admin(&mut reader);
    let (found, _, _) = reader.finish();
    problems.extend(found);
    ConfigProblems::new(problems).map_or(Ok(config), Err)
}

impl Loaded {
    /// Reads as [`Config::load`] does, and keeps what it found on the way.
    #[must_use]
    pub fn read(conf_dirs: &[PathBuf], env: &BTreeMap<String, String>) -> Self {
        let mut site = Site::read(conf_dirs, env, &keys::TABLE);
        read_policy::add_file(&mut site, conf_dirs, env);
        let Site {
            properties,
            mut problems,
            mut warnings,
        } = site;
        let mut reader = PropertyReader::new(&properties, &keys::TABLE);
        let mut config = build(&mut reader, conf_dirs);
        config.cgroups.delegated = env.get(CONTAINERS_CGROUP).cloned();
        let ignored = look_at_names(&mut reader);
        let (found, read_warnings, asked) = reader.finish();
        problems.extend(found);
        warnings.extend(read_warnings);
        Self {
            config: match ConfigProblems::new(problems) {
                Some(problems) => Err(problems),
                None => Ok(config),
            },
            secrets: Secrets::of(&properties),
            properties,
            warnings,
            ignored,
            asked,
        }
    }

    /// Returns the configuration, and the reading by which a later one can be compared with it.
    pub fn into_config_and_reading(self) -> (Result<Config, ConfigProblems>, Reading) {
        let is_missing = |warning: &Warning| matches!(warning, Warning::NoYarnSite(_));
        let has_yarn_site = !self.warnings.iter().any(is_missing);
        let reading = Reading::new(self.properties, self.asked, self.secrets, has_yarn_site);
        (self.config, reading)
    }
}

pub(super) fn build(reader: &mut PropertyReader<'_>, conf_dirs: &[PathBuf]) -> Config {
    read_security::security(reader);
    let addresses = read_node::addresses(reader);
    let rm = read_node::resource_manager(reader);
    let recovery = read_node::recovery(reader, &addresses);
    let protections = read_security::rpc_protections(reader);
    let kerberos = read_kerberos::kerberos(reader);
    let web = read_work::web(reader, &addresses, conf_dirs);
    let amrm_proxy = read_proxy::amrm_proxy(reader, &rm, &protections, addresses.web_over_tls);
    let (aux_services, aux_host) = read_services::aux_services(reader, conf_dirs);
    Config {
        addresses,
        event_record: read_events::event_record(reader),
        policies: read_policy::policies(reader, amrm_proxy.enabled),
        amrm_proxy,
        protections,
        kerberos,
        rm,
        capacity: read_node::capacity(reader),
        scheduler: read_work::scheduler(reader),
        launch: read_work::launch(reader, conf_dirs),
        contexts: read_work::contexts(reader),
        dirs: read_node::dirs(reader),
        file_systems: read_work::file_systems(reader),
        localizer: read_work::localizer(reader),
        deletion: read_work::deletion(reader),
        logs: read_logs::logs(reader),
        web,
        admin: read_admin::admin(reader),
        health: read_node::health(reader),
        cgroups: read_cgroups::cgroups(reader),
        monitor: read_node::monitor(reader),
        recovery,
        aux_services,
        aux_host,
        node_labels: read_labels::node_labels(reader),
        log_level: read_log::log_level(reader),
        traces: read_traces::traces(reader),
    }
}

/// Warns of properties that files set and that have no effect; returns those that mean nothing
/// here.
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
        if let Some((list, part)) = unlisted(reader, &name) {
            reader.not_listed(&name, list, &part);
            continue;
        }
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
                    .then(|| suggest(&keys::TABLE, &name))
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

/// Returns the list that would have to name the operator's part of a property's name, and that
/// part, if it does not.
fn unlisted(reader: &mut PropertyReader<'_>, name: &str) -> Option<(&'static str, String)> {
    let (family, part) = keys::TABLE.family_of(name)?;
    let list = family.listed_in?;
    let is_listed = reader.list(list).iter().any(|listed| listed == part);
    (!is_listed).then(|| (list, part.to_owned()))
}

/// Whether a file's value differs from the default, and not only in its notation.
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
