use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use localize::config::DirsConfig;
use test_support::ids::application;

use super::*;
use crate::destination::LocalDestination;
use crate::policy::Policy;
use crate::selection::LogAggregationContext;
use crate::tfile_reader::Entries;

const NODE: &str = "host_45454";

/// Name of a container of an application's first attempt.
fn container_of(application: i32, number: i64) -> ContainerName {
    test_support::ids::container_of(application, number).name()
}

fn uploader(base: &Path) -> Uploader {
    let config = DirsConfig {
        local_dirs: vec![base.join("local")],
        log_dirs: vec![base.join("log0"), base.join("log1")],
        log_dir_permissions: 0o710,
        log_retain_sec: 0,
    };
    Uploader {
        dirs: NodeDirs::start(&config, None, EpochMillis(1)).unwrap().dirs,
        destination: Box::new(LocalDestination::new(base.join("remote/root"), None)),
        suffix: "logs-tfile".to_owned(),
        node: NODE.to_owned(),
        format: Format::TFile,
        node_id: "host:45454".to_owned(),
        compression: Compression::None,
        files_per_application: 3,
        deletes_rolled: true,
        wall_now: || EpochMillis(1234),
    }
}

fn upload(containers: &[i64], phase: Phase) -> Upload {
    let context = LogAggregationContext {
        rolled_include: r"\.\d$".to_owned(),
        ..Default::default()
    };
    Upload {
        application: application(1),
        user: "joe".to_owned(),
        acls: Arc::default(),
        selection: Arc::new(Selection::new(context, Policy::All)),
        containers: containers
            .iter()
            .map(|n| (container_of(1, *n), phase))
            .collect(),
        uploaded: Arc::default(),
        settled: BTreeSet::new(),
        is_last: phase == Phase::ApplicationFinished,
        is_rolling: phase != Phase::ApplicationFinished,
    }
}

fn log(base: &Path, disk: &str, container: i64, name: &str, content: &str) {
    let folder = base
        .join(disk)
        .join(application(1).to_string())
        .join(container_of(1, container).to_string());
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), content).unwrap();
}

/// Returns the names of the remote files and the contents of one of them: containers with names
/// and contents of their files.
fn remote_names(base: &Path) -> Vec<String> {
    let folder = base.join(format!(
        "remote/root/joe/bucket-logs-tfile/0001/{}",
        application(1)
    ));
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn remote_texts(base: &Path, name: &str) -> Vec<String> {
    let path = base.join(format!(
        "remote/root/joe/bucket-logs-tfile/0001/{}/{name}",
        application(1)
    ));
    let entries = Entries::read(&fs::read(path).unwrap()).entries;
    let containers = entries.iter().skip(3);
    containers
        .map(|(key, value)| {
            let id = String::from_utf8_lossy(&key[2..]).into_owned();
            let mut text = format!("{}:", &id[id.len() - 2..]);
            let mut rest = &value[..];
            let mut read = |count: usize| {
                let (head, tail) = rest.split_at(count);
                rest = tail;
                String::from_utf8(head.to_vec()).unwrap()
            };
            let mut left = value.len();
            while left > 0 {
                let mut utf = || {
                    let length = read(2).into_bytes();
                    let length = u16::from_be_bytes(length.try_into().unwrap());
                    read(length.into())
                };
                let (name, length) = (utf(), utf());
                let content = read(length.parse().unwrap());
                left -= 4 + name.len() + length.len() + content.len();
                text += &format!(" {name}={content}");
            }
            text
        })
        .collect()
}

#[test]
fn the_last_upload_takes_containers_of_an_earlier_agent_and_no_settled_ones() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    for container in 2..=5 {
        let disk = format!("log{}", container % 2);
        log(base.path(), &disk, container, "stdout", "x");
    }
    let application_folder = base.path().join("log0").join(application(1).to_string());
    let foreign = application_folder.join(container_of(2, 9).to_string());
    for folder in [foreign, application_folder.join("container_x")] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stdout"), "foreign").unwrap();
    }
    let settled = BTreeSet::from([container_of(1, 4)]);
    let rolling = Upload {
        settled: settled.clone(),
        ..upload(&[3], Phase::ContainerEnded)
    };
    let taken = uploader.upload(&rolling).unwrap();
    assert_eq!(taken.files, 1, "only the last one looks for others");
    log(base.path(), "log1", 3, "stdout", "x");
    let last = Upload {
        settled,
        ..upload(&[3], Phase::ApplicationFinished)
    };
    let taken = uploader.upload(&last).unwrap();
    assert_eq!(taken.files, 3);
    let name = taken.remote.unwrap().name;
    let texts = remote_texts(base.path(), &name);
    assert_eq!(texts, ["03: stdout=x", "02: stdout=x", "05: stdout=x"]);
}

