//! Disks that fill up, fail and return while containers run, on real file systems of each test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use test_support::mounts::{set_writable, small_disk, unmount, with_own_mounts};
use test_support::scripted::Completed;
use test_support::{LaunchContext, current_user};
use tests::conf::Properties;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, wait};

use crate::AGENT;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Bytes of a small disk: more than a download leaves free.
const SMALL: u64 = 96 << 20;

const CHECKER: &str = "yarn.nodemanager.disk-health-checker";

/// A node with a disk of its own beside the machine's: `small` is the second local directory,
/// `small-log` the second log directory.
struct Lab {
    cluster: ScriptedCluster,
    small: PathBuf,
}

impl Lab {
    /// Starts a node whose directories are on disks that `mount` makes of empty folders.
    fn start(base: &Path, change: impl FnOnce(&mut Properties)) -> Self {
        let small = base.join("small");
        fs::create_dir(&small).unwrap();
        small_disk(&small, SMALL);
        let (local, log) = (base.join("local"), base.join("log"));
        let both = |large: &Path, name: &str| {
            format!("{},{}", large.display(), small.join(name).display())
        };
        let cluster = ScriptedCluster::start_with(AGENT, |site| {
            site.set("yarn.nodemanager.local-dirs", both(&local, "local"))
                .set("yarn.nodemanager.log-dirs", both(&log, "log"))
                .set(format!("{CHECKER}.interval-ms"), 50)
                .set(format!("{CHECKER}.min-healthy-disks"), 1);
            change(site);
        });
        Self { cluster, small }
    }

    /// Waits for a heartbeat with a report that contains all of these; none means no fault.
    #[track_caller]
    fn wait_report(&self, parts: &[&str]) {
        self.cluster
            .rm
            .wait(format!("a report of {parts:?}"), |tracker| {
                let health = tracker.heartbeats.back()?.node_health_status.clone()?;
                let report = health.health_report();
                let is_wanted = if parts.is_empty() {
                    report.is_empty() && health.is_node_healthy()
                } else {
                    !health.is_node_healthy() && parts.iter().all(|part| report.contains(part))
                };
                is_wanted.then_some(())
            });
    }

    fn end_of(&self, context: LaunchContext) -> Completed {
        let am = &self.cluster.am;
        let id = am.try_start(&am.allocate(), context).unwrap();
        self.cluster.rm.wait_completed(id)
    }

    /// Waits until no folder of a container or of an unfinished download is left on the small disk.
    fn wait_clean(&self) {
        let caches = self.small.join("local/usercache").join(current_user());
        let private = caches.join("filecache");
        wait::until("nothing left of the download", DEADLINE, || {
            let left = fs::read_dir(&private).map_or(0, Iterator::count);
            wait::check(
                left == 0,
                format!("{left} folders in {}", private.display()),
            )
        });
    }
}

/// Writes a tar archive, as a file with a hole, whose only entry is a file of so many zeros.
fn zeros_archive(path: &Path, bytes: u64) {
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_mode(0o644);
    header.set_size(bytes);
    header.set_cksum();
    fs::write(path, header.as_bytes()).unwrap();
    let archive = File::options().write(true).open(path).unwrap();
    archive.set_len(512 + bytes + 1024).unwrap();
}

