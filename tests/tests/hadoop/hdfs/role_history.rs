//! Role histories in HDFS: a service's history outlives its agent, and a NameNode that hangs or
//! dies holds up no service.

use std::path::Path;
use std::process::{Command, Output};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::cluster::{Cluster, JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::hdfs::Hdfs;
use tests::lab::Lab;
use tests::native_shell::NativeShell;
use tests::node::Node;
use tests::node_process::node_kind;
use tests::rm::{ResourceManager, RmKind};
use tests::{require, wait};

use super::RPC_TIMEOUT_MS;
use crate::AGENT;

/// Directory of the histories in HDFS.
const DIRECTORY: &str = "/histories";

/// Most runs until one is placed by the history of the run before. An AM waits for its files for
/// 100 ms at most, which a machine that is busy building may take longer for.
const RUNS_MAX: usize = 10;

/// Node with role histories in HDFS, and the attempts that the tests have seen.
struct Stage {
    cluster: Cluster,
    seen: Vec<Value>,
}

impl Stage {
    fn start(hdfs: &Hdfs, mut lab: Lab) -> Self {
        let kind = RmKind::Mini(AGENT.into());
        let rm = ResourceManager::start(&lab, &kind);
        let node = Node::start_registered(&lab, &node_kind(AGENT), "node", &rm);
        // The master of the shell's job goes through the node's proxy.
        let proxy = format!("localhost:{}", node.site.ports.amrm_proxy);
        lab.set("yarn.resourcemanager.scheduler.address", proxy);
        assert!(hdfs.files().list("/", 9).unwrap().is_empty());
        Self {
            cluster: Cluster { node, rm, lab },
            seen: Vec::new(),
        }
    }

    /// Runs the service until its only container runs, and returns its history. The container waits
    /// for the gate of this name.
    fn run(&mut self, gate: &str) -> (NativeShell, Value) {
        let command = self.cluster.gate(gate).wait_command();
        let slot = SLOT_MB.to_string();
        let size = ["--memory", &slot, "--master-memory", &slot];
        let service = ["--role-history", "search", "--role-history-guaranteed"];
        let command = ["--", "sh", "-c", &command];
        let arguments = [&size[..], &service, &command].concat();
        let shell = NativeShell::start(&self.cluster.lab, Path::new(AGENT), gate, &arguments);
        let history = self.wait_history("a placement", |history| history["placed"] == 1);
        self.seen.push(history["attempt"].clone());
        (shell, history)
    }

    /// Ends a run.
    fn end(&self, gate: &str, mut shell: NativeShell) {
        self.cluster.gate(gate).open();
        let (status, log) = shell.outcome(JOB_DEADLINE);
        assert_eq!(status, Some(0), "{log}");
    }

    /// Waits until the history of an attempt that has not been seen is as wanted.
    fn wait_history(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        wait::until(what, STATE_DEADLINE, || {
            let all = self.get("")?;
            let services = all["roleHistories"]["roleHistory"].as_array();
            let mut attempts = services.into_iter().flatten().map(|each| &each["attempt"]);
            let new = attempts.find(|attempt| !self.seen.contains(attempt));
            let attempt = new.and_then(Value::as_str).ok_or("no new attempt")?;
            let history = self.get(&format!("/{attempt}"))?["roleHistory"].clone();
            if is_wanted(&history) {
                Ok(history)
            } else {
                Err(history.to_string())
            }
        })
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        let path = format!("/ws/v1/node/agent/roleHistories{path}");
        let answer = self.cluster.node.get(&path)?;
        serde_json::from_str(&answer.body).map_err(|_| answer.body)
    }

    /// Ends the agent and starts it anew with the same configuration.
    fn restart_agent(mut self) -> Self {
        let Cluster { mut node, rm, lab } = self.cluster;
        node.process.terminate();
        node.process.wait_exit(STATE_DEADLINE);
        let site = node.site.clone();
        drop(node);
        let node = Node::start_at(site, &node_kind(AGENT));
        wait::until("the second registration", STATE_DEADLINE, || {
            let log = node.process.log();
            wait::check(log.matches(" registered ").count() == 2, log)
        });
        self.cluster = Cluster { node, rm, lab };
        self
    }

    fn show(&self, uri: &str) -> Output {
        let conf = self.cluster.lab.conf();
        let mut show = Command::new(AGENT);
        show.args(["history", "show", "--conf"]).arg(conf).arg(uri);
        show.output().unwrap()
    }
}

/// Waits until the service has a saved history and returns its URI.
fn wait_saved(hdfs: &Hdfs) -> String {
    let files = hdfs.files();
    wait::until("a saved history", STATE_DEADLINE, || {
        let users = files
            .list(DIRECTORY, 9)
            .map_err(|error| error.to_string())?;
        let user = users.first().ok_or_else(|| "no user".to_owned())?;
        let service = format!("{DIRECTORY}/{}/search", user.name);
        let entries = files.list(&service, 9).map_err(|error| error.to_string())?;
        let names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
        let owners = names.iter().filter(|name| name.starts_with(".owner-"));
        assert_eq!(owners.count(), 1, "{names:?}");
        let saved = names.iter().find(|name| name.starts_with("rolehistory-"));
        let saved = saved.ok_or_else(|| format!("{names:?}"))?;
        Ok::<_, String>(format!("{}{service}/{saved}", hdfs.uri()))
    })
}

#[test]
fn a_service_comes_back_by_its_history_in_hdfs_and_runs_without_hdfs() {
    require!(java, hadoop);
    let options = Options {
        node_memory_mb: 4 * SLOT_MB,
        ..Options::default()
    };
    let options = options
        .with("yarn.nodemanager.amrmproxy.enabled", true)
        .with("ipc.client.rpc-timeout.ms", RPC_TIMEOUT_MS);
    let mut lab = Lab::new(&RmKind::Mini(AGENT.into()), options);
    let mut hdfs = Hdfs::start(lab.folder());
    let directory = format!("{}{DIRECTORY}", hdfs.uri());
    lab.set("yarn.nodemanager.agent.role-history.dir", directory);
    let mut stage = Stage::start(&hdfs, lab);

    let (shell, history) = stage.run("first");
    assert_eq!(history["placedOnHistory"], 0, "{history}");
    let uri = wait_saved(&hdfs);
    let shown = stage.show(&uri);
    let table = String::from_utf8_lossy(&shown.stdout);
    assert!(table.contains("running      priority-"), "{shown:?}");
    stage.end("first", shell);

    let mut stage = stage.restart_agent();
    let mut placed = Value::Null;
    for run in 1..=RUNS_MAX {
        let gate = format!("again{run}");
        let (shell, history) = stage.run(&gate);
        stage.end(&gate, shell);
        placed = history;
        if placed["placedOnHistory"] == 1 {
            break;
        }
    }
    assert_eq!(placed["placedOnHistory"], 1, "{placed}");
    assert_eq!(placed["source"], "FILE", "{placed}");

    hdfs.name_node.signal(Signal::SIGSTOP);
    let (shell, history) = stage.run("hangs");
    assert_eq!(history["source"], "LOADING", "{history}");
    stage.end("hangs", shell);
    hdfs.name_node.kill();
    let log = stage.cluster.node.process.log();
    assert!(log.contains("goes on with an empty one"), "{log}");
    let (shell, _) = stage.run("dead");
    stage
        .cluster
        .node
        .process
        .wait_log("the role history is neither loaded nor saved", JOB_DEADLINE);
    stage.end("dead", shell);
    let shown = stage.show(&uri);
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
}
