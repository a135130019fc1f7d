//! Processes of containers: their user, what they may do, and whom they cannot reach.

use test_support::write_program;
use tests::hostile_hdfs::{HostileHdfs, Lie, Moment};
use tests::{proc, wait};
use wire::proto::hadoop_yarn::LocalResourceVisibilityProto;

use users::Account;

use super::*;
use crate::bad_input::hdfs_peers;

/// Deadline for what takes an instant on an idle machine.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn a_container_has_its_users_identity_and_no_privileges() {
    let test = "a_container_has_its_users_identity_and_no_privileges";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let output = tenants.output(
        &tenants.attacker,
        "identity.sh",
        "id -u; id -g; echo $(id -G); umask; echo $USER; ls /proc/$PPID/fd | tr '\\n' ' '; echo\n\
         grep -E '^(Uid|Gid|Cap...|NoNewPrivs):' /proc/self/status",
    );
    let lines: Vec<&str> = output.lines().collect();
    let user = account(ATTACKER);
    let (uid, gid) = (user.uid.to_string(), user.gid.to_string());
    assert_eq!(lines[..2], [&uid, &gid], "{output}");
    assert!(lines[2].split(' ').all(|group| group != "0"), "{output}");
    assert_eq!(lines[3..5], ["0027", ATTACKER], "{output}");
    assert_eq!(
        lines[5].trim(),
        "0 1 2",
        "descriptors of the container's bash: {output}"
    );
    for (name, value) in [
        ("Uid", format!("{uid}\t{uid}\t{uid}\t{uid}")),
        ("Gid", format!("{gid}\t{gid}\t{gid}\t{gid}")),
        ("CapInh", "0".repeat(16)),
        ("CapPrm", "0".repeat(16)),
        ("CapEff", "0".repeat(16)),
        ("CapBnd", "0".repeat(16)),
        ("CapAmb", "0".repeat(16)),
        ("NoNewPrivs", "1".to_owned()),
    ] {
        let line = format!("{name}:\t{value}");
        assert!(lines.contains(&line.as_str()), "{line}: {output}");
    }
}

#[test]
fn a_container_that_asks_for_another_runtime_fails() {
    let test = "a_container_that_asks_for_another_runtime_fails";
    let change = |site: &mut Properties| {
        let allowed = "yarn.nodemanager.runtime.linux.allowed-runtimes";
        site.set(allowed, "default,docker");
    };
    let Some(tenants) = Tenants::start_with(test, change) else {
        return;
    };
    let ran = tenants.cluster.node.folder().join("ran");
    let command = format!("touch {}", ran.display());
    for runtime in ["docker", "runc", "javasandbox"] {
        let context = LaunchContext::command(&command).env("YARN_CONTAINER_RUNTIME_TYPE", runtime);
        let (status, diagnostics) = tenants.end_of(&tenants.attacker, context);
        assert_eq!(status, -1, "{diagnostics}");
        for part in [
            "Requested runtime not allowed.",
            "yarn.nodemanager.runtime.linux.allowed-runtimes",
            runtime,
        ] {
            assert!(diagnostics.contains(part), "{diagnostics}");
        }
    }
    assert!(!ran.exists());
    let plain = LaunchContext::command("true").env("YARN_CONTAINER_RUNTIME_TYPE", "default");
    let (status, diagnostics) = tenants.end_of(&tenants.attacker, plain);
    assert_eq!(status, 0, "{diagnostics}");
}

#[test]
fn a_user_reaches_neither_another_users_processes_nor_the_agent() {
    let test = "a_user_reaches_neither_another_users_processes_nor_the_agent";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let victim = tenants
        .victim
        .run("echo \\$\\$ > <LOG_DIR>/pid; exec sleep 1000");
    let victim_pid: u32 = wait::until("the victim", DEADLINE, || {
        let text = tenants.cluster.log(victim, "pid");
        text.trim().parse().map_err(|_| "no pid")
    });
    let agent_pid = tenants.cluster.node.process.id();
    let mut attempts = String::from(TRY);
    for pid in [victim_pid, agent_pid] {
        for signal in ["TERM", "STOP", "KILL"] {
            attempts.push_str(&format!("refused kill -{signal} {pid}\n"));
        }
        for file in ["environ", "maps", "mem", "fd/0"] {
            attempts.push_str(&format!("refused head -c 1 /proc/{pid}/{file}\n"));
        }
        attempts.push_str(&format!("refused ls /proc/{pid}/fd\n"));
        attempts.push_str(&format!("refused ls /proc/{pid}/root/\n"));
    }
    // The checks notice what is allowed.
    attempts.push_str("allowed head -c 1 /proc/$$/environ\nallowed kill -CONT $$\n");
    let output = tenants.output(&tenants.attacker, "attack.sh", &attempts);
    assert_eq!(output, "", "attempts that did not end as they must");
    let status = tenants.victim.status(victim).unwrap();
    assert_eq!(status.exit_status(), -1000, "the victim runs: {status:?}");
}

