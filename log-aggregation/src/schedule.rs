//! Which application's logs are uploaded next, and when. Pure: orders, results and the time in;
//! uploads and events out.
//!
//! ```text
//!  begin        container_ended …         finish          upload succeeded, or failed for good
//!  ──────► collecting ──────────────────► finished ─────► forgotten
//!            │  ▲                           │  ▲
//!  interval  ▼  │ uploaded or failed        ▼  │ failed: again after a pause, or with other tokens
//!          uploading                      uploading
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use localize::{Turns, UserName};
use records::{ApplicationId, ContainerExitStatus, ContainerName};

use crate::aggregated_log::Acls;
use crate::policy::{ContainerEnd, ContainerRole};
use crate::selection::{Phase, Selection};
use crate::upload::{Upload, UploadError, Uploaded, UploadedFile};

/// Pauses before the last upload of an application is tried again. Hadoop does not try again; its
/// file systems do that themselves for minutes.
const PAUSES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// Files of running containers that are remembered as uploaded, of all users. One takes at most 350
/// bytes. A file beyond is uploaded again: a log too many is no loss.
const REMEMBERED_MAX: usize = 40_000;

/// Files of running containers of one user that are remembered.
const REMEMBERED_OF_USER_MAX: usize = 10_000;

/// Result of one upload, for reports to the ResourceManager.
#[derive(Debug)]
pub struct Outcome {
    /// Id of the application.
    pub application: ApplicationId,
    /// Files and bytes, or the reason of the failure.
    pub result: Result<Uploaded, UploadError>,
    /// Whether the aggregation of the application is over.
    pub is_last: bool,
}

/// Application whose logs are to be aggregated.
#[derive(Debug)]
pub struct Application {
    /// Id of the application.
    pub id: ApplicationId,
    /// User of the application.
    pub user: UserName,
    /// Access control lists of the application.
    pub acls: Acls,
    /// Containers and files to take.
    pub selection: Selection,
    /// Containers that ended under an earlier agent and of which nothing is to be uploaded.
    pub settled: BTreeSet<ContainerName>,
}

#[derive(Debug)]
struct Entry {
    user: UserName,
    acls: Arc<Acls>,
    selection: Arc<Selection>,
    /// Whether files are uploaded while the application runs.
    is_rolling: bool,
    /// Containers that have ended and whose logs the policy takes.
    ended: BTreeSet<ContainerName>,
    /// Containers that have ended and of which nothing is to be uploaded any more.
    settled: BTreeSet<ContainerName>,
    /// Containers that run; empty unless the application is rolling.
    running: BTreeMap<ContainerName, ContainerRole>,
    /// Files of running containers that an upload took.
    uploaded: Arc<BTreeSet<UploadedFile>>,
    is_finished: bool,
    is_uploading: bool,
    /// Failures in a row of the last upload.
    failures: usize,
    /// End of the wait for other tokens, once the last upload has failed for want of them.
    wants_tokens_until: Option<Instant>,
    /// Whether tokens have come since the upload that is under way began.
    has_new_tokens: bool,
}

/// Applications whose logs are aggregated.
pub(crate) struct Schedule {
    applications: BTreeMap<ApplicationId, Entry>,
    /// Applications whose upload is due.
    turns: Turns<ApplicationId>,
    /// Times at which uploads become due.
    timers: BTreeSet<(Instant, ApplicationId)>,
    /// Interval of the uploads of rolling applications; `None`: there are none.
    roll_interval: Option<Duration>,
    /// Uploads of one user at once.
    per_user_max: usize,
    /// Longest wait of a last upload for other tokens; `None`: there is none.
    token_wait: Option<Duration>,
    is_stopping: bool,
}

impl Schedule {
    pub(crate) fn new(roll_interval: Option<Duration>, per_user_max: usize) -> Self {
        Self {
            applications: BTreeMap::new(),
            turns: Turns::default(),
            timers: BTreeSet::new(),
            roll_interval,
            per_user_max,
            token_wait: None,
            is_stopping: false,
        }
    }

    /// Has last uploads whose token is refused wait for another one, at most so long.
    pub(crate) fn with_token_wait(self, token_wait: Option<Duration>) -> Self {
        Self { token_wait, ..self }
    }

