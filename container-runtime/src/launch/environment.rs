//! The environment of a container: the variables that the script exports, in their order, and the
//! environment of the process itself.
//!
//! Pure. Follows Hadoop's `ContainerLaunch` (`addConfigsToEnv`, `expandEnvironment`, `sanitizeEnv`)
//! and `ContainerExecutor.writeLaunchEnv`: the administrator's variables first, then markers, then
//! the NodeManager's own variables over everything.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, NulError};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::context::{LaunchConfig, LaunchPlan, PlanError, excerpt};
use super::markers::{expand, has_markers};

/// Docker's entry point mode: the image's environment is to stay as it is.
const OVERRIDE_DISABLE: &str = "YARN_CONTAINER_RUNTIME_DOCKER_RUN_OVERRIDE_DISABLE";

/// Variables that bash sets and refuses to export again: an `export` of these would end the script.
const READONLY_IN_BASH: [&str; 6] = [
    "BASHOPTS",
    "BASH_VERSINFO",
    "EUID",
    "PPID",
    "SHELLOPTS",
    "UID",
];

/// Characters that mean something between double quotes.
pub(super) const ACTIVE_IN_QUOTES: [char; 4] = ['$', '`', '\\', '"'];

/// Returns whether a text means itself between double quotes.
pub(super) fn is_literal(text: &str) -> bool {
    !text.contains(ACTIVE_IN_QUOTES)
}

/// Value of `JVM_PID`: expands in the script, which `exec`s the command, so that the pid stays.
pub(super) const OWN_PID: &str = "$$";

type Variable = (String, String);

/// A container's variables, in the groups and the order in which the script exports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerEnvironment {
    /// Variables that come from the agent's own environment, unless the process has them already.
    pub(super) whitelisted: Vec<Variable>,
    /// Set by the NodeManager, in Hadoop's order.
    pub(super) node: Vec<Variable>,
    /// The launch context's and the administrator's; each after those it mentions.
    pub(super) others: Vec<Variable>,
    /// Names that bash cannot export. Hadoop writes an `export` for them all the same, which ends
    /// the script before anything runs. Here they reach the command through the process's
    /// environment, which bash hands on.
    pub(super) not_exportable: Vec<Variable>,
}

impl ContainerEnvironment {
    /// Returns the variables that bash is started with to run the script.
    ///
    /// They are the container's own and nothing of the agent's. Variables whose value bash would
    /// still change (it contains `$`, a back-quote, a backslash or a quote) are left to the script:
    /// started with `PATH=$PATH:/x` taken literally, bash would no longer find `ln`. (Hadoop's
    /// default executor does just that; its Linux executor starts with an empty environment, which
    /// gives the same values as here.)
    pub(super) fn initial(&self) -> impl Iterator<Item = &Variable> {
        let settled = self
            .node
            .iter()
            .chain(&self.others)
            .filter(|(_, value)| is_literal(value));
        settled.chain(&self.not_exportable)
    }

    /// Returns the same as `NAME=value`.
    pub(super) fn process_environment(&self) -> Result<Vec<CString>, PlanError> {
        self.initial()
            .map(|(name, value)| {
                entry(name, value).map_err(|_nul| PlanError::VariableValue {
                    name: excerpt(name),
                })
            })
            .collect()
    }

    /// Returns whether bash runs something of the container before the script's links: the file
    /// named by `BASH_ENV`, or a command inside a value. Such code finds no links in Hadoop.
    pub(super) fn runs_code(&self) -> bool {
        let groups = [&self.node, &self.others, &self.not_exportable];
        groups
            .into_iter()
            .flatten()
            .any(|(name, value)| name == "BASH_ENV" || value.contains('`') || value.contains("$("))
    }
}

/// Returns a variable as a process has it.
pub(super) fn entry(name: &str, value: &str) -> Result<CString, NulError> {
    // With room for the NUL, so that it is added in place.
    let mut entry = Vec::with_capacity(name.len() + value.len() + 2);
    for part in [name, "=", value] {
        entry.extend_from_slice(part.as_bytes());
    }
    CString::new(entry)
}

