//! Work on the files of a container whose processes are gone: the ends of its error files, its
//! cgroups. A disk that hangs costs the texts of its containers, not the reports of
//! their ends.

use std::sync::Arc;
use std::time::Duration;

use localize::ContainerFolder;
use records::{ContainerExitStatus, ContainerId};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::diagnostics::{self, ExitDiagnostics};
use super::exit_watch::Shared;
use crate::isolation::{Confined, is_of_its_limit, oom_message};

/// Exits whose files of one kind are read or removed at the same time.
const FINISHING_MAX: usize = 4;
/// Maximum time that the report of an end waits for a disk: one that hangs takes the texts of its
/// containers, not the reports.
const FILES_WAIT: Duration = Duration::from_secs(10);

/// Places for work on the files of containers that have ended. Disks may hang without taking the
/// places of the cgroups.
pub(super) struct Finishing {
    log_dirs: Arc<Semaphore>,
    cgroups: Semaphore,
}

impl Default for Finishing {
    fn default() -> Self {
        let places = || Semaphore::new(FINISHING_MAX);
        Self {
            log_dirs: Arc::new(places()),
            cgroups: places(),
        }
    }
}

/// A container whose processes are gone.
pub(super) struct Finished {
    pub(super) id: ContainerId,
    pub(super) pid: i32,
    pub(super) status: ContainerExitStatus,
    /// The end was ordered, which then is the cause of the end.
    pub(super) ordered: bool,
    pub(super) confined: Option<Confined>,
    pub(super) log_dir: ContainerFolder,
}

impl Finished {
    /// Removes the container's cgroups and reads its error files. Returns its exit status, which
    /// the kernel may know better than the process, and its diagnostics.
    pub(super) async fn files(
        self,
        shared: &Arc<Shared>,
    ) -> (ContainerExitStatus, ExitDiagnostics) {
        let (id, status) = (self.id, self.status);
        let Finishing { log_dirs, cgroups } = &shared.finishing;
        let (of_reading, log_dir) = (Arc::clone(shared), self.log_dir.clone());
        let texts = async {
            if !diagnostics::reads_files(status) {
                return None;
            }
            let read = move || {
                let (pattern, tail_bytes) =
                    (&of_reading.stderr_pattern, of_reading.stderr_tail_bytes);
                diagnostics::of_exit(id, status, &log_dir, pattern, tail_bytes)
            };
            within(id, log_dirs, read).await
        };
        let killed = async {
            self.confined.as_ref()?;
            let _place = cgroups.acquire().await;
            let killed = tokio::task::spawn_blocking(move || self.killed_for_memory()).await;
            killed.unwrap_or_else(|error| {
                tracing::error!(%error, "the cgroups of a container may be left");
                None
            })
        };
        let (texts, killed) = tokio::join!(texts, killed);
        let mut diagnostics = texts.unwrap_or_else(|| diagnostics::without_files(id, status));
        match killed {
            Some(message) => {
                diagnostics.executor.insert_str(0, &message);
                (ContainerExitStatus::KILLED_EXCEEDED_PMEM, diagnostics)
            }
            None => (status, diagnostics),
        }
    }

    /// Removes its cgroups. The message, if the kernel killed it or a part of it for its memory and
    /// it failed of that.
    fn killed_for_memory(&self) -> Option<String> {
        let confined = self.confined.as_ref()?;
        let failed_by_itself = !self.ordered && self.status != ContainerExitStatus::SUCCESS;
        let events = failed_by_itself.then(|| confined.memory_events());
        confined.finish();
        let events = events?;
        is_of_its_limit(&events).then(|| oom_message(self.id, self.pid, &events))
    }
}

/// Does blocking work on a container's files and waits for it, for its place included, at most
/// [`FILES_WAIT`]. Work that hangs keeps its place, so that at most [`FINISHING_MAX`] threads hang.
async fn within<T: Send + 'static>(
    id: ContainerId,
    places: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = async {
        let place = Arc::clone(places).acquire_owned().await.ok()?;
        let task = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        let lost = |error: &JoinError| tracing::error!(container = %id, %error, "the work on the files of an end is lost");
        task.await.inspect_err(lost).ok()
    };
    timeout(FILES_WAIT, done).await.unwrap_or_else(|_| {
        tracing::warn!(container = %id, waited = ?FILES_WAIT, "the files of a container hang; its end is reported without them");
        None
    })
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;
    use crate::launch::diagnostics::StderrPattern;
    use crate::launch::registry::Registry;
    use crate::launch::scanner::Scanner;
    use crate::launch::testing::Folders;

    fn shared() -> Arc<Shared> {
        let registry = Arc::<Registry>::default();
        Arc::new(Shared {
            scanner: Scanner::start(Arc::clone(&registry), None).unwrap(),
            registry,
            events: mpsc::channel(1).0,
            sigkill_delay: Duration::ZERO,
            stderr_pattern: StderrPattern::new("stderr"),
            stderr_tail_bytes: 100,
            finishing: Finishing::default(),
            keeps_ended: false,
            broken: Arc::default(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn log_directories_that_hang_keep_no_end_from_being_reported() {
        let folders = Folders::new();
        let (id, dirs) = (folders.id, &folders.dirs);
        std::fs::write(dirs.log_dir.path().join("stderr"), "why").unwrap();
        let shared = shared();
        let finished = || Finished {
            id,
            pid: 1,
            status: ContainerExitStatus(3),
            ordered: false,
            confined: None,
            log_dir: dirs.log_dir.clone(),
        };
        let (status, told) = finished().files(&shared).await;
        assert_eq!(status, ContainerExitStatus(3));
        assert!(told.exit_code.contains("why"), "{told:?}");
        let log_dirs = Arc::clone(&shared.finishing.log_dirs);
        let hanging = u32::try_from(FINISHING_MAX).unwrap();
        let _hanging = log_dirs.acquire_many(hanging).await.unwrap();
        let began = Instant::now();
        let (status, told) = finished().files(&shared).await;
        assert_eq!(
            (status, began.elapsed()),
            (ContainerExitStatus(3), FILES_WAIT)
        );
        assert_eq!(told, diagnostics::without_files(id, status));
    }
}
