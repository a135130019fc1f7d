//! Reasons that `--go` does nothing.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Findings, Intent, SOCKET_PATH_MAX};
use crate::record::Adoption;
use crate::scan::{JavaNode, Scan, Start, StartedBy};
use crate::text::{shown, shown_path};

/// A reason that `--go` does nothing, with what to do about it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// The agent cannot run with the configuration.
    #[error("the agent cannot run with this configuration: {0}")]
    Unusable(String),
    /// The node is another user's.
    #[error("the node is the user id {node}'s: be root or that user, not the user id {own}")]
    NotAllowed {
        /// User id of the node.
        node: u32,
        /// User id of this process.
        own: u32,
    },
    /// Several Java nodes could be meant.
    #[error("several Java nodes run with this configuration (processes {0}): stop all but one")]
    SeveralNodes(String),
    /// Only nodes with another configuration run.
    #[error("the Java node, process {pid}, has another configuration: name it with --conf {conf}")]
    OtherConfiguration {
        /// Process of one of them.
        pid: i32,
        /// Configuration of that node, as it is printed.
        conf: String,
    },
    /// A folder of the configuration that this user cannot work in.
    #[error("{0}")]
    Folder(String),
    /// Hadoop's script is missing.
    #[error("Hadoop's yarn was not found: name it with --yarn, or set HADOOP_HOME or PATH")]
    NoYarn,
    /// The package's profile is missing.
    #[error("the package's shell profile is missing: name it with --profile")]
    NoProfile,
    /// The agent's own properties are there already.
    #[error(
        "nm-agent-site.xml is there already, and would be written: move its properties to \
         yarn-site.xml and remove it"
    )]
    SiteExists,
    /// The profile is there already.
    #[error(
        "shellprofile.d/nm-agent.sh is there already: Hadoop's scripts start the agent at the next \
         start. Remove it, or stop and start the node yourself"
    )]
    ProfileExists,
    /// The agent has the place.
    #[error("an agent with this configuration runs already")]
    AgentRuns,
    /// Containers run, and nothing takes them over.
    #[error(
        "containers run here ({0}), and the agent does not take them over: decommission the node \
         and wait, or lose them with --lose-containers"
    )]
    Containers(usize),
    /// Java was started without Hadoop's scripts, so they would not start the agent.
    #[error(
        "{} started the Java node without Hadoop's scripts: have it run `yarn --daemon start \
         nodemanager` first, or follow \"Step by step\" in operators.md", .0
    )]
    NoScripts(String),
    /// supervisord keeps the node running, and would start it again whoever ends it.
    #[error(
        "supervisord runs the Java node as {0}, and starts it again when it ends: link the profile by \
         hand (\"supervisord\" in operators.md), and restart {0} with supervisorctl"
    )]
    Supervisord(String),
    /// The file of the process id is another process's.
    #[error(
        "{file} has the id of another process that runs, {pid}: with it Hadoop's scripts would stop \
         that process, or start nothing. Remove the file"
    )]
    ForeignPidFile {
        /// The file, as it is printed.
        file: String,
        /// Process id in the file.
        pid: i32,
    },
    /// Only root may order the service manager.
    #[error("the unit {0} started the node: be root")]
    UnitNeedsRoot(String),
    /// A path that cannot be written into a file of properties or a record.
    #[error(
        "{0} cannot be written in a configuration: it has characters of control, a comma or no UTF-8"
    )]
    Path(String),
    /// A path that is too long for a socket.
    #[error("{0} is too long for a socket: set yarn.nodemanager.agent.admin.socket")]
    Socket(String),
}

