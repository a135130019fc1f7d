//! The agent as a service of systemd, with the unit that is installed. In the guest only: a unit
//! belongs to the machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::conf::{self, NodePorts, Options, Properties};
use tests::ports::Port;
use tests::{guest, proc, wait};

use crate::stories::DEADLINE;

const UNIT: &str = "nm-agent.service";
const UNIT_TEXT: &str = include_str!("../../../systemd/nm-agent.service");
/// Unit of the containers' cgroup.
const CONTAINERS: &str = "nm-agent-containers.service";
const CONTAINERS_TEXT: &str = include_str!("../../../systemd/nm-agent-containers.service");
const SLICE_TEXT: &str = include_str!("../../../systemd/nmagent.slice");

/// Folder of the node's files, which the unit makes for its user.
const FOLDER: &str = "/var/lib/nm-agent";
const CONF: &str = "/etc/nm-agent-test";

/// Command of a container that does not end.
const SLEEP: &str = "sleep 86399";

/// Pause between two connections of a client, so that those that wait for an agent that starts fit
/// into the queues of its sockets.
const CLIENT_PAUSE: Duration = Duration::from_millis(50);

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let journal = ["-u", UNIT, "-n", "60", "--no-pager", "-o", "cat"];
        let journal = Command::new("journalctl").args(journal).output().unwrap();
        let journal = String::from_utf8_lossy(&journal.stdout).into_owned();
        panic!("{program} {arguments:?}: {text}{errors}\n{journal}");
    }
    text
}

/// The agent's unit, installed and running. Ended and removed when dropped.
struct Service {
    rm: ScriptedRm,
    ports: [u16; 4],
}

impl Service {
    /// Installs the unit for a node with recovery, and starts it. `drop_in` is the unit's drop-in.
    fn start(drop_in: &str, change: impl FnOnce(&mut Properties)) -> Self {
        let rm = ScriptedRm::start();
        let ports = [(); 4].map(|()| Port::reserve().release());
        if !Command::new("id")
            .arg("yarn")
            .output()
            .unwrap()
            .status
            .success()
        {
            run("useradd", &["--system", "yarn"]);
        }
        write_conf(rm.address().port(), ports, change);
        fs::copy("/job/agent", "/usr/bin/nm-agent").unwrap();
        let units = Path::new("/etc/systemd/system");
        fs::write(units.join(UNIT), UNIT_TEXT).unwrap();
        fs::write(units.join(CONTAINERS), CONTAINERS_TEXT).unwrap();
        fs::write(units.join("nmagent.slice"), SLICE_TEXT).unwrap();
        let drop_ins = units.join("nm-agent.service.d");
        fs::create_dir_all(&drop_ins).unwrap();
        fs::write(drop_ins.join("test.conf"), drop_in).unwrap();
        fs::write("/etc/default/nm-agent", format!("HADOOP_CONF_DIR={CONF}\n")).unwrap();
        run("systemctl", &["daemon-reload"]);
        run("systemctl", &["start", UNIT]);
        Self { rm, ports }
    }

    /// Returns a property of the unit.
    fn shows(property: &str) -> String {
        let shown = run("systemctl", &["show", "--value", "-p", property, UNIT]);
        shown.trim().to_owned()
    }

    fn wait_shows(property: &str, expected: &str) {
        wait::until(format!("{property} of the unit"), DEADLINE, || {
            let shown = Self::shows(property);
            wait::check(shown.contains(expected), shown)
        });
    }

    /// Returns the processes in a unit's control group, one in a line.
    fn processes(unit: &str) -> String {
        let group = Path::new("/sys/fs/cgroup/nmagent.slice").join(unit);
        match fs::read_to_string(group.join("cgroup.procs")) {
            Ok(processes) => processes,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => panic!("{}: {error}", group.display()),
        }
    }

