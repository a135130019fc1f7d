//! Work on the files of a container whose processes are gone: the ends of its error files, its
//! cgroups. A disk that hangs costs the texts of its containers, not the reports of
//! their ends.

use std::sync::Arc;
use std::time::Duration;

use localize::{ContainerFolder, UserName};
use records::{ContainerExitStatus, ContainerId};
use tokio::time::timeout;

use super::blocking::blocking;
use super::diagnostics::{self, ExitDiagnostics};
use super::finishing::Finishing;
use super::places::UserPlaces;
use super::shared::Shared;
use crate::isolation::{Confined, is_of_its_limit, oom_message};

/// Maximum time that the report of an end waits for a disk: one that hangs takes the texts of its
/// containers, not the reports.
const FILES_WAIT: Duration = Duration::from_secs(10);

/// A container whose processes are gone.
pub(super) struct Finished {
    pub(super) id: ContainerId,
    pub(super) pid: i32,
    pub(super) status: ContainerExitStatus,
    /// The end was ordered, which then is the cause of the end.
    pub(super) ordered: bool,
    /// Processes survive SIGKILL.
    pub(super) processes_stay: bool,
    /// User whose turns the work takes.
    pub(super) user: UserName,
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
        let reader = self.user.clone();
        let texts = async {
            if !diagnostics::reads_files(status) {
                return None;
            }
            let read = move || {
                let (pattern, tail_bytes) =
                    (&of_reading.stderr_pattern, of_reading.stderr_tail_bytes);
                diagnostics::of_exit(id, status, &log_dir, pattern, tail_bytes)
            };
            // Nobody needs the texts later.
            timeout(FILES_WAIT, work(log_dirs.clone(), reader, read)).await.unwrap_or_else(|_| {
                tracing::warn!(container = %id, waited = ?FILES_WAIT, "the files of a container hang; its end is reported without them");
                None
            })
        };
        let killed = async {
            self.confined.as_ref()?;
            let (places, user) = (cgroups.clone(), self.user.clone());
            let removing = tokio::spawn(work(places, user, move || self.killed_for_memory()));
            // Removed in any case, and told if it is in time.
            timeout(FILES_WAIT, removing).await.ok()?.ok()??
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
        confined.finish(self.processes_stay);
        let events = events?;
        is_of_its_limit(&events).then(|| oom_message(self.id, self.pid, &events))
    }
}

/// Does blocking work once the user has a place for it. Work that hangs keeps its place, so that at
/// most [`FINISHING_MAX`] threads hang. `None`: the runtime is shutting down.
async fn work<T: Send + 'static>(
    places: UserPlaces,
    user: UserName,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let place = places.take(&user).await;
    let done = blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::super::finishing::FINISHING_MAX;
    use super::*;
    use crate::launch::diagnostics::StderrPattern;
    use crate::launch::places::turns_of;
    use crate::launch::registry::Registry;
    use crate::launch::scanner::Scanner;
    use crate::launch::testing::Folders;

    fn shared() -> Arc<Shared> {
        let registry = Arc::<Registry>::default();
        Arc::new(Shared {
            agent: i32::try_from(std::process::id()).unwrap(),
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
        let finished = |user: &str| Finished {
            id,
            pid: 1,
            status: ContainerExitStatus(3),
            ordered: false,
            processes_stay: false,
            user: turns_of(user),
            confined: None,
            log_dir: dirs.log_dir.clone(),
        };
        let (status, told) = finished("alice").files(&shared).await;
        assert_eq!(status, ContainerExitStatus(3));
        assert!(told.exit_code.contains("why"), "{told:?}");
        let log_dirs = shared.finishing.log_dirs.clone();
        let mut hanging = Vec::new();
        for _ in 0..FINISHING_MAX / 2 {
            hanging.push(log_dirs.take(&turns_of("alice")).await);
        }
        let began = Instant::now();
        let (status, told) = finished("alice").files(&shared).await;
        assert_eq!(
            (status, began.elapsed()),
            (ContainerExitStatus(3), FILES_WAIT)
        );
        assert_eq!(told, diagnostics::without_files(id, status));
        // Another user's disks do not.
        let began = Instant::now();
        let (_, told) = finished("bob").files(&shared).await;
        assert!(told.exit_code.contains("why"), "{told:?}");
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(hanging);
    }
}
