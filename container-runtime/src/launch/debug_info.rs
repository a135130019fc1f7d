//! `launch_container.sh` and `directory.info` in a container's log directory, for people who ask
//! why it did not run.
//!
//! Hadoop's script makes them before it starts the command: `cp`, `chmod`, `ls` and two `find`s,
//! each a process. That is more work than starting bash itself, for files that are rarely read.
//! Here a thread makes them while the command starts already. `directory.info` says the same in the
//! same order; it shows numbers instead of user names (looking them up may ask a directory server),
//! times in UTC, and ends where a bound is reached. Links are followed only to the container's own
//! resources: the agent may be allowed to read what the container's user may not.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use localize::ContainerFolder;
use time::OffsetDateTime;
use time::macros::format_description;
use tokio::sync::oneshot;

use super::context::LAUNCH_SCRIPT;
use super::files::Directory;
use super::links::ResolvedLink;

/// The listing's name (Hadoop: `ContainerLaunch.DIRECTORY_CONTENTS`).
const DIRECTORY_INFO: &str = "directory.info";
/// Launches that may wait to be described. When full, a launch is not described.
const JOBS_MAX: usize = 1_024;
/// Maximum depth, that of `find -maxdepth 5`.
const DEPTH_MAX: usize = 5;
/// Lines of a listing.
const ENTRIES_MAX: usize = 2_000;
/// Maximum wait for links that the script makes after its start: they are what readers of the
/// listing look for.
const LINKS_WAIT: Duration = Duration::from_secs(2);
/// Interval between two checks for the links.
const LINKS_POLL: Duration = Duration::from_millis(20);
/// Maximum time that the end of a container waits for its description.
const FINISH_WAIT: Duration = Duration::from_secs(1);

/// Files and folders that `directory.info` describes.
pub(super) struct DebugJob {
    pub(super) script: String,
    pub(super) work_dir: Directory,
    pub(super) log_dir: ContainerFolder,
    pub(super) links: Vec<ResolvedLink>,
}

struct Queued {
    job: DebugJob,
    wait_until: Instant,
    leader_ended: Arc<AtomicBool>,
    _done: oneshot::Sender<()>,
}

/// Held by whoever ends the container, since after that its directories may go.
pub(super) struct DebugTicket {
    leader_ended: Arc<AtomicBool>,
    done: oneshot::Receiver<()>,
}

impl DebugTicket {
    /// Has the files written now, and waits for that, but not for ever.
    pub(super) async fn finished(self) {
        self.leader_ended.store(true, Ordering::Relaxed);
        if tokio::time::timeout(FINISH_WAIT, self.done).await.is_err() {
            tracing::debug!("a container ends before its directory is listed");
        }
    }
}

/// The handle. The thread ends when it is dropped.
#[derive(Clone)]
pub(super) struct DebugInfo {
    jobs: Sender<Queued>,
}

impl DebugInfo {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queued) = bounded(JOBS_MAX);
        thread::Builder::new()
            .name("debug-info".to_owned())
            .spawn(move || serve(&queued))?;
        Ok(Self { jobs })
    }

    /// Queues a job, or drops it when too many wait.
    pub(super) fn describe(&self, job: DebugJob) -> Option<DebugTicket> {
        let leader_ended = Arc::new(AtomicBool::new(false));
        let (sender, done) = oneshot::channel();
        let queued = Queued {
            wait_until: Instant::now() + LINKS_WAIT,
            leader_ended: Arc::clone(&leader_ended),
            _done: sender,
            job,
        };
        match self.jobs.try_send(queued) {
            Ok(()) => Some(DebugTicket { leader_ended, done }),
            Err(TrySendError::Full(queued) | TrySendError::Disconnected(queued)) => {
                let log_dir = queued.job.log_dir.path().display();
                tracing::debug!(%log_dir, "too busy to describe a launch");
                None
            }
        }
    }
}

