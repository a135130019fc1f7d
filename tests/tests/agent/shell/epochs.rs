//! Containers that a node's own allocator gave out, in the first two epochs of a ResourceManager.
//! Their ids are negative in epoch 0, and their text has no sign. Whatever names them by text finds
//! them, over a restart too, and their logs are uploaded once.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::conf::{self, Properties};
use tests::ports::Port;
use tests::process::Process;
use tests::{files, http, proc, wait};

use crate::AGENT;
use crate::shell::cluster::{Cluster, DEADLINE, ended};

/// Containers of the job: two run and one waits.
const JOB: [&str; 6] = ["--type", "opportunistic", "-n", "3", "--memory", "512"];

/// Number from which a node's allocator counts down, as texts have it.
const NUMBERS: i64 = 1 << 40;

/// Node that allocates the containers of its AMs, uploads logs, and recovers.
struct Lab {
    cluster: Cluster,
}

impl Lab {
    fn start(epoch: u32) -> Self {
        let proxy = format!("localhost:{}", Port::reserve().release());
        let mut client = Properties::default();
        let mut cluster = Cluster::start_with(0, |site| {
            site.set("yarn.resourcemanager.epoch", epoch)
                .set("yarn.nodemanager.distributed-scheduling.enabled", true);
            client = site.clone();
            client.set("yarn.resourcemanager.scheduler.address", &proxy);
        });
        let core_site = conf::core_site(cluster.folder(), "nobody");
        conf::write(&cluster.folder().join("client"), &core_site, &client);
        let folder = cluster.folder().to_owned();
        let change = |site: &mut Properties| {
            let remote = format!("file://{}", folder.join("remote").display());
            site.set("yarn.nodemanager.amrmproxy.enabled", true)
                .set("yarn.nodemanager.amrmproxy.address", &proxy)
                .set("yarn.nodemanager.recovery.enabled", true)
                .set(
                    "yarn.nodemanager.recovery.dir",
                    folder.join("recovery").display(),
                )
                .set("yarn.log-aggregation-enable", true)
                .set("yarn.nodemanager.remote-app-log-dir", remote);
        };
        cluster.add_node(change, &[]);
        cluster.wait_nodes(1);
        Self { cluster }
    }

    /// Starts the job. Each container writes a line, leaves a process in a session of its own, and
    /// waits for the gate.
    fn submit(&self) -> Process {
        let wait = self.cluster.waiting_command("gate");
        let command = format!("echo line-$YARN_SHELL_ID; setsid sleep 6000 & {wait}");
        let mut shell = Command::new(AGENT);
        shell
            .args(["shell", "--conf", "client"])
            .args(JOB)
            .args(["--", "sh", "-c", &command])
            .current_dir(self.cluster.folder());
        let shell = Process::start("job", &mut shell, self.cluster.folder());
        self.cluster.wait_waiting("gate", 2);
        shell
    }

    /// Returns the names of the job's containers as the node prints them, once there are three: two
    /// that run, and one that waits.
    fn names(&self) -> (Vec<String>, String) {
        wait::until("two that run and one that waits", DEADLINE, || {
            let running = self.cluster.of_node(0, "live.json")?["running"].clone();
            let containers = running["containers"].as_array().cloned();
            let of_job = containers.unwrap_or_default().into_iter();
            let of_job = of_job.filter(|each| each["execution_type"] == "OPPORTUNISTIC");
            let names: Vec<String> = of_job.map(|each| name_of(&each)).collect();
            let queue = self.queue()?;
            match queue["containers"].as_array().map(Vec::as_slice) {
                Some([waits]) if names.len() == 2 => Ok((names, name_of(waits))),
                _ => Err(format!("{running} {queue}")),
            }
        })
    }

