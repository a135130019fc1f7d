//! The agent takes the place of a Java NodeManager on its machine, and gives it back: the same jobs
//! before, between and after, and no file of logs or caches is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use tests::cluster::{JOB_DEADLINE, SLOT_MB, STATE_DEADLINE};
use tests::conf::Options;
use tests::distributed_shell::{self, ContainerType, Job};
use tests::lab::Lab;
use tests::node_logs::ApplicationLogs;
use tests::rm::{ResourceManager, RmKind};
use tests::yarn_daemon::YarnDaemon;
use tests::{http, require, wait};

use crate::AGENT;

/// Program of a node as the kernel names it.
const JAVA: &str = "java";
const OURS: &str = "agent-under-test";

/// A cluster whose node a Java NodeManager is, started by `yarn --daemon`.
struct Machine {
    daemon: YarnDaemon,
    rm: ResourceManager,
    lab: Lab,
}

impl Machine {
    fn start(recovers: bool) -> Self {
        let options = Options {
            node_memory_mb: 4 * SLOT_MB,
            ..Options::default()
        };
        let options = options
            .with("yarn.nodemanager.recovery.enabled", recovers)
            // A job's files in the cache stay after its end.
            .with("yarn.nodemanager.delete.debug-delay-sec", 3600);
        let lab = Lab::new(&RmKind::Hadoop, options);
        let daemon = YarnDaemon::install(lab.node_site("node"));
        let rm = ResourceManager::start(&lab, &RmKind::Hadoop);
        let output = daemon.order("start");
        assert!(output.status.success(), "{output:?}");
        let machine = Self { daemon, rm, lab };
        machine.wait_registered();
        machine
    }

    fn wait_registered(&self) {
        wait::until("the node RUNNING", STATE_DEADLINE, || {
            let nodes = self.rm.nodes()?;
            let is_running = nodes.iter().any(|node| node["state"] == "RUNNING");
            wait::check(is_running, format!("{nodes:?}, {}", self.daemon.output()))
        });
    }

    /// Asserts that the ResourceManager has heard from the Java node that runs.
    #[track_caller]
    fn assert_java_registered(&self) {
        let web = self.daemon.site.ports.web;
        let info = http::get_json(&format!("http://localhost:{web}/ws/v1/node/info")).unwrap();
        let started_ms = info["nodeInfo"]["nmStartupTime"].as_i64().unwrap();
        let nodes = self.rm.nodes().unwrap();
        let is_registered = nodes.iter().any(|node| {
            let heard_ms = node["lastHealthUpdate"].as_i64();
            node["state"] == "RUNNING" && heard_ms.is_some_and(|heard_ms| heard_ms >= started_ms)
        });
        assert!(is_registered, "{nodes:?}, started at {started_ms}");
    }

    fn adopt(&self, arguments: &[&str]) -> Output {
        let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/hadoop/nm-agent.sh");
        let mut command = self.daemon.command(AGENT);
        command
            .arg("adopt")
            .arg("--conf")
            .arg(self.daemon.site.conf());
        command.arg("--profile").arg(profile).args(arguments);
        command.output().unwrap()
    }

    /// Runs it, expects this exit status, and returns both outputs.
    #[track_caller]
    fn adopt_with(&self, arguments: &[&str], status: i32) -> String {
        let output = self.adopt(arguments);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let log = self.daemon.output();
        assert_eq!(output.status.code(), Some(status), "{text}\n{log}");
        text
    }

    /// Runs a job of two containers to its end, and returns what they printed.
    #[track_caller]
    fn run_job(&self, name: &str) -> Vec<String> {
        let job = Job {
            command: "echo $((6 * 7))",
            containers: 2,
            memory_mb: SLOT_MB,
            container_type: ContainerType::Guaranteed,
        };
        let mut client = distributed_shell::start(&self.lab, name, &job);
        let id = client.application_id();
        client.assert_succeeds(JOB_DEADLINE);
        let logs = ApplicationLogs::new(&self.daemon.site.log_dir(), &id);
        let mut printed: Vec<_> = logs.files("stdout").into_values().collect();
        printed.retain(|text| !text.is_empty());
        printed
    }