/// Computes the environment of a container.
pub(super) fn container_environment(
    config: &LaunchConfig,
    plan: &LaunchPlan,
) -> Result<ContainerEnvironment, PlanError> {
    let mut environment = plan.environment.clone();
    add_admin_environment(config, &mut environment);
    force_path(&config.force_path, &mut environment);
    let log_dir = text(plan.dirs.log_dir.path())?;
    for value in environment.values_mut().filter(|value| has_markers(value)) {
        *value = expand(value, log_dir, config.java_feature_version);
    }

    let node = node_variables(config, plan, &environment)?;
    if overrides_are_disabled(&environment) {
        environment.remove("WORK_DIR");
    }
    for (name, _) in &node {
        environment.remove(name);
    }
    for (name, value) in environment.iter().chain(node.iter().map(|(n, v)| (n, v))) {
        check_variable(name, value)?;
    }

    let is_set =
        |name: &str| environment.contains_key(name) || node.iter().any(|(other, _)| other == name);
    let whitelisted = whitelisted_variables(config, is_set);
    let (others, not_exportable) = environment
        .into_iter()
        .partition::<BTreeMap<_, _>, _>(|(name, _)| is_exportable(name));
    Ok(ContainerEnvironment {
        whitelisted,
        node,
        others: order_by_dependencies(others),
        not_exportable: not_exportable.into_iter().collect(),
    })
}

/// Whitelisted variables of the agent that the container does not set; each once.
fn whitelisted_variables(config: &LaunchConfig, is_set: impl Fn(&str) -> bool) -> Vec<Variable> {
    let mut seen = BTreeSet::new();
    config
        .env_whitelist
        .iter()
        .filter(|name| is_exportable(name) && !is_set(name) && seen.insert(name.as_str()))
        .filter_map(|name| {
            let value = config.agent_environment.get(name)?;
            Some((name.clone(), value.clone()))
        })
        .collect()
}

/// Adds the administrator's variables; to one that the container has too, after a `:` (Hadoop:
/// `Apps.setEnvFromInputProperty`).
fn add_admin_environment(config: &LaunchConfig, environment: &mut BTreeMap<String, String>) {
    for (name, value) in &config.admin_env {
        let value = substitute(value, |name| {
            environment
                .get(name)
                .or_else(|| config.agent_environment.get(name))
                .map(String::as_str)
        });
        match environment.get_mut(name) {
            Some(existing) => {
                existing.push(':');
                existing.push_str(&value);
            }
            None => {
                environment.insert(name.clone(), value);
            }
        }
    }
}

/// Replaces each `$NAME` by what `lookup` knows, or by nothing.
fn substitute<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let (name, tail) = after.split_at(name_length(after));
        if name.is_empty() {
            result.push('$');
        } else {
            result.push_str(lookup(name).unwrap_or_default());
        }
        rest = tail;
    }
    result.push_str(rest);
    result
}

/// Puts the administrator's directories in front of the container's `PATH`.
fn force_path(force_path: &str, environment: &mut BTreeMap<String, String>) {
    if force_path.is_empty() {
        return;
    }
    let user_path = environment
        .get("PATH")
        .filter(|path| !path.is_empty())
        .map_or("$PATH", String::as_str);
    let path = format!("{force_path}:{user_path}");
    environment.insert("PATH".to_owned(), path);
}

/// Returns whether the variable is `true` in the sense of Java's `Boolean.parseBoolean`.
fn overrides_are_disabled(environment: &BTreeMap<String, String>) -> bool {
    environment
        .get(OVERRIDE_DISABLE)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// The NodeManager's variables in Hadoop's order. In entry point mode only the place of the tokens.
fn node_variables(
    config: &LaunchConfig,
    plan: &LaunchPlan,
    environment: &BTreeMap<String, String>,
) -> Result<Vec<Variable>, PlanError> {
    let work_dir = text(plan.dirs.work_dir.path())?;
    let tokens = format!("{work_dir}/{}", super::context::CONTAINER_TOKENS);
    let mut variables = vec![("HADOOP_TOKEN_FILE_LOCATION".to_owned(), tokens)];
    if overrides_are_disabled(environment) {
        return Ok(variables);
    }
    let mut set = |name: &str, value: String| variables.push((name.to_owned(), value));
    set("CONTAINER_ID", plan.container_id.to_string());
    set("NM_PORT", config.node_id.port.to_string());
    set("NM_HOST", config.node_id.host.clone());
    set("NM_HTTP_PORT", config.http_port.to_string());
    set("LOCAL_DIRS", comma_list(&plan.dirs.local_dirs, "")?);
    set(
        "LOCAL_USER_DIRS",
        comma_list(&plan.dirs.local_user_dirs, "/")?,
    );
    set("LOG_DIRS", comma_list(&plan.dirs.log_dirs, "")?);
    set("USER", plan.user.clone());
    set("LOGNAME", plan.user.clone());
    set("HOME", config.user_home_dir.clone());
    set("PWD", work_dir.to_owned());
    set(
        "LOCALIZATION_COUNTERS",
        plan.localization_counters.to_string(),
    );
    set("JVM_PID", OWN_PID.to_owned());
    for (service, metadata) in &plan.service_metadata {
        let name = format!("NM_AUX_SERVICE_{service}");
        if is_exportable(&name) {
            set(&name, STANDARD.encode(metadata));
        } else {
            tracing::warn!(
                service,
                "the auxiliary service's name cannot be part of a variable"
            );
        }
    }
    Ok(variables)
}

/// Paths joined by `,`, each ending in `end`.
fn comma_list(paths: &[PathBuf], end: &str) -> Result<String, PlanError> {
    let mut list = String::new();
    for (index, path) in paths.iter().enumerate() {
        let path = text(path)?;
        let missing = if path.ends_with(end) { "" } else { end };
        let comma = if index == 0 { "" } else { "," };
        list.reserve(comma.len() + path.len() + missing.len());
        list.extend([comma, path, missing]);
    }
    Ok(list)
}

/// A path as the text that goes into script and variables.
pub(super) fn text(path: &Path) -> Result<&str, PlanError> {
    path.to_str()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| PlanError::Path {
            path: path.to_owned(),
        })
}

