//! Log folders of applications that this agent made, and how long those of an earlier run stay.
//!
//! ```text
//! <log>/.nm-agent/APP     mark: this agent made <log>/APP
//!                         empty, or the time at which a start found that no record names APP
//! ```
//! A folder without a mark is another NodeManager's, whose logs are not this agent's to delete.
//! Nor does a missing record say that nobody needs the logs: the records may be what was lost. So
//! those with a mark stay as long after they were found as logs stay after their application, and
//! for good if the application returns. The folder of the marks is the agent's alone.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dir_handle::{DirHandle, FileKind};
use records::{ApplicationId, EpochMillis};

use super::disk::Disk;
use super::layout::SECRET_MODE;
use super::needed::Needed;

/// Folder of the marks in a log directory.
const MARKS: &str = ".nm-agent";

/// Name under which a mark is written before it replaces the one before. No application has it.
const REWRITTEN: &str = "rewritten";

/// Mode of a mark.
const MARK_MODE: u32 = 0o600;

/// Digits of a time in milliseconds, as many as a mark is read for.
const DIGITS_MAX: u64 = 20;

/// Folders of one log directory that a start lists. One takes some 400 bytes; others stay until the
/// next start.
const LISTED_MAX: usize = 1 << 13;

/// Logs of an earlier run that no record names and that are deleted later, on all log directories.
#[derive(Debug)]
pub(super) struct UnnamedLogs {
    /// Time for which they stay after they were found.
    retain: Duration,
    waiting: Mutex<BTreeSet<ApplicationId>>,
}

