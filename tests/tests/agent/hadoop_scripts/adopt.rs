//! `nm-agent adopt` where no Java is needed: a node that does not run, processes that only look
//! like Java nodes, and records of others.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::unistd::Uid;
use test_support::scripted::{ScriptedAm, ScriptedRm};
use tests::{proc, skip, wait};

use super::{DEADLINE, Machine, profile};
use crate::AGENT;

const RECORD: &str = "conf/nm-agent-adopt.json";

impl Machine {
    /// Returns a command of this machine's operator.
    fn adopt_command(&self, arguments: &[&str]) -> Command {
        self.adopt_command_of(Path::new(AGENT), arguments)
    }

    /// Returns a command of this machine's operator with this program.
    fn adopt_command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let yarn = self.path("yarn");
        let stand_in = concat!(env!("CARGO_MANIFEST_DIR"), "/src/yarn_stand_in.sh");
        fs::write(
            &yarn,
            format!("#!/bin/bash\nexec bash '{stand_in}' \"$@\"\n"),
        )
        .unwrap();
        fs::set_permissions(&yarn, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Command::new(program);
        command.arg("adopt").arg("--conf").arg(self.path("conf"));
        command
            .arg("--yarn")
            .arg(yarn)
            .arg("--profile")
            .arg(profile());
        command
            .args(arguments)
            .env("HADOOP_PID_DIR", self.path("pids"))
            .env("HADOOP_LOG_DIR", self.path("logs"))
            .env_remove("JAVA_HOME")
            .env_remove("HADOOP_CONF_DIR")
            .env_remove("NM_AGENT_LOG");
        command
    }

    /// Runs it, expects this exit status, and returns both outputs.
    #[track_caller]
    fn adopt(&self, arguments: &[&str], status: i32) -> String {
        Self::end_of(self.adopt_command(arguments), status)
    }

    #[track_caller]
    fn end_of(mut command: Command, status: i32) -> String {
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(output.status.code(), Some(status), "{text}");
        text
    }

    #[track_caller]
    fn refuses(&self, arguments: &[&str], reason: &str) {
        let text = self.adopt(arguments, 2);
        assert!(text.contains(reason), "{reason}: {text}");
    }

    /// Starts a process that looks like a Java node with this configuration.
    fn start_lookalike(&self, conf: &str, scripts: &[&str]) -> Child {
        let java = self.path("java");
        if !java.exists() {
            fs::copy("/bin/bash", &java).unwrap();
        }
        // A pipe as standard input, so it ends with the test.
        Command::new(java)
            .args(["-c", "read -r _"])
            .args(scripts)
            .arg("org.apache.hadoop.yarn.server.nodemanager.NodeManager")
            .env("HADOOP_CONF_DIR", conf)
            .env("HADOOP_PID_DIR", self.path("pids"))
            .env("HADOOP_IDENT_STRING", "somebody")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Ends a process of a test when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[test]
fn a_node_that_does_not_run_is_the_agents_until_back() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    assert!(machine.adopt(&[], 0).contains("Java node: does not run"));
    machine.adopt(&["--go"], 0);
    rm.wait_registered();
    assert!(machine.path("local/nm-agent").is_dir());
    assert!(!machine.path("local/usercache").exists());
    assert!(machine.adopt(&[], 0).contains("The agent has the place"));
    machine.refuses(&["--go"], "the agent has the place already");
    machine.adopt(&["--back"], 0);
    assert!(!machine.path("conf/shellprofile.d").exists());
    assert!(!machine.path(RECORD).exists());
    assert!(proc::mentioning(machine.folder.path()).is_empty());
    machine.refuses(&["--back"], "there is no record of a --go");
    // The way back leaves nothing that a second adoption would meet.
    machine.adopt(&["--go"], 0);
    rm.wait_registrations(2);
    machine.adopt(&["--back"], 0);
}

#[test]
fn containers_that_run_keep_the_node_where_it_is_unless_they_may_be_lost() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let of_java = Command::new("bash")
        .args(["-c", "read -r _"])
        .env("CONTAINER_ID", "container_1_0001_01_000001")
        .env("LOCAL_DIRS", machine.path("local/usercache/x"))
        .stdin(Stdio::piped())
        .spawn();
    let of_java = Ended(of_java.unwrap());
    machine.refuses(&["--go"], "containers run here (1)");
    drop(of_java);
    machine.adopt(&["--go"], 0);
    rm.wait_registered();
    let am = ScriptedAm::connect(&rm, 1);
    am.start(&am.first(), "exec sleep 86399");
    wait::until("the container", DEADLINE, || {
        let found = proc::containers(machine.folder.path());
        wait::check(!found.is_empty(), format!("{found:?}"))
    });
    machine.refuses(&["--back"], "containers run or wait here (1)");
    assert!(machine.path(RECORD).exists());
    machine.adopt(&["--back", "--lose-containers"], 0);
    assert!(proc::mentioning(machine.folder.path()).is_empty());
}

