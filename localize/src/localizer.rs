//! Localization threads and their handle (Hadoop: `ResourceLocalizationService`).
//!
//! ```text
//! localize() ──► localize-begin ──► localize-0 … localize-N ──► reply
//! localize() ──► localize-begin ──► localize-0 … localize-N ──► reply
//!    cache: register      begin: cached, or to download      finish
//! `localize-begin` only checks whether cached resources are still on the disk, so a container
//! whose resources are all cached does not wait behind another's long download. Both queues hold no
//! more than the cache index admits, so sending never blocks. Replies are called on these threads
//! and must not block.

mod download;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use records::{ApplicationId, ContainerId, EpochMillis};

use crate::config::LocalizerConfig;

use super::cache::{
    Cache, CachedResource, Complete, Download, EntryId, Failure, Place, RequestId, RequestPlan,
    TooManyWaiting, WAITING_MAX, Wanted,
};
use super::deletion::DeletionService;
use super::dirs::NodeDirs;
use super::error::{FetchError, LocalizeError};
use super::layout::Scope;
use super::resource::{
    LocalizeRequest, LocalizedResource, ResourceSpec, ResourceStatus, Visibility,
};
use super::user_name::UserName;

/// Handle of localization. Cheap to clone.
#[derive(Clone)]
pub struct Localizer {
    shared: Arc<Shared>,
}

/// Threads of a [`Localizer`], to be stopped with [`LocalizerThreads::stop`].
#[must_use]
pub struct LocalizerThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

type Reply = Box<dyn FnOnce(Result<Vec<LocalizedResource>, LocalizeError>) + Send>;

struct Shared {
    state: Mutex<State>,
    dirs: NodeDirs,
    deletion: DeletionService,
    /// Clock for messages about resources that changed.
    wall_clock: fn() -> EpochMillis,
}

struct State {
    cache: Cache,
    replies: BTreeMap<RequestId, Reply>,
    /// Queues to the threads; `None` once the threads must stop.
    queues: Option<Queues>,
}

#[derive(Clone)]
struct Queues {
    begin: Sender<RequestId>,
    download: Sender<Download>,
}

impl Localizer {
    /// Starts the threads `localize-begin`, `localize-0`, `localize-1`, …; downloads go to `dirs`,
    /// evicted resources to `deletion`. `wall_clock` dates messages about resources that changed.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        config: &LocalizerConfig,
        dirs: NodeDirs,
        deletion: DeletionService,
        wall_clock: fn() -> EpochMillis,
    ) -> io::Result<(Self, LocalizerThreads)> {
        // The index admits no more than `WAITING_MAX`. Bounded channels of that size would touch
        // megabytes at the start.
        let (begin, to_begin) = unbounded();
        let (download, to_download) = unbounded();
        let state = State {
            cache: Cache::new(config.max_files_per_directory),
            replies: BTreeMap::new(),
            queues: Some(Queues { begin, download }),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            dirs,
            deletion,
            wall_clock,
        });
        let mut threads = LocalizerThreads {
            shared: shared.clone(),
            threads: Vec::new(),
        };
        let begin = shared.clone();
        let mut spawned = threads.spawn("localize-begin".to_owned(), move || {
            begin.begin_each(&to_begin);
        });
        for index in 0..config.fetch_thread_count.max(1) {
            let (shared, to_download) = (shared.clone(), to_download.clone());
            spawned = spawned.and_then(|()| {
                threads.spawn(format!("localize-{index}"), move || {
                    shared.download_each(&to_download);
                })
            });
        }
        if let Err(error) = spawned {
            threads.stop();
            return Err(error);
        }
        Ok((Self { shared }, threads))
    }

    /// Localizes all resources of a container and then calls `reply`, exactly once: immediately on
    /// this thread if there are none or the request is refused, otherwise on a localization thread,
    /// where it must not block. The resources stay until [`Self::release`], also after a failure. A
    /// container may ask again for more.
    pub fn localize(
        &self,
        request: LocalizeRequest,
        reply: impl FnOnce(Result<Vec<LocalizedResource>, LocalizeError>) + Send + 'static,
    ) {
        if request.resources.is_empty() {
            return reply(Ok(Vec::new()));
        }
        let container = request.container;
        match check(request) {
            Ok(wanted) => self.shared.admit(container, wanted, Box::new(reply)),
            Err(error) => reply(Err(error)),
        }
    }

    /// Cancels the container's pending resources; its open requests are answered with
    /// [`LocalizeError::Cancelled`], on this thread. Its localized resources stay until
    /// [`Self::release`].
    pub fn cancel(&self, container: ContainerId) {
        let replies = {
            let mut state = self.shared.state();
            let open = state.cache.cancel(container);
            state.take_replies(open)
        };
        answer_all(replies, &LocalizeError::Cancelled);
    }

    /// Releases the resources of a container that has ended: those that no other container uses may
    /// be evicted from now on. Open requests are cancelled.
    pub fn release(&self, container: ContainerId) {
        let replies = {
            let mut state = self.shared.state();
            let open = state.cache.release(container);
            state.take_replies(open)
        };
        answer_all(replies, &LocalizeError::Cancelled);
    }

    /// Removes the application's cache from the index and cancels the pending resources of its
    /// containers. The caller deletes the folders afterwards, by passing
    /// [`NodeDirs::application_deletions`] to the deletion service.
    pub fn application_finished(&self, application: ApplicationId, user: &UserName) {
        let scope = Scope::Application(user.clone(), application);
        let replies = {
            let mut state = self.shared.state();
            let open = state.cache.remove_application(&scope, application);
            state.take_replies(open)
        };
        answer_all(replies, &LocalizeError::Cancelled);
    }

    /// Returns the state of each resource of a container, in the order of the requests; empty for
    /// an unknown container.
    #[must_use]
    pub fn status(&self, container: ContainerId) -> Vec<ResourceStatus> {
        self.shared.state().cache.status(container)
    }

    /// Deletes unused public and private resources, least recently used first, until all public and
    /// private ones together take at most `target_bytes` (`localizer.cache.target-size-mb`; Hadoop
    /// does so every `localizer.cache.cleanup.interval-ms`). Returns the number of deleted
    /// resources.
    pub fn clean_up_cache(&self, target_bytes: u64) -> usize {
        let evicted = self.shared.state().cache.evict(target_bytes);
        let deletions = evicted
            .iter()
            .filter_map(|(scope, place)| self.shared.deletion_of(scope, place));
        self.shared.deletion.delete(deletions);
        evicted.len()
    }
}

