//! A job that names its service, twice, through a node's AMRMProxy with role histories.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tests::conf::{self, Properties};
use tests::ports::Port;
use tests::process::Process;
use tests::{http, wait};

use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE, ended};

/// Documents of role histories.
const REST: &str = "ws/v1/node/agent/roleHistories";

/// Most runs until one is placed by the history of the run before. An AM waits for its files for
/// 100 ms at most, which a machine that is busy building may take longer for.
const RUNS_MAX: usize = 10;

/// Size of a file that is too large to be a history, in bytes.
const HUGE_BYTES: u64 = 100 << 20;

/// Node with role histories, and the configuration of a client whose master calls the node's
/// proxy. Fields are dropped in this order.
struct Lab {
    cluster: Cluster,
    histories: TempDir,
    /// Attempts of earlier runs.
    seen: Vec<Value>,
}

impl Lab {
    fn start() -> Self {
        let histories = TempDir::new().unwrap();
        let proxy = format!("localhost:{}", Port::reserve().release());
        let mut client = Properties::default();
        let cluster = Cluster::start_with(1, |site| {
            client = site.clone();
            client.set("yarn.resourcemanager.scheduler.address", &proxy);
            site.set("yarn.nodemanager.amrmproxy.enabled", true)
                .set("yarn.nodemanager.amrmproxy.address", &proxy)
                .set(
                    "yarn.nodemanager.agent.role-history.dir",
                    histories.path().display(),
                );
        });
        let core_site = conf::core_site(cluster.folder(), "nobody");
        conf::write(&cluster.folder().join("client"), &core_site, &client);
        Self {
            cluster,
            histories,
            seen: Vec::new(),
        }
    }

    /// Runs a service whose only container waits for a gate, until the container runs.
    fn run(&self, gate: &str) -> Process {
        let command = self.cluster.waiting_command(gate);
        let service = ["--role-history", "search", "--role-history-guaranteed"];
        let mut shell = Command::new(AGENT);
        shell
            .args(["shell", "--conf", "client"])
            .args(service)
            .args(["--", "sh", "-c", &command])
            .current_dir(self.cluster.folder());
        let shell = Process::start(gate, &mut shell, self.cluster.folder());
        self.cluster.wait_waiting(gate, 1);
        shell
    }

    fn end(&self, gate: &str, shell: Process) {
        self.cluster.open(gate);
        let (status, log) = ended(shell);
        assert_eq!(status, Some(0), "{log}");
    }

    /// Waits until the attempt of a new run has placed its container, and returns the service as
    /// REST does.
    fn wait_placed(&mut self) -> Value {
        let placed = wait::until("a placement", DEADLINE, || {
            let all = self.cluster.of_node(0, REST)?;
            let services = all["roleHistories"]["roleHistory"].as_array();
            let mut attempts = services.into_iter().flatten().map(|each| &each["attempt"]);
            let new = attempts.find(|attempt| !self.seen.contains(attempt));
            let attempt = new.and_then(Value::as_str).ok_or("no new attempt")?;
            let details = self.cluster.of_node(0, &format!("{REST}/{attempt}"))?;
            let details = details["roleHistory"].clone();
            match details["placement"][0]["why"].as_str() {
                Some(_) => Ok(details),
                None => Err(details.to_string()),
            }
        });
        self.seen.push(placed["attempt"].clone());
        placed
    }

    /// Returns the newest history of the service.
    fn newest(&self) -> Result<PathBuf, String> {
        let users = fs::read_dir(self.histories.path()).unwrap().flatten();
        let service = users.map(|user| user.path().join("search")).next();
        let files = fs::read_dir(service.ok_or("no user")?);
        let files = files.map_err(|error| error.to_string())?.flatten();
        let files = files.map(|file| file.path());
        let is_history = |path: &PathBuf| path.extension().is_some_and(|it| it == "json");
        files.filter(is_history).max().ok_or("no file".to_owned())
    }

    /// Adds newer files that cannot be loaded.
    fn add_broken_files(&self) {
        let newest = self.newest().unwrap();
        let good = fs::read_to_string(&newest).unwrap();
        let (truncated, _) = good.rsplit_once('}').unwrap();
        let newer = |number: u8| newest.with_file_name(format!("rolehistory-7{number:015x}.json"));
        let foreign = good.replacen("\"version\":1", "\"version\":7", 1);
        for (number, content) in (1..).zip(["", "no history", truncated, &foreign]) {
            fs::write(newer(number), content).unwrap();
        }
        File::create(newer(9)).unwrap().set_len(HUGE_BYTES).unwrap();
    }

    /// Waits until a file of the service is saved and returns its table.
    fn wait_table(&self) -> String {
        wait::until("a saved history", DEADLINE, || {
            let file = self.newest()?;
            let mut show = Command::new(AGENT);
            let output = show.args(["history", "show"]).arg(file).output().unwrap();
            let table = String::from_utf8(output.stdout).unwrap();
            // The file may have been replaced by a newer one.
            wait::check(
                output.status.success() && table.contains("localhost"),
                table,
            )
        })
    }
}

#[test]
fn a_service_comes_back_to_its_node_whatever_files_are_broken_and_the_node_says_why() {
    let mut lab = Lab::start();
    let first = lab.run("first");
    let placed = lab.wait_placed();
    assert_eq!(placed["service"], "search");
    assert_eq!(placed["guaranteed"], true);
    assert_eq!(
        (&placed["placed"], &placed["placedOnHistory"]),
        (&1.into(), &0.into())
    );
    let table = lab.wait_table();
    assert!(table.contains("running      priority-"), "{table}");
    lab.end("first", first);

    lab.add_broken_files();
    let mut placed = Value::Null;
    for run in 1..=RUNS_MAX {
        let gate = format!("again{run}");
        let shell = lab.run(&gate);
        placed = lab.wait_placed();
        let attempt = placed["attempt"].as_str().unwrap();
        let page = http::get(
            &lab.cluster
                .node_url(0, &format!("node/roleHistories/{attempt}")),
        );
        lab.end(&gate, shell);
        if placed["placedOnHistory"] == 1 {
            let why = placed["placement"][0]["why"].as_str().unwrap();
            assert!(why.starts_with("ran here "), "{why}");
            let page = page.unwrap().body;
            assert!(page.contains("localhost: ran here "), "{page}");
            break;
        }
    }
    assert_eq!(placed["placedOnHistory"], 1, "{placed}");
    assert_eq!(placed["source"], "FILE", "{placed}");
    let log = lab.cluster.node_log(0);
    for reason in [
        "the history is empty",
        "line 1 has text that is not a JSON object",
        "is cut off",
        "line 1: version 7 of the history is unknown",
        "the history has 104857600 bytes, more than 67108864",
    ] {
        let mut lines = log.lines();
        let is_said = |line: &str| line.contains("is skipped") && line.contains(reason);
        assert!(lines.any(is_said), "{reason} in {log}");
    }
    lab.cluster.assert_nothing_is_left();
}
