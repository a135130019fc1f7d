//! The workers of an agent: started when they are wanted, and ended when they are idle or broken.
//!
//! One thread starts and ends all, because the kernel ends a worker with the thread that started
//! it. Callers wait for a worker at most as long as for a step of a file system.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use archives::{ArchiveReader, Entries, Form, ReadError};
use hadoop_fs::{Caller, FileSystem, FsConfig, FsError, Opener, Uri};
use namenode_access::Proof;
use threads::ThreadOwner;
use users::{Account, AccountIds};

use crate::archive::{self, Archive};
use crate::client::{Remote, Session};
use crate::message::Setup;
use crate::places::{Key, Next, PLACES_MAX, Places, Use, Wanted};
use crate::process::{Process, Program};
use crate::security::{Identity, Secret, Security};

/// Pause between two looks whether a worker that was killed has ended.
const ENDING_POLL: Duration = Duration::from_secs(1);

/// Times that a session is tried with workers that had ended unnoticed.
const TRIES: usize = 2;

/// Function that returns the account whose rights a worker for a caller has; `None`: the agent's
/// own. May block.
pub type AccountOf = Box<dyn Fn(Caller<'_>) -> Option<Arc<Account>> + Send + Sync>;

/// Configuration of a pool.
pub struct PoolConfig {
    /// Program of a worker.
    pub program: Program,
    /// File systems, as the workers open them.
    pub file_systems: FsConfig,
    /// Accounts of callers.
    pub account_of: AccountOf,
    /// Proofs of a secure cluster; `None`: a user's name suffices.
    pub security: Option<Security>,
}

/// Workers, and the file systems behind them. Its threads and workers end with it.
pub struct Pool {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    owner: ThreadOwner,
}

struct Shared {
    config: PoolConfig,
    state: Mutex<State>,
    /// Notified when a worker serves or is gone, a session ends, or the pool does.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    places: Places,
    workers: BTreeMap<Key, Arc<Process>>,
    /// Retired workers that may not have ended yet.
    ending: Vec<(Key, Arc<Process>)>,
    /// Last failure to start a worker, with its number, while callers wait for one.
    failures: BTreeMap<Key, (u64, String)>,
    failure_count: u64,
    is_over: bool,
}

/// Right to a session of a worker.
pub(crate) struct Lease {
    shared: Arc<Shared>,
    key: Key,
    process: Arc<Process>,
}

impl Pool {
    /// Makes a pool, which starts nothing before it is asked for a file system.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                state: Mutex::default(),
                changed: Condvar::new(),
            }),
            thread: Mutex::default(),
            owner: ThreadOwner::default(),
        }
    }

    /// Gives a secret to the workers of this work that have one and run now: their next connections
    /// use it, also those of sessions that go on.
    pub fn renew(&self, work: &str, secret: &Secret) {
        let state = self.shared.state();
        let of_work = state.workers.iter();
        let of_work = of_work.filter(|(key, _)| key.has_secret && !key.is_own && key.work == work);
        let running: Vec<_> = of_work.map(|(_, process)| Arc::clone(process)).collect();
        drop(state);
        for process in running {
            // One that has ended is replaced at the next session.
            let _ended = process.give(secret);
        }
    }

    fn start_thread(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(self.owner.start("file-workers", move || shared.keep())?);
        }
        Ok(())
    }

    /// Begins a session for a caller. `begin` tells the worker what it is for.
    fn begin<T, E>(
        &self,
        caller: Caller<'_>,
        of_use: Use,
        begin: impl Fn(UnixStream, Lease) -> Result<T, E>,
        is_of_worker: impl Fn(&E) -> bool,
        without_worker: impl Fn(String) -> E,
    ) -> Result<T, E> {
        let identity = self.identity(caller, of_use).map_err(&without_worker)?;
        let (proof, secret) = match identity {
            None => (None, None),
            Some(Identity { proof, secret }) => (Some(proof), secret),
        };
        let is_shared = matches!(proof, Some(Proof::Keytab { .. }));
        let key = Key {
            is_own: caller.is_own,
            user: caller.user.to_owned(),
            work: if is_shared { "" } else { caller.work }.to_owned(),
            has_secret: proof.is_some(),
        };
        let account = (self.shared.config.account_of)(caller);
        let wanted = Wanted {
            charged: caller.charged.to_owned(),
            account: account.map(|account| account.ids()),
            proof,
        };
        loop {
            let session = self.session(&key, &wanted, of_use, secret.as_ref());
            let (stream, lease) = session.map_err(&without_worker)?;
            let process = Arc::clone(&lease.process);
            match begin(stream, lease) {
                Ok(begun) => {
                    process.serves();
                    return Ok(begun);
                }
                // One that served before has died for other reasons than this session's; the next
                // one has not.
                Err(error) if is_of_worker(&error) && process.has_served() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the identity of a caller; `None`: it needs none. Readers of archives get no secret:
    /// strangers wrote what they read.
    fn identity(&self, caller: Caller<'_>, of_use: Use) -> Result<Option<Identity>, String> {
        match (&self.shared.config.security, of_use) {
            (Some(security), Use::FileSystem) => (security.identity_of)(caller).map(Some),
            (Some(_), Use::Archive) | (None, _) => Ok(None),
        }
    }

    /// Opens a session with a worker of this key that has this secret.
    fn session(
        &self,
        key: &Key,
        wanted: &Wanted,
        of_use: Use,
        secret: Option<&Secret>,
    ) -> Result<(UnixStream, Lease), String> {
        self.start_thread()
            .map_err(|error| format!("no thread for file workers: {error}"))?;
        let deadline = Instant::now() + self.shared.config.file_systems.step_limit;
        let mut last = String::new();
        for _ in 0..TRIES {
            let lease = self.shared.lease(key, wanted, of_use, deadline)?;
            let given = secret.map_or(Ok(()), |secret| lease.process.give(secret));
            match given.and_then(|()| lease.process.open_session()) {
                Ok(stream) => return Ok((stream, lease)),
                // It has ended while nobody looked.
                Err(error) => last = lease.give_up(&error),
            }
        }
        Err(last)
    }
}

impl Opener for Pool {
    fn open(&self, uri: &Uri, caller: Caller<'_>) -> Result<Box<dyn FileSystem>, FsError> {
        let limit = self.shared.config.file_systems.step_limit;
        let session = self.begin(
            caller,
            Use::FileSystem,
            |stream, lease| Session::open(stream, lease, (uri, caller.user), limit),
            |error| matches!(error, FsError::Worker { .. }),
            |message| FsError::Worker {
                step: "open",
                uri: uri.to_string(),
                message,
            },
        );
        Ok(Box::new(Remote(Arc::new(session?))))
    }
}

impl ArchiveReader for Pool {
    fn read(
        &self,
        caller: Caller<'_>,
        form: Form<'_>,
        content: &mut dyn Read,
        entries: &mut dyn Entries,
    ) -> Result<(), ReadError> {
        archive::check(form)?;
        let limit = self.shared.config.file_systems.step_limit;
        let archive = self.begin(
            caller,
            Use::Archive,
            |stream, lease| Archive::open(stream, lease, form, limit),
            |_reason| true,
            |reason| reason,
        );
        archive.map_err(io::Error::other)?.read(content, entries)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.owner.end();
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the file workers panicked");
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a worker with room for a session.
    fn lease(
        self: &Arc<Self>,
        key: &Key,
        wanted: &Wanted,
        of_use: Use,
        deadline: Instant,
    ) -> Result<Lease, String> {
        let mut state = self.state();
        let failures_before = state.failure_count;
        state.places.wait(key, wanted.clone());
        let mut dead = None;
        let leased = loop {
            if let Some(process) = state.workers.get(key).cloned() {
                if process.has_ended() {
                    state.retire(key, &process);
                    self.changed.notify_all();
                    // The first may have ended long ago; the second was new.
                    if let Some(_earlier) = dead.replace(Arc::clone(&process)) {
                        break Err(process.give_up(&io::ErrorKind::UnexpectedEof.into()));
                    }
                } else if state.places.take_session(key, of_use) {
                    break Ok(process);
                }
            }
            if state.is_over {
                break Err("the agent is stopping".to_owned());
            }
            let failure = state.failures.get(key);
            if let Some((_, text)) = failure.filter(|(number, _)| *number > failures_before) {
                break Err(text.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(format!(
                    "no turn for a file worker in time: {PLACES_MAX} may run, half of them of one \
                     user"
                ));
            }
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        };
        state.places.leave(key);
        if !state.places.is_awaited(key) {
            state.failures.remove(key);
        }
        leased.map(|process| Lease {
            shared: Arc::clone(self),
            key: key.clone(),
            process,
        })
    }

    /// Starts and ends workers until the pool is over.
    fn keep(&self) {
        let mut state = self.state();
        while !state.is_over {
            match state.places.next(Instant::now()) {
                Some(Next::Start(key, wanted)) => {
                    drop(state);
                    let started = self.start(&key, wanted);
                    state = self.state();
                    state.started(key, started);
                    self.changed.notify_all();
                    continue;
                }
                Some(Next::End(key)) => {
                    let process = state.workers.remove(&key);
                    state.ending.extend(process.map(|process| (key, process)));
                }
                None => {}
            }
            if state.ending.is_empty() {
                state = self.wait(state);
                continue;
            }
            let ending = std::mem::take(&mut state.ending);
            drop(state);
            let (ended, left): (Vec<_>, Vec<_>) =
                ending.into_iter().partition(|(_, process)| process.end());
            state = self.state();
            for (key, _) in &ended {
                state.places.ended(key);
            }
            state.ending.extend(left);
            self.changed.notify_all();
            if ended.is_empty() {
                let waited = self.changed.wait_timeout(state, ENDING_POLL);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        let workers = std::mem::take(&mut state.workers).into_values();
        let ending = std::mem::take(&mut state.ending);
        drop(state);
        for process in workers.chain(ending.into_iter().map(|(_, process)| process)) {
            process.end();
        }
    }

    /// Waits for an order, or until an idle worker is due to go.
    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        match state.places.next_expiry() {
            None => {
                let waited = self.changed.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
            Some(expiry) => {
                let left = expiry.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout(state, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    fn start(&self, key: &Key, wanted: Wanted) -> Result<Process, String> {
        let setup = Setup {
            parent: std::process::id().cast_signed(),
            account: wanted.account,
            proof: wanted.proof,
            file_systems: self.config.file_systems.clone(),
        };
        let label = format!("{} {}", key.user, key.work);
        let security = self.config.security.as_ref();
        let environment = security.map_or_else(Vec::new, |security| {
            security.environment_of(setup.proof.as_ref())
        });
        let program = &self.config.program;
        let started = Process::start(program, label.trim_end(), environment, &setup);
        let uid = setup.account.as_ref().map(|AccountIds { uid, .. }| *uid);
        started
            .inspect(|_| tracing::debug!(user = key.user, work = key.work, ?uid, "file worker"))
            .map_err(|error| format!("its file worker cannot be started: {error}"))
    }
}

impl State {
    fn started(&mut self, key: Key, started: Result<Process, String>) {
        match started {
            Ok(process) => {
                self.places.started(&key, Instant::now());
                self.workers.insert(key, Arc::new(process));
            }
            Err(text) => {
                self.places.retire(&key);
                self.places.ended(&key);
                // Those who wait now get this failure; whoever comes later has another try.
                let wants = self.places.is_awaited(&key);
                self.failure_count += 1;
                if wants {
                    self.failures.insert(key, (self.failure_count, text));
                }
            }
        }
    }

    /// Takes a worker out of service, if it is still the one of its key.
    fn retire(&mut self, key: &Key, process: &Arc<Process>) {
        let is_current = |current: &Arc<Process>| Arc::ptr_eq(current, process);
        if self.workers.get(key).is_some_and(is_current) {
            self.workers.remove(key);
            self.places.retire(key);
            self.ending.push((key.clone(), Arc::clone(process)));
        }
    }
}

impl Lease {
    /// Ends the worker because a session of it has failed, and returns the reason for people.
    pub(crate) fn give_up(&self, failure: &io::Error) -> String {
        let reason = self.process.give_up(failure);
        self.shared.state().retire(&self.key, &self.process);
        self.shared.changed.notify_all();
        reason
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.key).finish()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let current = state.workers.get(&self.key);
        if current.is_some_and(|current| Arc::ptr_eq(current, &self.process)) {
            state.places.release_session(&self.key, Instant::now());
            self.shared.changed.notify_all();
        }
    }
}