#[test]
fn of_an_earlier_agents_containers_the_policy_leaves_out_those_it_surely_does_not_take() {
    for (policy, expected) in [
        (Policy::All, vec![1, 2]),
        (Policy::None, vec![]),
        (Policy::AmOnly, vec![1]),
        (Policy::Failed, vec![1, 2]),
        (Policy::LimitSize, vec![1, 2]),
    ] {
        let base = tempfile::tempdir().unwrap();
        let uploader = uploader(base.path());
        log(base.path(), "log0", 1, "stdout", "x");
        log(base.path(), "log0", 2, "stdout", "x");
        let upload = Upload {
            selection: Arc::new(Selection::new(LogAggregationContext::default(), policy)),
            ..upload(&[], Phase::ApplicationFinished)
        };
        let files = uploader.upload(&upload).unwrap().listed;
        let taken: Vec<i64> = files.iter().map(|file| file.container.number()).collect();
        assert_eq!(taken, expected, "{policy:?}");
    }
}

#[test]
fn logs_of_a_container_whose_id_a_node_counted_down_are_taken_once() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    log(base.path(), "log0", -1, "stdout", "x");
    let once = uploader.upload(&upload(&[-1], Phase::ApplicationFinished));
    assert_eq!(once.unwrap().files, 1);
    let settled = Upload {
        settled: BTreeSet::from([container_of(1, -1)]),
        ..upload(&[], Phase::ApplicationFinished)
    };
    assert_eq!(uploader.upload(&settled).unwrap().files, 0);
}

#[test]
fn logs_of_all_disks_are_in_one_file_with_hadoops_names_and_modes() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    log(base.path(), "log1", 2, "stdout", "out");
    log(base.path(), "log0", 2, "syslog", "sys");
    log(base.path(), "log0", 2, "stderr", "");
    log(base.path(), "log0", 3, "stdout", "other");
    log(base.path(), "log0", 4, "stdout", "not selected");
    let upload = Upload {
        settled: BTreeSet::from([container_of(1, 4)]),
        ..upload(&[2, 3, 9], Phase::ApplicationFinished)
    };
    let uploaded = uploader.upload(&upload).unwrap();
    assert_eq!((uploaded.files, uploaded.bytes), (4, 11));
    assert_eq!(remote_names(base.path()), [NODE]);
    assert_eq!(
        remote_texts(base.path(), NODE),
        ["02: stderr= syslog=sys stdout=out", "03: stdout=other"]
    );
    let mode = |path: &str| {
        let metadata = fs::metadata(base.path().join(path)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("remote/root"), 0o1777);
    assert_eq!(mode("remote/root/joe"), 0o770);
    assert_eq!(mode("remote/root/joe/bucket-logs-tfile/0001"), 0o770);
    let file = format!(
        "remote/root/joe/bucket-logs-tfile/0001/{}/{NODE}",
        application(1)
    );
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn without_logs_no_file_is_made() {
    let base = tempfile::tempdir().unwrap();
    let uploaded = uploader(base.path()).upload(&upload(&[2], Phase::ApplicationFinished));
    assert_eq!(uploaded.unwrap(), Uploaded::default());
    assert!(!base.path().join("remote").exists());
}

#[test]
fn links_pipes_and_folders_are_left_out() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    log(base.path(), "log0", 2, "stdout", "out");
    let folder = base
        .path()
        .join(format!("log0/{}/{}", application(1), container_of(1, 2)));
    fs::write(base.path().join("secret"), "secret").unwrap();
    symlink(base.path().join("secret"), folder.join("link")).unwrap();
    symlink("stdout", folder.join("inside")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    nix::unistd::mkfifo(&folder.join("pipe"), dir_handle::mode(0o600)).unwrap();
    let elsewhere = base.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("stdout"), "secret").unwrap();
    let other = folder
        .parent()
        .unwrap()
        .join(container_of(1, 3).to_string());
    symlink(&elsewhere, other).unwrap();
    uploader
        .upload(&upload(&[2, 3], Phase::ApplicationFinished))
        .unwrap();
    assert_eq!(remote_texts(base.path(), NODE), ["02: stdout=out"]);
}

