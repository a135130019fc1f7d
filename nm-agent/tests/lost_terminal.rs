//! The terminal that the program was started from may go away, and with it whoever reads the log.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const DEADLINE: Duration = Duration::from_secs(30);

const SITE: &str = "<configuration>\
    <property><name>yarn.resourcemanager.address</name><value>127.0.0.1:0</value></property>\
    <property><name>yarn.resourcemanager.scheduler.address</name><value>127.0.0.1:0</value></property>\
    <property><name>yarn.resourcemanager.resource-tracker.address</name><value>127.0.0.1:0</value></property>\
    <property><name>yarn.resourcemanager.webapp.address</name><value>127.0.0.1:0</value></property>\
    </configuration>";

/// A process that does not outlive its test, however that ends: it would hold the test's output.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A running ResourceManager.
struct Rm {
    process: Ended,
    log: Option<BufReader<ChildStderr>>,
    _conf: tempfile::TempDir,
}

impl Rm {
    /// Starts one by `env` with this option, and waits until it serves. Under `nohup` these tests
    /// ignore SIGHUP, and so would what they start.
    fn start(hang_up: &str) -> Self {
        let conf = tempfile::tempdir().unwrap();
        std::fs::write(conf.path().join("yarn-site.xml"), SITE).unwrap();
        std::fs::write(conf.path().join("core-site.xml"), "<configuration/>").unwrap();
        let process = Command::new("env")
            .args([hang_up, env!("CARGO_BIN_EXE_nm-agent"), "rm", "--conf"])
            .arg(conf.path())
            .env_remove("NM_AGENT_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut process = Ended(process);
        let mut log = BufReader::new(process.0.stderr.take().unwrap());
        let mut begin = String::new();
        while !begin.contains("serving") {
            let count = log.read_line(&mut begin).unwrap();
            assert!(count > 0, "it ended: {begin}");
        }
        Self {
            process,
            log: Some(log),
            _conf: conf,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.0.id().try_into().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for its end; the status and the rest of the log.
    fn end(self) -> (ExitStatus, String) {
        let pid = self.pid();
        let mut process = self.process;
        let (ended, end) = mpsc::channel();
        let waiting = std::thread::spawn(move || ended.send(process.0.wait().unwrap()));
        let status = end.recv_timeout(DEADLINE);
        if status.is_err() {
            kill(pid, Signal::SIGKILL).unwrap();
        }
        waiting.join().unwrap().unwrap();
        let mut rest = String::new();
        if let Some(mut log) = self.log {
            log.read_to_string(&mut rest).unwrap();
        }
        (status.expect("it stops"), rest)
    }
}

#[test]
fn a_resource_manager_whose_log_nobody_reads_stops_in_order() {
    let mut rm = Rm::start("--default-signal=HUP");
    drop(rm.log.take());
    rm.signal(Signal::SIGTERM);
    let (status, _) = rm.end();
    assert!(status.success(), "{status}");
}

#[test]
fn a_resource_manager_that_is_hung_up_stops_in_order() {
    let rm = Rm::start("--default-signal=HUP");
    rm.signal(Signal::SIGHUP);
    let (status, log) = rm.end();
    assert!(status.success(), "{status}\n{log}");
    assert!(log.contains("SIGHUP: stopping"), "{log}");
}

#[test]
fn a_resource_manager_that_was_started_to_ignore_its_terminals_end_outlives_it() {
    let rm = Rm::start("--ignore-signal=HUP");
    rm.signal(Signal::SIGHUP);
    rm.signal(Signal::SIGTERM);
    let (status, log) = rm.end();
    assert!(status.success(), "{status}\n{log}");
    assert!(log.contains("SIGTERM: stopping"), "{log}");
    assert!(!log.contains("SIGHUP"), "{log}");
}