/// Hadoop's script and what it reads may be in the hands of the node's user.
#[test]
fn root_runs_hadoops_scripts_as_the_nodes_user() {
    const NOBODY: u32 = 65534;
    if !Uid::effective().is_root() {
        skip::skip("adopt by root", &"it needs root");
        return;
    }
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let site = machine.path("conf/yarn-site.xml");
    let text = fs::read_to_string(&site).unwrap();
    // The agent's user can make no folder in /run.
    let socket = format!("<value>{}</value>", machine.path("admin").display());
    assert!(text.contains(&socket));
    let text = text.replace("yarn.nodemanager.agent.admin.socket", "x.unused");
    fs::write(site, text).unwrap();
    fs::set_permissions(machine.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["local", "userlogs", "pids", "logs"] {
        let folder = machine.path(name);
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let env = machine.path("conf/hadoop-env.sh");
    // The one under test may lie in a folder that is closed to others.
    let program = machine.path("nm-agent");
    fs::copy(AGENT, &program).unwrap();
    fs::write(env, "id -u >>\"${HADOOP_LOG_DIR}/ids\"\n").unwrap();
    Machine::end_of(machine.adopt_command_of(&program, &["--go"]), 0);
    rm.wait_registered();
    let agents = proc::mentioning(machine.folder.path());
    assert!(!agents.is_empty());
    for agent in agents {
        let status = fs::metadata(format!("/proc/{}", agent.pid)).unwrap();
        assert_eq!(status.uid(), NOBODY, "{}", agent.command);
    }
    assert!(machine.path("local/nm-agent/admin.sock").exists());
    Machine::end_of(machine.adopt_command_of(&program, &["--back"]), 0);
    let ids = fs::read_to_string(machine.path("logs/ids")).unwrap();
    assert!(ids.lines().all(|id| id == NOBODY.to_string()), "{ids}");
}

#[test]
fn an_interrupted_go_is_gone_on_with() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    // The agent does not come up, and the run waits for it.
    let env = machine.path("conf/hadoop-env.sh");
    let hangs = machine.path("hangs");
    fs::write(
        &hangs,
        "#!/bin/bash\nexec -a 'nm-agent -Dproc_nodemanager' sleep 1000000\n",
    )
    .unwrap();
    fs::set_permissions(&hangs, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&env, format!("export NM_AGENT='{}'\n", hangs.display())).unwrap();
    let mut run = machine.adopt_command(&["--go"]);
    run.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Ended(run.spawn().unwrap());
    wait::until("the start of the agent", DEADLINE, || {
        let record = fs::read_to_string(machine.path(RECORD)).unwrap_or_default();
        let pid = machine.path("pids").read_dir().unwrap().count();
        wait::check(record.contains("start-agent") && pid == 1, record)
    });
    machine.refuses(&["--back"], "another nm-agent adopt is at work here");
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    assert!(
        machine
            .adopt(&[], 0)
            .contains("A --go was interrupted here")
    );
    machine.daemon("stop", 0);
    fs::remove_file(env).unwrap();
    machine.adopt(&["--go"], 0);
    rm.wait_registered();
    machine.adopt(&["--back"], 0);
    assert!(!machine.path(RECORD).exists());
}

#[test]
fn an_agent_that_ends_at_once_is_no_node_and_all_is_undone() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let env = machine.path("conf/hadoop-env.sh");
    fs::write(env, "export NM_AGENT=/bin/false\n").unwrap();
    let text = machine.adopt(&["--go"], 1);
    assert!(text.contains("the agent has ended"), "{text}");
    assert!(text.contains("went back, as it was before"), "{text}");
    let names = fs::read_dir(machine.path("conf")).unwrap();
    let mut names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["hadoop-env.sh", "yarn-site.xml"]);
}

