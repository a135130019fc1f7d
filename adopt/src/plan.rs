//! Decides whether the agent can take the place, and how. Pure: values in, values out.

mod refusal;
mod report;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

pub use refusal::Refusal;

use crate::record::Adoption;
use crate::scan::{JavaNode, Scan, StartedBy};

/// Folder of the agent's caches below each local folder of the Java node. Hadoop's start empties
/// its own names there only (`ResourceLocalizationService.cleanUpLocalDir`).
const AGENT_FOLDER: &str = "nm-agent";

/// Longest path of a socket, in bytes (`sun_path` of `unix(7)`, with its end).
const SOCKET_PATH_MAX: usize = 107;

/// Place of the program by the packages, where the shell profile looks for it.
const PACKAGED_PROGRAM: &str = "/usr/bin/nm-agent";

/// Findings of `nm-agent check` on the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Problems that keep the agent from running.
    pub problems: Vec<String>,
    /// Features that jobs would miss.
    pub missing: Vec<String>,
}

/// Facts about this process and the folder of the configuration that a plan goes by.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Effective user id of this process.
    pub user: u32,
    /// Whether the caller has named the configuration.
    pub names_conf: bool,
    /// Hadoop's script `yarn`; `None`: it was not found.
    pub yarn: Option<PathBuf>,
    /// The agent's program.
    pub program: PathBuf,
    /// Shell profile of the package.
    pub profile: PathBuf,
    /// Whether there is a file.
    pub profile_exists: bool,
    /// Whether the configuration names the admin socket.
    pub names_socket: bool,
    /// Whether containers that run may be lost.
    pub loses_containers: bool,
    /// Whether an agent answers on the socket already.
    pub agent_answers: bool,
    /// Whether the folder of the configuration has `nm-agent-site.xml`.
    pub has_site: bool,
    /// Whether the profile is linked there.
    pub has_profile: bool,
    /// Whether the folder of profiles exists.
    pub has_profiles: bool,
    /// Reason that the folder cannot be written to; `None`: it can.
    pub unwritable: Option<String>,
}

/// Result of planning: the steps of `--go`, or the reasons against it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine as it was found.
    pub scan: Scan,
    /// Features that the configuration asks for and jobs would miss.
    pub missing: Vec<String>,
    /// Reasons that `--go` does nothing; empty: it does the steps.
    pub refusals: Vec<Refusal>,
    /// Values for the steps of `--go`.
    pub adoption: Adoption,
}

/// Makes a plan of what was found.
#[must_use]
pub fn plan(scan: Scan, findings: &Findings, intent: &Intent) -> Plan {
    let node = scan.nodes.first();
    let user = node.map(|node| node.user).or(scan.local_owner);
    let user = user.unwrap_or(intent.user);
    let local_dirs = scan.folders.local_dirs.iter();
    let agent_local_dirs: Vec<_> = local_dirs.map(|dir| dir.join(AGENT_FOLDER)).collect();
    // As another user than root, the agent could make no folder in /run.
    let first = agent_local_dirs.first();
    let socket = first.map(|dir| dir.join("admin.sock"));
    let socket = socket.filter(|_| user != 0 && !intent.names_socket);
    let start = scan.start.as_ref();
    let adoption = Adoption {
        conf: scan.conf.clone(),
        user,
        yarn: intent.yarn.clone().unwrap_or_else(|| PathBuf::from("/")),
        program: intent.program.clone(),
        profile: intent.profile.clone(),
        makes_profile_folder: !intent.has_profiles,
        started_by: start.map_or(StartedBy::Daemon, |start| start.by.clone()),
        variables: variables(&scan, &intent.program),
        java: node.map(|node| node.process.into()),
        site: site(&agent_local_dirs, socket.as_deref()),
        emptied_logs: match scan.folders.recovery {
            Some(_) => Vec::new(),
            None => scan.folders.log_dirs.clone(),
        },
        port: scan.folders.port,
        agent_local_dirs,
    };
    Plan {
        refusals: refusal::all(&scan, findings, intent, &adoption, socket.as_deref()),
        missing: findings.missing.clone(),
        scan,
        adoption,
    }
}

/// Returns the variables with which Hadoop's scripts find the node's files again, and with which
/// the profile finds the program.
fn variables(scan: &Scan, program: &Path) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    if program != Path::new(PACKAGED_PROGRAM) {
        let text = program.to_string_lossy().into_owned();
        variables.insert("NM_AGENT".to_owned(), text);
    }
    let start = scan.start.as_ref();
    if let Some(file) = start.and_then(|start| start.pid_file.as_ref()) {
        let folder = file.folder.to_string_lossy().into_owned();
        variables.insert("HADOOP_PID_DIR".to_owned(), folder);
        variables.insert("HADOOP_IDENT_STRING".to_owned(), file.ident.clone());
    }
    let environment = |node: &JavaNode| node.environment.as_ref()?.get("HADOOP_LOG_DIR").cloned();
    if let Some(folder) = scan.nodes.first().and_then(environment) {
        variables.insert("HADOOP_LOG_DIR".to_owned(), folder);
    }
    variables
}

/// Returns the agent's own properties: caches of its own, so that neither node empties the other's.
fn site(local_dirs: &[PathBuf], socket: Option<&Path>) -> String {
    let local_dirs: Vec<_> = local_dirs.iter().map(|dir| dir.to_string_lossy()).collect();
    let mut text = String::from(
        "<?xml version=\"1.0\"?>\n<!-- Made by nm-agent adopt, whose way back removes it. Only nm-agent \
         reads it, after yarn-site.xml. -->\n<configuration>\n",
    );
    let mut property = |name: &str, value: &str| {
        let value = value.replace('&', "&amp;").replace('<', "&lt;");
        // Writing to a string does not fail.
        let _written = writeln!(
            text,
            "  <property><name>{name}</name><value>{value}</value></property>"
        );
    };
    property("yarn.nodemanager.local-dirs", &local_dirs.join(","));
    if let Some(socket) = socket {
        let name = "yarn.nodemanager.agent.admin.socket";
        property(name, &socket.to_string_lossy());
    }
    text.push_str("</configuration>\n");
    text
}

#[cfg(test)]
mod tests;
