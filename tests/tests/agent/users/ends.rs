//! Ends of containers that a process or a tracer makes hard, with cgroups and without, beside
//! containers of another user.

use std::fs::File;
use std::process::{Child, Command};
use std::time::Duration;

use test_support::hostile::{self, Role};
use tests::cgroups::Hierarchy;
use tests::{proc, wait};

use super::*;

/// Deadline for what takes seconds at most on an idle machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// Runs a test on a node without cgroups, and on one with them.
fn with_and_without_cgroups(test: &str, run: impl Fn(&Tenants)) {
    with_and_without_cgroups_and(test, |_| {}, |tenants| run(tenants));
}

/// Runs a test on a node without cgroups, and on one with them, after changes of their
/// `yarn-site.xml`.
pub(super) fn with_and_without_cgroups_and(
    test: &str,
    change: impl Fn(&mut Properties),
    run: impl Fn(&mut Tenants),
) {
    if let Some(mut tenants) = Tenants::start_with(test, &change) {
        run(&mut tenants);
    }
    let Some(hierarchy) = Hierarchy::for_test(test) else {
        return;
    };
    let tenants = Tenants::start_with(test, |site| {
        hierarchy.configure(site);
        change(site);
    });
    if let Some(mut tenants) = tenants {
        run(&mut tenants);
    }
}

/// Returns this program at a path that every user may execute.
fn program(tenants: &Tenants) -> PathBuf {
    let path = tenants.cluster.node.folder().join("hostile");
    let own = std::env::current_exe().expect("this program has a path");
    if !path.exists() && fs::hard_link(&own, &path).is_err() {
        fs::copy(&own, &path).expect("the folder is writable");
    }
    path
}

fn pid_in(path: &Path) -> i32 {
    wait::until("a pid", DEADLINE, || {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        text.trim().parse().map_err(|_| format!("{text:?}"))
    })
}

/// Returns the pid of a container's first process, which runs `sleep`.
fn sleeper(tenants: &Tenants, am: &ScriptedAm) -> (ContainerId, i32) {
    let id = am.run("echo \\$\\$ > <LOG_DIR>/pid; exec sleep 1000");
    (id, pid_in(&tenants.log_dir(id).join("pid")))
}

#[track_caller]
fn wait_until_ended(pid: i32) {
    wait::until("the end of a process", DEADLINE, || {
        let runs = proc::stat(pid).is_some_and(|stat| !keeper::has_ended(&stat));
        if runs {
            Err(format!("{pid} runs"))
        } else {
            Ok(())
        }
    });
}

#[test]
fn processes_that_do_not_look_alive_end_with_their_container() {
    let test = "processes_that_do_not_look_alive_end_with_their_container";
    with_and_without_cgroups(test, |tenants| {
        let program = program(tenants);
        let role = |name: &str| PathBuf::from(name);
        let half_dead = Role::HalfDead {
            ready: role("half-dead"),
        };
        let chain = Role::ForkChain {
            ready: role("chain"),
        };
        let text = format!(
            "(setsid bash -c \"{}\") &\n({}) &\nuntil [ -s half-dead -a -s chain ]; do sleep 0.01; done\n\
             echo ready; sleep 1000",
            hostile::bash_line_of(&program, &half_dead),
            hostile::bash_line_of(&program, &chain),
        );
        let (other, _) = sleeper(tenants, &tenants.victim);
        let id = tenants.attacker.run(&tenants.script("hide.sh", &text));
        let work_dir = tenants.work_dir(ATTACKER, id);
        let pid = pid_in(&work_dir.join("half-dead"));
        pid_in(&work_dir.join("chain"));
        let lock = File::open(hostile::lock_of_chain(&work_dir.join("chain"))).unwrap();
        assert!(lock.try_lock().is_err(), "the chain lives");
        tenants.attacker.stop(id).unwrap();
        let completed = tenants.cluster.rm.wait_completed(id);
        assert!(!completed.diagnostics.contains("survive"), "{completed:?}");
        wait_until_ended(pid);
        wait::until("the end of the chain", DEADLINE, || {
            lock.try_lock().map_err(|error| error.to_string())
        });
        assert_eq!(tenants.victim.status(other).unwrap().exit_status(), -1000);
        tenants.victim.stop(other).unwrap();
        tenants.cluster.rm.wait_completed(other);
    });
}

#[test]
fn a_tracer_of_the_same_user_keeps_no_container_from_ending() {
    let test = "a_tracer_of_the_same_user_keeps_no_container_from_ending";
    with_and_without_cgroups(test, |tenants| {
        let (traced, pid) = sleeper(tenants, &tenants.attacker);
        let (other, _) = sleeper(tenants, &tenants.victim);
        let tracer = Role::Tracer {
            of: pid,
            ready: PathBuf::from("tracer"),
        };
        let text = hostile::bash_line_of(&program(tenants), &tracer);
        let tracing = tenants.attacker.run(&tenants.script("trace.sh", &text));
        pid_in(&tenants.work_dir(ATTACKER, tracing).join("tracer"));
        tenants.attacker.stop(traced).unwrap();
        let completed = tenants.cluster.rm.wait_completed(traced);
        assert!(!completed.diagnostics.contains("survive"), "{completed:?}");
        wait_until_ended(pid);
        // The tracer was ended for it.
        assert_eq!(tenants.cluster.rm.wait_completed(tracing).exit_status, 137);
        assert_eq!(tenants.victim.status(other).unwrap().exit_status(), -1000);
        tenants.victim.stop(other).unwrap();
        tenants.cluster.rm.wait_completed(other);
    });
}

/// Starts a tracer with the rights of this test.
fn trace(tenants: &Tenants, of: i32) -> Child {
    let ready = tenants.cluster.node.folder().join("tracer");
    let role = Role::Tracer {
        of,
        ready: ready.clone(),
    };
    let (program, (name, value)) = hostile::command(&role);
    let child = Command::new(program).env(name, value).spawn();
    let child = child.expect("this program runs");
    pid_in(&ready);
    child
}

#[test]
fn a_tracer_of_another_account_delays_no_report_and_is_named() {
    let test = "a_tracer_of_another_account_delays_no_report_and_is_named";
    with_and_without_cgroups(test, |tenants| {
        let (id, pid) = sleeper(tenants, &tenants.attacker);
        let mut tracer = trace(tenants, pid);
        tenants.attacker.stop(id).unwrap();
        let completed = tenants.cluster.rm.wait_completed(id);
        let text = format!("survive SIGKILL: {pid} (traced by {})", tracer.id());
        assert!(completed.diagnostics.contains(&text), "{completed:?}");
        assert_eq!(tracer.try_wait().unwrap(), None, "it is not the user's");
        tracer.kill().unwrap();
        tracer.wait().unwrap();
        wait_until_ended(pid);
    });
}
