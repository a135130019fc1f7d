//! The limit of open files of an agent and of its containers. One test, since the limit is a whole
//! process's.

#[path = "container/fixture.rs"]
mod container;

use std::time::Duration;

use container_runtime::launch::{LaunchEvent, Launcher};
use container_runtime::open_files;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::mpsc;

use crate::container::{config, plan};

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
    let plan = plan(root.path(), 1, "(ulimit -Sn; ulimit -Hn) > said");
    let said = plan.dirs.work_dir.path().join("said");
    let (sender, mut events) = mpsc::channel(16);
    let launcher = Launcher::start(config(), sender, tokio::runtime::Handle::current()).unwrap();
    launcher.launch(plan).unwrap();
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
