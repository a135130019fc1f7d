//! Hosts that are no JVM: a shell in place of Java says what a broken or hostile host would.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use records::ApplicationId;
use tempfile::TempDir;

use crate::{
    Folders, HostConfig, HostError, HostFault, HostHealth, HostedService, Patience, StartedHost,
    Watch,
};

/// Deadline for what a host must do, on a machine that is busy building.
const DEADLINE: Duration = Duration::from_secs(60);

/// First words of a host of this release, with Java "17".
const HELLO: &str = r"printf '\0\0\0\017\001NMAH\0\0\0\001\0\0\0\00217' >&0";
/// The only service begins, runs, and has metadata.
const STARTED: &str = r"printf '\0\0\0\005\002\0\0\0\0' >&0
printf '\0\0\0\014\003\0\0\0\0\001\0\0\0\002ok' >&0";

/// Writes a program that is started in place of Java.
fn program(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("java");
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn config(java: PathBuf) -> HostConfig {
    HostConfig {
        java,
        options: Vec::new(),
        class_path: "x.jar".into(),
        environment: Vec::new(),
        properties: vec![("a".to_owned(), "b".to_owned())],
        services: vec![HostedService {
            name: "mine".to_owned(),
            class: "org.example.Mine".to_owned(),
            class_path: String::new(),
            system_classes: Vec::new(),
            recovery_folder: None,
        }],
        group: None,
        patience: Patience {
            hello: DEADLINE,
            service: DEADLINE,
            write: DEADLINE,
            stop: DEADLINE,
            terminate: DEADLINE,
        },
    }
}

/// Starts a host that is this script, and returns why it does not start.
fn refusal_within(script: &str, hello: Duration) -> HostError {
    let folder = TempDir::new().unwrap();
    let mut config = config(program(folder.path(), script));
    config.patience.hello = hello;
    StartedHost::start(config).expect_err("no host")
}

fn refusal(script: &str) -> HostError {
    refusal_within(script, DEADLINE)
}

fn watch() -> (Watch, mpsc::Receiver<HostHealth>) {
    let (sender, receiver) = mpsc::channel();
    let watch = Watch {
        folders: Box::new(Folders::default),
        health: Box::new(move |health| sender.send(health).unwrap()),
    };
    (watch, receiver)
}

#[test]
fn a_host_that_says_nothing_is_ended() {
    let error = refusal_within("echo waiting; sleep 1000", Duration::from_millis(300));
    assert!(
        matches!(error.fault, HostFault::NoAnswer { during: None, .. }),
        "{error}"
    );
}

#[test]
fn a_host_of_another_protocol_is_of_another_release() {
    let error = refusal(r"printf '\0\0\0\011\001NMAH\0\0\0\007' >&0; sleep 1000");
    assert!(
        matches!(error.fault, HostFault::Protocol { found: 7, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("another release"), "{error}");
}

#[test]
fn what_is_no_answer_ends_a_host() {
    for (script, what) in [
        (
            r"printf 'Usage: java [options]\n' >&0; sleep 1000",
            "a frame of 1433624935 bytes",
        ),
        (r"printf '\0\0\0\0' >&0; sleep 1000", "a frame of 0 bytes"),
        (r"printf '\0\0\0\001\143' >&0; sleep 1000", "type 99"),
        (r"printf '\0\0\0\002\001x' >&0; sleep 1000", "ends early"),
        (
            r"printf '\0\0\0\011\001NMAX\0\0\0\001' >&0; sleep 1000",
            "another program",
        ),
        (&format!("{HELLO}\n{HELLO}\nsleep 1000"), "out of turn"),
        (
            &format!(r"{HELLO}; printf '\0\0\0\015\005\0\0\0\0\0\0\0\0\0\0\0\0' >&0; sleep 1000"),
            "no event",
        ),
        (
            &format!(
                "{HELLO}; for i in {{1..300}}; do printf '\\0\\0\\0\\001\\006' >&0; done; sleep 1000"
            ),
            "out of turn",
        ),
    ] {
        let error = refusal(script);
        let HostFault::Garbage(text) = &error.fault else {
            panic!("{script}: {error}");
        };
        assert!(text.contains(what), "{script}: {text}");
    }
}

#[test]
fn a_host_that_ends_tells_how_and_its_last_line() {
    let error = refusal("echo first; echo 'ERROR no such class' >&2; exit 3");
    let text = error.to_string();
    for part in ["exit status 3", "its last line: ERROR no such class"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let error = refusal(&format!(
        r"{HELLO}; printf '\0\0\0\005\002\0\0\0\0' >&0; sleep 0.2; kill -9 $$"
    ));
    let text = error.to_string();
    for part in ["signal 9", "while mine was starting"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_service_that_fails_is_named_with_its_exception() {
    let error = refusal(&format!(
        r"{HELLO}; printf '\0\0\0\005\002\0\0\0\0\0\0\0\015\004\0\0\0\0\0\0\0\004boom' >&0; sleep 1000"
    ));
    let text = error.to_string();
    assert!(
        text.contains("mine (org.example.Mine) does not start: boom"),
        "{text}"
    );
}

#[test]
fn java_that_cannot_be_run_is_named() {
    let error = StartedHost::start(config("/nowhere/java".into())).expect_err("no Java");
    assert!(error.to_string().contains("/nowhere/java"), "{error}");
}

#[test]
fn a_host_has_the_socket_its_log_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let kept = fs::File::open(folder.path()).unwrap();
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
    let found = folder.path().join("found");
    let script = format!(
        "(ls /proc/$$/fd; tr '\\0' '\\n' < /proc/$$/environ; echo args $@) > {}\n{HELLO}\n{STARTED}\nexec cat <&0 > /dev/null",
        found.display()
    );
    let host = StartedHost::start(config(program(folder.path(), &script))).unwrap();
    assert_eq!(host.metadata(), [Some(b"ok".to_vec())]);
    let found = fs::read_to_string(found).unwrap();
    // Bash has its script open as 255.
    assert_eq!(
        found,
        "0\n1\n2\n255\nargs -cp x.jar nmagent.auxhost.AuxHost\n"
    );
}

#[test]
fn a_host_that_ignores_the_order_to_stop_and_sigterm_is_killed() {
    let folder = TempDir::new().unwrap();
    let script = format!("trap '' TERM\n{HELLO}\n{STARTED}\nwhile :; do sleep 1000; done");
    let mut config = config(program(folder.path(), &script));
    config.patience.stop = Duration::from_millis(50);
    config.patience.terminate = Duration::from_millis(50);
    let host = StartedHost::start(config).unwrap();
    let (_host, thread) = host.supervise(watch().0).unwrap();
    thread.stop();
}

#[test]
fn a_host_that_dies_begins_again_and_the_third_death_makes_the_node_unhealthy() {
    let folder = TempDir::new().unwrap();
    let count = folder.path().join("lives");
    let script = format!(
        "echo life >> {}\n{HELLO}\n{STARTED}\necho 'FATAL out of luck'\nsleep 0.1",
        count.display()
    );
    let host = StartedHost::start(config(program(folder.path(), &script))).unwrap();
    let (watch, health) = watch();
    let (host, thread) = host.supervise(watch).unwrap();
    host.application_ends(ApplicationId {
        cluster_timestamp: 1,
        id: 1,
    });
    let found = health.recv_timeout(DEADLINE).unwrap();
    assert!(!found.is_healthy);
    for part in ["org.example.Mine", "FATAL out of luck"] {
        assert!(found.report.contains(part), "{part}: {found:?}");
    }
    assert_eq!(fs::read_to_string(count).unwrap().lines().count(), 3);
    assert_eq!(host.lives(), 3);
    thread.stop();
}