    /// Returns the bytes of each file of the node's logs and caches, after its containers have
    /// ended.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        wait::until("no containers", STATE_DEADLINE, || {
            let found = tests::proc::containers(&self.daemon.site.folder);
            wait::check(found.is_empty(), format!("{found:?}"))
        });
        let mut files = BTreeMap::new();
        for folder in [self.daemon.site.log_dir(), self.daemon.site.local_dir()] {
            collect(&folder, &mut files);
        }
        files
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
}

#[track_caller]
fn assert_kept(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in before {
        let is_kept = after.get(path) == Some(bytes);
        assert!(is_kept, "{} is gone or has changed", path.display());
    }
}

fn below<'a>(
    files: &'a BTreeMap<PathBuf, Vec<u8>>,
    folder: &Path,
) -> impl Iterator<Item = &'a PathBuf> {
    files.keys().filter(move |path| path.starts_with(folder))
}

#[test]
fn the_same_job_runs_before_between_and_after_and_no_log_and_no_cache_is_lost() {
    require!(java, hadoop);
    let machine = Machine::start(true);
    let site = &machine.daemon.site;
    let printed = machine.run_job("before");
    assert_eq!(printed, ["42\n", "42\n"]);
    let of_java = machine.files();
    assert!(
        below(&of_java, &site.log_dir()).count() >= 4,
        "{:?}",
        of_java.keys()
    );
    let cached = site.local_dir().join("usercache");
    assert!(
        below(&of_java, &cached).count() >= 4,
        "{:?}",
        of_java.keys()
    );

    let pid = machine.daemon.pid();
    let plan = machine.adopt_with(&[], 0);
    for part in [
        &format!("process {pid} of "),
        "`yarn --daemon start nodemanager`, pid file ",
        "yarn-nm-state stays",
        "Nothing was changed. --go does it.",
    ] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    assert_eq!(machine.files(), of_java);
    assert_eq!(
        (machine.daemon.pid(), machine.daemon.program()),
        (pid, JAVA.into())
    );
    assert!(
        machine
            .adopt_with(&["--back"], 2)
            .contains("no record of a --go")
    );

    machine.adopt_with(&["--go"], 0);
    assert_eq!(machine.daemon.program(), OURS);
    assert!(
        machine
            .adopt_with(&["--go"], 2)
            .contains("--back gives it back")
    );
    assert_eq!(machine.run_job("between"), printed);
    let between = machine.files();
    assert_kept(&of_java, &between);
    let of_agent = site.local_dir().join("nm-agent");
    assert!(
        below(&between, &of_agent).count() > 0,
        "{:?}",
        between.keys()
    );

    let said = machine.adopt_with(&["--back"], 0);
    assert!(!said.contains("cannot be told"), "{said}");
    assert_eq!(machine.daemon.program(), JAVA);
    machine.assert_java_registered();
    assert_kept(&between, &machine.files());
    assert_eq!(machine.run_job("after"), printed);
    assert_kept(&between, &machine.files());
    let conf = fs::read_dir(site.conf()).unwrap();
    let names = conf.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let ours: Vec<_> = names
        .filter(|it| it.contains("nm-agent") || it.contains("profile"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn an_agent_that_does_not_register_gives_way_to_the_java_node_which_finds_its_logs() {
    require!(java, hadoop);
    let mut machine = Machine::start(false);
    let printed = machine.run_job("before");
    assert_eq!(printed, ["42\n", "42\n"]);
    let of_java = machine.files();
    let logs = machine.daemon.site.log_dir();
    assert!(below(&of_java, &logs).count() >= 4, "{:?}", of_java.keys());
    // Nobody answers the agent.
    machine.rm.kill();
    let text = machine.adopt_with(&["--go", "--wait-s", "3"], 1);
    assert!(text.contains("has not registered within 3 s"), "{text}");
    assert!(text.contains("went back, as it was before"), "{text}");
    assert!(
        text.contains("the Java node is registered cannot be told"),
        "{text}"
    );
    assert_eq!(machine.daemon.program(), JAVA);
    // A Java node without recovery empties its caches and its logs when it starts.
    let mut kept = of_java;
    kept.retain(|path, _| path.starts_with(&logs));
    assert_kept(&kept, &machine.files());
    assert!(
        machine
            .adopt_with(&["--back"], 2)
            .contains("no record of a --go")
    );
}