/// Functions of a script that prints each attempt that does not end as it must.
pub(super) const TRY: &str = "\
refused() { if \"$@\" >/dev/null 2>&1; then echo \"allowed: $*\"; fi; }
allowed() { if ! \"$@\" >/dev/null 2>&1; then echo \"refused: $*\"; fi; }
";

#[test]
fn users_that_may_run_nothing_are_refused_in_hadoops_words() {
    let test = "users_that_may_run_nothing_are_refused_in_hadoops_words";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    for (number, (user, text)) in [
        ("root", "Running as root is not allowed"),
        ("bin", "Requested user bin is not whitelisted and has id 2"),
        (BANNED, "Requested user sync is banned"),
        ("no-such-user", "User no-such-user not found"),
    ]
    .into_iter()
    .enumerate()
    {
        let number = 10 + i32::try_from(number).unwrap();
        let am = ScriptedAm::connect_as(user, &tenants.cluster.rm, number);
        let (status, diagnostics) = tenants.end_of(&am, LaunchContext::command("true"));
        assert_ne!(status, 0, "{user}");
        assert!(diagnostics.contains(text), "{user}: {diagnostics}");
        let folder = tenants
            .cluster
            .node
            .local_dir()
            .join("usercache")
            .join(user);
        assert!(!folder.exists(), "{user}");
    }
}

#[test]
fn a_container_that_ignores_signals_is_killed_with_all_its_processes() {
    let test = "a_container_that_ignores_signals_is_killed_with_all_its_processes";
    let Some(tenants) = Tenants::start(test) else {
        return;
    };
    let id = tenants.attacker.run(
        "trap '' TERM; (setsid sleep 1000 &); echo ready > <LOG_DIR>/out; sleep 1000; sleep 1000",
    );
    wait::until("the container", DEADLINE, || {
        let output = tenants.cluster.log(id, "out");
        if output.is_empty() {
            Err("not started")
        } else {
            Ok(())
        }
    });
    tenants.attacker.stop(id).unwrap();
    assert_ne!(tenants.cluster.rm.wait_completed(id).exit_status, 0);
    wait::until("the end of all processes", DEADLINE, || {
        let left = tenants.cluster.node.container_processes();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}

/// User of an agent without root's rights.
const AGENTS_USER: &str = "man";

/// Capabilities that `docs/users.md` says are needed.
const NEEDED: [&str; 6] = [
    "setuid",
    "setgid",
    "kill",
    "chown",
    "dac_override",
    "fowner",
];

#[test]
fn an_agent_without_root_needs_the_documented_capabilities_and_no_others() {
    let test = "an_agent_without_root_needs_the_documented_capabilities_and_no_others";
    if std::process::Command::new("setpriv")
        .arg("--version")
        .output()
        .is_err()
    {
        skip::skip(test, &"setpriv (Debian: util-linux) is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (user, program) = (account(AGENTS_USER), folder.path().join("agent"));
    let capabilities = NEEDED.map(|name| format!("+{name}")).join(",");
    let script = format!(
        "#!/bin/sh\nexec setpriv --reuid {uid} --regid {gid} --clear-groups \
         --bounding-set -all,{capabilities} --inh-caps -all,{capabilities} \
         --ambient-caps -all,{capabilities} {AGENT} \"$@\"\n",
        uid = user.uid,
        gid = user.gid,
    );
    write_program(&program, &script);
    let started = Tenants::start_program(test, program.to_str().unwrap(), |site| {
        let local = site.get("yarn.nodemanager.local-dirs").map(PathBuf::from);
        let folder = local.as_deref().and_then(Path::parent).unwrap();
        std::os::unix::fs::chown(folder, Some(user.uid.as_raw()), None).unwrap();
    });
    let Some(tenants) = started else {
        return;
    };
    let output = tenants.output(
        &tenants.attacker,
        "identity.sh",
        "id -u; grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f 2 | sort -u; umask\n\
         mkdir -p kept/inner; touch kept/inner/file; chmod 0 kept/inner; chmod +t kept; echo end",
    );
    let uid = account(ATTACKER).uid.to_string();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, [&uid, &"0".repeat(16), "0027", "end"]);
    // The agent deletes what its user could not, and ends processes of another.
    let usercache = tenants.cluster.node.local_dir().join("usercache");
    let of_attacker = usercache.join(ATTACKER).join("appcache");
    let waiting = tenants.victim.run("echo > <LOG_DIR>/out; exec sleep 1000");
    wait::until("the container", DEADLINE, || {
        let output = tenants.cluster.log(waiting, "out");
        wait::check(!output.is_empty(), "not started")
    });
    tenants.victim.stop(waiting).unwrap();
    let _ended = tenants.cluster.rm.wait_completed(waiting);
    wait::until("the deletion of the work folder", DEADLINE, || {
        let folders = fs::read_dir(&of_attacker).unwrap().flatten();
        let containers = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap());
        let left: Vec<_> = containers.flatten().map(|entry| entry.path()).collect();
        wait::check(left.is_empty(), format!("{left:?}"))
    });
}

/// Waits for a child of the agent with this user and no privileges.
#[track_caller]
pub(super) fn wait_worker(agent: u32, uid: u32) -> u32 {
    wait::until("the file worker", DEADLINE, || {
        let workers = proc::children(agent).into_iter();
        let status = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/status"));
        let is_of_user = |pid: &u32| {
            let status = status(pid).unwrap_or_default();
            status.contains(&format!("Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n"))
                && status.contains("CapPrm:\t0000000000000000\n")
                && status.contains("NoNewPrivs:\t1\n")
        };
        let mut workers = workers.filter(is_of_user);
        workers.next().ok_or("none of the user")
    })
}

#[test]
fn hdfs_is_read_by_a_process_with_the_rights_of_the_user_alone() {
    let test = "hdfs_is_read_by_a_process_with_the_rights_of_the_user_alone";
    let Some(tenants) = Tenants::start_with(test, hdfs_peers::set_limit) else {
        return;
    };
    let hdfs = HostileHdfs::start(Moment::Packet, Lie::Silence);
    let context = hdfs_peers::context(&hdfs, LocalResourceVisibilityProto::Application);
    let am = &tenants.attacker;
    let id = am.try_start(&am.allocate(), context).expect("it starts");
    let agent = tenants.cluster.node.process.id();
    let worker = wait_worker(agent, account(ATTACKER).uid.as_raw());
    let environment = fs::read(format!("/proc/{worker}/environ"));
    assert_eq!(environment.expect("it can be read"), b"");
    let stopped = tenants.output(
        &tenants.victim,
        "signal.sh",
        &format!("kill {worker}; true"),
    );
    assert!(stopped.contains("not permitted"), "{stopped}");
    let public = hdfs_peers::context(&hdfs, LocalResourceVisibilityProto::Public);
    let public = am.try_start(&am.allocate(), public).expect("it starts");
    // What is public is read with the rights of nobody, and never with the agent's.
    wait_worker(agent, Account::anybody().uid());
    for id in [id, public] {
        let completed = tenants.cluster.rm.wait_completed(id);
        assert_ne!(completed.exit_status, 0, "{completed:?}");
    }
    hdfs.lie_again(Moment::Answer, Lie::Length);
    let context = hdfs_peers::context(&hdfs, LocalResourceVisibilityProto::Private);
    let (status, diagnostics) = tenants.end_of(am, context);
    assert_ne!(status, 0);
    assert!(diagnostics.contains("signal 6 (SIGABRT)"), "{diagnostics}");
    hdfs.lie_again(Moment::NameNode, Lie::None);
    for visibility in [
        LocalResourceVisibilityProto::Application,
        LocalResourceVisibilityProto::Private,
        LocalResourceVisibilityProto::Public,
    ] {
        let context = hdfs_peers::context(&hdfs, visibility);
        let (status, diagnostics) = tenants.end_of(&tenants.victim, context);
        assert_eq!(status, 0, "{visibility:?}: {diagnostics}");
    }
}

#[test]
fn in_a_secure_cluster_a_container_runs_as_its_submitter_whatever_limits_users() {
    tests::require!(kerberos);
    let test = "in_a_secure_cluster_a_container_runs_as_its_submitter_whatever_limits_users";
    let folder = tempfile::tempdir().unwrap();
    let keytab = folder.path().join("nm.keytab");
    fs::write(&keytab, [5, 2]).unwrap();
    fs::set_permissions(&keytab, fs::Permissions::from_mode(0o400)).unwrap();
    let tenants = Tenants::start_with(test, |site| {
        site.set("hadoop.security.authentication", "kerberos")
            .set("yarn.nodemanager.principal", "nm/_HOST@EXAMPLE.COM")
            .set("yarn.nodemanager.keytab", keytab.display())
            .set("yarn.nodemanager.agent.kerberos.first-login-within-ms", 0)
            .set("yarn.resourcemanager.principal", "rm/_HOST@EXAMPLE.COM")
            // The scripted ResourceManager asks for no proof.
            .set("ipc.client.fallback-to-simple-auth-allowed", true)
            .set(
                "yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users",
                true,
            );
    });
    let Some(tenants) = tenants else {
        return;
    };
    for (am, user) in [(&tenants.attacker, ATTACKER), (&tenants.victim, VICTIM)] {
        let output = tenants.output(am, &format!("{user}.sh"), "id -un");
        assert_eq!(output.trim(), user);
    }
}