#[test]
fn an_earlier_file_of_the_same_node_is_not_replaced() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    log(base.path(), "log0", 2, "stdout", "out");
    for _ in 0..2 {
        uploader
            .upload(&upload(&[2], Phase::ApplicationFinished))
            .unwrap();
    }
    assert_eq!(remote_names(base.path()), [NODE, "host_45454_1234"]);
}

#[test]
fn rolled_files_are_dated_deleted_here_and_bounded_there() {
    let base = tempfile::tempdir().unwrap();
    let mut uploader = uploader(base.path());
    let dates: [fn() -> EpochMillis; 4] = [
        || EpochMillis(1),
        || EpochMillis(2),
        || EpochMillis(3),
        || EpochMillis(4),
    ];
    for date in dates {
        uploader.wall_now = date;
        log(base.path(), "log0", 2, "app.1", "rolled");
        log(base.path(), "log0", 2, "app", "current");
        let uploaded = uploader.upload(&upload(&[2], Phase::Running)).unwrap();
        assert_eq!(uploaded.files, 1);
        let remote = uploaded.remote.unwrap();
        assert_eq!(remote.name, format!("host_45454_{}", date().0));
        assert_eq!(remote.removed.len(), usize::from(date().0 == 4));
    }
    let names = ["host_45454_2", "host_45454_3", "host_45454_4"];
    assert_eq!(remote_names(base.path()), names);
    assert_eq!(remote_texts(base.path(), names[0]), ["02: app.1=rolled"]);
    let uploaded = uploader.upload(&upload(&[2], Phase::Running)).unwrap();
    assert_eq!(uploaded.files, 0, "it is deleted here");
}

#[test]
fn a_file_that_was_uploaded_and_has_not_changed_is_not_uploaded_again() {
    let base = tempfile::tempdir().unwrap();
    let mut uploader = uploader(base.path());
    uploader.deletes_rolled = false;
    log(base.path(), "log0", 2, "app.1", "rolled");
    let mut again = upload(&[2], Phase::Running);
    let uploaded = uploader.upload(&again).unwrap();
    again.uploaded = Arc::new(uploaded.left.into_iter().collect());
    assert_eq!(uploader.upload(&again).unwrap(), Uploaded::default());
    log(base.path(), "log0", 2, "app.1", "rolled anew");
    assert_eq!(uploader.upload(&again).unwrap().bytes, 11);
}

/// A destination that is full: it takes no content.
struct Full;

struct NoSpace;

impl Destination for Full {
    fn create(&self, _: &[String], _: &str) -> io::Result<Box<dyn RemoteFile>> {
        Ok(Box::new(NoSpace))
    }

    fn open(&self, _: &[String], _: &str) -> io::Result<Box<dyn io::Read + Send>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn names(&self, _: &[String]) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn rename(&self, _: &[String], _: &str, _: &str) -> io::Result<()> {
        panic!("a broken file must not get its name")
    }

    fn remove(&self, _: &[String], _: &str) -> io::Result<()> {
        Ok(())
    }
}

