//! Disks that fill up, fail and return while containers run, on real file systems of each test.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use test_support::mounts::{set_writable, small_disk, try_unmount, with_own_mounts};
use test_support::scripted::Completed;
use test_support::{LaunchContext, current_user};
use tests::conf::Properties;
use tests::process::Process;
use tests::scripted_cluster::ScriptedCluster;
use tests::{http, wait};
use wire::proto::hadoop_yarn::ContainerSubStateProto;

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
        // What the path names while the disk is out takes no files, or a check at that moment would
        // find it good.
        small_disk(&small, SMALL);
        set_writable(&small, false);
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

    /// Returns the application's cache below a local directory.
    fn cache_below(&self, local: &Path) -> PathBuf {
        let application = self.cluster.am.attempt().application_id.to_string();
        let caches = local.join("usercache").join(current_user());
        caches.join("appcache").join(application).join("filecache")
    }

    /// Waits until this local directory holds so many finished downloads of the application, and
    /// nothing of others.
    fn wait_downloads(&self, local: &Path, count: usize) {
        let cache = self.cache_below(local);
        wait::until("nothing left of the download", DEADLINE, || {
            let left = names(&cache);
            let is_finished = |name: &String| !name.ends_with("_tmp");
            wait::check(
                left.len() == count && left.iter().all(is_finished),
                format!("{left:?} in {}", cache.display()),
            )
        });
    }
}

/// Returns the names in a folder; none if there is no such folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries
        .map(|entry| name(entry).into_string().unwrap())
        .collect()
}

/// Returns the files of unfinished downloads that the agent has open.
fn open_downloads(pid: u32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let is_download = |path: &PathBuf| path.to_string_lossy().contains("_tmp");
    targets.filter(is_download).collect()
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
    let mut filler = File::create(disk.join("filler")).unwrap();
    let copied = io::copy(&mut io::repeat(1), &mut filler);
    assert_eq!(copied.unwrap_err().kind(), io::ErrorKind::StorageFull);
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
        let failed =
            ["local", "log"].map(|kind| format!("/small/{kind} : Directory is not writable: "));
        lab.wait_report(&failed.each_ref().map(String::as_str));
        // The agent must not hold what has failed open. It has it open for a moment at each check.
        let what = "the agent to let go of the disk";
        wait::until(what, DEADLINE, || try_unmount(&lab.small));
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
        lab.wait_downloads(&local, 0);
        lab.cluster.assert_serves();
    });
}

/// Stops the agent while it writes the content of a download of this many bytes below `cache`.
/// Returns false if the download was over before.
fn stop_amid_download(agent: &Process, cache: &Path, bytes: u64) -> bool {
    let begin = Instant::now();
    let is_begun = |name: &String| fs::exists(cache.join(name).join("big")).is_ok_and(|it| it);
    while !names(cache).iter().any(is_begun) {
        assert!(begin.elapsed() < DEADLINE, "no download begins");
        std::thread::yield_now();
    }
    agent.signal(Signal::SIGSTOP);
    let written = |name: &String| fs::metadata(cache.join(name).join("big")).ok();
    let written = names(cache).iter().find_map(written);
    written.is_some_and(|status| status.len() < bytes)
}

#[test]
fn a_disk_that_somebody_fills_during_a_download_fails_its_container_and_no_other() {
    let name = "a_disk_that_somebody_fills_during_a_download_fails_its_container_and_no_other";
    run(name, |base| {
        let disk = base.join("only");
        fs::create_dir(&disk).unwrap();
        small_disk(&disk, 5 * SMALL);
        let local = disk.join("local");
        let lab = Lab::start(base, |site| {
            site.set("yarn.nodemanager.local-dirs", local.display());
        });
        let (cluster, am) = (&lab.cluster, &lab.cluster.am);
        let small = cluster.node.folder().join("small");
        fs::write(&small, "kept").unwrap();
        let gate = cluster.gate("gate");
        let command = gate.then("test \"$(cat link)\" = kept");
        let context = LaunchContext::command(&command).file("link", &small);
        let running = am.try_start(&am.allocate(), context).unwrap();
        cluster
            .rm
            .wait_sub_state(running, ContainerSubStateProto::CssRunning);

        let big = cluster.node.folder().join("big");
        // Takes long enough to be interrupted.
        let bytes = 4 * SMALL;
        File::create(&big).unwrap().set_len(bytes).unwrap();
        let context = LaunchContext::command("true").file("link", &big);
        let downloading = am.try_start(&am.allocate(), context).unwrap();
        let agent = &cluster.node.process;
        assert!(
            stop_amid_download(agent, &lab.cache_below(&local), bytes),
            "the download was over before the agent stopped"
        );
        fill(&disk);
        agent.signal(Signal::SIGCONT);
        let end = cluster.rm.wait_completed(downloading);
        assert_eq!(end.exit_status, -1000, "{end:?}");
        let text = "cannot write big to the cache: ";
        assert!(end.diagnostics.contains(text), "{end:?}");
        assert!(end.diagnostics.contains(" space"), "{end:?}");

        lab.wait_downloads(&local, 1);
        let open = open_downloads(agent.id());
        assert!(open.is_empty(), "{open:?}");
        gate.open();
        let end = cluster.rm.wait_completed(running);
        assert_eq!(end.exit_status, 0, "{end:?}");
        fs::remove_file(disk.join("filler")).unwrap();
        lab.wait_report(&[]);
        let context = LaunchContext::command("test -s link").file("link", &big);
        let end = lab.end_of(context);
        assert_eq!(end.exit_status, 0, "{end:?}");
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

/// Bytes of a disk whose whole room is less than what downloads leave free on a large one.
const TINY: u64 = 20 << 20;

#[test]
fn a_tiny_disk_serves_while_it_is_healthy_and_says_so_when_it_has_no_room_for_downloads() {
    let name =
        "a_tiny_disk_serves_while_it_is_healthy_and_says_so_when_it_has_no_room_for_downloads";
    run(name, |base| {
        let tiny = base.join("tiny");
        fs::create_dir(&tiny).unwrap();
        small_disk(&tiny, TINY);
        let local = tiny.join("local");
        let lab = Lab::start(base, |site| {
            let used_max = "max-disk-utilization-per-disk-percentage";
            site.set("yarn.nodemanager.local-dirs", local.display())
                .set(format!("{CHECKER}.{used_max}"), 100);
        });
        let source = lab.cluster.node.folder().join("source");
        fs::write(&source, "content").unwrap();
        let context = || LaunchContext::command("test -s file").file("file", &source);
        lab.wait_report(&[]);
        let end = lab.end_of(context());
        assert_eq!(end.exit_status, 0, "{end:?}");
        // Half of what downloads leave to containers is left; more is freed by ended containers.
        let filler = File::create(tiny.join("filler")).unwrap();
        let free = nix::sys::statvfs::statvfs(&tiny).unwrap();
        let free = free.blocks_available() * free.fragment_size();
        let bytes = i64::try_from(free - TINY / 32).unwrap();
        nix::fcntl::fallocate(&filler, nix::fcntl::FallocateFlags::empty(), 0, bytes).unwrap();
        lab.wait_report(&[
            &local.display().to_string(),
            "that downloads leave to containers",
        ]);
        filler.set_len(0).unwrap();
        lab.wait_report(&[]);
        let end = lab.end_of(context());
        assert_eq!(end.exit_status, 0, "{end:?}");
    });
}
