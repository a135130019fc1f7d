//! The agent where Hadoop's scripts start the NodeManager, by the shell profile of the packages.
//! The scripts are a stand-in that keeps what Hadoop's documentation promises to profiles.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail with the test")]

mod adopt;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use test_support::scripted::ScriptedRm;
use tests::conf::Properties;
use tests::{proc, wait};

use crate::AGENT;

const DEADLINE: Duration = Duration::from_secs(60);

/// A machine with Hadoop's configuration.
struct Machine {
    folder: TempDir,
}

/// Returns the shell profile of the packages.
fn profile() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/hadoop/nm-agent.sh")
}

impl Machine {
    fn new(rm: &ScriptedRm) -> Self {
        let machine = Self::without_profile(rm);
        fs::create_dir(machine.path("conf/shellprofile.d")).unwrap();
        let link = machine.path("conf/shellprofile.d/nm-agent.sh");
        std::os::unix::fs::symlink(profile(), link).unwrap();
        machine
    }

    /// Makes a machine on which the profile is not linked.
    fn without_profile(rm: &ScriptedRm) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        for name in ["conf", "pids", "logs"] {
            fs::create_dir_all(machine.path(name)).unwrap();
        }
        let mut site = Properties::default();
        site.set(
            "yarn.resourcemanager.resource-tracker.address",
            rm.address(),
        )
        .set("yarn.nodemanager.address", "127.0.0.1:0")
        .set("yarn.nodemanager.webapp.address", "127.0.0.1:0")
        .set(
            "yarn.nodemanager.local-dirs",
            machine.path("local").display(),
        )
        .set(
            "yarn.nodemanager.log-dirs",
            machine.path("userlogs").display(),
        )
        .set(
            "yarn.nodemanager.agent.admin.socket",
            machine.path("admin").display(),
        )
        .set("yarn.nodemanager.disk-health-checker.enable", false);
        fs::write(machine.path("conf/yarn-site.xml"), site.to_xml()).unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the stand-in with these arguments; `change` may change its environment.
    fn yarn(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/yarn_stand_in.sh");
        let mut command = Command::new("bash");
        command
            .arg(script)
            .arg("--config")
            .arg(self.path("conf"))
            .args(arguments)
            .env("NM_AGENT", AGENT)
            .env("HADOOP_PID_DIR", self.path("pids"))
            .env("HADOOP_LOG_DIR", self.path("logs"))
            .env_remove("JAVA_HOME")
            .env_remove("HADOOP_CONF_DIR")
            .env_remove("NM_AGENT_LOG");
        change(&mut command);
        command.output().unwrap()
    }

    #[track_caller]
    fn daemon(&self, mode: &str, status: i32) -> String {
        let output = self.yarn(&["--daemon", mode, "nodemanager"], |_| {});
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{mode}: {text}");
        text
    }

    fn log(&self) -> String {
        let logs = fs::read_dir(self.path("logs")).unwrap();
        let mut logs = logs.map(|entry| entry.unwrap().path());
        let log = logs.find(|path| path.extension().is_some_and(|it| it == "log"));
        log.map_or_else(String::new, |path| fs::read_to_string(path).unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        proc::kill_mentioning(self.folder.path());
    }
}

#[test]
fn hadoops_daemon_commands_start_ask_and_stop_the_agent() {
    let rm = ScriptedRm::start();
    let machine = Machine::new(&rm);
    machine.daemon("status", 3);
    let warning = machine.daemon("start", 0);
    assert!(warning.contains("WARNING: there is no Java"), "{warning}");
    rm.wait_registered();
    assert_eq!(machine.daemon("status", 0), "");
    let pid = fs::read_to_string(machine.path("pids/hadoop-somebody-nodemanager.pid")).unwrap();
    let refusal = machine.daemon("start", 1);
    assert!(
        refusal.contains(&format!("running as process {}", pid.trim())),
        "{refusal}"
    );
    wait::until("the log", DEADLINE, || {
        wait::check(machine.log().contains("registered"), machine.log())
    });
    machine.daemon("stop", 0);
    machine.daemon("status", 3);
    assert!(machine.log().contains("stopped"), "{}", machine.log());
    let left = proc::mentioning(machine.folder.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_pid_file_of_another_process_keeps_no_agent_from_starting() {
    let rm = ScriptedRm::start();
    let machine = Machine::new(&rm);
    let file = machine.path("pids/hadoop-somebody-nodemanager.pid");
    let own = std::process::id().to_string();
    for content in [own.as_str(), "999999999", "no number"] {
        fs::write(&file, content).unwrap();
        machine.daemon("status", 1);
    }
    machine.daemon("start", 0);
    rm.wait_registered();
    machine.daemon("status", 0);
    machine.daemon("stop", 0);
}

#[test]
fn a_log_file_that_cannot_be_written_keeps_no_agent_from_starting() {
    let rm = ScriptedRm::start();
    let machine = Machine::new(&rm);
    let output = machine.yarn(&["--daemon", "start", "nodemanager"], |command| {
        command.env("NM_AGENT_LOG_FILE", "/dev/null/log");
    });
    assert!(output.status.success());
    rm.wait_registered();
    let text = fs::read_to_string(machine.path("logs/hadoop-somebody-nodemanager.out")).unwrap();
    assert!(
        text.contains("/dev/null/log (NM_AGENT_LOG_FILE) cannot be written"),
        "{text}"
    );
    machine.daemon("stop", 0);
}

#[test]
fn other_commands_stay_hadoops_and_a_missing_program_is_named() {
    let rm = ScriptedRm::start();
    let machine = Machine::new(&rm);
    let output = machine.yarn(&["--daemon", "start", "sleeper"], |_| {});
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("ERROR: JAVA_HOME is not set"), "{text}");
    let output = machine.yarn(&["--daemon", "start", "nodemanager"], |command| {
        command.env("NM_AGENT", "/nowhere/nm-agent");
    });
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("/nowhere/nm-agent is not a program"),
        "{text}"
    );
}
