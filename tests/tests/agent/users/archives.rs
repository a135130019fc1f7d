//! Archives: who reads them, what becomes of their files, and what the end of their reader ends.

#![expect(
    clippy::unwrap_used,
    reason = "functions that tests share are tests too: a panic is a failed test"
)]

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getegid};
use tests::ports::Port;
use tests::{proc, wait};
use users::Account;
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto as Visibility;

use super::processes::wait_worker;
use super::*;
use crate::bad_input::hdfs_peers::set_limit;
use crate::bad_input::localization::endless_archive;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

impl Tenants {
    /// Makes an archive that takes minutes to be read, and returns the context of a container that
    /// wants it.
    fn endless(&self, name: &str, visibility: Visibility) -> LaunchContext {
        let archive = self.cluster.node.folder().join(name);
        endless_archive(&archive);
        fs::set_permissions(&archive, fs::Permissions::from_mode(0o644)).unwrap();
        LaunchContext::command("true")
            .archive("lib", &archive)
            .visible_to(visibility)
    }

    /// Makes a tar with a folder, a file and a link.
    fn good_archive(&self) -> PathBuf {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir(from.path().join("d")).unwrap();
        fs::write(from.path().join("d/file"), "content").unwrap();
        symlink("file", from.path().join("d/link")).unwrap();
        let mut tar = tar::Builder::new(Vec::new());
        tar.follow_symlinks(false);
        tar.append_dir_all(".", from.path()).unwrap();
        let path = self.cluster.node.folder().join("good.tar");
        fs::write(&path, tar.into_inner().unwrap()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Runs a container of the victim that reads the good archive.
    #[track_caller]
    fn victim_unpacks(&self, good: &Path) {
        for visibility in [
            Visibility::Application,
            Visibility::Private,
            Visibility::Public,
        ] {
            let context = LaunchContext::command("test \"$(cat lib/d/link)\" = content")
                .archive("lib", good)
                .visible_to(visibility);
            let (status, diagnostics) = self.end_of(&self.victim, context);
            assert_eq!(status, 0, "{visibility:?}: {diagnostics}");
        }
    }
}

/// Waits for a worker of this user that has a session: one that is killed before has not begun, and
/// another takes its place.
#[track_caller]
fn wait_reader(agent: u32, uid: u32) -> u32 {
    wait::until("a session of the file worker", DEADLINE, || {
        let worker = wait_worker(agent, uid);
        let threads = fs::read_dir(format!("/proc/{worker}/task"));
        let threads = threads.map_or(0, Iterator::count);
        if threads > 1 {
            Ok(worker)
        } else {
            Err("it has one thread")
        }
    })
}

/// Sends a signal to a process.
fn send(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("it runs");
}

#[test]
fn an_archive_is_read_by_a_process_with_the_rights_of_its_user_alone() {
    let test = "an_archive_is_read_by_a_process_with_the_rights_of_its_user_alone";
    let Some(tenants) = Tenants::start_with(test, set_limit) else {
        return;
    };
    let good = tenants.good_archive();
    let agent = tenants.cluster.node.process.id();
    let am = &tenants.attacker;
    for (visibility, uid) in [
        (Visibility::Application, account(ATTACKER).uid.as_raw()),
        (Visibility::Private, account(ATTACKER).uid.as_raw()),
        (Visibility::Public, Account::anybody().uid()),
    ] {
        for (signal, reason) in [
            (
                Signal::SIGKILL,
                "its file worker ended with signal 9 (SIGKILL)",
            ),
            (Signal::SIGSTOP, "its file worker did not answer in time"),
        ] {
            let name = format!("{}-{signal}.tar", visibility.as_str_name());
            let context = tenants.endless(&name, visibility);
            let id = am.try_start(&am.allocate(), context).expect("it starts");
            let worker = wait_reader(agent, uid);
            let environment = fs::read(format!("/proc/{worker}/environ"));
            assert_eq!(environment.expect("it can be read"), b"");
            send(worker, signal);
            tenants.victim_unpacks(&good);
            let completed = tenants.cluster.rm.wait_completed(id);
            assert_ne!(completed.exit_status, 0, "{completed:?}");
            let expected = format!("archive {name} cannot be read: {reason}");
            assert!(completed.diagnostics.contains(&expected), "{completed:?}");
        }
    }
    tenants.victim_unpacks(&good);
}

#[test]
fn what_an_archive_holds_belongs_to_the_user_with_hadoops_modes() {
    let test = "what_an_archive_holds_belongs_to_the_user_with_hadoops_modes";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let good = tenants.good_archive();
    let group = getegid().as_raw();
    let own = nix::unistd::geteuid().as_raw();
    let user = account(VICTIM).uid.as_raw();
    for (visibility, uid, folder, file) in [
        (Visibility::Application, user, 0o700, 0o500),
        (Visibility::Private, user, 0o700, 0o500),
        (Visibility::Public, own, 0o755, 0o555),
    ] {
        let context = LaunchContext::command("readlink lib > <LOG_DIR>/out; exec sleep 1000")
            .archive("lib", &good)
            .visible_to(visibility);
        let am = &tenants.victim;
        let id = am.try_start(&am.allocate(), context).expect("it starts");
        let unpacked = wait::until("the container", DEADLINE, || {
            let out = tenants.cluster.log(id, "out");
            out.strip_suffix('\n').map(PathBuf::from).ok_or(out.clone())
        });
        for (name, mode) in [("", folder), ("d", folder), ("d/file", file)] {
            let status = fs::symlink_metadata(unpacked.join(name)).unwrap();
            let facts = (status.uid(), status.gid(), status.mode() & 0o7777);
            assert_eq!(facts, (uid, group, mode), "{visibility:?} {name}");
        }
        let link = fs::read_link(unpacked.join("d/link")).unwrap();
        assert_eq!(link, Path::new("file"));
        am.stop(id).unwrap();
        let _ended = tenants.cluster.rm.wait_completed(id);
    }
}

#[test]
fn a_reader_that_ends_under_the_next_agent_too_does_not_end_it() {
    let test = "a_reader_that_ends_under_the_next_agent_too_does_not_end_it";
    let port = Port::reserve().release();
    let started = Tenants::start_with(test, |site| {
        site.set("yarn.nodemanager.recovery.enabled", true)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    });
    let Some(mut tenants) = started else {
        return;
    };
    let context = tenants.endless("endless.tar", Visibility::Application);
    let am = &tenants.attacker;
    let id = am.try_start(&am.allocate(), context).expect("it starts");
    let uid = account(ATTACKER).uid.as_raw();
    let worker = wait_worker(proc::agent_below(tenants.cluster.node.process.id()), uid);
    tenants.cluster.node.process.kill();
    wait::until("the end of the file worker", DEADLINE, || {
        let stat = proc::stat(worker.cast_signed());
        let is_gone = stat.is_none_or(|stat| stat.state == 'Z');
        wait::check(is_gone, "it runs")
    });
    tenants.cluster.node.start_agent_again(AGENT.as_ref());
    tenants.cluster.rm.wait_registrations(2);
    let agent = proc::agent_below(tenants.cluster.node.process.id());
    send(wait_reader(agent, uid), Signal::SIGKILL);
    let completed = tenants.cluster.rm.wait_completed(id);
    let expected = "archive endless.tar cannot be read: its file worker ended with signal 9";
    assert!(completed.diagnostics.contains(expected), "{completed:?}");
    let good = tenants.good_archive();
    tenants.victim = ScriptedAm::connect_as(VICTIM, &tenants.cluster.rm, 4);
    tenants.victim_unpacks(&good);
    assert_eq!(
        tenants.cluster.node.process.exit(),
        None,
        "{}",
        tenants.cluster.node.process.log()
    );
}
