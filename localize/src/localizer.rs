//! Localization threads and their handle (Hadoop: `ResourceLocalizationService`).
//!
//! ```text
//! localize(), release(), … ──► localize-books ──► localize-fetch, one for each download ──► reply
//!        never wait          cache: register, begin      cache: finish, next download
//! ```
//! The core orders localizations on its own task, so the handle only sends commands, and the thread
//! `localize-books` performs them. It also checks whether cached resources are still on the disk,
//! some at a time and with fair turns between users: a container whose resources are all cached
//! waits neither for another's long download nor for another's long list. A look counts for a
//! second ([`LOOKS_COUNT_MS`]): who wants only what was seen since then is answered on the spot, so
//! containers of one job wait neither for a thread nor for the disk. Threads that download
//! start when it is a download's turn, perform others while there are any, and end. Nothing is
//! refused for want of threads: it waits. What may wait is bounded by what the core admits.
//!
//! Replies are called on these threads and must not block.

mod books;
mod brought_back;
mod checked;
mod download;
mod keeping;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};
use records::{ApplicationId, ContainerId, EpochMillis};
use threads::ThreadOwner;

use crate::config::LocalizerConfig;

use super::cache::{Cache, CachedResource, Complete, Failure, RequestId};
use super::deletion::DeletionService;
use super::dirs::NodeDirs;
use super::error::LocalizeError;
use super::fetch::{SourceOf, Sources};
use super::kept::KeptRecords;
use super::resource::{LocalizeRequest, LocalizedResource, ResourceStatus, SetNumber, UsedSets};
use super::user_name::UserName;
use brought_back::Gone;
use checked::{AT_ONCE_MAX, Checked, check};

/// Time for which a look at a cached resource on the disk counts, in milliseconds. A launch looks
/// once more ([`Localizer::gone`]), so that a container which was queued meanwhile, or which starts
/// within this time after somebody has removed files of the cache by hand, finds its files.
const LOOKS_COUNT_MS: u64 = 1000;

/// Time that a stop waits for downloads to abort. They do at their next read, unless the source or
/// the disk hangs.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Handle of localization. Cheap to clone; no method waits for a lock, a disk or a source, except
/// [`Self::clean_up_cache`].
#[derive(Clone)]
pub struct Localizer {
    shared: Arc<Shared>,
    /// Unbounded: the core sends a few commands for each container that it admits.
    commands: Sender<Command>,
}

/// Threads of a [`Localizer`], to be stopped with [`LocalizerThreads::stop`].
#[must_use]
pub struct LocalizerThreads {
    owner: ThreadOwner,
    shared: Arc<Shared>,
    commands: Sender<Command>,
    books: JoinHandle<()>,
}