impl LocalizerThreads {
    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Aborts downloads at their next check, answers open requests with
    /// [`LocalizeError::Stopping`], and waits for the threads.
    pub fn stop(self) {
        let replies = {
            let mut state = self.shared.state();
            state.queues = None;
            std::mem::take(&mut state.replies)
        };
        answer_all(replies.into_values().collect(), &LocalizeError::Stopping);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a localization thread panicked");
            }
        }
    }
}

/// Checks a request and converts it for the cache index.
fn check(request: LocalizeRequest) -> Result<Vec<Wanted>, LocalizeError> {
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
    request.resources.into_iter().map(wanted).collect()
}

fn answer_all(replies: Vec<Reply>, error: &LocalizeError) {
    for reply in replies {
        reply(Err(error.clone()));
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

    fn admit(&self, container: ContainerId, wanted: Vec<Wanted>, reply: Reply) {
        let mut state = self.state();
        let error = match &state.queues {
            None => LocalizeError::Stopping,
            // Filled only under this lock. Cancelled requests may still be in the queue.
            Some(queues) if queues.begin.len() >= WAITING_MAX => {
                LocalizeError::Busy { limit: WAITING_MAX }
            }
            Some(queues) => {
                let begin = queues.begin.clone();
                match state.cache.register(container, wanted) {
                    Ok(request) => {
                        state.replies.insert(request, reply);
                        if begin.try_send(request).is_err() {
                            tracing::error!("the queue of requests changed under the lock");
                        }
                        return;
                    }
                    Err(TooManyWaiting) => LocalizeError::Busy { limit: WAITING_MAX },
                }
            }
        };
        drop(state);
        reply(Err(error));
    }

    fn begin_each(&self, requests: &Receiver<RequestId>) {
        for request in requests {
            let known = self.state().cache.cached_places(request);
            let missing: Vec<_> = known
                .into_iter()
                .filter(|(_, scope, place)| !self.is_on_disk(scope, place))
                .map(|(entry, ..)| entry)
                .collect();
            let mut state = self.state();
            let Some(queues) = state.queues.clone() else {
                return;
            };
            let RequestPlan {
                downloads,
                complete,
            } = state.cache.begin(request, &missing);
            drop(state);
            if let Some(complete) = complete {
                self.answer(vec![(request, complete)], Vec::new());
            }
            for download in downloads {
                let entry = download.entry;
                if queues.download.try_send(download).is_err() {
                    self.finish(entry, Err(FetchError::QueueFull));
                }
            }
        }
    }

    fn download_each(&self, downloads: &Receiver<Download>) {
        for download in downloads {
            if self.state().queues.is_none() {
                return;
            }
            let result = self.download(&download);
            let unwanted = result.as_ref().ok().map(|(place, _)| place.clone());
            let finished_unwanted = self.finish(download.entry, result);
            if let (Some(place), true) = (unwanted, finished_unwanted) {
                self.discard(&download.scope, &place);
            }
        }
    }

    /// Records the end of a download and answers the requests that waited for it. Returns whether
    /// none did.
    fn finish(&self, entry: EntryId, result: Result<(Place, u64), FetchError>) -> bool {
        let result = result.map_err(Arc::new);
        let finished = self.state().cache.finish(entry, result);
        self.answer(finished.complete, finished.failed);
        finished.unwanted
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
                reply(answer);
            }
        }
    }

    fn localized(&self, complete: Complete) -> Vec<LocalizedResource> {
        let localized = |resource: CachedResource| LocalizedResource {
            path: self.path_of(&resource.scope, &resource.place),
            link: resource.link,
            bytes: resource.bytes,
            was_cached: resource.was_cached,
        };
        complete.into_iter().map(localized).collect()
    }
}

#[cfg(test)]
mod tests;