/// Fills a disk to its last byte.
fn fill(disk: &Path) {
    let full = fs::write(disk.join("filler"), vec![1; 128 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
}

fn run(name: &str, test: impl FnOnce(&Path) + Send) {
    let base = tempfile::tempdir().unwrap();
    with_own_mounts(name, || test(base.path()));
}

#[test]
fn a_full_disk_is_named_and_gets_nothing_new_until_it_has_room_again() {
    let name = "a_full_disk_is_named_and_gets_nothing_new_until_it_has_room_again";
    run(name, |base| {
        let lab = Lab::start(base, |site| {
            // Containers go on with the other disk.
            site.set(format!("{CHECKER}.min-healthy-disks"), 0.5);
        });
        let cluster = &lab.cluster;
        let gate = cluster.gate("gate");
        let running = cluster.am.run(&gate.then("echo late > <LOG_DIR>/late"));
        fill(&lab.small);
        let port = cluster.rm.wait_registrations(1).http_port();
        let metrics = format!("http://127.0.0.1:{port}/metrics");
        wait::until("two bad directories", DEADLINE, || {
            let text = http::get(&metrics)?.body;
            let both = text.contains("nm_agent_bad_local_dirs 1\n")
                && text.contains("nm_agent_bad_log_dirs 1\n");
            wait::check(both, "others".to_owned()).map(drop)
        });
        let small = lab.small.display();
        let command = format!("case $PWD$LOG_DIRS$LOCAL_DIRS in *{small}*) exit 7;; esac");
        let file = cluster.node.folder().join("file");
        fs::write(&file, "x").unwrap();
        for _ in 0..4 {
            let context = LaunchContext::command(&command).file("link", &file);
            let end = lab.end_of(context);
            assert_eq!(end.exit_status, 0, "{end:?}");
        }
        fs::remove_file(lab.small.join("filler")).unwrap();
        gate.open();
        assert_eq!(cluster.rm.wait_completed(running).exit_status, 0);
        lab.wait_report(&[]);
        wait::until("both disks serve", DEADLINE, || {
            let end = lab.end_of(LaunchContext::command(&command));
            wait::check(end.exit_status == 7, format!("{end:?}")).map(drop)
        });
    });
}

#[test]
fn a_disk_that_turns_read_only_makes_the_node_unhealthy_and_spares_what_runs() {
    let name = "a_disk_that_turns_read_only_makes_the_node_unhealthy_and_spares_what_runs";
    run(name, |base| {
        let lab = Lab::start(base, |_| {});
        let cluster = &lab.cluster;
        let gate = cluster.gate("gate");
        let running = cluster.am.run(&gate.then("true"));
        lab.wait_report(&[]);
        set_writable(&lab.small, false);
        lab.wait_report(&[
            "1/2 local-dirs have errors:  [ ",
            "/small/local : Directory is not writable: ",
            "1/2 log-dirs have errors:  [ ",
        ]);
        let refused = lab.end_of(LaunchContext::command("true"));
        assert_eq!(refused.exit_status, -101, "{refused:?}");
        let text = "Most of the disks failed. 1/2 local-dirs have errors: ";
        assert!(refused.diagnostics.contains(text), "{refused:?}");
        let file = cluster.node.folder().join("file");
        fs::write(&file, "x").unwrap();
        let refused = lab.end_of(LaunchContext::command("true").file("link", &file));
        assert_eq!(refused.exit_status, -1000, "{refused:?}");
        assert!(
            refused.diagnostics.contains("All disks failed. 1/2"),
            "{refused:?}"
        );
        gate.open();
        assert_eq!(cluster.rm.wait_completed(running).exit_status, 0);
        set_writable(&lab.small, true);
        lab.wait_report(&[]);
        cluster.assert_serves();
    });
}

#[test]
fn a_disk_that_is_taken_out_and_replaced_serves_without_a_restart() {
    let name = "a_disk_that_is_taken_out_and_replaced_serves_without_a_restart";
    run(name, |base| {
        let lab = Lab::start(base, |_| {});
        set_writable(&lab.small, false);
        lab.wait_report(&["/small/local : Directory is not writable: "]);
        // The agent must not hold what has failed open; the failed report proves that it let go.
        unmount(&lab.small);
        small_disk(&lab.small, SMALL);
        lab.wait_report(&[]);
        assert!(lab.small.join("local/filecache").is_dir());
        for _ in 0..8 {
            lab.cluster.assert_serves();
        }
    });
}

#[test]
fn a_huge_archive_fails_its_container_before_it_fills_the_disk() {
    let name = "a_huge_archive_fails_its_container_before_it_fills_the_disk";
    run(name, |base| {
        let small = base.join("only");
        fs::create_dir(&small).unwrap();
        small_disk(&small, SMALL);
        let local = small.join("local");
        let lab = Lab::start(base, |site| {
            site.set("yarn.nodemanager.local-dirs", local.display());
        });
        let archive = lab.cluster.node.folder().join("huge.tar");
        zeros_archive(&archive, 4 * SMALL);
        let context = LaunchContext::command("true").archive("huge", &archive);
        let end = lab.end_of(context);
        assert_eq!(end.exit_status, -1000, "{end:?}");
        assert!(
            end.diagnostics.contains("it does not fit on the disk"),
            "{end:?}"
        );
        lab.wait_clean();
        lab.cluster.assert_serves();
    });
}

#[test]
fn a_disk_that_a_container_fills_with_its_output_fails_no_other_once_there_is_room() {
    let name = "a_disk_that_a_container_fills_with_its_output_fails_no_other_once_there_is_room";
    run(name, |base| {
        let lab = Lab::start(base, |site| {
            let small = base.join("small");
            site.set("yarn.nodemanager.log-dirs", small.join("log").display())
                .set(format!("{CHECKER}.enable"), false);
        });
        let command = "head -c 200000000 /dev/zero > <LOG_DIR>/huge; rm <LOG_DIR>/huge; exit 5";
        let end = lab.end_of(LaunchContext::command(command));
        assert_eq!(end.exit_status, 5, "{end:?}");
        lab.cluster.assert_serves();
        // Where directories are not checked, a container starts on a disk without room, and fails.
        fill(&lab.small);
        let end = lab.end_of(LaunchContext::command("echo x > <LOG_DIR>/x"));
        assert!(end.exit_status > 0, "{end:?}");
        fs::remove_file(lab.small.join("filler")).unwrap();
        lab.cluster.assert_serves();
    });
}
