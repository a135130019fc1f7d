//! Localization as a whole on folders of the test, with real threads and files.

mod at_once;
mod brought_back;
mod restart;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hadoop_fs::{FileSystems, FsConfig};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;

use crate::config::{DeletionConfig, DirsConfig};

use super::super::resource::{
    LocalizationState, ResourceKind, ResourceSpec, ResourceUrl, Visibility,
};
use super::super::source::{Content, Opened, Source};
use super::*;

/// Deadline that only a failing test reaches.
const DEADLINE: Duration = Duration::from_secs(60);

struct Node {
    base: Arc<tempfile::TempDir>,
    localizer: Localizer,
    threads: Option<LocalizerThreads>,
    dirs: NodeDirs,
    deletion: DeletionService,
}

/// Source `fifo:`, which hangs while the test holds its pipe open without writing.
struct FifoSource;

impl Source for FifoSource {
    fn open(&self, path: &Path, _public: bool) -> io::Result<Opened> {
        // The open must not wait for a writer, the reads must.
        let mut options = File::options();
        let fifo = options
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path)?;
        fcntl(&fifo, FcntlArg::F_SETFL(OFlag::empty()))?;
        Ok(Opened::File(Box::new(fifo)))
    }
}

fn source_or_fifo() -> (SourceOf, Sources) {
    let sources = Sources {
        file_systems: Arc::new(FileSystems::new(FsConfig::default())),
        archives: Arc::new(archives::Here),
        own_user: String::new(),
    };
    let opener = sources.opener();
    let source_of: SourceOf = Arc::new(move |wanted, reader| match wanted.url.scheme.as_deref() {
        Some("fifo") => Ok(Box::new(FifoSource)),
        _ => opener(wanted, reader),
    });
    (source_of, sources)
}

impl Node {
    /// Starts a localizer that looks at the disk for each request.
    fn new() -> Self {
        Self::start(600_000, 0)
    }

    fn with_timeout(source_timeout_ms: u64) -> Self {
        Self::start(source_timeout_ms, 0)
    }

    /// Starts a localizer that looks at each resource once.
    fn believing() -> Self {
        Self::start(600_000, u64::MAX)
    }

    fn start(source_timeout_ms: u64, looks_count_ms: u64) -> Self {
        let base = Arc::new(tempfile::tempdir().unwrap());
        fs::create_dir(base.path().join("source")).unwrap();
        // Independent of the umask of the test.
        for path in [base.path(), &base.path().join("source")] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let dirs = NodeDirs::start(&Self::config(&base), None, EpochMillis(1)).unwrap();
        Self::on(base, dirs.dirs, source_timeout_ms, looks_count_ms)
    }

    fn config(base: &tempfile::TempDir) -> DirsConfig {
        DirsConfig {
            local_dirs: vec![base.path().join("l0"), base.path().join("l1")],
            log_dirs: vec![base.path().join("logs")],
            log_dir_permissions: 0o710,
            log_retain_sec: 0,
        }
    }

    fn on(
        base: Arc<tempfile::TempDir>,
        dirs: NodeDirs,
        source_timeout_ms: u64,
        looks_count_ms: u64,
    ) -> Self {
        let deletion = DeletionService::start(&DeletionConfig {
            thread_count: 1,
            debug_delay_sec: Some(0),
        })
        .unwrap();
        let config = LocalizerConfig {
            cache_target_size_mb: 10_240,
            cache_cleanup_interval_ms: 600_000,
            fetch_thread_count: 2,
            source_timeout_ms,
            max_files_per_directory: 8192,
        };
        let clock = || EpochMillis(0);
        let started = Localizer::start_with(
            &config,
            dirs.clone(),
            deletion.clone(),
            clock,
            source_or_fifo(),
            looks_count_ms,
        );
        let (localizer, threads) = started.unwrap();
        Self {
            base,
            localizer,
            threads: Some(threads),
            dirs,
            deletion,
        }
    }

    /// Creates a source that hangs until the returned file is closed and then is empty.
    fn hanging(&self, name: &str, visibility: Visibility) -> (ResourceSpec, File) {
        let mut spec = self.source(&format!("{name}.model"), "", visibility);
        let path = self.base.path().join("source").join(name);
        nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        spec.timestamp_ms = writer.modified_ms().unwrap();
        spec.url.scheme = Some("fifo".to_owned());
        spec.url.path = path.to_str().unwrap().to_owned();
        (spec, writer)
    }