/// Refuses what the kernel cannot pass on, as Java's `ProcessBuilder` does.
fn check_variable(name: &str, value: &str) -> Result<(), PlanError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(PlanError::VariableName {
            name: excerpt(name),
        });
    }
    if value.contains('\0') {
        return Err(PlanError::VariableValue {
            name: excerpt(name),
        });
    }
    Ok(())
}

/// Returns whether bash accepts `export NAME=…`.
pub(super) fn is_exportable(name: &str) -> bool {
    !name.is_empty() && name_length(name) == name.len() && !READONLY_IN_BASH.contains(&name)
}

/// Returns the length of the shell identifier at the start of a text.
pub(super) fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.bytes()
        .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
        .count()
}

/// Puts each variable after those whose value it uses, otherwise in order of the names. Where
/// variables use each other in a circle, the first by name comes last of the circle (Hadoop:
/// `ShellScriptBuilder.orderEnvByDependencies`).
fn order_by_dependencies(variables: BTreeMap<String, String>) -> Vec<Variable> {
    let mut ordered = Vec::with_capacity(variables.len());
    let mut visited = BTreeSet::new();
    // A stack of our own: a client may chain as many variables as a request holds.
    let mut path: Vec<(&String, &String, Vec<&str>)> = Vec::new();
    for (name, value) in &variables {
        if visited.insert(name.as_str()) {
            path.push((name, value, dependencies(value)));
        }
        while let Some((_, _, pending)) = path.last_mut() {
            let Some(dependency) = pending.pop() else {
                let (name, value, _) = path.pop().expect("the loop condition saw an element");
                ordered.push((name.clone(), value.clone()));
                continue;
            };
            if let Some((name, value)) = variables.get_key_value(dependency)
                && visited.insert(name.as_str())
            {
                path.push((name, value, dependencies(value)));
            }
        }
    }
    ordered
}

/// Names that a value uses as `$X`, `${X…}` or `${#X}` when bash reads it between double quotes,
/// last first (Hadoop: `UnixShellScriptBuilder.getEnvDependencies`).
fn dependencies(value: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut in_double_quotes = true;
    let mut rest = value;
    while let Some(at) = rest.find(['"', '\'', '\\', '$']) {
        let found = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        match found {
            b'"' => in_double_quotes = !in_double_quotes,
            // Between single quotes nothing is expanded; a single quote between double quotes is
            // only a character.
            b'\'' if !in_double_quotes => {
                rest = rest.split_once('\'').map_or("", |(_, after)| after);
            }
            b'\\' => rest = skip_character(rest),
            b'$' => {
                let braced = rest.strip_prefix('{');
                let start = braced.map_or(rest, |name| name.strip_prefix('#').unwrap_or(name));
                let (name, after) = start.split_at(name_length(start));
                if !name.is_empty() {
                    names.push(name);
                }
                rest = after;
            }
            _other => {}
        }
    }
    names.reverse();
    names
}

fn skip_character(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

#[cfg(test)]
mod tests;
