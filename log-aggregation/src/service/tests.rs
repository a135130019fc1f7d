use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, mpsc};

use localize::NodeDirs;
use localize::config::DirsConfig;
use records::{ContainerExitStatus, EpochMillis};
use test_support::ids::{application, container_of};

use super::*;
use crate::destination::{Destination, RemoteFile};
use crate::format::Format;
use crate::policy::Policy;
use crate::selection::{LogAggregationContext, Selection};
use crate::tfile::Compression;

/// Deadline far above an upload's duration, so that a test that waits for one hangs visibly.
const LONG: Duration = Duration::from_secs(60);

/// A destination that hangs for one user until its sender is dropped, and refuses the others.
struct HangsForJoe(Mutex<mpsc::Receiver<()>>);

impl Destination for HangsForJoe {
    fn create(&self, folder: &[String], _: &str) -> io::Result<Box<dyn RemoteFile>> {
        if folder[0] == "joe" {
            let _hung = self.0.lock().unwrap().recv();
        }
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn open(&self, _: &[String], _: &str) -> io::Result<Box<dyn io::Read + Send>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn names(&self, _: &[String]) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn rename(&self, _: &[String], _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &[String], _: &str) -> io::Result<()> {
        Ok(())
    }
}

fn uploader(base: &Path, hang: mpsc::Receiver<()>) -> Uploader {
    let config = DirsConfig {
        local_dirs: vec![base.join("local")],
        log_dirs: vec![base.join("log")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    };
    Uploader {
        dirs: NodeDirs::start(&config, None, EpochMillis(1)).unwrap().dirs,
        destination: Box::new(HangsForJoe(Mutex::new(hang))),
        suffix: "logs-tfile".to_owned(),
        node: "host_1".to_owned(),
        format: Format::TFile,
        node_id: "host:1".to_owned(),
        compression: Compression::None,
        files_per_application: 3,
        deletes_rolled: true,
        wall_now: || EpochMillis(1),
    }
}

fn begin(service: &LogAggregation, base: &Path, number: i32, user: &str) {
    let context = LogAggregationContext::default();
    service.begin(Application {
        id: application(number),
        user: user.parse().unwrap(),
        acls: Vec::new(),
        selection: Selection::new(context, Policy::All),
        settled: BTreeSet::new(),
    });
    let id = container_of(number, 2).name();
    let folder = base
        .join("log")
        .join(application(number).to_string())
        .join(id.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("stdout"), "out").unwrap();
    service.container_ended(&ContainerEnd {
        id,
        role: ContainerRole::Task,
        exit_status: ContainerExitStatus::SUCCESS,
    });
}

#[test]
fn a_destination_that_hangs_for_one_user_holds_up_nobody_else() {
    let base = tempfile::tempdir().unwrap();
    let (release, hang) = mpsc::channel();
    let uploader = uploader(base.path(), hang);
    let (outcomes, results) = mpsc::channel();
    let listener: Listener = Box::new(move |outcome| outcomes.send(outcome).unwrap());
    let config = ServiceConfig {
        threads_max: 4,
        roll_interval: None,
        token_wait: None,
    };
    let service = LogAggregation::start(config, uploader, listener).unwrap();
    for number in 1..=5 {
        begin(&service, base.path(), number, "joe");
        assert!(service.finish(application(number)).is_none());
    }
    for number in 6..=7 {
        begin(&service, base.path(), number, "ann");
        assert!(service.finish(application(number)).is_none());
        let outcome = results.recv_timeout(LONG).unwrap();
        assert_eq!(outcome.application, application(number));
        assert!(outcome.result.is_err());
    }
    service.stop(Duration::ZERO);
    drop(release);
}

#[test]
fn what_is_not_known_is_answered_at_once() {
    let base = tempfile::tempdir().unwrap();
    let (_release, hang) = mpsc::channel();
    let uploader = uploader(base.path(), hang);
    let config = ServiceConfig {
        threads_max: 1,
        roll_interval: None,
        token_wait: None,
    };
    let listener: Listener = Box::new(|outcome| panic!("{outcome:?}"));
    let service = LogAggregation::start(config, uploader, listener).unwrap();
    assert!(service.finish(application(1)).unwrap().is_last);
    service.stop(LONG);
}