    /// Begins the aggregation of an application. Without effect for a known one.
    pub(crate) fn begin(&mut self, application: Application, now: Instant) {
        let id = application.id;
        let interval = self
            .roll_interval
            .filter(|_| application.selection.has_rolled());
        let entry = self.applications.entry(id);
        if let std::collections::btree_map::Entry::Vacant(entry) = entry {
            entry.insert(Entry {
                user: application.user,
                acls: Arc::new(application.acls),
                selection: Arc::new(application.selection),
                is_rolling: interval.is_some(),
                ended: BTreeSet::new(),
                settled: application.settled,
                running: BTreeMap::new(),
                uploaded: Arc::default(),
                is_finished: false,
                is_uploading: false,
                failures: 0,
                wants_tokens_until: None,
                has_new_tokens: false,
            });
            self.set_timer(id, interval, now);
        }
    }

    pub(crate) fn container_started(&mut self, id: ContainerName, role: ContainerRole) {
        if let Some(entry) = self.applications.get_mut(&id.application_id())
            && entry.is_rolling
        {
            entry.running.insert(id, role);
        }
    }

    pub(crate) fn container_ended(&mut self, end: &ContainerEnd) {
        if let Some(entry) = self.applications.get_mut(&end.id.application_id()) {
            entry.running.remove(&end.id);
            if entry.selection.policy().takes(end) {
                entry.ended.insert(end.id);
            } else {
                entry.settled.insert(end.id);
            }
        }
    }

    /// Orders the last upload of an application. Returns the outcome for one that is not known:
    /// there is nothing to upload.
    pub(crate) fn finish(&mut self, id: ApplicationId) -> Option<Outcome> {
        let Some(entry) = self.applications.get_mut(&id) else {
            return Some(Outcome {
                application: id,
                result: Ok(Uploaded::default()),
                is_last: true,
            });
        };
        entry.is_finished = true;
        self.queue(id);
        None
    }

    /// Records that the application has other tokens. An upload that waits for them becomes due.
    pub(crate) fn tokens_came(&mut self, id: ApplicationId) {
        let Some(entry) = self.applications.get_mut(&id) else {
            return;
        };
        entry.has_new_tokens = entry.is_uploading;
        if let Some(until) = entry.wants_tokens_until
            && self.timers.remove(&(until, id))
        {
            self.queue(id);
        }
    }