/// Order to the thread that keeps the books.
enum Command {
    /// A request that is too long to be checked by its caller.
    Check(LocalizeRequest, Reply),
    Localize(Checked, Reply),
    BringBack(Gone, Reply),
    Use(ContainerId, UsedSets),
    Release(ContainerId),
    Forget(ContainerId),
    FinishApplication(ApplicationId, UserName),
    Read(Box<dyn FnOnce(&Statuses<'_>) + Send>),
    Stop,
}

/// Reader of a container's resources of all sets up to one: the state of each, in the order of the
/// requests; empty for an unknown container. Of one that was released, what became of them, while
/// the memory for that suffices.
pub type Statuses<'a> = dyn Fn(ContainerId, SetNumber) -> Vec<ResourceStatus> + 'a;

type Answer = Result<Vec<LocalizedResource>, LocalizeError>;

/// Function to call with the answer to a request. Dropping it answers that the node is stopping.
struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Reply {
    fn answer(mut self, answer: Answer) {
        if let Some(reply) = self.0.take() {
            reply(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(LocalizeError::Stopping));
        }
    }
}

struct Shared {
    state: Mutex<State>,
    /// Notified when a thread that downloaded ends.
    thread_ended: Condvar,
    dirs: NodeDirs,
    deletion: DeletionService,
    /// Clock for messages about resources that changed.
    wall_clock: fn() -> EpochMillis,
    source_of: SourceOf,
    sources: Sources,
    source_timeout: Duration,
    /// Records of what is in the caches; empty: nothing outlives the agent.
    records: OnceLock<Arc<dyn KeptRecords>>,
    /// Moment from which times are counted.
    began: Instant,
    /// Time for which a look at the disk counts, in milliseconds.
    looks_count_ms: u64,
}

struct State {
    cache: Cache,
    replies: BTreeMap<RequestId, Reply>,
    /// No further download starts.
    is_stopping: bool,
}

impl Localizer {
    /// Starts the thread `localize-books`; downloads come from `sources` and go to `dirs`, evicted
    /// resources to `deletion`. `wall_clock` dates messages about resources that changed.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        config: &LocalizerConfig,
        dirs: NodeDirs,
        deletion: DeletionService,
        sources: Sources,
        wall_clock: fn() -> EpochMillis,
    ) -> io::Result<(Self, LocalizerThreads)> {
        let from = (sources.opener(), sources);
        let looks_count_ms = LOOKS_COUNT_MS;
        Self::start_with(config, dirs, deletion, wall_clock, from, looks_count_ms)
    }

    fn start_with(
        config: &LocalizerConfig,
        dirs: NodeDirs,
        deletion: DeletionService,
        wall_clock: fn() -> EpochMillis,
        (source_of, sources): (SourceOf, Sources),
        looks_count_ms: u64,
    ) -> io::Result<(Self, LocalizerThreads)> {
        let threads = usize::try_from(config.fetch_thread_count).unwrap_or(usize::MAX);
        let state = State {
            cache: Cache::new(
                config.max_files_per_directory,
                threads,
                dirs.first_resource(),
            ),
            replies: BTreeMap::new(),
            is_stopping: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            thread_ended: Condvar::new(),
            dirs,
            deletion,
            wall_clock,
            source_of,
            sources,
            source_timeout: Duration::from_millis(config.source_timeout_ms),
            records: OnceLock::new(),
            began: Instant::now(),
            looks_count_ms,
        });
        let (commands, to_do) = unbounded();
        let keeper = shared.clone();
        let owner = ThreadOwner::default();
        let books = owner.start("localize-books", move || keeper.keep_books(&to_do))?;
        let threads = LocalizerThreads {
            owner,
            shared: shared.clone(),
            commands: commands.clone(),
            books,
        };
        Ok((Self { shared, commands }, threads))
    }

    /// Localizes all resources of a container and then calls `reply`, exactly once: immediately on
    /// this thread if there are none, if a short request cannot be, or if all are cached and were
    /// seen on the disk lately; otherwise on a localization thread. It must not block.
    /// The resources stay until [`Self::release`], also after a failure. A container may ask again
    /// for more.
    pub fn localize(
        &self,
        request: LocalizeRequest,
        reply: impl FnOnce(Result<Vec<LocalizedResource>, LocalizeError>) + Send + 'static,
    ) {
        let reply = Reply(Some(Box::new(reply)));
        if request.resources.is_empty() {
            return reply.answer(Ok(Vec::new()));
        }
        if request.resources.len() > AT_ONCE_MAX {
            return self.send(Command::Check(request, reply));
        }
        match check(request).map(|checked| self.shared.answer_at_once(checked)) {
            Ok(Ok(resources)) => reply.answer(Ok(resources)),
            Ok(Err(checked)) => self.send(Command::Localize(checked, reply)),
            Err(error) => reply.answer(Err(error)),
        }
    }

    /// Releases what a container no longer uses, now that its resources are those of these sets.
    /// Open requests of later sets are answered with [`LocalizeError::Cancelled`].
    pub fn use_sets(&self, container: ContainerId, sets: UsedSets) {
        self.send(Command::Use(container, sets));
    }

    /// Releases the resources of a container that has ended: those that no other container uses may
    /// be evicted from now on. Its open requests are answered with [`LocalizeError::Cancelled`].
    pub fn release(&self, container: ContainerId) {
        self.send(Command::Release(container));
    }

