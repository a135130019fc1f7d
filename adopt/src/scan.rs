//! Reads what a Java node on this machine has. Changes nothing.
//!
//! In: the folder of the configuration and what it says, `/proc`, pid files. Out: a [`Scan`]. Files
//! of other users that this process may not read are taken for absent; the plan then refuses where
//! that matters.

mod process;
mod start;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use process::JavaNode;
pub(crate) use start::is_unit_name;
pub use start::{PidFile, Start, StartedBy};

use process::ProcFolder;

/// Database of a Java node's recovery below `yarn.nodemanager.recovery.dir` (Hadoop:
/// `NMLeveldbStateStoreService.DB_NAME`).
const RECOVERY_DATABASE: &str = "yarn-nm-state";

/// Folders and address that the configuration gives the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Value of `yarn.nodemanager.local-dirs`.
    pub local_dirs: Vec<PathBuf>,
    /// Value of `yarn.nodemanager.log-dirs`.
    pub log_dirs: Vec<PathBuf>,
    /// Value of `yarn.nodemanager.recovery.dir`; `None`: recovery is off.
    pub recovery: Option<PathBuf>,
    /// Port of `yarn.nodemanager.address`; 0: the system chooses one.
    pub port: u16,
}

impl Folders {
    /// Whether the configuration could be read: it always has a local folder.
    pub(crate) const fn is_known(&self) -> bool {
        !self.local_dirs.is_empty()
    }
}

/// Input of a scan.
pub struct Asked<'a> {
    /// Mount of the kernel's process files; `/proc` but in tests.
    pub proc: &'a Path,
    /// Folder of the configuration.
    pub conf: &'a Path,
    /// Environment of this process.
    pub environment: &'a BTreeMap<String, String>,
    /// Folders that the configuration names.
    pub folders: &'a Folders,
    /// Returns the main process of a unit of the service manager, as it says itself.
    pub main_pid: &'a dyn Fn(&str) -> Option<i32>,
}

/// Facts that a scan has found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Folder of the configuration, absolute.
    pub conf: PathBuf,
    /// Folders that the configuration names.
    pub folders: Folders,
    /// Java nodes with this configuration, or with an unknown one.
    pub nodes: Vec<JavaNode>,
    /// Java nodes with another configuration.
    pub others: Vec<JavaNode>,
    /// How the node was started, if there is exactly one.
    pub start: Option<Start>,
    /// User id of the first local folder that exists.
    pub local_owner: Option<u32>,
    /// Folder of a Java node's recovery state, if there is one.
    pub recovery_state: Option<PathBuf>,
    /// Containers whose processes use the node's local folders.
    pub containers: usize,
}

/// Reads the machine.
#[must_use]
pub fn scan(asked: &Asked<'_>) -> Scan {
    let proc = ProcFolder::new(asked.proc);
    let conf = std::path::absolute(asked.conf).unwrap_or_else(|_| asked.conf.to_owned());
    let (nodes, others): (Vec<_>, Vec<_>) = proc
        .java_nodes()
        .into_iter()
        .partition(|node| node.conf.as_deref().is_none_or(|of| is_same(of, &conf)));
    let start = match &nodes[..] {
        [node] => Some(start::of_node(&proc, node, asked)),
        _ => None,
    };
    let folders = asked.folders.clone();
    let owner = |path: &PathBuf| path.metadata().ok().map(|status| status.uid());
    let database = |folder: &PathBuf| folder.join(RECOVERY_DATABASE);
    Scan {
        conf,
        nodes,
        others,
        start,
        local_owner: folders.local_dirs.iter().find_map(owner),
        recovery_state: folders
            .recovery
            .as_ref()
            .map(database)
            .filter(|path| path.is_dir()),
        containers: proc.containers(&folders.local_dirs).len(),
        folders,
    }
}

/// Whether two paths are one folder.
fn is_same(left: &Path, right: &Path) -> bool {
    match (left.canonicalize(), right.canonicalize()) {
        (Ok(left), Ok(right)) => left == right,
        _ => left == right,
    }
}

/// Returns the main process of a systemd unit; `None`: it has none, or there is no systemd.
#[must_use]
pub fn unit_main_pid(unit: &str) -> Option<i32> {
    let output = Command::new("systemctl")
        .args(["show", "--property=MainPID", "--value", "--", unit])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests;