    /// From now on no failed upload is tried again, and no rolling one begins.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
        for (_, id) in std::mem::take(&mut self.timers) {
            if self.applications.get(&id).is_some_and(|it| it.is_finished) {
                self.queue(id);
            }
        }
    }

    /// Returns whether an upload of a finished application is due or under way.
    pub(crate) fn has_last_uploads(&self) -> bool {
        self.applications.values().any(|entry| entry.is_finished)
    }

    /// Returns when the next upload becomes due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Begins the next upload, if one is due and its user has not too many under way.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Upload> {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            self.queue(id);
        }
        let per_user_max = self.per_user_max;
        let (_, id) = self.turns.next(|under_way| under_way < per_user_max)?;
        let entry = self.applications.get_mut(&id)?;
        entry.is_uploading = true;
        entry.has_new_tokens = false;
        Some(entry.upload(id))
    }

    /// Records the result of an upload and returns it as an outcome.
    pub(crate) fn uploaded(
        &mut self,
        upload: &Upload,
        result: Result<Uploaded, UploadError>,
        now: Instant,
    ) -> Option<Outcome> {
        let id = upload.application;
        let entry = self.applications.get_mut(&id)?;
        entry.is_uploading = false;
        let user = entry.user.clone();
        let mut pause = None;
        match &result {
            Ok(uploaded) => {
                entry.failures = 0;
                entry.settle(upload, uploaded);
                self.remember(id, uploaded);
            }
            Err(error) if upload.is_last && self.token_wait.is_some() && error.is_of_token() => {
                pause = entry.pause_for_tokens(self.token_wait, now);
            }
            Err(_) => {
                entry.failures += 1;
                pause = PAUSES.get(entry.failures - 1).copied();
            }
        }
        let gives_up = pause.is_none() || self.is_stopping;
        let is_last = upload.is_last && (result.is_ok() || gives_up);
        let entry = self.applications.get(&id)?;
        let (is_finished, is_rolling) = (entry.is_finished, entry.is_rolling);
        self.turns.ended(&user);
        if is_last {
            self.applications.remove(&id);
        } else if is_finished && !upload.is_last {
            self.queue(id);
        } else if is_finished {
            self.set_timer(id, pause, now);
        } else if is_rolling && !self.is_stopping {
            self.set_timer(id, self.roll_interval, now);
        }
        Some(Outcome {
            application: id,
            result,
            is_last,
        })
    }

    /// Remembers the files that a rolling upload took and that are still there, within limits.
    fn remember(&mut self, id: ApplicationId, uploaded: &Uploaded) {
        if uploaded.left.is_empty() {
            return;
        }
        let user = self.applications.get(&id).map(|entry| entry.user.clone());
        let (mut of_user, mut of_all) = (0, 0);
        for entry in self.applications.values() {
            of_all += entry.uploaded.len();
            if Some(&entry.user) == user.as_ref() {
                of_user += entry.uploaded.len();
            }
        }
        let room_of_user = REMEMBERED_OF_USER_MAX.saturating_sub(of_user);
        let room = room_of_user.min(REMEMBERED_MAX.saturating_sub(of_all));
        let Some(entry) = self.applications.get_mut(&id) else {
            return;
        };
        let alive = uploaded.left.iter().filter(|file| {
            entry.running.contains_key(&file.container) || entry.ended.contains(&file.container)
        });
        Arc::make_mut(&mut entry.uploaded).extend(alive.take(room).cloned());
    }

    fn queue(&mut self, id: ApplicationId) {
        if let Some(entry) = self.applications.get(&id)
            && !entry.is_uploading
        {
            self.turns.queue(&entry.user, id);
        }
    }

    fn set_timer(&mut self, id: ApplicationId, pause: Option<Duration>, now: Instant) {
        // A pause beyond the clock's range never ends.
        if let Some(at) = pause.and_then(|pause| now.checked_add(pause)) {
            self.timers.insert((at, id));
        }
    }
}

impl Entry {
    fn upload(&self, application: ApplicationId) -> Upload {
        let ended_phase = if self.is_finished {
            Phase::ApplicationFinished
        } else {
            Phase::ContainerEnded
        };
        let ended = self.ended.iter().map(|id| (*id, ended_phase));
        let policy = self.selection.policy();
        let running = self.running.iter().filter(|(id, role)| {
            policy.takes(&ContainerEnd {
                id: **id,
                role: **role,
                exit_status: ContainerExitStatus::SUCCESS,
            })
        });
        let running = running.map(|(id, _)| (*id, Phase::Running));
        Upload {
            application,
            user: self.user.as_str().to_owned(),
            acls: Arc::clone(&self.acls),
            selection: Arc::clone(&self.selection),
            containers: ended.chain(running).collect(),
            uploaded: Arc::clone(&self.uploaded),
            settled: self.settled.clone(),
            is_last: self.is_finished,
            is_rolling: self.is_rolling,
        }
    }

    /// Returns how long the last upload waits for other tokens, from the first time on that it
    /// wants them; `None`: it gives up.
    fn pause_for_tokens(&mut self, wait: Option<Duration>, now: Instant) -> Option<Duration> {
        let until = now.checked_add(wait?)?;
        let until = *self.wants_tokens_until.get_or_insert(until);
        if self.has_new_tokens {
            return Some(Duration::ZERO);
        }
        let left = until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// The logs of an ended container are complete with an upload that has taken all of them.
    fn settle(&mut self, upload: &Upload, uploaded: &Uploaded) {
        for (id, phase) in &upload.containers {
            if *phase != Phase::Running && !uploaded.unfinished.contains(id) {
                self.ended.remove(id);
                self.settled.insert(*id);
                if self.uploaded.iter().any(|file| file.container == *id) {
                    Arc::make_mut(&mut self.uploaded).retain(|file| file.container != *id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
