//! Files that a tenant leaves on the disks in any number cost the agent no memory: folders in the
//! user's own caches when the agent starts again, log files when they are uploaded.

use tests::ports::Port;
use tests::{proc, wait};
use wire::proto::hadoop_yarn::LogAggregationStatusProto::LogSucceeded;

use super::ends::DEADLINE;
use super::*;

/// Limit on the agent's peak memory beyond what it is without these files, in MiB. Their names
/// alone are twice as much.
const MORE_MAX_MIB: f64 = 6.0;

/// Bytes of a name behind its number.
const NAME_BYTES: usize = 230;

/// Folders in the cache on each of two local directories. The names are 13 MiB of text.
const FOLDERS: usize = 30_000;

/// Containers with many log files.
const CONTAINERS: usize = 60;
/// Log files of each. The names of all are 13 MiB of text.
const FILES: usize = 1_000;

/// Asserts that a peak is little above that without a tenant's files.
#[track_caller]
fn assert_little_above(before: f64, after: f64) {
    println!("peak of the agent: {before:.1} MiB without the files, {after:.1} MiB with them");
    assert!(
        after <= before + MORE_MAX_MIB,
        "{before:.1} MiB became {after:.1} MiB"
    );
}

/// Returns the local directories of the node.
fn local_dirs(tenants: &Tenants) -> [PathBuf; 2] {
    let node = &tenants.cluster.node;
    [node.local_dir(), second_dir(node.folder())]
}

/// Returns the attacker's own cache in a local directory.
fn cache_in(local_dir: &Path) -> PathBuf {
    let users = local_dir.join("usercache");
    users.join(ATTACKER).join("filecache")
}

/// Returns an entry of the attacker's own cache in a local directory, or a folder there that is
/// marked for deletion. `None`: nothing is left.
fn left_in(local_dir: &Path) -> Option<PathBuf> {
    let paths = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let is_marked = |path: &PathBuf| path.to_string_lossy().contains("_DEL_");
    let mut marked = paths(local_dir).filter(is_marked);
    marked.next().or_else(|| paths(&cache_in(local_dir)).next())
}

/// Returns the second local directory of a node with this folder.
fn second_dir(folder: &Path) -> PathBuf {
    folder.join("local-2")
}

/// Starts the agent again and has it run a container of the victim; returns the agent's pid.
fn start_again(tenants: &mut Tenants, number: i32, has_recovery: bool) -> u32 {
    let rm = &tenants.cluster.rm;
    let registrations = rm.with(|tracker| tracker.registrations.len());
    tenants.cluster.node.process.kill();
    tenants.cluster.node.start_agent_again(AGENT.as_ref());
    rm.wait_registrations(registrations + 1);
    // It starts containers once it has the answer.
    rm.wait_heartbeats(1);
    let victim = ScriptedAm::connect_as(VICTIM, rm, number);
    let (status, diagnostics) = tenants.end_of(&victim, LaunchContext::command("true"));
    assert_eq!(status, 0, "{diagnostics}");
    let process = tenants.cluster.node.process.id();
    if has_recovery {
        proc::agent_below(process)
    } else {
        process
    }
}

/// Returns a script that makes folders in the caches of its user on all local directories.
fn make_folders() -> String {
    let name = "x".repeat(NAME_BYTES);
    format!(
        "set -e\n\
         for user in ${{LOCAL_USER_DIRS//,/ }}; do\n\
         mkdir -p $user/filecache; cd $user/filecache\n\
         seq -f %06g-{name} {FOLDERS} | xargs mkdir\n\
         done\n"
    )
}