    fn queue(&self) -> Result<Value, String> {
        let output = self.cluster.operate(0, "queue", &["--json"]);
        let error = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).map_err(|_| error.into_owned())
    }

    /// Asserts that commands, pages and REST know the container of this name in this state.
    #[track_caller]
    fn assert_known(&self, name: &str, state: &str) {
        let explained = self.cluster.operate(0, "explain", &[name]);
        let error = String::from_utf8_lossy(&explained.stderr);
        assert!(explained.status.success(), "{error}");
        let rest = format!("ws/v1/node/containers/{name}");
        let answer = self.cluster.of_node(0, &rest).unwrap();
        assert_eq!(answer["container"]["id"], name, "{answer}");
        assert_eq!(answer["container"]["state"], state, "{answer}");
        let page = self.cluster.node_url(0, &format!("node/container/{name}"));
        let page = http::get(&page).unwrap();
        assert!(page.body.contains("OPPORTUNISTIC"), "{}", page.body);
    }

    /// Returns the standard output of the container of this name as its page shows it.
    fn log(&self, name: &str) -> String {
        let path = format!("ws/v1/node/containers/{name}/logs/stdout");
        http::get(&self.cluster.node_url(0, &path)).unwrap().body
    }

    /// Waits until all logs are uploaded and none is left here; returns the uploaded bytes as text.
    fn uploaded(&self) -> String {
        let logs = self.cluster.folder().join("node0/logs");
        wait::until("the upload of all logs", DEADLINE, || {
            let left = files::below(&logs);
            wait::check(left.is_empty(), format!("{left:?}"))
        });
        let found = files::aggregated_below(&self.cluster.folder().join("remote"));
        let contents = found.iter().map(|file| fs::read(file).unwrap());
        String::from_utf8_lossy(&contents.collect::<Vec<_>>().concat()).into_owned()
    }
}

/// Returns the name of a container in a document.
fn name_of(container: &Value) -> String {
    container["container"].as_str().unwrap_or("?").to_owned()
}

/// Returns the processes that wait for the gate, by their containers.
fn waiting(folder: &Path) -> Vec<(String, i32)> {
    let found = proc::containers(folder).into_iter();
    let found = found.filter(|found| found.command.contains("setsid"));
    let mut waiting: Vec<(String, i32)> = found
        .filter_map(|found| Some((found.container_id?, found.pid)))
        .collect();
    waiting.sort();
    waiting
}

fn containers_of_a_nodes_allocator_are_found_by_their_names(epoch: u32) {
    let mut lab = Lab::start(epoch);
    let job = lab.submit();
    let (running, queued) = lab.names();
    for name in running.iter().chain([&queued]) {
        let number = name.rsplit('_').next().unwrap().parse::<i64>().unwrap();
        assert!((NUMBERS - 10..NUMBERS).contains(&number), "{name}");
    }
    for name in &running {
        lab.assert_known(name, "RUNNING");
        assert!(lab.log(name).contains("\nline-"), "{}", lab.log(name));
    }
    lab.assert_known(&queued, "SCHEDULED");

    let before = waiting(lab.cluster.folder());
    lab.cluster.crash_node(0);
    let after = lab.names();
    assert_eq!(after, (running.clone(), queued.clone()));
    assert_eq!(waiting(lab.cluster.folder()), before, "the same processes");
    for name in &running {
        lab.assert_known(name, "RUNNING");
    }
    lab.assert_known(&queued, "SCHEDULED");

    lab.cluster.open("gate");
    let (status, log) = ended(job);
    assert_eq!(status, Some(0), "{log}");
    lab.cluster.assert_no_process_is_left();
    let uploaded = lab.uploaded();
    for line in ["line-1\n", "line-2\n", "line-3\n"] {
        assert_eq!(uploaded.matches(line).count(), 1, "{line} in {uploaded}");
    }
}

#[test]
fn containers_of_a_nodes_allocator_are_found_by_their_names_in_the_first_epoch() {
    containers_of_a_nodes_allocator_are_found_by_their_names(0);
}

#[test]
fn containers_of_a_nodes_allocator_are_found_by_their_names_in_a_later_epoch() {
    containers_of_a_nodes_allocator_are_found_by_their_names(1);
}
