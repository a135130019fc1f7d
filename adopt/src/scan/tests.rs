use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::unistd::{Uid, User};
use tempfile::TempDir;

use super::*;

const MAIN_CLASS: &str = "org.apache.hadoop.yarn.server.nodemanager.NodeManager";

/// A made `/proc`, with folders of a node beside it.
struct Made {
    folder: TempDir,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["proc", "conf", "pids", "local"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a process with these arguments, variables and program.
    fn process(&self, pid: i32, arguments: &[&str], environment: &[String], program: &str) {
        let folder = self.path("proc").join(pid.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("cmdline"), arguments.join("\0") + "\0").unwrap();
        fs::write(folder.join("environ"), environment.join("\0") + "\0").unwrap();
        // A process may have any name.
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        fs::write(folder.join("stat"), format!("{pid} (a) R) b){rest}")).unwrap();
        fs::write(folder.join("cgroup"), "0::/system.slice/nm.service\n").unwrap();
        symlink(program, folder.join("exe")).unwrap();
    }

    fn java_node(&self, pid: i32, more: &[String]) {
        let mut environment = vec![format!("HADOOP_CONF_DIR={}", self.path("conf").display())];
        environment.extend_from_slice(more);
        let arguments = ["/jdk/bin/java", "-Dproc_nodemanager", MAIN_CLASS];
        self.process(pid, &arguments, &environment, "/jdk/bin/java");
    }

    fn scan(&self, environment: &[(&str, &Path)]) -> Scan {
        self.scan_with(environment, &|_| None)
    }

    fn scan_with(
        &self,
        environment: &[(&str, &Path)],
        main_pid: &dyn Fn(&str) -> Option<i32>,
    ) -> Scan {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let environment = environment.iter().map(|(name, path)| (*name, *path));
        scan(&Asked {
            proc: &self.path("proc"),
            conf: &self.path("conf"),
            environment: &environment
                .map(|(name, path)| (name.to_owned(), text(path)))
                .collect(),
            folders: &Folders {
                local_dirs: vec![self.path("local")],
                ..Folders::default()
            },
            main_pid,
        })
    }
}

#[test]
fn a_java_node_is_known_by_its_program_class_and_configuration() {
    let made = Made::new();
    made.java_node(
        7,
        &[
            "HADOOP_LOG_DIR=/log",
            "SECRET=x",
            "SUPERVISOR_PROCESS_NAME=nm",
        ]
        .map(str::to_owned),
    );
    // Others: a mere mention, a container that tests Hadoop, a node with another configuration.
    let mention = ["/usr/bin/grep", MAIN_CLASS];
    made.process(8, &mention, &[], "/usr/bin/grep");
    made.java_node(9, &["CONTAINER_ID=container_1_0001_01_000001".to_owned()]);
    let other = ["java", MAIN_CLASS];
    made.process(
        10,
        &other,
        &["HADOOP_CONF_DIR=/other".to_owned()],
        "/jdk/bin/java (deleted)",
    );
    let scan = made.scan(&[]);
    let [node] = &scan.nodes[..] else {
        panic!("{:?}", scan.nodes);
    };
    assert_eq!(node.process.pid, 7);
    assert!(node.is_of_scripts);
    let environment = node.environment.as_ref().unwrap();
    assert_eq!(environment["HADOOP_LOG_DIR"], "/log");
    assert!(!environment.contains_key("SECRET"));
    assert_eq!(environment["SUPERVISOR_PROCESS_NAME"], "nm");
    let others: Vec<_> = scan.others.iter().map(|node| node.process.pid).collect();
    assert_eq!(others, [10]);
    assert!(!scan.others[0].is_of_scripts);
}

#[test]
fn the_start_is_read_from_the_pid_file_with_the_nodes_own_id() {
    let made = Made::new();
    let pids = made.path("pids");
    made.java_node(7, &[format!("HADOOP_PID_DIR={}", pids.display())]);
    let by = |made: &Made| made.scan(&[]).start.unwrap();
    assert_eq!(by(&made).by, StartedBy::Hand);
    let user = User::from_uid(Uid::effective()).unwrap().unwrap().name;
    let file = pids.join(format!("hadoop-{user}-nodemanager.pid"));
    fs::write(&file, "7\n").unwrap();
    let start = by(&made);
    assert_eq!(start.by, StartedBy::Daemon);
    assert_eq!(start.pid_file.unwrap().path(), file);
    // Another process that runs: Hadoop's scripts would stop that one.
    let own = i32::try_from(std::process::id()).unwrap();
    fs::write(&file, own.to_string()).unwrap();
    let start = by(&made);
    assert_eq!(start.foreign, Some((file.clone(), own)));
    assert_eq!(start.by, StartedBy::Hand);
    // No ids, a link, a folder, a pipe that nobody writes to.
    for bad in ["", "7 8", "-7", "seven", "99999999999999"] {
        fs::write(&file, bad).unwrap();
        let start = by(&made);
        assert_eq!((start.by, start.foreign), (StartedBy::Hand, None), "{bad}");
    }
    fs::remove_file(&file).unwrap();
    fs::write(made.path("elsewhere"), "7").unwrap();
    symlink(made.path("elsewhere"), &file).unwrap();
    assert_eq!(by(&made).by, StartedBy::Hand);
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(by(&made).by, StartedBy::Hand);
}

#[test]
fn only_a_unit_whose_main_process_it_is_has_started_the_node() {
    let made = Made::new();
    made.java_node(7, &[]);
    let of = |pid| made.scan_with(&[], &move |_| pid).start.unwrap().by;
    assert_eq!(of(Some(7)), StartedBy::Unit("nm.service".to_owned()));
    // Such as that of cron, or of a management tool's agent.
    assert_eq!(of(Some(8)), StartedBy::Hand);
    assert_eq!(of(None), StartedBy::Hand);
}

#[test]
fn an_identity_with_a_path_leads_nowhere() {
    let made = Made::new();
    let pids = made.path("pids").display().to_string();
    let ident = "HADOOP_IDENT_STRING=/../../elsewhere".to_owned();
    made.java_node(7, &[format!("HADOOP_PID_DIR={pids}"), ident]);
    fs::write(made.path("elsewhere-nodemanager.pid"), "7").unwrap();
    assert_eq!(made.scan(&[]).start.unwrap().by, StartedBy::Hand);
}

#[test]
fn containers_are_those_whose_folders_are_the_nodes() {
    let made = Made::new();
    let folders = format!("LOCAL_DIRS={}/usercache/x,/y", made.path("local").display());
    let container = |number: u32| format!("CONTAINER_ID=container_1_0001_01_{number:06}");
    for (pid, number) in [(20, 1), (21, 1), (22, 2)] {
        made.process(
            pid,
            &["bash"],
            &[container(number), folders.clone()],
            "/bin/bash",
        );
    }
    let elsewhere = "LOCAL_DIRS=/elsewhere".to_owned();
    made.process(23, &["bash"], &[container(3), elsewhere], "/bin/bash");
    assert_eq!(made.scan(&[]).containers, 2);
}

#[test]
fn files_of_processes_that_are_cut_or_no_text_are_taken_for_absent() {
    let made = Made::new();
    for pid in 30..34 {
        made.java_node(pid, &[]);
    }
    let file = |pid: i32, name: &str| made.path("proc").join(format!("{pid}/{name}"));
    fs::write(file(30, "stat"), "30 (").unwrap();
    fs::write(file(31, "cmdline"), [0xff; 100]).unwrap();
    fs::remove_file(file(32, "environ")).unwrap();
    fs::write(file(33, "environ"), b"HADOOP_CONF_DIR=\xff\0=\0\0A").unwrap();
    let scan = made.scan(&[]);
    let found: Vec<_> = scan.nodes.iter().map(|node| node.process.pid).collect();
    // A configuration that is unknown may be this one.
    assert_eq!(found, [32, 33]);
    assert_eq!(scan.nodes[0].environment, None);
    assert_eq!(scan.start, None);
}