impl io::Write for NoSpace {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteFile for NoSpace {
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_destination_is_an_error_and_nothing_is_deleted_here() {
    let base = tempfile::tempdir().unwrap();
    let mut uploader = uploader(base.path());
    uploader.destination = Box::new(Full);
    log(base.path(), "log0", 2, "app.1", "rolled");
    let error = uploader.upload(&upload(&[2], Phase::Running)).unwrap_err();
    assert!(error.to_string().contains("/host_45454.tmp"), "{error}");
    let path = base.path().join(format!(
        "log0/{}/{}/app.1",
        application(1),
        container_of(1, 2)
    ));
    assert!(path.exists());
}

/// Returns the bytes that the names in an upload's result take.
fn remembered(uploaded: &Uploaded) -> usize {
    let files = uploaded.listed.iter().chain(&uploaded.left);
    files.map(UploadedFile::memory).sum()
}

/// Makes this many empty logs of a container, with long names that a rolling upload selects.
fn empty_logs(base: &Path, container: i64, count: usize) {
    log(base, "log0", container, "first.0", "");
    let folder = base
        .join("log0")
        .join(application(1).to_string())
        .join(container_of(1, container).to_string());
    for number in 1..count {
        let name = format!("{number:05}{}.1", "x".repeat(100));
        fs::write(folder.join(name), "").unwrap();
    }
}

#[test]
fn an_upload_of_any_number_of_files_names_few_of_them_afterwards() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    for container in 2..=4 {
        empty_logs(base.path(), container, 1200);
    }
    let last = upload(&[2, 3, 4], Phase::ApplicationFinished);
    let uploaded = uploader.upload(&last).unwrap();
    assert_eq!(uploaded.files, 3600);
    assert!(uploaded.unfinished.is_empty() && uploaded.left.is_empty());
    let bytes = remembered(&uploaded);
    assert!((1..=LISTED_BYTES_MAX).contains(&bytes), "{bytes}");
    let texts = remote_texts(base.path(), NODE);
    let counts = texts.iter().map(|text| text.matches("=").count());
    assert_eq!(counts.collect::<Vec<_>>(), [1200; 3]);
}

#[test]
fn rolling_uploads_take_many_files_in_several_turns_and_delete_what_they_took() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    empty_logs(base.path(), 2, 2000);
    let rolling = upload(&[2], Phase::Running);
    let mut taken = Vec::new();
    loop {
        let uploaded = uploader.upload(&rolling).unwrap();
        taken.push(uploaded.files);
        if uploaded.unfinished.is_empty() {
            break;
        }
        assert_eq!(uploaded.unfinished, [container_of(1, 2)].into());
    }
    assert!(taken.len() > 1, "{taken:?}");
    assert_eq!(taken.iter().sum::<u64>(), 2000, "{taken:?}");
    let last = upload(&[2], Phase::ApplicationFinished);
    assert_eq!(uploader.upload(&last).unwrap().files, 0);
}

#[test]
fn rolled_files_that_stay_are_remembered_up_to_a_limit() {
    let base = tempfile::tempdir().unwrap();
    let mut uploader = uploader(base.path());
    uploader.deletes_rolled = false;
    empty_logs(base.path(), 2, 2000);
    let mut rolling = upload(&[2], Phase::Running);
    let mut total = 0;
    loop {
        let uploaded = uploader.upload(&rolling).unwrap();
        let bytes = remembered(&uploaded);
        assert!(bytes <= ROLLED_BYTES_MAX + LISTED_BYTES_MAX, "{bytes}");
        total += uploaded.files;
        let known = Arc::make_mut(&mut rolling.uploaded);
        known.extend(uploaded.left);
        if uploaded.unfinished.is_empty() {
            break;
        }
    }
    assert_eq!(total, 2000, "each once");
}

#[test]
fn a_container_with_logs_on_two_disks_is_found_once() {
    let base = tempfile::tempdir().unwrap();
    let uploader = uploader(base.path());
    log(base.path(), "log0", 2, "stdout", "x");
    log(base.path(), "log1", 2, "stderr", "y");
    let taken = uploader
        .upload(&upload(&[], Phase::ApplicationFinished))
        .unwrap();
    assert_eq!(taken.files, 2);
    assert_eq!(remote_texts(base.path(), NODE), ["02: stdout=x stderr=y"]);
}
