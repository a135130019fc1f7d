//! The thread that performs the commands of the [`Localizer`](super::Localizer), begins requests
//! and fails downloads without progress.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use records::{ApplicationId, ContainerId};

use super::super::cache::{RequestId, Wanted};
use super::super::error::{DirsError, LocalizeError};
use super::super::layout::Scope;
use super::super::resource::{LocalizeRequest, ResourceSpec, Visibility};
use super::super::turns::Turns;
use super::super::user_name::UserName;
use super::{Command, Reply, Shared};

/// Number of checks for progress within the time limit. More find a hanging source sooner after the
/// limit, by one interval at most.
const CHECKS_PER_TIMEOUT: u32 = 8;

const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// Number of waiting commands that are performed before the next request begins. The requests of
/// one call are then registered together, and a resource that all of them want is looked up once.
/// A command takes microseconds.
const COMMANDS_AT_ONCE_MAX: usize = 64;

impl Shared {
    /// Performs commands until [`Command::Stop`], and between them begins the requests, some
    /// resources of one at a time.
    pub(super) fn keep_books(self: &Arc<Self>, commands: &Receiver<Command>) {
        let interval = (self.source_timeout / CHECKS_PER_TIMEOUT).max(CHECK_INTERVAL_MIN);
        let begin = Instant::now();
        let mut next_check = begin + interval;
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
            self.begin_some(&mut to_begin);
            let now = Instant::now();
            if now >= next_check {
                next_check = now + interval;
                self.fail_stalled(now.duration_since(begin));
            }
        }
    }

    fn perform(&self, command: Command, to_begin: &mut Turns<RequestId>) {
        match command {
            Command::Localize(request, reply) => self.register(request, reply, to_begin),
            Command::Release(container) => self.release(container),
            Command::FinishApplication(application, user) => {
                self.finish_application(application, &user);
            }
            Command::Read(read) => read(&|container| self.state().cache.status(container)),
            Command::Stop => {}
        }
    }

    fn register(&self, request: LocalizeRequest, reply: Reply, to_begin: &mut Turns<RequestId>) {
        let container = request.container;
        if let Err(DirsError::DisksFailed { report }) = self.dirs.require_enough() {
            return reply.answer(Err(LocalizeError::DisksFailed { report }));
        }
        match check(request) {
            Ok((user, wanted)) => {
                let mut state = self.state();
                let request = state.cache.register(container, user.clone(), wanted);
                state.replies.insert(request, reply);
                to_begin.queue(&user, request);
            }
            Err(error) => reply.answer(Err(error)),
        }
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

    /// Begins the next resources of the request whose turn it is.
    fn begin_some(self: &Arc<Self>, to_begin: &mut Turns<RequestId>) {
        let Some((user, request)) = to_begin.next(|_| true) else {
            return;
        };
        let known = self.state().cache.places_to_check(request);
        let missing: Vec<_> = known
            .into_iter()
            .filter(|(_, scope, place)| !self.is_on_disk(scope, place))
            .map(|(entry, ..)| entry)
            .collect();
        let mut state = self.state();
        let begun = state.cache.begin(request, &missing);
        self.forget(&begun.forgotten);
        drop(state);
        to_begin.ended(&user);
        if begun.is_partial {
            to_begin.queue(&user, request);
        }
        if let Some(complete) = begun.complete {
            self.answer(vec![(request, complete)], Vec::new());
        }
        self.start_downloads();
    }

    fn fail_stalled(self: &Arc<Self>, now: Duration) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (now_ms, limit_ms) = (millis(now), millis(self.source_timeout));
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

/// Checks a request and converts it for the cache index.
fn check(request: LocalizeRequest) -> Result<(UserName, Vec<Wanted>), LocalizeError> {
    let user: UserName = request.user.parse()?;
    let application = request.container.application_id();
    let wanted = |(link, spec): (String, ResourceSpec)| {
        let Some(name) = spec.url.name().map(str::to_owned) else {
            let url = spec.url.to_string();
            return Err(LocalizeError::NoName { link, url });
        };
        let scope = match spec.visibility {
            Visibility::Public => Scope::Public,
            Visibility::Private => Scope::Private(user.clone()),
            Visibility::Application => Scope::Application(user.clone(), application),
        };
        Ok(Wanted {
            link,
            scope,
            name,
            spec: Arc::new(spec),
        })
    };
    let wanted: Result<_, _> = request.resources.into_iter().map(wanted).collect();
    Ok((user, wanted?))
}
