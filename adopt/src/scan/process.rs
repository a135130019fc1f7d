//! Java nodes and containers among the processes of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use keeper::ProcessIdentity;
use procfs::process::Process;

/// Main class of Hadoop's NodeManager.
const MAIN_CLASS: &[u8] = b"org.apache.hadoop.yarn.server.nodemanager.NodeManager";

/// Argument that Hadoop's scripts give their daemons (`hadoop_java_exec`).
const OF_SCRIPTS: &[u8] = b"-Dproc_nodemanager";

/// Bytes of one of a process's files that are read; the kernel lets arguments and environment
/// together have a quarter of the stack's limit, which is 8 MiB nearly everywhere.
const FILE_BYTES_MAX: u64 = 2 << 20;

/// Variable that every container has in its environment, and no node.
const CONTAINER_ID: &str = "CONTAINER_ID";

/// Variable with the local folders of a container.
const LOCAL_DIRS: &str = "LOCAL_DIRS";

/// A Java node that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaNode {
    /// The node's process.
    pub process: ProcessIdentity,
    /// User id of the process.
    pub user: u32,
    /// Folder of its configuration by its environment; `None`: unknown.
    pub conf: Option<PathBuf>,
    /// Variables of Hadoop, Java and supervisord in the node's environment; `None`: this user may
    /// not read them. The values come from the user that started the node.
    pub environment: Option<BTreeMap<String, String>>,
    /// Whether Hadoop's scripts started it.
    pub is_of_scripts: bool,
}

/// The kernel's files of processes.
pub(super) struct ProcFolder<'a> {
    root: &'a Path,
}

impl<'a> ProcFolder<'a> {
    pub(super) const fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the Java nodes, by process id. A container that runs one, as a test of Hadoop does,
    /// is none.
    pub(super) fn java_nodes(&self) -> Vec<JavaNode> {
        let nodes = self.pids().into_iter();
        nodes.filter_map(|pid| self.java_node(pid)).collect()
    }

    fn pids(&self) -> BTreeSet<i32> {
        let Ok(entries) = fs::read_dir(self.root) else {
            return BTreeSet::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        names
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect()
    }

    fn java_node(&self, pid: i32) -> Option<JavaNode> {
        let line = self.read(pid, "cmdline")?;
        let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        if !arguments.contains(&MAIN_CLASS) || !self.is_java(pid, arguments.first()?) {
            return None;
        }
        let all = self.environment(pid);
        if all
            .as_ref()
            .is_some_and(|all| all.contains_key(CONTAINER_ID))
        {
            return None;
        }
        let process = Process::new_with_root(self.root.join(pid.to_string())).ok()?;
        let start_time = process.stat().ok()?.starttime;
        let conf = all.as_ref().and_then(conf_of);
        Some(JavaNode {
            process: ProcessIdentity { pid, start_time },
            user: process.uid().ok()?,
            conf,
            environment: all.map(of_hadoop),
            is_of_scripts: arguments.contains(&OF_SCRIPTS),
        })
    }

    /// Whether the program of a process is Java: by the file that it executes, or by its name where
    /// this user may not read that.
    fn is_java(&self, pid: i32, name: &[u8]) -> bool {
        let link = fs::read_link(self.root.join(format!("{pid}/exe")));
        let path = link.unwrap_or_else(|_| PathBuf::from(OsStr::from_bytes(name)));
        let name = path.file_name().map_or(&b""[..], OsStr::as_bytes);
        // An upgrade has replaced the file.
        name.strip_suffix(b" (deleted)").unwrap_or(name) == b"java"
    }

    /// Returns the containers that have a process whose local folders are below one of these.
    pub(super) fn containers(&self, local_dirs: &[PathBuf]) -> BTreeSet<String> {
        let container = |pid| {
            let mut environment = self.environment(pid)?;
            let folders = environment.remove(LOCAL_DIRS)?;
            let first = Path::new(folders.split(',').next()?);
            let is_here = local_dirs.iter().any(|folder| first.starts_with(folder));
            environment.remove(CONTAINER_ID).filter(|_| is_here)
        };
        self.pids().into_iter().filter_map(container).collect()
    }

    /// Returns the path of a process's group of the first hierarchy that names one: the unified
    /// one, or that of systemd.
    pub(super) fn cgroup(&self, pid: i32) -> Option<String> {
        let text = String::from_utf8(self.read(pid, "cgroup")?).ok()?;
        let path = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            ["", "name=systemd"]
                .contains(&controllers)
                .then(|| path.to_owned())
        };
        text.lines().find_map(path)
    }

    fn environment(&self, pid: i32) -> Option<BTreeMap<String, String>> {
        let bytes = self.read(pid, "environ")?;
        let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
            let (name, value) = std::str::from_utf8(pair).ok()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Some(pairs.collect())
    }

    fn read(&self, pid: i32, name: &str) -> Option<Vec<u8>> {
        let file = File::open(self.root.join(format!("{pid}/{name}"))).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn conf_of(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let names = ["HADOOP_CONF_DIR", "YARN_CONF_DIR"];
    let value = names.iter().find_map(|name| environment.get(*name))?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

fn of_hadoop(mut environment: BTreeMap<String, String>) -> BTreeMap<String, String> {
    const NAMES: [&str; 3] = [
        "JAVA_HOME",
        "SUPERVISOR_GROUP_NAME",
        "SUPERVISOR_PROCESS_NAME",
    ];
    environment.retain(|name, _| {
        NAMES.contains(&name.as_str()) || ["HADOOP_", "YARN_"].iter().any(|it| name.starts_with(it))
    });
    environment
}
