//! The thread that performs the commands of the [`Localizer`](super::Localizer), begins requests
//! and fails downloads without progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use records::{ApplicationId, ContainerId};

use super::super::cache::{Begun, EntryId, Place, RequestId};
use super::super::error::{DirsError, LocalizeError};
use super::super::layout::Scope;
use super::super::turns::Turns;
use super::super::user_name::UserName;
use super::checked::{Checked, check};
use super::{Command, Reply, Shared, millis};

/// Number of checks for progress within the time limit. More find a hanging source sooner after the
/// limit, by one interval at most.
const CHECKS_PER_TIMEOUT: u32 = 8;

const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Number of waiting commands that are performed before the next request begins. The requests of
/// one call are then registered together, and a resource that all of them want is looked up once.
/// A command takes microseconds.
const COMMANDS_AT_ONCE_MAX: usize = 64;

/// Number of requests that begin before further commands are performed.
const BEGUN_AT_ONCE_MAX: usize = 64;

impl Shared {
    /// Performs commands until [`Command::Stop`], and between them begins the requests, some
    /// resources of one at a time.
    pub(super) fn keep_books(self: &Arc<Self>, commands: &Receiver<Command>) {
        let interval = (self.source_timeout / CHECKS_PER_TIMEOUT).max(CHECK_INTERVAL_MIN);
        let mut next_check = Instant::now() + interval;
        let mut to_begin = Turns::default();
        loop {
            let pause = if to_begin.is_empty() {
                next_check.saturating_duration_since(Instant::now())
            } else {
                Duration::ZERO
            };
            let first = match commands.recv_timeout(pause) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let others = commands.try_iter().take(COMMANDS_AT_ONCE_MAX);
            for command in first.into_iter().chain(others) {
                if matches!(command, Command::Stop) {
                    return;
                }
                self.perform(command, &mut to_begin);
            }
            self.begin_waiting(&mut to_begin);
            let now = Instant::now();
            if now >= next_check {
                next_check = now + interval;
                self.fail_stalled();
            }
        }
    }

    fn perform(&self, command: Command, to_begin: &mut Turns<RequestId>) {
        match command {
            Command::Check(request, reply) => match check(request) {
                Ok(checked) => self.register(checked, reply, to_begin),
                Err(error) => reply.answer(Err(error)),
            },
            Command::Localize(checked, reply) => self.register(checked, reply, to_begin),
            Command::BringBack(gone, reply) => self.bring_back(gone, reply, to_begin),
            Command::Release(container) => self.release(container),
            Command::Forget(container) => self.state().cache.forget_past(container),
            Command::FinishApplication(application, user) => {
                self.finish_application(application, &user);
            }
            Command::Use(container, sets) => {
                let mut state = self.state();
                let open = state.cache.use_sets(container, sets);
                let replies = state.take_replies(open);
                drop(state);
                cancel_all(replies);
            }
            Command::Read(read) => {
                read(&|container, set| self.state().cache.status(container, set))
            }
            Command::Stop => {}
        }
    }

    fn register(&self, checked: Checked, reply: Reply, to_begin: &mut Turns<RequestId>) {
        if let Err(DirsError::DisksFailed { report }) = self.dirs.require_enough() {
            return reply.answer(Err(LocalizeError::DisksFailed { report }));
        }
        let Checked {
            container,
            set,
            user,
            wanted,
        } = checked;
        let mut state = self.state();
        let request = state.cache.register(container, set, user.clone(), wanted);
        state.replies.insert(request, reply);
        to_begin.queue(&user, request);
    }

    fn release(&self, container: ContainerId) {
        let mut state = self.state();
        let open = state.cache.release(container);
        let replies = state.take_replies(open);
        drop(state);
        cancel_all(replies);
    }

    fn finish_application(&self, application: ApplicationId, user: &UserName) {
        let scope = Scope::Application(user.clone(), application);
        let mut state = self.state();
        let open = state.cache.remove_application(&scope, application);
        self.forget_all(application);
        let replies = state.take_replies(open);
        drop(state);
        cancel_all(replies);
        // After the index: a download that ends meanwhile then knows that its folder must go.
        let folders = self.dirs.application_deletions(application, user);
        self.deletion.delete(folders);
    }

    /// Begins requests in their turns, and answers those that are complete: together, for the first
    /// answer has a process start, which competes with this thread for the processors. None waits
    /// for a look at the disk on behalf of another.
    fn begin_waiting(self: &Arc<Self>, to_begin: &mut Turns<RequestId>) {
        let mut complete = Vec::new();
        for _ in 0..BEGUN_AT_ONCE_MAX {
            let Some((user, request)) = to_begin.next(|_| true) else {
                break;
            };
            let known = self.state().cache.places_to_check(request);
            if !known.is_empty() {
                self.answer(std::mem::take(&mut complete), Vec::new());
            }
            let begun = self.begin_some(request, known);
            to_begin.ended(&user);
            if begun.is_partial {
                to_begin.queue(&user, request);
            }
            match begun.complete {
                Some(resources) => complete.push((request, resources)),
                None => self.start_downloads(),
            }
        }
        self.answer(complete, Vec::new());
    }

    /// Begins the next resources of a request, after a look at those that are on the disk.
    fn begin_some(&self, request: RequestId, known: Vec<(EntryId, Scope, Place)>) -> Begun {
        let now_ms = self.now_ms();
        let (present, missing): (Vec<_>, Vec<_>) = known
            .into_iter()
            .partition(|(_, scope, place)| self.is_on_disk(scope, place));
        let missing: Vec<_> = missing.into_iter().map(|(entry, ..)| entry).collect();
        let mut state = self.state();
        for (entry, ..) in present {
            state.cache.seen(entry, now_ms);
        }
        let begun = state.cache.begin(request, &missing);
        self.forget(&begun.forgotten);
        begun
    }

    fn fail_stalled(self: &Arc<Self>) {
        let (now_ms, limit_ms) = (self.now_ms(), millis(self.source_timeout));
        let stalled = self.state().cache.fail_stalled(now_ms, limit_ms);
        self.answer(stalled.complete, stalled.failed);
        // A thread that hangs leaves its place to another.
        self.start_downloads();
    }
}

fn cancel_all(replies: Vec<Reply>) {
    for reply in replies {
        reply.answer(Err(LocalizeError::Cancelled));
    }
}
