//! Whoever reads the log may go away: the program goes on, and still stops when it is told to.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
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

#[test]
fn a_resource_manager_whose_log_nobody_reads_stops_in_order() {
    let conf = tempfile::tempdir().unwrap();
    std::fs::write(conf.path().join("yarn-site.xml"), SITE).unwrap();
    std::fs::write(conf.path().join("core-site.xml"), "<configuration/>").unwrap();
    let mut rm = Command::new(env!("CARGO_BIN_EXE_nm-agent"))
        .args(["rm", "--conf"])
        .arg(conf.path())
        .env_remove("NM_AGENT_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(rm.stderr.take().unwrap());
    let mut first = String::new();
    log.read_line(&mut first).unwrap();
    assert!(first.contains("serving"), "{first}");
    drop(log);
    let pid = Pid::from_raw(rm.id().try_into().unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let (ended, end) = mpsc::channel();
    let waiting = std::thread::spawn(move || ended.send(rm.wait().unwrap()));
    let status = end.recv_timeout(DEADLINE);
    if status.is_err() {
        kill(pid, Signal::SIGKILL).unwrap();
    }
    waiting.join().unwrap().unwrap();
    assert!(status.expect("it stops").success(), "{status:?}");
}
