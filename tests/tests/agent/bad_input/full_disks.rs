//! What the agent itself writes, on disks that are full or read-only: its state, launches, its own
//! log. Containers' files are the subject of `disks`.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use records::ContainerId;
use test_support::mounts::{bind, set_writable, small_disk, unmount, with_own_mounts};
use test_support::scripted::{Refusal, ScriptedRm};
use test_support::{LaunchContext, write_program};
use tests::conf::Properties;
use tests::gate::Gate;
use tests::node_process::{NodeProcess, node_kind};
use tests::ports::Port;
use tests::scripted_cluster::ScriptedCluster;
use tests::wait;
use wire::exception::HadoopException;

use crate::AGENT;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Bytes of a small disk.
const SMALL: u64 = 16 << 20;

/// Bytes of a variable in a launch context: each is stored, and the store soon needs new pages.
const VARIABLE_BYTES: usize = 100_000;

/// Starts that are tried on a full disk until one is refused: what they would store is more than
/// the disk's size.
const STARTS_MAX: usize = 200;

/// A node with a small disk of its own.
struct Lab {
    cluster: ScriptedCluster,
    disk: PathBuf,
}

impl Lab {
    fn start(base: &Path, change: impl FnOnce(&mut Properties, &Path)) -> Self {
        Self::start_program(Path::new(AGENT), base, change)
    }

    fn start_program(
        program: &Path,
        base: &Path,
        change: impl FnOnce(&mut Properties, &Path),
    ) -> Self {
        let disk = base.join("disk");
        fs::create_dir(&disk).unwrap();
        small_disk(&disk, SMALL);
        let cluster = ScriptedCluster::start_with(program.to_str().unwrap(), |site| {
            site.set("yarn.nodemanager.disk-health-checker.enable", false);
            change(site, &disk);
        });
        Self { cluster, disk }
    }

    /// Starts a node whose containers outlive the agent, with the state on the small disk.
    fn start_with_state(base: &Path) -> Self {
        let port = Port::reserve().release();
        Self::start(base, |site, disk| {
            let state = disk.join("state");
            site.set("yarn.nodemanager.recovery.enabled", true)
                .set("yarn.nodemanager.recovery.dir", state.display())
                .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
        })
    }