    /// Writes a source file and returns the resource with which a container asks for it.
    fn source(&self, name: &str, content: &str, visibility: Visibility) -> ResourceSpec {
        let path = self.base.path().join("source").join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let status = fs::metadata(&path).unwrap();
        ResourceSpec {
            url: ResourceUrl {
                scheme: Some("file".to_owned()),
                user_info: None,
                host: None,
                port: None,
                path: path.to_str().unwrap().to_owned(),
            },
            size: i64::try_from(content.len()).unwrap(),
            timestamp_ms: status.mtime() * 1000 + status.mtime_nsec() / 1_000_000,
            kind: ResourceKind::File,
            visibility,
        }
    }

    fn ask(&self, n: i64, user: &str, specs: &[&ResourceSpec]) -> mpsc::Receiver<Answer> {
        let (sender, receiver) = mpsc::channel();
        let named = specs.iter().enumerate();
        let request = LocalizeRequest {
            container: container(n),
            user: user.to_owned(),
            resources: named
                .map(|(n, spec)| (format!("link{n}"), (*spec).clone()))
                .collect(),
            set: SetNumber(0),
        };
        self.localizer
            .localize(request, move |answer| drop(sender.send(answer)));
        receiver
    }

    fn status(&self, n: i64) -> Vec<ResourceStatus> {
        let (sender, receiver) = mpsc::channel();
        self.localizer
            .read_statuses(move |status| sender.send(status(container(n), SetNumber(0))).unwrap());
        receiver.recv_timeout(DEADLINE).unwrap()
    }

    /// Waits until all earlier orders are performed.
    fn settle(&self) {
        self.status(0);
    }

    fn get(&self, n: i64, specs: &[&ResourceSpec]) -> Answer {
        self.ask(n, "joe", specs).recv_timeout(DEADLINE).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.stop();
        }
        self.deletion.stop(Duration::ZERO);
    }
}

fn container(n: i64) -> ContainerId {
    ApplicationId::new(1_700_000_000_000, 7)
        .attempt(1)
        .container(n)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_container_that_needs_nothing_is_answered_on_the_spot() {
    let node = Node::new();
    let answer = node
        .ask(1, "not even a good name/", &[])
        .try_recv()
        .unwrap();
    assert!(answer.unwrap().is_empty());
}

#[test]
fn resources_arrive_where_hadoop_puts_them() {
    let node = Node::new();
    let specs = [
        node.source("a", "1", Visibility::Public),
        node.source("b", "2", Visibility::Private),
        node.source("c", "3", Visibility::Application),
    ];
    let got = node.get(1, &[&specs[0], &specs[1], &specs[2]]).unwrap();
    let below = |resource: &LocalizedResource| {
        let path = resource.path.strip_prefix(node.base.path()).unwrap();
        path.components()
            .skip(1)
            .collect::<PathBuf>()
            .display()
            .to_string()
    };
    assert_eq!(below(&got[0]), "filecache/10/a");
    assert_eq!(below(&got[1]), "usercache/joe/filecache/10/b");
    let application = "usercache/joe/appcache/application_1700000000000_0007/filecache/10/c";
    assert_eq!(below(&got[2]), application);
    let modes: Vec<_> = got.iter().map(|resource| mode(&resource.path)).collect();
    assert_eq!(modes, [0o555, 0o500, 0o500]);
    assert_eq!(mode(got[0].path.parent().unwrap()), 0o755);
    assert_eq!(mode(got[1].path.parent().unwrap()), 0o700);
    assert_eq!(got[1].link, "link1");
    let done = node.status(1);
    assert!(done.iter().all(|s| s.state == LocalizationState::Completed));
}

#[test]
fn containers_that_ask_at_once_get_the_same_file() {
    let node = Node::new();
    let spec = node.source("a", "content", Visibility::Public);
    let answers: Vec<_> = (1..20)
        .map(|n| node.ask(n, "joe", &[&spec, &spec]))
        .collect();
    for answer in answers {
        let got = answer.recv_timeout(DEADLINE).unwrap().unwrap();
        assert_eq!(got.len(), 2);
        assert!(
            got.iter()
                .all(|resource| resource.path.ends_with("filecache/10/a"))
        );
    }
    let ids = ["l0", "l1"].map(|l| fs::read_dir(node.base.path().join(l).join("filecache")));
    assert_eq!(
        ids.into_iter()
            .map(|ids| ids.unwrap().count())
            .sum::<usize>(),
        1
    );
}

#[test]
fn a_failure_is_told_with_its_cause_and_leaves_nothing() {
    let node = Node::new();
    let mut spec = node.source("a", "content", Visibility::Private);
    spec.timestamp_ms += 1000;
    let error = node.get(1, &[&spec]).unwrap_err();
    let text = error.diagnostics();
    let (message, again) = text.split_once('\n').unwrap();
    assert!(message.starts_with("Resource file:/"), "{text}");
    assert!(
        message.contains(" changed on src filesystem - expected: "),
        "{text}"
    );
    assert_eq!(again, format!("java.io.IOException: {message}\n\n"));
    let status = node.status(1);
    assert_eq!(status[0].state, LocalizationState::Failed);
    assert!(status[0].diagnostics.contains("changed on src filesystem"));
    node.deletion.wait_until_idle();
    for local in node.dirs.local_dirs() {
        let cache = local.join("usercache/joe/filecache");
        assert_eq!(fs::read_dir(cache).map_or(0, Iterator::count), 0);
    }
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let node = Node::new();
    let spec = node.source("a", "content", Visibility::Private);
    let error = node
        .ask(1, "../root", &[&spec])
        .recv_timeout(DEADLINE)
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, LocalizeError::InvalidUser(_)), "{error:?}");
    let mut spec = spec;
    spec.url.path = "/..".to_owned();
    let error = node
        .ask(1, "joe", &[&spec])
        .recv_timeout(DEADLINE)
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, LocalizeError::NoName { .. }), "{error:?}");
}