impl UnnamedLogs {
    pub(super) fn new(retain: Duration) -> Self {
        Self {
            retain,
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<ApplicationId>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the application folders of a log directory that no record names, each with the time
    /// after which it is to be deleted.
    /// A failure leaves folders where they are, which is no failure of the directory.
    pub(super) fn find(
        &self,
        disk: &Disk,
        needed: Option<&Needed>,
        now: EpochMillis,
    ) -> Vec<(ApplicationId, Duration)> {
        let mut found = Vec::new();
        let result = self.find_each(disk, needed, now, &mut found);
        if let Err(error) = result.and_then(|()| sweep(&disk.root)) {
            let path = disk.path.display();
            tracing::warn!(%path, %error, "logs of an earlier run cannot be looked at; they stay");
        }
        found
    }

    fn find_each(
        &self,
        disk: &Disk,
        needed: Option<&Needed>,
        now: EpochMillis,
        found: &mut Vec<(ApplicationId, Duration)>,
    ) -> io::Result<()> {
        let path = disk.path.display();
        let (mut of_others, mut left_out) = (0_u64, 0_u64);
        for name in disk.root.names()? {
            let name = name?;
            let id = name.to_str().and_then(|name| name.parse().ok());
            let Some(id) = id.filter(|id| is_unnamed(disk, needed, *id)) else {
                continue;
            };
            match found_at(&disk.root, id, now) {
                Ok(None) => of_others += 1,
                Ok(Some(_)) if found.len() >= LISTED_MAX => left_out += 1,
                Ok(Some(at)) => {
                    self.waiting().insert(id);
                    found.push((id, self.left(at, now)));
                }
                Err(error) => {
                    let application = id;
                    tracing::warn!(%path, %application, %error, "logs of an earlier run stay");
                }
            }
        }
        if of_others > 0 {
            tracing::info!(
                %path,
                applications = of_others,
                "logs that this agent did not write stay, those of another NodeManager"
            );
        }
        if left_out > 0 {
            tracing::warn!(%path, left_out, "some logs of an earlier run stay until the next start");
        }
        Ok(())
    }

    /// Returns how long logs stay that were found at this time. A clock that was set back makes the
    /// time no longer than for those that are found now.
    fn left(&self, found_at: EpochMillis, now: EpochMillis) -> Duration {
        let age_ms = now.0.saturating_sub(found_at.0);
        let age_ms = u64::try_from(age_ms).unwrap_or(0);
        self.retain.saturating_sub(Duration::from_millis(age_ms))
    }

    /// Keeps the logs of an application that has a container again.
    pub(super) fn keep(&self, application: ApplicationId, disks: &[Arc<Disk>]) {
        let was_waiting = self.waiting().remove(&application);
        if !was_waiting {
            return;
        }
        for disk in disks {
            let marks = match disk.root.open(MARKS) {
                Ok(marks) if is_marked(&marks, application) => marks,
                Ok(_) | Err(_) => continue,
            };
            if let Err(error) = write(&marks, application, "") {
                // Another loss of the records would take them for as old as now.
                let path = disk.path.display();
                tracing::warn!(%path, %application, %error, "the mark of its logs keeps its time");
            }
        }
    }

    /// Renames the logs of an application to `new_name`, unless it has a container again. Returns
    /// whether it was renamed.
    pub(super) fn set_aside(
        &self,
        application: ApplicationId,
        root: &DirHandle,
        new_name: &str,
    ) -> io::Result<bool> {
        // Held until they are renamed: a container that starts now gets a new folder.
        let waiting = self.waiting();
        if !waiting.contains(&application) {
            return Ok(false);
        }
        match root.rename(application.to_string(), root, new_name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            renamed => renamed.map(|()| true),
        }
    }
}

/// Returns whether a log directory has a folder of this application and no record names it.
fn is_unnamed(disk: &Disk, needed: Option<&Needed>, id: ApplicationId) -> bool {
    let is_named = needed.is_some_and(|needed| needed.has_logs_of(id));
    !is_named
        && matches!(
            disk.root.kind(id.to_string()),
            Ok(Some(FileKind::Directory))
        )
}

/// Marks the logs of an application as this agent's before their folder is made. A folder that is
/// there has the mark of who made it.
pub(super) fn mark(disk: &Disk, application: ApplicationId) {
    let make = || {
        if disk.root.kind(application.to_string())?.is_some() {
            return Ok(());
        }
        let marks = disk.root.ensure(MARKS, SECRET_MODE)?;
        write(&marks, application, "")
    };
    let made: io::Result<()> = make();
    if let Err(error) = made {
        let path = disk.path.display();
        tracing::warn!(%path, %application, %error, "logs without a mark stay if their record is lost");
    }
}

/// Removes the mark of logs that are deleted.
pub(super) fn remove_mark(root: &DirHandle, application: ApplicationId) -> io::Result<()> {
    let removed = root
        .open(MARKS)
        .and_then(|marks| marks.unlink(application.to_string()));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_marked(marks: &DirHandle, application: ApplicationId) -> bool {
    matches!(
        marks.kind(application.to_string()),
        Ok(Some(FileKind::File))
    )
}

/// Returns when it was first found that no record names an application's logs, which is now if no
/// start before has noted it; `None`: this agent did not make them.
fn found_at(
    root: &DirHandle,
    application: ApplicationId,
    now: EpochMillis,
) -> io::Result<Option<EpochMillis>> {
    let opened = root.open(MARKS).and_then(|marks| {
        let mark = marks.open_regular(application.to_string())?;
        Ok((marks, mark))
    });
    let (marks, mark) = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    mark.take(DIGITS_MAX).read_to_end(&mut text)?;
    let at = std::str::from_utf8(&text)
        .ok()
        .and_then(|text| text.parse().ok());
    if let Some(at) = at {
        return Ok(Some(EpochMillis(at)));
    }
    if let Err(error) = write(&marks, application, &now.0.to_string()) {
        tracing::warn!(%application, %error, "logs of an earlier run count as found at each start");
    }
    Ok(Some(now))
}

/// Writes a mark, whole or not at all.
fn write(marks: &DirHandle, application: ApplicationId, text: &str) -> io::Result<()> {
    let name = application.to_string();
    if text.is_empty() {
        // Nothing to be written after it is made.
        return match marks.create_file(&name, MARK_MODE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                replace(marks, &name, text)
            }
            made => made.map(drop),
        };
    }
    replace(marks, &name, text)
}

fn replace(marks: &DirHandle, name: &str, text: &str) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _writing = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Left by an agent that was killed here.
    match marks.unlink(REWRITTEN) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = marks.create_file(REWRITTEN, MARK_MODE)?;
    file.write_all(text.as_bytes())?;
    marks.rename(REWRITTEN, marks, name)
}

/// Removes the marks of logs that are gone.
fn sweep(root: &DirHandle) -> io::Result<()> {
    let marks = match root.open(MARKS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    for name in marks.names()? {
        let name = name?;
        if root.kind(&name)?.is_none() {
            marks.unlink(&name)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