    /// Forgets what became of the resources of a container that was released: nobody asks any more.
    pub fn forget(&self, container: ContainerId) {
        self.send(Command::Forget(container));
    }

    /// Removes the application's cache, cancels the pending resources of its containers, and
    /// deletes the application's folders on the local disks.
    pub fn application_finished(&self, application: ApplicationId, user: &UserName) {
        self.send(Command::FinishApplication(application, user.clone()));
    }

    /// Calls `read` on a localization thread with a reader of containers' resources, after all
    /// earlier orders. Drops it once the threads have stopped.
    pub fn read_statuses(&self, read: impl FnOnce(&Statuses<'_>) + Send + 'static) {
        self.send(Command::Read(Box::new(read)));
    }

    fn send(&self, command: Command) {
        // Fails once the threads have stopped; dropping the command answers it.
        drop(self.commands.send(command));
    }

    /// Deletes unused public and private resources, least recently used first, until all public and
    /// private ones together take at most `target_bytes` (`localizer.cache.target-size-mb`; Hadoop
    /// does so every `localizer.cache.cleanup.interval-ms`). Returns the number of deleted
    /// resources. Waits for the books.
    pub fn clean_up_cache(&self, target_bytes: u64) -> usize {
        let mut state = self.shared.state();
        let evicted = state.cache.evict(target_bytes);
        self.shared.forget(&evicted);
        drop(state);
        let deletions = evicted
            .iter()
            .filter_map(|(scope, place)| self.shared.deletion_of(scope, place));
        self.shared.deletion.delete(deletions);
        evicted.len()
    }
}

impl LocalizerThreads {
    /// Aborts downloads at their next read, answers open requests with [`LocalizeError::Stopping`],
    /// and waits for the threads: briefly for those that hang in a source, which then are left.
    pub fn stop(self) {
        self.owner.end();
        drop(self.commands.send(Command::Stop));
        if self.books.join().is_err() {
            tracing::error!("the thread of the localization's books panicked");
        }
        let mut state = self.shared.state();
        state.is_stopping = true;
        state.cache.give_up_all();
        let replies = std::mem::take(&mut state.replies);
        drop(state);
        // Answers them.
        drop(replies);
        let downloading = |state: &mut State| state.cache.threads() > 0;
        let state = self.shared.state();
        let waited = self
            .shared
            .thread_ended
            .wait_timeout_while(state, STOP_PATIENCE, downloading);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let left = state.cache.threads();
        if left > 0 {
            tracing::warn!(left, "stopping while downloads hang in their sources");
        }
    }
}

impl State {
    fn take_replies(&mut self, requests: Vec<RequestId>) -> Vec<Reply> {
        let take = |request| self.replies.remove(&request);
        requests.into_iter().filter_map(take).collect()
    }
}

impl Shared {
    // A panic under the lock would be a bug in the index; the other containers continue with the
    // resources that they have.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since this was made, in milliseconds.
    fn now_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    fn answer(&self, complete: Vec<(RequestId, Complete)>, failed: Vec<(RequestId, Failure)>) {
        let complete = complete
            .into_iter()
            .map(|(request, complete)| (request, Ok(self.localized(complete))));
        let failed = failed.into_iter().map(|(request, failure)| {
            let error = LocalizeError::Resource {
                link: failure.link,
                url: failure.url.to_string(),
                source: failure.error,
            };
            (request, Err(error))
        });
        for (request, answer) in complete.chain(failed) {
            let reply = self.state().replies.remove(&request);
            if let Some(reply) = reply {
                reply.answer(answer);
            }
        }
    }

    fn localized(&self, complete: Complete) -> Vec<LocalizedResource> {
        let localized = |resource: CachedResource| LocalizedResource {
            path: self.path_of(&resource.scope, &resource.place),
            link: resource.link,
            set: resource.set,
            bytes: resource.bytes,
            was_cached: resource.was_cached,
        };
        complete.into_iter().map(localized).collect()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