#[test]
fn a_cached_file_that_is_gone_is_downloaded_again() {
    let node = Node::new();
    let spec = node.source("a", "content", Visibility::Public);
    let first = node.get(1, &[&spec]).unwrap();
    assert_eq!(node.get(2, &[&spec]).unwrap()[0].path, first[0].path);
    fs::remove_dir_all(first[0].path.parent().unwrap()).unwrap();
    let again = node.get(3, &[&spec]).unwrap();
    assert_eq!(fs::read(&again[0].path).unwrap(), b"content");
    assert_ne!(again[0].path, first[0].path);
}

#[test]
fn folders_in_the_way_of_a_number_are_passed_over() {
    let node = Node::new();
    for local in node.dirs.local_dirs() {
        fs::create_dir(local.join("filecache/10")).unwrap();
        fs::create_dir(local.join("filecache/11_tmp")).unwrap();
    }
    let spec = node.source("a", "content", Visibility::Public);
    let got = node.get(1, &[&spec]).unwrap();
    assert!(got[0].path.ends_with("filecache/12/a"), "{got:?}");
}

#[test]
fn a_cache_that_a_user_replaced_by_a_link_is_not_used() {
    let node = Node::new();
    let outside = node.base.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for local in node.dirs.local_dirs() {
        fs::create_dir(local.join("usercache/joe")).unwrap();
        std::os::unix::fs::symlink(&outside, local.join("usercache/joe/filecache")).unwrap();
    }
    let spec = node.source("a", "content", Visibility::Private);
    let error = node.get(1, &[&spec]).unwrap_err();
    assert!(matches!(error, LocalizeError::Resource { .. }), "{error:?}");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn unused_files_go_when_the_cache_is_too_large() {
    let node = Node::new();
    let specs = ["a", "b"].map(|name| node.source(name, "content", Visibility::Private));
    let kept = node.get(1, &[&specs[0]]).unwrap();
    let evicted = node.get(2, &[&specs[1]]).unwrap();
    node.localizer.release(container(2));
    node.settle();
    assert_eq!(node.localizer.clean_up_cache(14), 0);
    assert_eq!(node.localizer.clean_up_cache(13), 1);
    node.deletion.wait_until_idle();
    assert!(kept[0].path.exists());
    assert!(!evicted[0].path.parent().unwrap().exists());
}

#[test]
fn an_application_takes_its_folders_along() {
    let node = Node::new();
    let spec = node.source("a", "content", Visibility::Application);
    let got = node.get(1, &[&spec]).unwrap();
    let (id, user) = (container(1), "joe".parse().unwrap());
    let made = node.dirs.create_container_dirs(&id, &user).unwrap();
    let [work_dir, log_dir] = [&made.work_dir, &made.log_dir].map(|folder| folder.path());
    node.deletion
        .delete(node.dirs.container_deletions(&id, &user));
    node.deletion.wait_until_idle();
    assert!(!work_dir.exists());
    assert!(got[0].path.exists() && log_dir.exists());
    let application = id.application_id();
    node.localizer.release(id);
    node.localizer.application_finished(application, &user);
    node.settle();
    node.deletion.delete(node.dirs.log_deletions(application));
    node.deletion.wait_until_idle();
    assert!(made.local_dirs.iter().all(|dir| !dir.exists()));
    assert!(!log_dir.parent().unwrap().exists());
}

#[test]
fn another_users_files_arrive_while_all_sources_of_one_user_hang() {
    let node = Node::new();
    let visibilities = [Visibility::Public, Visibility::Private];
    let kinds = visibilities.iter().cycle().take(12).enumerate();
    let (hanging, writers): (Vec<_>, Vec<_>) = kinds
        .map(|(n, visibility)| node.hanging(&n.to_string(), *visibility))
        .unzip();
    let slow = node.ask(1, "joe", &hanging.iter().collect::<Vec<_>>());
    let files =
        visibilities.map(|visibility| node.source(&format!("{visibility:?}"), "x", visibility));
    // Both ask for this one, and ann does not wait for it behind joe's others.
    let both = node.source("both", "x", Visibility::Public);
    let joes_file = node.ask(2, "joe", &[&both]);
    let small = node.ask(3, "ann", &[&files[0], &files[1], &both]);
    assert_eq!(small.recv_timeout(DEADLINE).unwrap().unwrap().len(), 3);
    joes_file.recv_timeout(DEADLINE).unwrap().unwrap();
    assert!(slow.try_recv().is_err());
    drop(writers);
    assert_eq!(slow.recv_timeout(DEADLINE).unwrap().unwrap().len(), 12);
}

#[test]
fn a_source_that_hangs_fails_its_container_and_nothing_else() {
    let node = Node::with_timeout(30);
    // As many as there are threads.
    let hanging = ["a", "b"].map(|name| node.hanging(name, Visibility::Private));
    let error = node.get(1, &[&hanging[0].0, &hanging[1].0]).unwrap_err();
    let text = error.diagnostics();
    assert!(text.contains("made no progress for 30 ms"), "{text}");
    let hangs = [&hanging[0].0, &hanging[1].0].map(|spec| spec.url.to_string());
    assert!(hangs.iter().any(|url| text.contains(url)), "{text}");
    // Their threads still hang; others take their place. With so short a limit a busy machine may
    // fail a file that does not hang.
    let file = node.source("file", "x", Visibility::Private);
    let ask = || node.ask(2, "joe", &[&file]).recv_timeout(DEADLINE);
    while ask().unwrap().is_err() {}
    drop(hanging);
}

#[test]
fn open_requests_are_answered_when_the_container_is_released_or_the_node_stops() {
    let mut node = Node::new();
    let (spec, writer) = node.hanging("a", Visibility::Private);
    let released = node.ask(1, "joe", &[&spec]);
    let open = node.ask(2, "joe", &[&spec]);
    node.localizer.release(container(1));
    let answer = released.recv_timeout(DEADLINE).unwrap();
    assert!(
        matches!(answer, Err(LocalizeError::Cancelled)),
        "{answer:?}"
    );

    let threads = node.threads.take().unwrap();
    let stopping = std::thread::spawn(move || threads.stop());
    let answer = open.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(answer, Err(LocalizeError::Stopping)), "{answer:?}");
    let late = node.ask(3, "joe", &[&spec]);
    let answer = late.recv_timeout(DEADLINE).unwrap();
    assert!(matches!(answer, Err(LocalizeError::Stopping)), "{answer:?}");
    drop(writer);
    stopping.join().unwrap();
}