    /// Returns the processes of containers that execute the program of [`SLEEP`] by now. While a
    /// process executes another program it has no command line, so bash before it does not count.
    fn sleepers(&self) -> BTreeSet<i32> {
        let found = proc::containers(Path::new(FOLDER)).into_iter();
        let found = found.filter(|found| found.command.trim_end() == SLEEP);
        found.map(|found| found.pid).collect()
    }

    /// Starts two containers and returns their processes.
    fn two_sleepers(&self, am: &ScriptedAm) -> BTreeSet<i32> {
        for allocation in [am.first(), am.allocate()] {
            am.start(&allocation, &format!("exec {SLEEP}"));
        }
        wait::until("the containers", DEADLINE, || match self.sleepers() {
            sleepers if sleepers.len() == 2 => Ok(sleepers),
            sleepers => Err(format!("{sleepers:?}")),
        })
    }

    /// Returns the pid of the agent below front and keeper.
    fn agent() -> Pid {
        let front = Self::shows("MainPID").parse().unwrap();
        Pid::from_raw(proc::agent_below(front).cast_signed())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let show = |arguments: &[&str]| {
            let output = Command::new("journalctl").args(arguments).output().unwrap();
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        };
        if thread::panicking() {
            let last = ["-n", "200", "--no-pager"];
            show(&[&["-u", UNIT, "-u", CONTAINERS][..], &last].concat());
        }
        for arguments in [
            &["stop", UNIT][..],
            &["stop", CONTAINERS],
            &["kill", "-s", "KILL", UNIT],
            &["reset-failed", UNIT],
        ] {
            let _ended = Command::new("systemctl").args(arguments).output().unwrap();
        }
        let _removed = fs::remove_dir_all(FOLDER);
    }
}

fn write_conf(rm_port: u16, ports: [u16; 4], change: impl FnOnce(&mut Properties)) {
    let [container_management, web, amrm_proxy, shuffle] = ports;
    let ports = NodePorts {
        container_management,
        localizer: 0,
        web,
        amrm_proxy,
    };
    let mut site = Properties::default();
    let options = Options {
        node_memory_mb: 1024,
        ..Options::default()
    };
    conf::node_site(&mut site, "127.0.0.1", Path::new(FOLDER), ports, &options);
    let tracker = "yarn.resourcemanager.resource-tracker.address";
    site.set(tracker, format!("127.0.0.1:{rm_port}"))
        .set("yarn.resourcemanager.connect.retry-interval.ms", 1000)
        .set("yarn.nodemanager.recovery.enabled", true)
        .set("yarn.nodemanager.recovery.supervised", true)
        .set("yarn.nodemanager.amrmproxy.enabled", true)
        .set("yarn.nodemanager.aux-services", "mapreduce_shuffle")
        .set("mapreduce.shuffle.port", shuffle);
    change(&mut site);
    let conf = PathBuf::from(CONF);
    fs::create_dir_all(&conf).unwrap();
    conf::write(&conf, &conf::core_site(Path::new(FOLDER), "yarn"), &site);
}

/// A client that connects to all ports all the time.
struct Client {
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    thread: JoinHandle<Vec<String>>,
}

impl Client {
    fn start(ports: [u16; 4]) -> Self {
        let (stop, connections) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (ends, made) = (Arc::clone(&stop), Arc::clone(&connections));
        let thread = thread::spawn(move || {
            let mut failed = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                for port in ports {
                    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                    match TcpStream::connect_timeout(&address, DEADLINE) {
                        Ok(_) => drop(made.fetch_add(1, Ordering::Relaxed)),
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                            failed.push(format!("{port} refused a connection"));
                        }
                        Err(error) => failed.push(format!("{port}: {error}")),
                    }
                }
                thread::sleep(CLIENT_PAUSE);
            }
            failed
        });
        Self {
            stop,
            connections,
            thread,
        }
    }

    /// Waits until each port has been connected to once more.
    fn wait_for_more(&self) {
        let before = self.connections.load(Ordering::Relaxed);
        wait::until("further connections", DEADLINE, || {
            let now = self.connections.load(Ordering::Relaxed);
            wait::check(now >= before + 8, now)
        });
    }

    /// Returns the connections made; asserts that none failed.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.thread.join().unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        self.connections.load(Ordering::Relaxed)
    }
}

