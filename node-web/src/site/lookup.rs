//! What a container id in a path leads to: its logs, or the reason why not. The reasons are
//! Hadoop's texts.

use std::collections::VecDeque;
use std::io::{Read as _, Seek as _, SeekFrom};

use node_view::snapshot::{AggregatedFile, ContainerRestState, ContainerSnapshot, NodeSnapshot};
use records::{ApplicationId, ContainerName};
use thiserror::Error;

use super::aggregated::{RemoteLog, Wanted};
use super::logs::{LogError, LogFile, LogName, OpenLog, list_logs, open_log};
use super::viewer::Viewer;

/// Log files that one answer names: a container chooses how many it makes, and an answer is held in
/// memory.
const LOG_FILES_MAX: usize = 10_000;

/// Why a container's logs are not shown (Hadoop: `ContainerLogsUtils`).
#[derive(Debug, Error)]
pub(super) enum NoLogs {
    /// The container's application is not, or no longer, known here.
    #[error(
        "Unknown container. Container either has not started or has already completed or doesn't belong to this node at all."
    )]
    UnknownApplication,
    /// The application's user has not allowed the caller to see them.
    #[error("User [{caller}] is not authorized to view the logs for application {application}")]
    NotAllowed {
        caller: String,
        application: ApplicationId,
    },
    /// The container has no process yet.
    #[error("Container is not yet running. Current state is {}", .0.as_str())]
    NotYetRunning(ContainerRestState),
    /// The container never had a process.
    #[error("Container wasn't started. Localization failed.")]
    LocalizationFailed,
    /// No such file.
    #[error("Cannot find this log on the local disk.")]
    NoSuchFile,
    /// The system refused to open it.
    #[error("Exception reading log file. It might be because log file was aggregated : {name}")]
    Unreadable { name: String },
    /// The thread that looked for it broke.
    #[error("Exception reading log file.")]
    Broken(#[from] tokio::task::JoinError),
}

/// A container whose log directories may be looked into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logs<'a> {
    pub(super) id: ContainerName,
    /// `None` once the container is forgotten: its logs outlive it.
    pub(super) container: Option<&'a ContainerSnapshot>,
    node: &'a NodeSnapshot,
}

impl<'a> Logs<'a> {
    /// # Errors
    /// If the application is unknown, or hidden from the viewer, or the container cannot have logs
    /// yet.
    pub(super) fn of(
        node: &'a NodeSnapshot,
        viewer: &Viewer,
        id: ContainerName,
    ) -> Result<Self, NoLogs> {
        let Some(application) = node.application(&id.application_id()) else {
            return Err(NoLogs::UnknownApplication);
        };
        if !viewer.may_view(application) {
            return Err(NoLogs::NotAllowed {
                caller: viewer.name().to_owned(),
                application: application.id,
            });
        }
        let container = node.container_named(id);
        if let Some(container) = container {
            state_with_logs(container.rest_state())?;
        }
        Ok(Self {
            id,
            container,
            node,
        })
    }

    /// Whether its process may still write.
    pub(super) fn is_running(&self) -> bool {
        self.container
            .is_some_and(|container| container.rest_state() == ContainerRestState::Running)
    }

    /// Lists the container's files, in the order of their names.
    pub(super) async fn list(&self) -> Result<Vec<LogFile>, NoLogs> {
        let (roots, id) = (self.node.about.log_roots.clone(), self.id);
        let listing = move || list_logs(&roots, &id, LOG_FILES_MAX);
        Ok(tokio::task::spawn_blocking(listing).await?)
    }

    /// Returns the last bytes of a file, at most `length`, and whether there are more before them;
    /// `None`: it cannot be read.
    pub(super) async fn tail(&self, name: &str, length: u64) -> Option<(Vec<u8>, bool)> {
        let log = self.open(&LogName::new(name)?).await.ok()?;
        let start = log.length.saturating_sub(length);
        let reading = move || {
            let mut piece = Vec::new();
            let mut file = log.file;
            file.seek(SeekFrom::Start(start)).ok()?;
            file.take(length).read_to_end(&mut piece).ok()?;
            Some(piece)
        };
        let piece = tokio::task::spawn_blocking(reading).await.ok()??;
        Some((piece, start > 0))
    }

    /// Returns the files of this name that were uploaded, as far as the node remembers them, the
    /// oldest first.
    pub(super) fn uploaded(&self, name: &LogName) -> VecDeque<Wanted> {
        let application = self.node.application(&self.id.application_id());
        let uploads = application.into_iter().flat_map(|application| {
            let uploads = application.aggregated.iter();
            uploads.map(move |uploaded| (application, uploaded))
        });
        let is_wanted =
            |file: &AggregatedFile| file.container == self.id && file.name == name.as_str();
        let with_file = uploads.filter(|(_, uploaded)| uploaded.files.iter().any(is_wanted));
        let wanted = with_file.map(|(application, uploaded)| Wanted {
            log: RemoteLog {
                user: application.user.clone(),
                application: application.id,
                remote: uploaded.name.clone(),
                container: self.id,
                name: name.as_str().to_owned(),
            },
            uploaded_at: uploaded.uploaded_at,
        });
        wanted.collect()
    }

    /// Opens the container's file of this name.
    pub(super) async fn open(&self, name: &LogName) -> Result<OpenLog, NoLogs> {
        let (roots, id, wanted) = (self.node.about.log_roots.clone(), self.id, name.clone());
        let opening = move || open_log(&roots, &id, &wanted);
        match tokio::task::spawn_blocking(opening).await? {
            Ok(log) => Ok(log),
            Err(LogError::NotFound) => Err(NoLogs::NoSuchFile),
            Err(LogError::Open { root, source }) => {
                // The reader gets the error; a warning for each try would let readers fill the
                // agent's own log.
                tracing::debug!(container = %id, root = %root.display(), error = %source, "cannot open a log file");
                Err(NoLogs::Unreadable {
                    name: name.as_str().to_owned(),
                })
            }
        }
    }
}

/// The log files of each of the node's containers, in their order; none for one that cannot have
/// logs yet, or hides them from the viewer. Blocks.
pub(super) fn list_all(node: &NodeSnapshot, viewer: &Viewer) -> impl Iterator<Item = Vec<LogFile>> {
    let mut left = LOG_FILES_MAX;
    node.containers.iter().map(move |container| {
        let files = match Logs::of(node, viewer, container.id.name()) {
            Ok(logs) => list_logs(&node.about.log_roots, &logs.id, left),
            Err(_) => Vec::new(),
        };
        left -= files.len();
        files
    })
}

fn state_with_logs(state: ContainerRestState) -> Result<(), NoLogs> {
    match state {
        ContainerRestState::Localizing | ContainerRestState::Scheduled => {
            Err(NoLogs::NotYetRunning(state))
        }
        ContainerRestState::LocalizationFailed => Err(NoLogs::LocalizationFailed),
        ContainerRestState::Running
        | ContainerRestState::Pausing
        | ContainerRestState::Paused
        | ContainerRestState::Resuming
        | ContainerRestState::Relaunching
        | ContainerRestState::ReinitializingAwaitingKill
        | ContainerRestState::Killing
        | ContainerRestState::ExitedWithSuccess
        | ContainerRestState::ExitedWithFailure
        | ContainerRestState::ContainerCleanedUpAfterKill
        | ContainerRestState::Done => Ok(()),
    }
}