fn serve(jobs: &Receiver<Queued>) {
    let mut waiting: Vec<Queued> = Vec::new();
    loop {
        let received = if waiting.is_empty() {
            jobs.recv()
                .map_err(|_closed| RecvTimeoutError::Disconnected)
        } else if waiting.len() < JOBS_MAX {
            jobs.recv_timeout(LINKS_POLL)
        } else {
            thread::sleep(LINKS_POLL);
            Err(RecvTimeoutError::Timeout)
        };
        match received {
            Ok(job) => waiting.push(job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for queued in waiting.extract_if(.., |queued| is_ready(queued)) {
            if let Err(error) = describe(queued.job) {
                let error = crate::error_chain(&error);
                tracing::debug!(error, "cannot describe a launch");
            }
        }
    }
}

fn is_ready(queued: &Queued) -> bool {
    let last_link = queued.job.links.last();
    last_link.is_none_or(|last| queued.job.work_dir.is_link(&last.link))
        || queued.leader_ended.load(Ordering::Relaxed)
        || Instant::now() >= queued.wait_until
}

fn describe(job: DebugJob) -> Result<(), super::error::LaunchError> {
    let log_dir = Directory::of(&job.log_dir)?;
    // 0640, so that log aggregation running as another member of the group can read it.
    log_dir.create(LAUNCH_SCRIPT, 0o640, job.script.as_bytes())?;
    let listing = listing(&job.links, job.work_dir);
    log_dir.create(DIRECTORY_INFO, 0o640, listing.as_bytes())
}

fn listing(links: &[ResolvedLink], work_dir: Directory) -> String {
    let mut lister = Lister {
        targets: links.iter().map(|link| link.target.as_path()).collect(),
        entries_left: ENTRIES_MAX,
    };
    let mut text = String::from("ls -l:\n");
    let entries = lister.entries(&work_dir, Path::new("."));
    for entry in &entries {
        append(&mut text, format_args!("{}", columns(&entry.metadata)));
        append_name(&mut text, &entry.name, entry.target.as_deref());
    }
    text.push_str("find -L . -maxdepth 5 -ls:\n");
    let broken = lister.list_tree(work_dir, entries, &mut text);
    text.push_str("broken symlinks(find -L . -maxdepth 5 -type l -ls):\n");
    text.push_str(&broken);
    if lister.entries_left == 0 {
        append(
            &mut text,
            format_args!("(cut after {ENTRIES_MAX} entries)\n"),
        );
    }
    text
}

fn append(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a String cannot fail");
}

struct Lister<'a> {
    /// Links to these are followed.
    targets: BTreeSet<&'a Path>,
    entries_left: usize,
}

/// An entry of a directory, itself and not what it may link to.
struct Entry {
    name: PathBuf,
    metadata: Metadata,
    /// Target of a symbolic link; `None` for other files.
    target: Option<PathBuf>,
}

/// A directory that is still to be listed.
struct Pending {
    base: Rc<Directory>,
    /// Relative to `base`.
    path: PathBuf,
    shown: PathBuf,
    depth: usize,
}

impl Lister<'_> {
    /// The entries of a directory, by name; an unreadable one has none.
    fn entries(&mut self, base: &Directory, path: &Path) -> Vec<Entry> {
        let Ok(directory) = base.open_beneath(path) else {
            return Vec::new();
        };
        let directory_path = directory.handle_path();
        let Ok(names) = std::fs::read_dir(&directory_path) else {
            return Vec::new();
        };
        let mut entries: Vec<_> = names
            .take(self.entries_left)
            .filter_map(|entry| {
                let name = PathBuf::from(entry.ok()?.file_name());
                let path = directory_path.join(&name);
                let metadata = path.symlink_metadata().ok()?;
                let is_link = metadata.is_symlink();
                Some(Entry {
                    target: is_link.then(|| std::fs::read_link(&path).ok()).flatten(),
                    metadata,
                    name,
                })
            })
            .collect();
        self.entries_left -= entries.len();
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Like `find -L . -maxdepth 5 -ls`, one directory after the other; `entries` are those of the
    /// first. Returns the lines of broken links.
    fn list_tree(
        &mut self,
        work_dir: Directory,
        mut entries: Vec<Entry>,
        text: &mut String,
    ) -> String {
        entries.truncate(self.entries_left);
        self.entries_left -= entries.len();
        let mut broken = String::new();
        let mut directory = Pending {
            base: Rc::new(work_dir),
            path: PathBuf::from("."),
            shown: PathBuf::from("."),
            depth: 1,
        };
        let mut pending = VecDeque::new();
        loop {
            for entry in entries {
                let shown = directory.shown.join(&entry.name);
                let followed = self.follow(&entry);
                let mut line = String::new();
                append_line(&mut line, &shown, &entry, followed.as_ref());
                text.push_str(&line);
                if is_broken(&entry) {
                    broken.push_str(&line);
                }
                if directory.depth == DEPTH_MAX {
                    continue;
                }
                let (base, path) = if let Some((target, metadata)) = followed {
                    let Some(base) = metadata
                        .is_dir()
                        .then(|| Directory::of_resource(&target).ok())
                        .flatten()
                    else {
                        continue;
                    };
                    (Rc::new(base), PathBuf::from("."))
                } else if entry.metadata.is_dir() {
                    (Rc::clone(&directory.base), directory.path.join(&entry.name))
                } else {
                    continue;
                };
                pending.push_back(Pending {
                    base,
                    path,
                    shown,
                    depth: directory.depth + 1,
                });
            }
            let Some(next) = pending.pop_front() else {
                return broken;
            };
            directory = next;
            entries = self.entries(&directory.base, &directory.path);
        }
    }

    /// Returns the target of a link to a resource of the container; `None` for other entries.
    fn follow(&self, entry: &Entry) -> Option<(PathBuf, Metadata)> {
        let target = entry.target.as_ref()?;
        if !self.targets.contains(target.as_path()) {
            return None;
        }
        let metadata = target.symlink_metadata().ok()?;
        (!metadata.is_symlink()).then(|| (target.clone(), metadata))
    }
}

/// Returns whether a link's target is missing. Relative targets count as present: they are
/// the container's own.
fn is_broken(entry: &Entry) -> bool {
    let target = entry.target.as_deref().filter(|t| t.is_absolute());
    target.is_some_and(|target| target.symlink_metadata().is_err())
}

fn append_line(
    line: &mut String,
    shown: &Path,
    entry: &Entry,
    followed: Option<&(PathBuf, Metadata)>,
) {
    let metadata = followed.map_or(&entry.metadata, |(_, metadata)| metadata);
    append(
        line,
        format_args!(
            "{:>9} {:>6} {}",
            metadata.ino(),
            metadata.blocks().div_ceil(2),
            columns(metadata)
        ),
    );
    let target = entry.target.as_deref().filter(|_| followed.is_none());
    append_name(line, shown, target);
}

fn append_name(text: &mut String, shown: &Path, target: Option<&Path>) {
    append(text, format_args!("{}", shown.display()));
    if let Some(target) = target {
        append(text, format_args!(" -> {}", target.display()));
    }
    text.push('\n');
}

/// Mode, links, owner, group, size and time of last change.
fn columns(metadata: &Metadata) -> String {
    let time = OffsetDateTime::from_unix_timestamp(metadata.mtime())
        .ok()
        .and_then(|time| {
            time.format(format_description!("[year]-[month]-[day] [hour]:[minute]Z"))
                .ok()
        })
        .unwrap_or_default();
    format!(
        "{} {:>3} {:>5} {:>5} {:>11} {time} ",
        mode(metadata),
        metadata.nlink(),
        metadata.uid(),
        metadata.gid(),
        metadata.size()
    )
}

/// Returns the mode in the form of `ls`, without the special bits.
fn mode(metadata: &Metadata) -> String {
    let kind = if metadata.is_dir() {
        'd'
    } else if metadata.is_symlink() {
        'l'
    } else if metadata.is_file() {
        '-'
    } else {
        '?'
    };
    let bits = (0..9).rev().zip("rwx".chars().cycle());
    let bits = bits.map(|(bit, letter)| {
        if metadata.mode() >> bit & 1 == 1 {
            letter
        } else {
            '-'
        }
    });
    std::iter::once(kind).chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::launch::testing::Folders;

    /// A container's folders and the job that describes them.
    fn job(links: &[(&str, &Path)]) -> (Folders, DebugJob) {
        let folders = Folders::new();
        let links = links.iter().map(|(link, target)| ResolvedLink {
            link: (*link).to_owned(),
            target: target.to_path_buf(),
        });
        let job = DebugJob {
            script: "#!/bin/bash\n".to_owned(),
            work_dir: Directory::of(&folders.dirs.work_dir).unwrap(),
            log_dir: folders.dirs.log_dir.clone(),
            links: links.collect(),
        };
        (folders, job)
    }

    fn listed(job: DebugJob) -> String {
        listing(&job.links, job.work_dir)
    }

    #[test]
    fn the_listing_shows_files_resources_and_broken_links() {
        let root = tempfile::tempdir().unwrap();
        let resource = root.path().join("resource");
        std::fs::create_dir(&resource).unwrap();
        std::fs::write(resource.join("inner.jar"), "x").unwrap();
        let (folders, job) = job(&[("lib", &resource)]);
        let work_dir = folders.dirs.work_dir.path();
        std::fs::write(work_dir.join("file"), "12345").unwrap();
        symlink(&resource, work_dir.join("lib")).unwrap();
        symlink("/nowhere", work_dir.join("broken")).unwrap();

        let text = listed(job);
        let (flat, rest) = text.split_once("find -L . -maxdepth 5 -ls:\n").unwrap();
        let (tree, broken) = rest.split_once("broken symlinks").unwrap();
        assert!(flat.starts_with("ls -l:\nlrwxrwxrwx"), "{flat}");
        assert!(
            flat.contains("          5 20")
                && flat.contains(&format!(" lib -> {}", resource.display()))
        );
        assert!(
            tree.contains(" ./lib/inner.jar\n") && tree.contains(" ./file\n"),
            "{tree}"
        );
        assert_eq!(broken.lines().count(), 2, "{broken}");
        assert!(broken.ends_with(" ./broken -> /nowhere\n"), "{broken}");
    }

    #[test]
    fn links_that_the_container_made_itself_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        std::fs::create_dir(&secret).unwrap();
        std::fs::write(secret.join("hidden"), "").unwrap();
        let (folders, job) = job(&[]);
        symlink(&secret, folders.dirs.work_dir.path().join("mine")).unwrap();
        let text = listed(job);
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let (folders, first) = job(&[]);
        let work_dir = folders.dirs.work_dir.path();
        std::fs::create_dir_all(work_dir.join("1/2/3/4/5/6")).unwrap();
        let text = listed(first);
        assert!(
            text.contains("./1/2/3/4/5\n") && !text.contains("/6"),
            "{text}"
        );
        for n in 0..ENTRIES_MAX + 10 {
            std::fs::write(work_dir.join(format!("f{n}")), "").unwrap();
        }
        let text = listing(&[], Directory::of(&folders.dirs.work_dir).unwrap());
        assert!(text.lines().count() < ENTRIES_MAX + 10 && text.ends_with("entries)\n"));
    }

    #[tokio::test]
    async fn the_files_are_there_once_the_ticket_is_finished() {
        // The link never comes, since no script runs.
        let (folders, job) = job(&[("late", Path::new("/nowhere"))]);
        let log_dir = folders.dirs.log_dir.path();
        let info = DebugInfo::start().unwrap();
        info.describe(job).unwrap().finished().await;
        let script = std::fs::read_to_string(log_dir.join(LAUNCH_SCRIPT)).unwrap();
        assert_eq!(script, "#!/bin/bash\n");
        assert!(log_dir.join(DIRECTORY_INFO).exists());
    }

    #[test]
    fn links_are_seen_in_the_directory_that_was_opened_and_nothing_outside_the_log_is_written() {
        let (folders, job) = job(&[("lib/a", Path::new("/t"))]);
        let work_dir = folders.dirs.work_dir.path();
        std::fs::create_dir(work_dir.join("lib")).unwrap();
        assert!(!job.work_dir.is_link("lib/a"));
        symlink("/t", work_dir.join("lib/a")).unwrap();
        assert!(job.work_dir.is_link("lib/a"));
        let outside = folders.swap_for_link();
        assert!(job.work_dir.is_link("lib/a"));
        assert!(describe(job).is_err());
        assert_eq!(
            std::fs::read_dir(outside.log_dir.path()).unwrap().count(),
            0
        );
    }
}
