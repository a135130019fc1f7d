//! `launch_container.sh` and `directory.info` in a container's log directory, for people who ask
//! why it did not run.
//!
//! Hadoop's script makes them before it starts the command: `cp`, `chmod`, `ls` and two `find`s,
//! each a process. That is more work than starting bash itself, for files that are rarely read.
//! Here the launch thread makes them while the command starts already, and a thread of their own
//! those of containers whose links are still to be made by the script. `directory.info` says the
//! same in the same order; it shows numbers instead of user names (looking them up may ask a
//! directory server), times in UTC, and ends where a bound is reached. Links are followed only to
//! the container's own resources: the agent may be allowed to read what the container's user may
//! not.

mod listing;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use threads::ThreadOwner;
use tokio::sync::oneshot;
use users::Account;

use self::listing::listing;
use super::context::LAUNCH_SCRIPT;
use super::files::Directory;
use super::links::ResolvedLink;

/// The listing's name (Hadoop: `ContainerLaunch.DIRECTORY_CONTENTS`).
const DIRECTORY_INFO: &str = "directory.info";
/// Launches that may wait to be described. When full, a launch is not described.
const JOBS_MAX: usize = 1_024;
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
    pub(super) log_dir: Directory,
    pub(super) links: Vec<ResolvedLink>,
    /// Account of the container's processes; `None`: the agent's own.
    pub(super) run_as: Option<Arc<Account>>,
}

/// A launch that is to be described; dropping it resolves its ticket.
pub(super) struct Undescribed {
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
    /// Makes the ticket of a launch.
    pub(super) fn of(job: DebugJob) -> (Self, Undescribed) {
        let leader_ended = Arc::new(AtomicBool::new(false));
        let (sender, done) = oneshot::channel();
        let undescribed = Undescribed {
            wait_until: Instant::now() + LINKS_WAIT,
            leader_ended: Arc::clone(&leader_ended),
            _done: sender,
            job,
        };
        (Self { leader_ended, done }, undescribed)
    }

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
    _thread: Arc<ThreadOwner>,
    waiting: Sender<Undescribed>,
}

impl DebugInfo {
    pub(super) fn start() -> io::Result<Self> {
        let (waiting, undescribed) = bounded(JOBS_MAX);
        let thread = ThreadOwner::shared("debug-info", move || serve(&undescribed))?;
        Ok(Self {
            _thread: thread,
            waiting,
        })
    }

    /// Describes a launch on this thread, unless its links are still missing: then the thread
    /// `debug-info` does, or nobody when too many wait.
    pub(super) fn describe(&self, launch: Undescribed) {
        if launch.is_ready() {
            return launch.describe_and_log();
        }
        match self.waiting.try_send(launch) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                tracing::debug!("too busy to describe a launch");
            }
        }
    }
}

fn serve(undescribed: &Receiver<Undescribed>) {
    let mut waiting: Vec<Undescribed> = Vec::new();
    loop {
        let received = if waiting.is_empty() {
            undescribed
                .recv()
                .map_err(|_closed| RecvTimeoutError::Disconnected)
        } else if waiting.len() < JOBS_MAX {
            undescribed.recv_timeout(LINKS_POLL)
        } else {
            thread::sleep(LINKS_POLL);
            Err(RecvTimeoutError::Timeout)
        };
        match received {
            Ok(launch) => waiting.push(launch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for launch in waiting.extract_if(.., |launch| launch.is_ready()) {
            launch.describe_and_log();
        }
    }
}

impl Undescribed {
    fn is_ready(&self) -> bool {
        let last_link = self.job.links.last();
        last_link.is_none_or(|last| self.job.work_dir.is_link(&last.link))
            || self.leader_ended.load(Ordering::Relaxed)
            || Instant::now() >= self.wait_until
    }

    fn describe_and_log(self) {
        if let Err(error) = describe(self.job) {
            let error = crate::error_chain(&error);
            tracing::debug!(error, "cannot describe a launch");
        }
    }
}

fn describe(job: DebugJob) -> Result<(), super::error::LaunchError> {
    let log_dir = &job.log_dir;
    // 0640, so that log aggregation running as another member of the group can read it.
    log_dir.create(LAUNCH_SCRIPT, 0o640, job.script.as_bytes())?;
    // Listed with the user's rights: the user may change the way to a resource meanwhile.
    let listing = match &job.run_as {
        None => listing(&job.links, job.work_dir),
        Some(account) => account
            .act(|| listing(&job.links, job.work_dir))
            .unwrap_or_else(|error| format!("cannot be listed: {error}\n")),
    };
    log_dir.create(DIRECTORY_INFO, 0o640, listing.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::launch::testing::Folders;

    /// Returns a container's folders and the job that describes them.
    pub(super) fn job(links: &[(&str, &Path)]) -> (Folders, DebugJob) {
        let folders = Folders::new();
        let links = links.iter().map(|(link, target)| ResolvedLink {
            link: (*link).to_owned(),
            target: target.to_path_buf(),
        });
        let job = DebugJob {
            script: "#!/bin/bash\n".to_owned(),
            work_dir: Directory::of(&folders.dirs.work_dir).unwrap(),
            log_dir: Directory::of(&folders.dirs.log_dir).unwrap(),
            links: links.collect(),
            run_as: None,
        };
        (folders, job)
    }

    #[tokio::test]
    async fn the_files_are_there_once_the_ticket_is_finished() {
        // The link never comes, since no script runs.
        let (folders, job) = job(&[("late", Path::new("/nowhere"))]);
        let log_dir = folders.dirs.log_dir.path();
        let info = DebugInfo::start().unwrap();
        let (ticket, undescribed) = DebugTicket::of(job);
        info.describe(undescribed);
        assert!(!log_dir.join(DIRECTORY_INFO).exists());
        ticket.finished().await;
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
        describe(job).unwrap();
        assert_eq!(
            std::fs::read_dir(outside.log_dir.path()).unwrap().count(),
            0
        );
    }
}
