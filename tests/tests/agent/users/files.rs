//! Files of containers: owners and modes, and what other users can read.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::time::Duration;

use tests::{files, http, wait};

use super::processes::TRY;
use super::*;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns owner, group and mode of a file.
#[track_caller]
fn facts(path: &Path) -> (u32, u32, u32) {
    let status =
        fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (status.uid(), status.gid(), status.mode() & 0o7777)
}

/// Starts a container that waits, and waits until it runs.
#[track_caller]
fn waiting(tenants: &Tenants, am: &ScriptedAm, context: LaunchContext) -> ContainerId {
    let started = am.try_start(&am.allocate(), context);
    let id = started.expect("the container starts");
    wait::until("the container", DEADLINE, || {
        let output = tenants.cluster.log(id, "out");
        if output.contains("ready") {
            Ok(())
        } else {
            Err(output)
        }
    });
    id
}

const WAIT: &str = "echo private > note; echo ready > <LOG_DIR>/out; exec sleep 1000";

#[test]
fn folders_and_files_belong_to_the_user_with_hadoops_modes() {
    let test = "folders_and_files_belong_to_the_user_with_hadoops_modes";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let resource = tenants.cluster.node.folder().join("resource");
    fs::write(&resource, "shared").unwrap();
    let context = LaunchContext::command(WAIT).file("resource", &resource);
    let id = waiting(&tenants, &tenants.victim, context);
    let (uid, own_group) = (
        account(VICTIM).uid.as_raw(),
        nix::unistd::getegid().as_raw(),
    );
    let work = tenants.work_dir(VICTIM, id);
    let (log, application) = (tenants.log_dir(id), work.parent().unwrap());
    let localized = fs::read_link(work.join("resource")).unwrap();
    for (path, mode) in [
        (application.ancestors().nth(2).unwrap(), 0o2750),
        (application.parent().unwrap(), 0o2710),
        (application, 0o2750),
        (&application.join("filecache"), 0o2710),
        (localized.parent().unwrap(), 0o700),
        (&localized, 0o500),
        (&work, 0o2750),
        (&work.join("tmp"), 0o710),
        (&work.join("container_tokens"), 0o600),
        (&work.join("launch_container.sh"), 0o700),
        (&work.join("note"), 0o640),
        (log.parent().unwrap(), 0o2750),
        (&log, 0o2750),
        (&log.join("out"), 0o640),
        (&log.join("prelaunch.out"), 0o640),
    ] {
        assert_eq!(facts(path), (uid, own_group, mode), "{}", path.display());
    }
    let private = tenants.cluster.node.local_dir().join("nmPrivate");
    assert_eq!(facts(&private).2, 0o700);
}

#[test]
fn a_user_reads_and_changes_nothing_of_another_or_of_the_agent() {
    let test = "a_user_reads_and_changes_nothing_of_another_or_of_the_agent";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let victim = waiting(&tenants, &tenants.victim, LaunchContext::command(WAIT));
    let work = tenants.work_dir(VICTIM, victim);
    let log = tenants.log_dir(victim);
    let (local, logs) = (
        tenants.cluster.node.local_dir(),
        tenants.cluster.node.log_dir(),
    );
    let mut attempts = String::from(TRY);
    for path in [
        &work.join("container_tokens"),
        &work.join("launch_container.sh"),
        &work.join("note"),
        &log.join("out"),
        &log.join("prelaunch.out"),
        &log.join("directory.info"),
    ] {
        // The node describes the container beside its process, which may be quicker.
        wait::until("the victim's file", DEADLINE, || {
            wait::check(path.exists(), path.display().to_string())
        });
        attempts.push_str(&format!("refused head -c 1 {}\n", path.display()));
        attempts.push_str(&format!("refused ln {} stolen\n", path.display()));
    }
    for folder in [&work, &log, work.parent().unwrap(), log.parent().unwrap()] {
        attempts.push_str(&format!("refused ls {}\n", folder.display()));
        attempts.push_str(&format!("refused touch {}/mine\n", folder.display()));
    }
    for folder in [
        &local,
        &logs,
        &local.join("usercache"),
        &local.join("filecache"),
    ] {
        attempts.push_str(&format!("refused touch {}/mine\n", folder.display()));
        attempts.push_str(&format!("refused mv {} moved\n", folder.display()));
    }
    attempts.push_str(&format!("refused ls {}/nmPrivate\n", local.display()));
    attempts.push_str("allowed head -c 1 container_tokens\nallowed touch mine\n");
    let output = tenants.output(&tenants.attacker, "attack.sh", &attempts);
    assert_eq!(output, "", "attempts that did not end as they must");
}

