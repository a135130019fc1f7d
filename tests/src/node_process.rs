//! The node of a [`ScriptedRm`], the agent or Hadoop's own NodeManager: a process with folders of
//! its own, on free ports.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use test_support::current_user;
use test_support::scripted::ScriptedRm;

use crate::conf::{self, NodePorts, Options, Properties};
use crate::java::Vm;
use crate::lab::{LOCALHOST, NodeSite};
use crate::names::HostNames;
use crate::node::NodeKind;
use crate::process::Process;
use crate::{java, java_nm, proc};

/// Returns which program is the node: the agent at this path, unless `NM_AGENT_TEST_NODE` is
/// `java`, for Hadoop's own NodeManager, or the path of another agent. A test that fails with
/// `java` where the contract is Hadoop's is wrong.
#[must_use]
pub fn node_kind(agent: &str) -> NodeKind {
    match std::env::var("NM_AGENT_TEST_NODE") {
        Ok(java) if java == "java" => NodeKind::Java,
        Ok(program) => NodeKind::Agent(program.into()),
        Err(_) => NodeKind::Agent(agent.into()),
    }
}

/// Ports that the node chooses by itself; it reports those that matter to the ResourceManager.
const ANY_PORTS: NodePorts = NodePorts {
    container_management: 0,
    localizer: 0,
    web: 0,
    amrm_proxy: 0,
};

/// A node's process and files. Dropping it ends the process and removes the files; after a failure
/// they stay.
#[derive(Debug)]
pub struct NodeProcess {
    /// Process of the node.
    pub process: Process,
    /// Time right before the process was spawned.
    pub started_at: Instant,
    site: NodeSite,
}

impl NodeProcess {
    /// Starts a node of 1024 MiB and 64 virtual cores that queues up to 20 opportunistic containers
    /// and retries to reach `rm` every second. `change` may change its `yarn-site.xml`.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start(kind: &NodeKind, rm: &ScriptedRm, change: impl FnOnce(&mut Properties)) -> Self {
        Self::start_toward(kind, rm.address().port(), change)
    }

    /// Starts a node for a ResourceManager that need not run yet.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start_toward(
        kind: &NodeKind,
        rm_port: u16,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let site = make_site(rm_port, change);
        let command = node_command(kind, &site);
        Self::spawn(command, site)
    }

    /// Starts a node as [`start_toward`](Self::start_toward) does, with more variables in its
    /// environment, as name and value.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start_with(
        kind: &NodeKind,
        rm_port: u16,
        environment: Vec<(String, String)>,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let site = NodeSite {
            environment,
            ..make_site(rm_port, change)
        };
        let command = node_command(kind, &site);
        Self::spawn(command, site)
    }

    /// Starts a node as [`start_with`](Self::start_with) does, with more files of these names
    /// beside its `yarn-site.xml`.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start_with_files(
        kind: &NodeKind,
        rm_port: u16,
        environment: Vec<(String, String)>,
        files: &[(&str, &Properties)],
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let site = NodeSite {
            environment,
            ..make_site(rm_port, change)
        };
        for (name, properties) in files {
            let path = site.conf().join(name);
            fs::write(&path, properties.to_xml())
                .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
        let command = node_command(kind, &site);
        Self::spawn(command, site)
    }

    /// Starts a node as [`start`](Self::start) does, on a machine with these names.
    ///
    /// # Panics
    /// When the node cannot be started.
    #[must_use]
    pub fn start_named(
        kind: &NodeKind,
        rm: &ScriptedRm,
        names: &HostNames,
        change: impl FnOnce(&mut Properties),
    ) -> Self {
        let site = make_site(rm.address().port(), change);
        let command = names.enter(&node_command(kind, &site));
        Self::spawn(command, site)
    }

    fn spawn(mut command: Command, site: NodeSite) -> Self {
        let started_at = Instant::now();
        let process = Process::start(&site.name, &mut command, &site.log_folder);
        Self {
            process,
            started_at,
            site,
        }
    }

    /// Starts the agent again, whose process has ended.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_agent_again(&mut self, program: &Path) {
        let mut command = agent_command(program, &self.site);
        self.started_at = Instant::now();
        self.process = Process::start(&self.site.name, &mut command, &self.site.log_folder);
    }

    /// Returns the folder with all files of this node. Tests may put files of their own into it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.site.folder
    }

    /// Returns the folder of its configuration.
    #[must_use]
    pub fn conf_dir(&self) -> PathBuf {
        self.site.conf()
    }

    /// Returns the folder of the node's containers.
    #[must_use]
    pub fn local_dir(&self) -> PathBuf {
        self.site.local_dir()
    }

    /// Returns the folder of its containers' logs.
    #[must_use]
    pub fn log_dir(&self) -> PathBuf {
        self.site.log_dir()
    }

    /// Returns the processes of its containers.
    #[must_use]
    pub fn container_processes(&self) -> Vec<proc::Found> {
        proc::containers(self.folder())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.process.kill();
        // Containers outlive a node that is killed.
        proc::kill_mentioning(&self.site.folder);
        if std::thread::panicking() {
            eprintln!("what the node left is in {}", self.site.folder.display());
        } else {
            // A folder that a dying process still writes to is litter, not a failure of the test.
            drop(fs::remove_dir_all(&self.site.folder));
        }
    }
}

fn make_site(rm_port: u16, change: impl FnOnce(&mut Properties)) -> NodeSite {
    let folder = tempfile::Builder::new()
        .prefix("nm-agent-node-")
        .tempdir()
        .unwrap_or_else(|error| panic!("cannot create a folder: {error}"))
        .keep();
    let log_folder = folder.join("log");
    fs::create_dir(&log_folder)
        .unwrap_or_else(|error| panic!("cannot create {}: {error}", log_folder.display()));
    let site = NodeSite {
        name: "node".to_owned(),
        host: LOCALHOST.to_owned(),
        folder,
        log_folder,
        ports: ANY_PORTS,
        environment: Vec::new(),
    };
    let core_site = conf::core_site(&site.folder, &current_user());
    let mut yarn_site = Properties::default();
    yarn_site
        .set(
            "yarn.resourcemanager.resource-tracker.address",
            format!("127.0.0.1:{rm_port}"),
        )
        .set("yarn.resourcemanager.connect.retry-interval.ms", 1000)
        .set(
            "yarn.nodemanager.opportunistic-containers-max-queue-length",
            20,
        );
    let options = Options {
        node_memory_mb: 1024,
        ..Options::default()
    };
    conf::node_site(
        &mut yarn_site,
        &site.host,
        &site.folder,
        ANY_PORTS,
        &options,
    );
    change(&mut yarn_site);
    conf::write(&site.conf(), &core_site, &yarn_site);
    site
}

fn node_command(kind: &NodeKind, site: &NodeSite) -> Command {
    match kind {
        NodeKind::Java => java_nm::command(Vm::QuickStart, site),
        NodeKind::MeasuredJava => java_nm::command(Vm::Default, site),
        NodeKind::Agent(program) => agent_command(program, site),
    }
}

/// Returns a command that runs the agent. Java may be missing: no ApplicationMaster of Hadoop's
/// runs on this node.
fn agent_command(program: &Path, site: &NodeSite) -> Command {
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg("--conf")
        .arg(site.conf())
        .env("HADOOP_CONF_DIR", site.conf())
        .envs(site.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&site.folder);
    if let Ok(home) = java::home() {
        command.env("JAVA_HOME", home);
    }
    command
}