pub(super) fn all(
    scan: &Scan,
    findings: &Findings,
    intent: &Intent,
    adoption: &Adoption,
    socket: Option<&Path>,
) -> Vec<Refusal> {
    let mut all = Vec::new();
    let problems = findings.problems.iter().map(|text| shown(text));
    all.extend(problems.map(Refusal::Unusable));
    if ![0, adoption.user].contains(&intent.user) {
        all.push(Refusal::NotAllowed {
            node: adoption.user,
            own: intent.user,
        });
    }
    all.extend(intent.unwritable.clone().map(Refusal::Folder));
    all.extend(of_nodes(scan, intent));
    for (is_there, refusal) in [
        (intent.yarn.is_none(), Refusal::NoYarn),
        (!intent.profile_exists, Refusal::NoProfile),
        (intent.has_site, Refusal::SiteExists),
        (intent.has_profile, Refusal::ProfileExists),
        (intent.agent_answers, Refusal::AgentRuns),
    ] {
        all.extend(is_there.then_some(refusal));
    }
    if scan.containers > 0 && !intent.loses_containers {
        all.push(Refusal::Containers(scan.containers));
    }
    all.extend(of_paths(adoption, socket));
    all
}

fn of_nodes(scan: &Scan, intent: &Intent) -> Vec<Refusal> {
    let mut all = Vec::new();
    if scan.nodes.len() > 1 {
        let pids = scan.nodes.iter().map(|node| node.process.pid.to_string());
        all.push(Refusal::SeveralNodes(pids.collect::<Vec<_>>().join(", ")));
    }
    let conf_of = |node: &JavaNode| {
        let conf = node.conf.as_deref().map(shown_path);
        conf.map(|conf| (node.process.pid, conf))
    };
    if scan.nodes.is_empty()
        && !intent.names_conf
        && let Some((pid, conf)) = scan.others.iter().find_map(conf_of)
    {
        all.push(Refusal::OtherConfiguration { pid, conf });
    }
    let (Some(start), [node]) = (&scan.start, &scan.nodes[..]) else {
        return all;
    };
    if let Some(program) = supervised(start, node) {
        all.push(Refusal::Supervisord(program));
    } else if !node.is_of_scripts {
        all.push(Refusal::NoScripts(match &start.by {
            StartedBy::Unit(name) => format!("the unit {name}"),
            StartedBy::Daemon | StartedBy::Hand => "somebody".to_owned(),
        }));
    }
    if let Some((path, pid)) = start.foreign.as_ref().filter(|_| start.pid_file.is_none()) {
        all.push(Refusal::ForeignPidFile {
            file: shown_path(path),
            pid: *pid,
        });
    }
    if let StartedBy::Unit(name) = &start.by
        && intent.user != 0
    {
        all.push(Refusal::UnitNeedsRoot(name.clone()));
    }
    all
}

/// Returns the name by which supervisord knows the node, if it has started it; a daemon only has
/// the variables of whoever started its starter.
fn supervised(start: &Start, node: &JavaNode) -> Option<String> {
    let environment = node.environment.as_ref()?;
    let name = environment.get("SUPERVISOR_PROCESS_NAME")?;
    let group = environment.get("SUPERVISOR_GROUP_NAME");
    let group = group.filter(|group| !group.is_empty() && *group != name);
    let name = group.map_or_else(|| shown(name), |group| shown(&format!("{group}:{name}")));
    (start.by == StartedBy::Hand).then_some(name)
}

/// Returns paths that would be other paths once they are written.
fn of_paths(adoption: &Adoption, socket: Option<&Path>) -> Vec<Refusal> {
    let is_writable = |path: &Path| {
        let text = path.to_str();
        text.is_some_and(|text| !text.contains(|c: char| c.is_control() || c == ','))
    };
    let paths = [&adoption.conf, &adoption.program].into_iter();
    let paths = paths
        .chain(&adoption.agent_local_dirs)
        .chain(&adoption.emptied_logs);
    let unwritable = paths.filter(|path| !is_writable(path));
    let mut all: Vec<_> = unwritable
        .map(|path: &PathBuf| Refusal::Path(shown_path(path)))
        .collect();
    let too_long = socket.filter(|path| path.as_os_str().len() > SOCKET_PATH_MAX);
    all.extend(too_long.map(|path| Refusal::Socket(shown_path(path))));
    all
}
