//! `nm-agent rm` and agents, on free ports, and `nm-agent shell` beside them.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::conf::{self, Properties};
use tests::ports::Port;
use tests::process::Process;
use tests::{http, proc, wait};

use crate::AGENT;

/// Deadline for any step, on a machine that may be busy building.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Memory of a node: two masters and two containers of [`SLOT_MB`].
pub(crate) const NODE_MB: u32 = 2 * MASTER_MB + 2 * SLOT_MB;

/// Memory of a container in tests that count slots.
pub(crate) const SLOT_MB: u32 = 512;

const MASTER_MB: u32 = 128;

/// A ResourceManager and its nodes. Dropping it leaves no process.
pub(crate) struct Cluster {
    nodes: Vec<Node>,
    rm: Option<Process>,
    web: u16,
    /// Properties of every process.
    site: Properties,
    folder: TempDir,
}

struct Node {
    process: Process,
    web: u16,
    site: Properties,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        self.rm = None;
        // Containers outlive a node that is killed.
        proc::kill_mentioning(self.folder.path());
    }
}

impl Cluster {
    /// Starts this many nodes and waits until they are registered.
    #[track_caller]
    pub(crate) fn start(nodes: usize) -> Self {
        Self::start_with(nodes, |_| {})
    }

    /// Starts a cluster after changes of every process's `yarn-site.xml`.
    #[track_caller]
    pub(crate) fn start_with(nodes: usize, change: impl FnOnce(&mut Properties)) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let mut site = Properties::default();
        let ports: [Port; 4] = std::array::from_fn(|_| Port::reserve());
        let ports = ports.map(Port::release);
        let services = ["", "scheduler.", "resource-tracker.", "webapp."];
        for (service, port) in services.into_iter().zip(ports) {
            let name = format!("yarn.resourcemanager.{service}address");
            site.set(name, format!("localhost:{port}"));
        }
        let enabled = "yarn.resourcemanager.opportunistic-container-allocation.enabled";
        let queuing = "yarn.resourcemanager.nm-container-queuing";
        site.set(enabled, true)
            .set("yarn.scheduler.minimum-allocation-mb", MASTER_MB)
            .set(
                "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms",
                100,
            )
            .set(format!("{queuing}.sorting-nodes-interval-ms"), 100)
            .set(format!("{queuing}.min-queue-length"), 20)
            .set(format!("{queuing}.max-queue-length"), 20)
            .set("yarn.resourcemanager.connect.retry-interval.ms", 200)
            .set(
                "yarn.nodemanager.opportunistic-containers-max-queue-length",
                20,
            )
            .set("yarn.nodemanager.resource.memory-mb", NODE_MB)
            .set("yarn.nodemanager.resource.cpu-vcores", 64)
            .set(
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage",
                100,
            );
        change(&mut site);
        let core_site = conf::core_site(folder.path(), "nobody");
        conf::write(&folder.path().join("conf"), &core_site, &site);
        let mut cluster = Self {
            nodes: Vec::new(),
            rm: None,
            web: ports[3],
            site,
            folder,
        };
        cluster.start_rm();
        for _ in 0..nodes {
            cluster.add_node(|_| {}, &[]);
        }
        cluster.wait_nodes(nodes);
        cluster
    }

    /// Starts one more node after changes of its `yarn-site.xml`, with variables of its own.
    #[track_caller]
    pub(crate) fn add_node(
        &mut self,
        change: impl FnOnce(&mut Properties),
        environment: &[(&str, &Path)],
    ) {
        let number = self.nodes.len();
        let (web, mut site) = self.node_site(number);
        change(&mut site);
        self.write_site(number, &site);
        let name = format!("node{number}");
        let mut command = self.command("run", &self.node_conf(number));
        command.envs(environment.iter().copied());
        let process = Process::start(&name, &mut command, self.folder());
        self.nodes.push(Node { process, web, site });
    }

    /// Ends a node with SIGKILL, and starts it again with the same files.
    #[track_caller]
    pub(crate) fn crash_node(&mut self, node: usize) {
        self.nodes[node].process.kill();
        let mut command = self.command("run", &self.node_conf(node));
        let process = Process::start(&format!("node{node}"), &mut command, self.folder());
        self.nodes[node].process = process;
    }

    /// Changes the `yarn-site.xml` of a node that runs.
    pub(crate) fn change_site(&mut self, node: usize, change: impl FnOnce(&mut Properties)) {
        change(&mut self.nodes[node].site);
        self.write_site(node, &self.nodes[node].site);
    }

    fn write_site(&self, node: usize, site: &Properties) {
        let core_site = conf::core_site(self.folder.path(), "nobody");
        conf::write(&self.node_conf(node), &core_site, site);
    }

    /// Returns the folder of a node's configuration.
    pub(crate) fn node_conf(&self, node: usize) -> PathBuf {
        self.folder().join(format!("node{node}/conf"))
    }

    /// Returns the process of a node: the front where there is a keeper.
    pub(crate) fn node_process(&mut self, node: usize) -> &mut Process {
        &mut self.nodes[node].process
    }

    /// Starts the ResourceManager, also after [`kill_rm`](Self::kill_rm): then without its state.
    #[track_caller]
    pub(crate) fn start_rm(&mut self) {
        let mut command = self.command("rm", &self.conf());
        self.rm = Some(Process::start("rm", &mut command, self.folder()));
        wait::until("the ResourceManager", DEADLINE, || self.rest("info"));
    }

    /// Waits until the ResourceManager shows this many running nodes.
    #[track_caller]
    pub(crate) fn wait_nodes(&self, nodes: usize) {
        wait::until("the nodes", DEADLINE, || {
            let metrics = self.rest("metrics")?;
            let active = metrics["clusterMetrics"]["activeNodes"].as_u64();
            wait::check(active == u64::try_from(nodes).ok(), format!("{metrics}"))
        });
    }

    /// Ends the last node with SIGKILL, as a power failure would; the processes of its containers
    /// live on.
    pub(crate) fn kill_last_node(&mut self) {
        drop(self.nodes.pop());
    }

    /// Returns a free web port and the `yarn-site.xml` for a node with this number.
    pub(crate) fn node_site(&self, number: usize) -> (u16, Properties) {
        let folder = self.folder().join(format!("node{number}"));
        let [port, web] = [Port::reserve(), Port::reserve()].map(Port::release);
        let mut site = self.site.clone();
        site.set("yarn.nodemanager.address", format!("localhost:{port}"))
            .set(
                "yarn.nodemanager.webapp.address",
                format!("localhost:{web}"),
            )
            .set(
                "yarn.nodemanager.local-dirs",
                folder.join("local").display(),
            )
            .set("yarn.nodemanager.log-dirs", folder.join("logs").display())
            .set(
                "yarn.nodemanager.agent.admin.socket",
                folder.join("admin.sock").display(),
            );
        (web, site)
    }

    fn command(&self, subcommand: &str, conf: &Path) -> Command {
        let mut command = Command::new(AGENT);
        command.arg(subcommand).arg("--conf").arg(conf);
        command.current_dir(self.folder());
        command
    }

    /// Runs a command of operators for a node to its end.
    pub(crate) fn operate(&self, node: usize, subcommand: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(subcommand, &self.node_conf(node));
        command.args(arguments);
        command.output().expect("the program can be started")
    }

    /// Runs a command of operators for a node as another user, who can read the configuration.
    pub(crate) fn operate_as(&self, uid: u32, node: usize, subcommand: &str) -> Output {
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.folder(), readable).expect("the folder is the test's own");
        let mut command = self.command(subcommand, &self.node_conf(node));
        command.uid(uid).gid(uid);
        command.output().expect("the program can be started")
    }

    /// Runs `nm-agent shell` with these arguments.
    pub(crate) fn shell(&self, name: &str, arguments: &[&str]) -> Process {
        let mut command = self.command("shell", &self.conf());
        command.args(arguments);
        Process::start(name, &mut command, self.folder())
    }

    /// Runs `nm-agent shell` to its end; returns its exit status and its output.
    #[track_caller]
    pub(crate) fn shell_to_end(&self, arguments: &[&str]) -> (Option<i32>, String) {
        ended(self.shell("shell", arguments))
    }

    /// Ends the ResourceManager with SIGKILL.
    pub(crate) fn kill_rm(&mut self) {
        self.rm = None;
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn conf(&self) -> PathBuf {
        self.folder().join("conf")
    }

    pub(crate) fn rest(&self, path: &str) -> Result<Value, String> {
        http::get_json(&format!(
            "http://localhost:{}/ws/v1/cluster/{path}",
            self.web
        ))
    }

    /// Returns the log of a node.
    pub(crate) fn node_log(&self, node: usize) -> String {
        self.nodes[node].process.log()
    }

    /// Returns the URL of a path on the web port of a node.
    pub(crate) fn node_url(&self, node: usize, path: &str) -> String {
        format!("http://localhost:{}/{path}", self.nodes[node].web)
    }

    /// Returns the JSON document of a path on the web port of a node.
    pub(crate) fn of_node(&self, node: usize, path: &str) -> Result<Value, String> {
        http::get_json(&self.node_url(node, path))
    }

    /// Returns the states of all applications.
    pub(crate) fn application_states(&self) -> Vec<String> {
        let apps = self.rest("apps").expect("the ResourceManager answers");
        let list = apps["apps"]["app"].as_array().cloned().unwrap_or_default();
        let state = |app: &Value| app["state"].as_str().unwrap_or("?").to_owned();
        list.iter().map(state).collect()
    }

    /// Returns the execution types of the containers on all nodes, sorted.
    pub(crate) fn execution_types(&self) -> Result<Vec<String>, String> {
        let mut types = Vec::new();
        for node in 0..self.nodes.len() {
            let answer = self.of_node(node, "ws/v1/node/containers")?;
            let list = answer["containers"]["container"].as_array().cloned();
            let running = list.unwrap_or_default();
            let running = running
                .iter()
                .filter(|container| container["state"] == "RUNNING");
            types.extend(running.map(|c| c["executionType"].as_str().unwrap_or("?").to_owned()));
        }
        types.sort();
        Ok(types)
    }

    /// Returns the containers' standard outputs, in any order.
    pub(crate) fn outputs(&self) -> Vec<String> {
        let mut outputs = Vec::new();
        let mut folders = vec![self.folder().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)
                .expect("a folder can be read")
                .flatten()
            {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| name == "stdout") {
                    outputs.push(fs::read_to_string(path).expect("the output is text"));
                }
            }
        }
        // A master writes nothing there.
        outputs.retain(|output| !output.is_empty());
        outputs
    }

    /// Asserts that no container has a process and no application is alive.
    #[track_caller]
    pub(crate) fn assert_nothing_is_left(&self) {
        self.assert_no_process_is_left();
        wait::until("the end of all applications", DEADLINE, || {
            let states = self.application_states();
            let is_over =
                |state: &String| ["FINISHED", "FAILED", "KILLED"].contains(&state.as_str());
            wait::check(states.iter().all(is_over), format!("{states:?}"))
        });
    }

    /// Asserts that no container has a process.
    #[track_caller]
    pub(crate) fn assert_no_process_is_left(&self) {
        wait::until("the end of all containers", DEADLINE, || {
            let found = proc::containers(self.folder());
            wait::check(found.is_empty(), format!("{found:?}"))
        });
    }

    /// Returns a command that reports that it runs and then waits for the gate of this name.
    pub(crate) fn waiting_command(&self, gate: &str) -> String {
        let folder = self.folder().display();
        format!(
            "touch {folder}/{gate}.$YARN_SHELL_ID; while [ ! -e {folder}/{gate} ]; do sleep 0.02; done"
        )
    }

    /// Waits until this many commands that wait for a gate run.
    #[track_caller]
    pub(crate) fn wait_waiting(&self, gate: &str, count: u32) {
        for number in 1..=count {
            let file = self.folder().join(format!("{gate}.{number}"));
            wait::until(format!("{gate}.{number}"), DEADLINE, || {
                wait::check(file.exists(), "it does not run")
            });
        }
    }

    /// Opens the gate that commands wait for.
    pub(crate) fn open(&self, gate: &str) {
        File::create(self.folder().join(gate)).expect("a file can be made");
    }
}

/// Waits for the end of a process; returns its exit status and its output.
#[track_caller]
pub(crate) fn ended(mut process: Process) -> (Option<i32>, String) {
    let status = process.wait_exit(DEADLINE);
    (status.code(), process.log())
}

/// Returns the number in the row of this name of a summary.
#[track_caller]
pub(crate) fn row(log: &str, name: &str) -> u32 {
    let line = log.lines().find(|line| line.trim_start().starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    number.unwrap_or_else(|| panic!("no row {name:?} in\n{log}"))
}