/// Fills the caches of a user between two starts of the agent, and compares its peaks.
fn folders_in_caches(test: &str, has_recovery: bool) {
    let started = Tenants::start_with(test, |site| {
        let local = site.get("yarn.nodemanager.local-dirs").map(PathBuf::from);
        let local = local.expect("the configuration has a local folder");
        let second = second_dir(local.parent().expect("it is in the node's folder"));
        let local_dirs = format!("{},{}", local.display(), second.display());
        let port = Port::reserve().release();
        site.set("yarn.nodemanager.local-dirs", local_dirs)
            .set("yarn.nodemanager.recovery.enabled", has_recovery)
            .set("yarn.nodemanager.address", format!("127.0.0.1:{port}"));
    });
    let Some(mut tenants) = started else {
        return;
    };
    let agent = start_again(&mut tenants, 4, has_recovery);
    let before = proc::peak_memory_mib(agent);
    let attacker = ScriptedAm::connect_as(ATTACKER, &tenants.cluster.rm, 5);
    tenants.output(&attacker, "fill.sh", &make_folders());
    let local_dirs = local_dirs(&tenants);
    for local_dir in &local_dirs {
        let names = fs::read_dir(cache_in(local_dir)).expect("the cache exists");
        assert_eq!(names.count(), FOLDERS);
    }
    let agent = start_again(&mut tenants, 6, has_recovery);
    wait::until("the deletion of all folders", DEADLINE, || {
        let left = local_dirs.iter().find_map(|dir| left_in(dir));
        wait::check(left.is_none(), format!("{left:?}"))
    });
    assert_little_above(before, proc::peak_memory_mib(agent));
}

#[test]
fn any_number_of_folders_in_a_users_cache_is_no_memory_of_the_next_agent() {
    let test = "any_number_of_folders_in_a_users_cache_is_no_memory_of_the_next_agent";
    folders_in_caches(test, true);
}

#[test]
fn any_number_of_folders_in_a_users_cache_is_no_memory_of_an_agent_without_recovery() {
    let test = "any_number_of_folders_in_a_users_cache_is_no_memory_of_an_agent_without_recovery";
    folders_in_caches(test, false);
}

/// Runs many containers of a master with this command at once, ends their application, and waits
/// for the upload of their logs.
#[track_caller]
fn run_and_upload(tenants: &Tenants, am: &ScriptedAm, command: &str) {
    let container = |_| (am.allocate(), LaunchContext::command(command));
    let containers: Vec<_> = (0..CONTAINERS).map(container).collect();
    let ids = containers.iter().map(|(allocation, _)| allocation.id);
    let ids: Vec<ContainerId> = ids.collect();
    am.start_all(containers).expect("the node takes them");
    let rm = &tenants.cluster.rm;
    for id in ids {
        let completed = rm.wait_completed(id);
        assert_eq!(completed.exit_status, 0, "{completed:?}");
    }
    let application = am.attempt().application_id;
    rm.order(|orders| orders.applications_to_cleanup.push(application.into()));
    rm.wait("the upload of the logs", |tracker| {
        let report = (application, LogSucceeded);
        tracker.log_reports.contains(&report).then_some(())
    });
}

#[test]
fn any_number_of_log_files_is_no_memory_of_the_agent() {
    let test = "any_number_of_log_files_is_no_memory_of_the_agent";
    let remote = tempfile::tempdir().unwrap();
    let started = Tenants::start_with(test, |site| {
        let root = format!("file://{}", remote.path().display());
        site.set("yarn.log-aggregation-enable", true)
            .set("yarn.nodemanager.remote-app-log-dir", root)
            .set("yarn.nodemanager.resource.memory-mb", 8192);
    });
    let Some(tenants) = started else {
        return;
    };
    let agent = tenants.cluster.node.process.id();
    run_and_upload(&tenants, &tenants.victim, "echo line > <LOG_DIR>/line");
    let before = proc::peak_memory_mib(agent);
    let name = "x".repeat(NAME_BYTES);
    let text = format!("for i in {{1..{FILES}}}; do : > $LOG_DIRS/$i-{name} || exit; done");
    let command = tenants.script("fill.sh", &text);
    run_and_upload(&tenants, &tenants.attacker, &command);
    let uploaded = tests::files::aggregated_below(remote.path());
    let bytes = uploaded
        .iter()
        .map(|file| fs::metadata(file).unwrap().len());
    let names = u64::try_from(CONTAINERS * FILES * NAME_BYTES).unwrap();
    assert!(bytes.sum::<u64>() > names, "{uploaded:?}");
    assert_little_above(before, proc::peak_memory_mib(agent));
}