#[test]
fn a_service_that_is_restarted_or_hangs_keeps_its_containers_and_refuses_no_connection() {
    if !guest::is_here() {
        return;
    }
    let drop_in = "[Service]\nWatchdogSec=8s\n";
    let service = Service::start(drop_in, |_| {});
    assert_eq!(Service::shows("ActiveState"), "active", "after READY");
    let am = ScriptedAm::connect(&service.rm, 1);
    Service::wait_shows(
        "StatusText",
        "0 running (0 guaranteed, 0 opportunistic), 0 queued; registered",
    );
    Service::wait_shows("NFileDescriptorStore", "4");
    let before = service.two_sleepers(&am);
    let sleepers = || service.sleepers();
    Service::wait_shows(
        "StatusText",
        "2 running (2 guaranteed, 0 opportunistic), 0 queued; registered",
    );
    for pid in &before {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let class = format!("/nmagent.slice/{CONTAINERS}/containers/guaranteed/");
        assert!(cgroup.contains(&class), "{cgroup}");
    }
    let client = Client::start(service.ports);
    client.wait_for_more();

    run("systemctl", &["restart", UNIT]);
    service.rm.wait_registrations(2);
    Service::wait_shows("StatusText", "2 running");
    client.wait_for_more();
    assert_eq!(sleepers(), before, "after a restart");

    kill(Service::agent(), Signal::SIGSTOP).unwrap();
    service.rm.wait_registrations(3);
    Service::wait_shows("NRestarts", "1");
    Service::wait_shows("StatusText", "2 running");
    client.wait_for_more();
    assert_eq!(sleepers(), before, "after the watchdog");

    kill(Service::agent(), Signal::SIGKILL).unwrap();
    service.rm.wait_registrations(4);
    Service::wait_shows("NRestarts", "2");
    Service::wait_shows("StatusText", "2 running");
    client.wait_for_more();
    assert_eq!(sleepers(), before, "after a kill");
    let connections = client.end();
    eprintln!("{connections} connections over three restarts, none of them refused");
    assert_eq!(Service::shows("NFileDescriptorStore"), "4");

    let security = run("systemd-analyze", &["security", "--no-pager", UNIT]);
    let score = security
        .lines()
        .rev()
        .find(|line| line.contains("exposure level"));
    eprintln!(
        "systemd-analyze security: {}",
        score.unwrap_or(&security).trim()
    );
}

#[test]
fn a_stop_leaves_containers_and_a_stop_of_their_own_service_ends_them() {
    if !guest::is_here() {
        return;
    }
    let service = Service::start("", |_| {});
    let am = ScriptedAm::connect(&service.rm, 1);
    let before = service.two_sleepers(&am);

    run("systemctl", &["stop", UNIT]);
    assert_eq!(Service::shows("ActiveState"), "inactive");
    assert_eq!(Service::processes(UNIT), "", "beside the containers");
    assert_eq!(service.sleepers(), before, "after a stop");
    run("systemctl", &["stop", CONTAINERS]);
    assert_eq!(service.sleepers(), BTreeSet::new());
    assert_eq!(Service::processes(CONTAINERS), "");

    run("systemctl", &["start", UNIT]);
    service.rm.wait_registrations(2);
    let main = ["show", "--value", "-p", "MainPID", CONTAINERS];
    let holder = Pid::from_raw(run("systemctl", &main).trim().parse().unwrap());
    kill(holder, Signal::SIGKILL).unwrap();
    service.rm.wait_registrations(3);
    Service::wait_shows("StatusText", "0 running");
}