    /// Fills the disk to its last byte; returns the file with which it is full.
    fn fill(&self) -> PathBuf {
        let filler = self.disk.join("filler");
        let mut open = OpenOptions::new();
        let mut file = open.append(true).create(true).open(&filler).unwrap();
        let full = loop {
            if let Err(error) = file.write_all(&[1; 4_096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        filler
    }

    /// Starts a container that exits with 3 once the gate is open; returns when its process is
    /// known, also to the next agent.
    fn start_running(&self) -> (ContainerId, Gate) {
        let gate = self.cluster.gate("gate");
        let running = self.cluster.am.run(&gate.then("exit 3"));
        wait::until("a process", DEADLINE, || {
            let count = self.cluster.node.container_processes().len();
            wait::check(count > 0, count)
        });
        let count = self.cluster.rm.with(|tracker| tracker.heartbeat_count);
        self.cluster.rm.wait_heartbeats(count + 2);
        (running, gate)
    }

    /// Tries to start a container with a large launch context.
    fn try_start_large(&self) -> Result<(), Refusal> {
        let am = &self.cluster.am;
        let context = LaunchContext::command("true").env("LARGE", &"x".repeat(VARIABLE_BYTES));
        am.try_start(&am.allocate(), context).map(drop)
    }

    /// Waits until a container starts and succeeds.
    fn wait_serves(&self) {
        let am = &self.cluster.am;
        let id = wait::until("a start", DEADLINE, || {
            am.try_start(&am.allocate(), LaunchContext::command("true"))
                .map_err(|refusal| format!("{refusal:?}"))
        });
        let completed = self.cluster.rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }

    /// Starts the agent again and waits until it serves.
    fn start_again(&mut self) {
        self.start_program_again(Path::new(AGENT));
    }

    fn start_program_again(&mut self, program: &Path) {
        let registrations = self.cluster.rm.with(|tracker| tracker.registrations.len());
        self.cluster.node.start_agent_again(program);
        let (rm, am) = (&self.cluster.rm, &mut self.cluster.am);
        rm.wait_registrations(registrations + 1);
        wait::until("a connection", DEADLINE, || {
            am.reconnect(rm).map_err(|error| error.to_string())
        });
    }

    /// Expects that an agent which is started now ends by itself, with these words in its log.
    #[track_caller]
    fn assert_ends_with(&mut self, words: &[&str]) {
        self.cluster.node.start_agent_again(Path::new(AGENT));
        let status = self.cluster.node.process.wait_exit(DEADLINE);
        let log = self.cluster.node.process.log();
        assert_eq!(status.code(), Some(1), "{log}");
        for word in words {
            assert!(log.contains(word), "no {word:?} in {log}");
        }
        assert!(!log.contains("panicked"), "{log}");
    }
}

fn run(name: &str, test: impl FnOnce(&Path) + Send) {
    let base = tempfile::tempdir().unwrap();
    with_own_mounts(name, || test(base.path()));
}

#[test]
fn a_full_disk_of_the_state_refuses_starts_and_ends_are_reported_all_the_same() {
    let name = "a_full_disk_of_the_state_refuses_starts_and_ends_are_reported_all_the_same";
    run(name, |base| {
        let lab = Lab::start_with_state(base);
        let (running, gate) = lab.start_running();
        let filler = lab.fill();
        let refusal = (0..STARTS_MAX).find_map(|_| lab.try_start_large().err());
        let refusal = refusal.expect("a start cannot be stored");
        assert!(refusal.is(HadoopException::YarnException), "{refusal:?}");
        let text = format!("{refusal:?}");
        assert!(
            text.contains("the node's state cannot be written"),
            "{text}"
        );
        gate.open();
        let completed = lab.cluster.rm.wait_completed(running);
        assert_eq!(completed.exit_status, 3, "{completed:?}");
        fs::remove_file(filler).unwrap();
        lab.wait_serves();
    });
}

#[test]
fn a_first_start_without_room_for_the_state_says_so() {
    let name = "a_first_start_without_room_for_the_state_says_so";
    run(name, |base| {
        small_disk(base, SMALL / 16);
        let rm = ScriptedRm::start();
        let port = Port::reserve().release();
        let mut node = NodeProcess::start(&node_kind(AGENT), &rm, |site| {
            site.set("yarn.nodemanager.recovery.enabled", true)
                .set("yarn.nodemanager.recovery.dir", base.display())
                .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
        });
        let status = node.process.wait_exit(DEADLINE);
        let log = node.process.log();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains(base.to_str().unwrap()), "{log}");
        assert!(log.contains("No space left on device"), "{log}");
    });
}

#[test]
fn an_agent_that_is_told_to_stop_on_a_full_disk_ends_in_order() {
    let name = "an_agent_that_is_told_to_stop_on_a_full_disk_ends_in_order";
    run(name, |base| {
        let mut lab = Lab::start_with_state(base);
        let _running = lab.start_running();
        let _filler = lab.fill();
        let refused = (0..STARTS_MAX).any(|_| lab.try_start_large().is_err());
        assert!(refused, "a start cannot be stored");
        let node = &mut lab.cluster.node;
        node.process.terminate();
        let status = node.process.wait_exit(DEADLINE);
        assert_eq!(status.code(), Some(0), "{}", node.process.log());
        assert!(node.container_processes().is_empty());
    });
}

#[test]
fn an_agent_that_is_killed_on_a_full_disk_says_so_and_loses_no_container() {
    let name = "an_agent_that_is_killed_on_a_full_disk_says_so_and_loses_no_container";
    run(name, |base| {
        let mut lab = Lab::start_with_state(base);
        let (running, gate) = lab.start_running();
        let filler = lab.fill();
        lab.cluster.node.process.kill();
        lab.assert_ends_with(&["No space left on device"]);
        gate.open();
        fs::remove_file(filler).unwrap();
        lab.start_again();
        let completed = lab.cluster.rm.wait_completed(running);
        assert_eq!(completed.exit_status, 3, "{completed:?}");
        lab.wait_serves();
    });
}

#[test]
fn an_agent_whose_state_is_on_a_read_only_disk_says_so_and_loses_no_container() {
    let name = "an_agent_whose_state_is_on_a_read_only_disk_says_so_and_loses_no_container";
    run(name, |base| {
        let mut lab = Lab::start_with_state(base);
        let (running, gate) = lab.start_running();
        lab.cluster.node.process.kill();
        // On top, since the keeper of the container has files on the disk open.
        bind(&lab.disk, &lab.disk);
        set_writable(&lab.disk, false);
        lab.assert_ends_with(&["Read-only file system"]);
        unmount(&lab.disk);
        gate.open();
        lab.start_again();
        let completed = lab.cluster.rm.wait_completed(running);
        assert_eq!(completed.exit_status, 3, "{completed:?}");
        lab.wait_serves();
    });
}

/// Where directories are not checked before, each file of a launch may be the one that fails.
#[test]
fn a_launch_on_a_full_or_read_only_disk_fails_with_the_file_and_the_next_one_succeeds() {
    let name = "a_launch_on_a_full_or_read_only_disk_fails_with_the_file_and_the_next_one_succeeds";
    run(name, |base| {
        let lab = Lab::start(base, |site, disk| {
            site.set("yarn.nodemanager.local-dirs", disk.join("local").display());
        });
        lab.cluster.assert_serves();
        let fails_with = |words: &str| {
            let am = &lab.cluster.am;
            let id = am.run("true");
            let completed = lab.cluster.rm.wait_completed(id);
            assert_ne!(completed.exit_status, 0, "{completed:?}");
            let text = &completed.diagnostics;
            assert!(text.contains(words), "no {words:?} in {text}");
            let folder = lab.disk.join("local");
            assert!(text.contains(folder.to_str().unwrap()), "{text}");
        };
        let filler = lab.fill();
        fails_with("No space left on device");
        fs::remove_file(filler).unwrap();
        lab.cluster.assert_serves();
        set_writable(&lab.disk, false);
        fails_with("Read-only file system");
        set_writable(&lab.disk, true);
        lab.cluster.assert_serves();
    });
}

/// The keeper's standard error, and the agent's, are often a file.
#[test]
fn a_log_that_takes_nothing_ends_no_part_of_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("agent");
    let text = format!("#!/bin/bash\nexec '{AGENT}' \"$@\" > /dev/full 2> /dev/full\n");
    write_program(&script, &text);
    let port = Port::reserve().release();
    let cluster = ScriptedCluster::start_with(script.to_str().unwrap(), |site| {
        site.set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    });
    cluster.assert_serves();
}

/// Hadoop's scripts have the agent write its log beside the file of its standard output.
#[test]
fn a_log_file_on_a_full_or_read_only_disk_keeps_no_agent_from_serving() {
    let name = "a_log_file_on_a_full_or_read_only_disk_keeps_no_agent_from_serving";
    run(name, |base| {
        let script = base.join("agent");
        let log = base.join("disk/nm.log");
        let text = format!(
            "#!/bin/bash\nexport NM_AGENT_LOG_FILE='{}'\nexec '{AGENT}' \"$@\"\n",
            log.display()
        );
        write_program(&script, &text);
        let port = Port::reserve().release();
        let mut lab = Lab::start_program(&script, base, |site, _| {
            site.set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
        });
        lab.cluster.assert_serves();
        let filler = lab.fill();
        lab.cluster.assert_serves();
        let before = fs::read_to_string(&log).unwrap();
        fs::remove_file(filler).unwrap();
        lab.cluster.assert_serves();
        wait::until("lines behind those before", DEADLINE, || {
            let now = fs::read_to_string(&log).unwrap();
            wait::check(now.len() > before.len() && now.starts_with(&before), now)
        });
        lab.cluster.node.process.kill();
        set_writable(&lab.disk, false);
        lab.start_program_again(&script);
        lab.cluster.assert_serves();
        let told = lab.cluster.node.process.log();
        let said = format!("{} (NM_AGENT_LOG_FILE) cannot be written", log.display());
        assert!(told.contains(&said), "{told}");
    });
}

/// A service manager decides by the exit status whether it starts the agent again.
#[test]
fn a_message_that_cannot_be_written_changes_no_exit_status() {
    let conf = tempfile::tempdir().unwrap();
    fs::write(conf.path().join("yarn-site.xml"), "<configuration>").unwrap();
    for command in ["run", "rm"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut agent = Command::new(AGENT);
        let agent = agent.arg(command).arg("--conf").arg(conf.path());
        let status = agent.stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(2), "{command}");
    }
}
