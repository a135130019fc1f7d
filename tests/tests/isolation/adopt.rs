//! `nm-agent adopt` where a unit of systemd starts the node. In the guest only: a unit belongs to
//! the machine. There is no Java in it; a shell of that name has a Java node's arguments.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use test_support::scripted::ScriptedRm;
use tests::conf::Properties;
use tests::{guest, wait};

use crate::stories::DEADLINE;

const UNIT: &str = "hadoop-nodemanager.service";
const FOLDER: &str = "/srv/hadoop";

const STAND_IN: &str = include_str!("../../src/yarn_stand_in.sh");
const PROFILE: &str = include_str!("../../../packaging/hadoop/nm-agent.sh");

/// As packages of Hadoop have it: their script in the background, and its pid file.
const UNIT_TEXT: &str = "[Service]
Type=forking
User=nodes
Environment=HADOOP_PID_DIR=/srv/hadoop/pids HADOOP_LOG_DIR=/srv/hadoop/logs JAVA_HOME=/srv/hadoop
ExecStart=/srv/hadoop/bin/yarn --config /srv/hadoop/conf --daemon start nodemanager
ExecStop=/srv/hadoop/bin/yarn --config /srv/hadoop/conf --daemon stop nodemanager
PIDFile=/srv/hadoop/pids/hadoop-somebody-nodemanager.pid
";

/// Environment file that starts a shell in place of Java.
const ENVIRONMENT: &str = "export HADOOP_PID_DIR HADOOP_LOG_DIR HADOOP_IDENT_STRING=somebody
export NM_AGENT=/srv/hadoop/bin/nm-agent
hadoop_start_daemon() {
  echo \"${BASHPID}\" >\"$3\"
  exec /srv/hadoop/bin/java -c 'read -r _ </srv/hadoop/never' \"-Dproc_$1\" \"$2\"
}
";

fn path(name: &str) -> std::path::PathBuf {
    Path::new(FOLDER).join(name)
}

fn write_program(name: &str, text: &str) {
    fs::write(path(name), text).unwrap();
    fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
fn run(program: &str, arguments: &[&str], status: i32) -> String {
    let output = Command::new(program)
        .args(arguments)
        .env_remove("NM_AGENT_LOG")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    text
}

/// Makes a machine whose unit starts a node of the user `nodes`.
fn install(rm: &ScriptedRm) {
    run("useradd", &["--system", "nodes"], 0);
    for name in ["bin", "conf", "pids", "logs", "local", "userlogs"] {
        fs::create_dir_all(path(name)).unwrap();
    }
    let ids = run("id", &["-u", "nodes"], 0);
    let user = ids.trim().parse().unwrap();
    for name in ["pids", "logs", "local", "userlogs"] {
        chown(path(name), Some(user), Some(user)).unwrap();
    }
    nix::unistd::mkfifo(
        &path("never"),
        nix::sys::stat::Mode::from_bits_truncate(0o666),
    )
    .unwrap();
    fs::copy("/bin/bash", path("bin/java")).unwrap();
    fs::copy("/job/agent", path("bin/nm-agent")).unwrap();
    write_program("bin/yarn", STAND_IN);
    fs::write(path("profile.sh"), PROFILE).unwrap();
    fs::write(path("conf/hadoop-env.sh"), ENVIRONMENT).unwrap();
    let mut site = Properties::default();
    let tracker = "yarn.resourcemanager.resource-tracker.address";
    site.set(tracker, rm.address())
        // Another port than 0 would have to be a Java node's before it counts as up.
        .set("yarn.nodemanager.address", "127.0.0.1:0")
        .set("yarn.nodemanager.webapp.address", "127.0.0.1:0")
        .set("yarn.nodemanager.local-dirs", path("local").display())
        .set("yarn.nodemanager.log-dirs", path("userlogs").display())
        .set("yarn.nodemanager.disk-health-checker.enable", false);
    fs::write(path("conf/yarn-site.xml"), site.to_xml()).unwrap();
    fs::write(Path::new("/etc/systemd/system").join(UNIT), UNIT_TEXT).unwrap();
    run("systemctl", &["daemon-reload"], 0);
    run("systemctl", &["start", UNIT], 0);
}

/// Returns the program of the unit's main process.
fn program() -> String {
    let pid = run("systemctl", &["show", "--value", "-p", "MainPID", UNIT], 0);
    let exe = fs::read_link(format!("/proc/{}/exe", pid.trim())).unwrap_or_default();
    exe.display().to_string()
}

#[test]
fn a_unit_that_starts_the_java_node_starts_the_agent_and_the_java_node_again() {
    if !guest::is_here() {
        return;
    }
    let rm = ScriptedRm::start();
    install(&rm);
    wait::until("the node", DEADLINE, || {
        let program = program();
        wait::check(program.ends_with("bin/java"), program)
    });
    let adopt = |more: &[&str], status: i32| {
        let fixed = [
            "adopt",
            "--conf",
            "/srv/hadoop/conf",
            "--yarn",
            "/srv/hadoop/bin/yarn",
        ];
        let profile = ["--profile", "/srv/hadoop/profile.sh"];
        let arguments = [&fixed[..], &profile, more].concat();
        run("/srv/hadoop/bin/nm-agent", &arguments, status)
    };
    let plan = adopt(&[], 0);
    assert!(
        plan.contains(&format!("started by the unit {UNIT}")),
        "{plan}"
    );
    assert!(plan.contains(&format!("systemctl stop {UNIT}")), "{plan}");
    adopt(&["--go"], 0);
    rm.wait_registered();
    assert!(program().ends_with("bin/nm-agent"), "{}", program());
    // The agent's user can make no folder in /run.
    assert!(path("local/nm-agent/admin.sock").exists());
    run("systemctl", &["restart", UNIT], 0);
    rm.wait_registrations(2);
    adopt(&["--back"], 0);
    assert!(program().ends_with("bin/java"), "{}", program());
    assert!(!path("conf/shellprofile.d").exists());
    run("systemctl", &["stop", UNIT], 0);
}