#[test]
fn final_folders_of_the_java_node_are_not_given_to_the_agent() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let site = machine.path("conf/yarn-site.xml");
    let text = fs::read_to_string(&site).unwrap();
    let local = format!("{}</value>", machine.path("local").display());
    assert!(text.contains(&local));
    fs::write(
        site,
        text.replace(&local, &format!("{local}<final>true</final>")),
    )
    .unwrap();
    let text = machine.adopt(&["--go"], 1);
    assert!(
        text.contains("is yarn.nodemanager.local-dirs final?"),
        "{text}"
    );
    assert!(!machine.path("local").exists());
}

#[test]
fn java_nodes_that_cannot_be_told_apart_or_started_again_are_left_alone() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let conf = machine.path("conf").display().to_string();
    let by_hand = Ended(machine.start_lookalike(&conf, &[]));
    machine.refuses(&["--go"], "started the Java node without Hadoop's scripts");
    let _second = Ended(machine.start_lookalike(&conf, &["-Dproc_nodemanager"]));
    machine.refuses(&["--go"], "several Java nodes");
    drop(by_hand);
    // The file of its id is that of another process.
    let file = machine.path("pids/hadoop-somebody-nodemanager.pid");
    fs::write(&file, std::process::id().to_string()).unwrap();
    machine.refuses(&["--go"], "has the id of another process that runs");
    assert!(!machine.path(RECORD).exists());
}

#[test]
fn a_configuration_with_control_characters_is_escaped() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    let _node = Ended(machine.start_lookalike("/x\x1b[2J\ny", &["-Dproc_nodemanager"]));
    let text = machine.adopt(&[], 0);
    assert!(text.contains(", with /x\\u{1b}[2J\\ny\n"), "{text}");
    assert!(!text.contains('\x1b'), "{text:?}");
    // An operator that does not name the configuration may mean that node.
    let command = machine.adopt_command(&["--go"]);
    let named = command.get_args().position(|it| it == "--conf").unwrap();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut without = Command::new(AGENT);
    without
        .args(&arguments[..named])
        .args(&arguments[named + 2..]);
    without.env("HADOOP_CONF_DIR", machine.path("conf"));
    let output = without.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("has another configuration: name it with --conf"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_record_that_is_cut_copied_linked_or_anothers_does_nothing() {
    let rm = ScriptedRm::start();
    let machine = Machine::without_profile(&rm);
    machine.adopt(&["--go"], 0);
    rm.wait_registered();
    let record = machine.path(RECORD);
    let bytes = fs::read(&record).unwrap();
    let refuse_all = |reason: &str| {
        for arguments in [["--back"].as_slice(), &["--go"], &[]] {
            machine.refuses(arguments, reason);
        }
    };
    fs::write(&record, &bytes[..bytes.len() / 2]).unwrap();
    refuse_all("the record is cut or none");
    fs::write(&record, &bytes).unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o666)).unwrap();
    refuse_all("somebody else could have written it");
    fs::set_permissions(&record, fs::Permissions::from_mode(0o644)).unwrap();
    fs::rename(&record, machine.path("elsewhere")).unwrap();
    symlink(machine.path("elsewhere"), &record).unwrap();
    refuse_all("the record cannot be read");
    fs::remove_file(&record).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let conf = machine.path("conf").display().to_string();
    fs::write(&record, text.replace(&conf, "/elsewhere")).unwrap();
    machine.refuses(&["--back"], "it was copied");
    if Uid::effective().is_root() {
        fs::write(&record, &bytes).unwrap();
        std::os::unix::fs::chown(&record, Some(12345), None).unwrap();
        machine.refuses(&["--back"], "somebody else could have written it");
        std::os::unix::fs::chown(&record, Some(0), None).unwrap();
    } else {
        skip::skip("a record of another user", &"only root gives files away");
    }
    fs::write(&record, &bytes).unwrap();
    machine.adopt(&["--back"], 0);
}