#[test]
fn links_in_a_users_folders_lead_the_agent_nowhere() {
    let test = "links_in_a_users_folders_lead_the_agent_nowhere";
    let remote = tempfile::tempdir().unwrap();
    let started = Tenants::start_with(test, |site| {
        site.set("yarn.log-aggregation-enable", true).set(
            "yarn.nodemanager.remote-app-log-dir",
            format!("file://{}", remote.path().display()),
        );
    });
    let Some(tenants) = started else {
        return;
    };
    let victim = waiting(&tenants, &tenants.victim, LaunchContext::command(WAIT));
    let (work, log) = (tenants.work_dir(VICTIM, victim), tenants.log_dir(victim));
    let attack = format!(
        "ln -s /etc/shadow shadow; ln -s {work} work; ln -s {log} log\n\
         ln -s /etc/shadow $1/shadow; ln -s {log} $1/log; ln -s {log}/out $1/file\n\
         rm -rf tmp; ln -s {work} tmp\n\
         echo honest > $1/honest\n",
        work = work.display(),
        log = log.display(),
    );
    let id = ended_well(&tenants, &attack);
    // Links that the user could make where the kernel does not protect hard links.
    let secret = tenants.cluster.node.folder().join("secret");
    fs::write(&secret, "the agent's secret").unwrap();
    fs::hard_link(&secret, tenants.log_dir(id).join("hard")).unwrap();
    symlink(&secret, tenants.log_dir(id).join("soft")).unwrap();
    let port = tenants.cluster.rm.wait_registrations(1).http_port();
    let page = |name: &str| {
        let url = format!("http://127.0.0.1:{port}/node/containerlogs/{id}/{ATTACKER}/{name}");
        http::get(&url).map_or_else(|error| error, |answer| answer.body)
    };
    assert!(page("honest").contains("honest"));
    for name in ["shadow", "log/out", "file", "hard", "soft"] {
        let text = page(name);
        let leaks = ["root:", "ready", "secret\n", "the agent's"];
        let leak = leaks.iter().find(|leak| text.contains(*leak));
        assert_eq!(leak, None, "{name}: {text}");
    }
    let application = id.application_id().into();
    let rm = &tenants.cluster.rm;
    rm.order(|orders| orders.applications_to_cleanup.push(application));
    let uploaded = wait::until("the aggregated logs", DEADLINE, || {
        files::the_aggregated(remote.path())
    });
    let text = String::from_utf8_lossy(&uploaded);
    assert!(text.contains("honest"));
    assert!(!text.contains("root:") && !text.contains("the agent's secret"));
    wait::until("the deletion of the attacker's folders", DEADLINE, || {
        let folder = tenants.work_dir(ATTACKER, id);
        let is_left = folder.parent().unwrap().exists();
        if is_left { Err("still there") } else { Ok(()) }
    });
    assert!(work.join("note").exists() && work.join("container_tokens").exists());
    assert!(log.join("out").exists());
    assert_eq!(facts(&work.join("container_tokens")).2, 0o600);
}

/// Runs a script of the attacker, whose argument is its log folder, to its successful end.
#[track_caller]
fn ended_well(tenants: &Tenants, attack: &str) -> ContainerId {
    let command = tenants.script("links.sh", attack);
    let command = command.replace(" > <LOG_DIR>/out", " <LOG_DIR> > <LOG_DIR>/out");
    let id = tenants.attacker.run(&command);
    let completed = tenants.cluster.rm.wait_completed(id);
    let output = tenants.cluster.log(id, "out");
    assert_eq!(completed.exit_status, 0, "{completed:?} {output}");
    id
}

#[test]
fn a_resource_that_only_the_agent_may_read_is_refused() {
    let test = "a_resource_that_only_the_agent_may_read_is_refused";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let folder = tenants.cluster.node.folder();
    let (closed, inside) = (folder.join("closed"), folder.join("closed/inside"));
    fs::create_dir(&closed).unwrap();
    fs::write(&inside, "secret").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let secret = folder.join("secret");
    fs::write(&secret, "secret").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    let agent_pid = tenants.cluster.node.process.id();
    let linked = folder.join("linked");
    symlink(&secret, &linked).unwrap();
    for path in [
        &secret,
        &inside,
        &linked,
        Path::new("/etc/shadow"),
        &PathBuf::from(format!("/proc/{agent_pid}/environ")),
        Path::new("/proc/self/environ"),
    ] {
        let context = LaunchContext::command("cat stolen > <LOG_DIR>/out");
        let context = context.file("stolen", path);
        let (status, diagnostics) = tenants.end_of(&tenants.attacker, context);
        assert_eq!(status, -1000, "{}: {diagnostics}", path.display());
        assert!(
            diagnostics.contains("ermission denied"),
            "{}: {diagnostics}",
            path.display()
        );
    }
    // A file of the user's own is read, though nobody else may.
    let own = folder.join("own");
    fs::write(&own, "own").unwrap();
    std::os::unix::fs::chown(&own, Some(account(ATTACKER).uid.as_raw()), None).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o400)).unwrap();
    let context = LaunchContext::command("cat got").file("got", &own);
    let (status, diagnostics) = tenants.end_of(&tenants.attacker, context);
    assert_eq!(status, 0, "{diagnostics}");
}
