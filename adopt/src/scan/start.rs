//! How a Java node was started: by a unit of systemd, as a daemon of Hadoop's scripts with a file
//! of its process id, or by hand.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use keeper::ProcessIdentity;
use nix::fcntl::OFlag;
use nix::unistd::{Uid, User};
use serde::{Deserialize, Serialize};

use super::Asked;
use super::process::{JavaNode, ProcFolder};

/// Bytes of a file of a process id that are read.
const PID_FILE_BYTES_MAX: u64 = 64;

/// Folder of these files unless a variable names one (Hadoop: `HADOOP_PID_DIR`).
const DEFAULT_PID_FOLDER: &str = "/tmp";

/// Manager that started the node, and is to start the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartedBy {
    /// `yarn --daemon start nodemanager`.
    Daemon,
    /// A unit of systemd.
    Unit(String),
    /// A user that ran `yarn nodemanager`, or Java itself.
    Hand,
}

/// How the node was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Manager that started the node.
    pub by: StartedBy,
    /// File of the node's process id.
    pub pid_file: Option<PidFile>,
    /// Path of such a file with the id of another process that runs, and that id.
    pub foreign: Option<(PathBuf, i32)>,
}

/// File of a process id, as Hadoop's scripts name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PidFile {
    /// Folder of the file (`HADOOP_PID_DIR`).
    pub folder: PathBuf,
    /// The part of the name that tells instances apart (`HADOOP_IDENT_STRING`).
    pub ident: String,
}

impl PidFile {
    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let name = format!("hadoop-{}-nodemanager.pid", self.ident);
        self.folder.join(name)
    }
}

pub(super) fn of_node(proc: &ProcFolder<'_>, node: &JavaNode, asked: &Asked<'_>) -> Start {
    let (mut own, mut foreign) = (None, None);
    for file in candidates(node, asked.environment) {
        match read_pid(&file.path()) {
            Some(pid) if pid == node.process.pid => own = own.or(Some(file)),
            Some(pid) if ProcessIdentity::of(pid).is_some() => {
                foreign = foreign.or(Some((file.path(), pid)));
            }
            Some(_) | None => {}
        }
    }
    let cgroup = proc.cgroup(node.process.pid);
    let unit = cgroup.as_deref().and_then(unit_of);
    // A daemon is in the group of whatever unit its starter belongs to, such as that of `cron`:
    // only the unit whose main process it is has started it.
    let unit = unit.filter(|unit| (asked.main_pid)(unit) == Some(node.process.pid));
    let by = match (unit, &own) {
        (Some(unit), _) => StartedBy::Unit(unit.to_owned()),
        (None, Some(_)) => StartedBy::Daemon,
        (None, None) => StartedBy::Hand,
    };
    Start {
        by,
        pid_file: own,
        foreign,
    }
}

/// Returns the files that may hold the node's process id, by its environment and by this process's.
fn candidates(node: &JavaNode, environment: &BTreeMap<String, String>) -> Vec<PidFile> {
    let of_node = node.environment.as_ref();
    let values = |name: &str| {
        let values = [of_node, Some(environment)].into_iter().flatten();
        let values = values.filter_map(|it| it.get(name).cloned());
        values.filter(|value| !value.is_empty()).collect::<Vec<_>>()
    };
    let user = User::from_uid(Uid::from_raw(node.user)).ok().flatten();
    let mut idents = values("HADOOP_IDENT_STRING");
    idents.extend(user.map(|user| user.name));
    // The value is part of a file's name.
    idents.retain(|ident| !ident.contains('/'));
    let mut folders = values("HADOOP_PID_DIR");
    folders.push(DEFAULT_PID_FOLDER.to_owned());
    let mut files = Vec::new();
    for folder in &folders {
        for ident in &idents {
            let file = PidFile {
                folder: PathBuf::from(folder),
                ident: ident.clone(),
            };
            if file.folder.is_absolute() && !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// Returns the process id in a file. A link is not followed and a pipe not waited for: whoever may
/// write to the folder could have put it there.
fn read_pid(path: &Path) -> Option<i32> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(PID_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Returns the unit of the system's service manager in whose group a process is. Below a slice only
/// root makes a service; what a user's own service manager makes lies below `user@`.
fn unit_of(cgroup: &str) -> Option<&str> {
    let mut parts = cgroup.split('/').filter(|part| !part.is_empty());
    let unit = parts.find(|part| !is_slice(part))?;
    is_unit_name(unit).then_some(unit)
}

fn is_slice(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "slice")
}

/// Whether a text is the name of a service that may stand among the arguments of `systemctl`
/// (systemd: `unit_name_is_valid`).
pub(crate) fn is_unit_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    name.len() <= 255
        && name.chars().all(is_allowed)
        && !name.starts_with('-')
        && !name.starts_with("user@")
        && name
            .strip_suffix(".service")
            .is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_below_slices_of_the_system_is_a_unit() {
        for (cgroup, unit) in [
            (
                "/system.slice/hadoop-yarn-nodemanager.service",
                Some("hadoop-yarn-nodemanager.service"),
            ),
            (
                "/hadoop.slice/hadoop-yarn.slice/nm@1.service/x",
                Some("nm@1.service"),
            ),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/evil.service",
                None,
            ),
            (
                "/system.slice/docker-0123.scope/system.slice/x.service",
                None,
            ),
            ("/system.slice/--help.service", None),
            ("/system.slice/a b.service", None),
            ("/system.slice/.service", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(unit_of(cgroup), unit, "{cgroup}");
        }
    }
}
