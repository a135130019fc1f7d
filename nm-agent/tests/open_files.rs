//! The limit of open files of an agent and of its containers. One test, since the limit is a whole process's.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nm_agent::config::Config;
use nm_agent::launch::{LaunchConfig, LaunchEvent, LaunchPlan, Launcher};
use nm_agent::localize::ContainerDirs;
use nm_agent::open_files;
use records::{ApplicationId, NodeId};
use tokio::sync::mpsc;

const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn the_agent_takes_all_that_it_may_and_containers_get_what_it_was_started_with() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let given = 512.min(hard - 1);
    setrlimit(Resource::RLIMIT_NOFILE, given, hard).unwrap();
    assert_eq!(open_files::raise().unwrap(), hard);
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    // Once more, as by a second agent in the same process.
    assert_eq!(open_files::raise().unwrap(), hard);

    let root = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let dirs = ContainerDirs {
        work_dir: directory("work"),
        log_dir: directory("log"),
        nm_private_dir: directory("private"),
        local_dirs: Vec::new(),
        local_user_dirs: Vec::new(),
        log_dirs: Vec::new(),
    };
    let said = dirs.work_dir.join("said");
    let id = ApplicationId::new(i64::from(std::process::id()), 9)
        .attempt(1)
        .container(1);
    let plan = LaunchPlan {
        commands: vec!["(ulimit -Sn; ulimit -Hn) > said".to_owned()],
        ..LaunchPlan::new(id, "alice".to_owned(), dirs)
    };
    let (sender, mut events) = mpsc::channel(16);
    let launcher = Launcher::start(config(), sender, tokio::runtime::Handle::current()).unwrap();
    launcher.launch(Box::new(plan)).unwrap();
    loop {
        let event = tokio::time::timeout(DEADLINE, events.recv()).await;
        if let LaunchEvent::Exited { status, .. } = event.unwrap().unwrap() {
            assert_eq!(status.0, 0);
            break;
        }
    }
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said, format!("{given}\n{hard}\n"));
}

fn config() -> LaunchConfig {
    let defaults = Config::load(&[], &BTreeMap::new()).expect("Hadoop's defaults are valid");
    let node_id = NodeId {
        host: "localhost".to_owned(),
        port: 8041,
    };
    LaunchConfig::new(&defaults.launch, node_id, 8042, BTreeMap::new(), None)
}
