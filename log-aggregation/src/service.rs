//! Threads that upload. They share one [`Schedule`]; none of its users waits for a file system.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use records::{ApplicationId, ContainerId};
use threads::ThreadOwner;

use crate::policy::{ContainerEnd, ContainerRole};
use crate::schedule::{Application, Outcome, Schedule};
use crate::upload::Uploader;

/// Settings of the service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceConfig {
    /// Uploads at once (`yarn.nodemanager.logaggregation.threadpool-size-max`). A user gets half
    /// of them, so that a destination which hangs for one does not hold up the others.
    pub threads_max: usize,
    /// Interval of the uploads of applications that run for long; `None`: at their end only.
    pub roll_interval: Option<Duration>,
}

/// Receiver of outcomes, called on the threads of the service. It may wait.
pub type Listener = Box<dyn Fn(Outcome) + Send + Sync>;

/// Handle of the service. Cheap to clone.
#[derive(Clone)]
pub struct LogAggregation {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Owner of the threads.
    owner: ThreadOwner,
    /// Notified when an upload becomes due, when one ends, and for the stop.
    changed: Condvar,
    threads_max: usize,
    uploader: Uploader,
    listener: Listener,
}

struct State {
    schedule: Schedule,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for work.
    idle: usize,
}

impl LogAggregation {
    /// Makes the service. Its threads start as uploads become due.
    #[must_use]
    pub fn new(config: ServiceConfig, uploader: Uploader, listener: Listener) -> Self {
        let threads_max = config.threads_max.max(1);
        let schedule = Schedule::new(config.roll_interval, threads_max.div_ceil(2));
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                schedule,
                threads: Vec::new(),
                idle: 0,
            }),
            owner: ThreadOwner::default(),
            changed: Condvar::new(),
            threads_max,
            uploader,
            listener,
        });
        Self { shared }
    }

    /// Begins the aggregation of an application's logs.
    pub fn begin(&self, application: Application) {
        let mut state = self.shared.state();
        state.schedule.begin(application, Instant::now());
        if state.schedule.next_deadline().is_some() {
            self.shared.wake(&mut state);
        }
    }

    /// Records that a container runs.
    pub fn container_started(&self, id: ContainerId, role: ContainerRole) {
        self.shared.state().schedule.container_started(id, role);
    }

    /// Records that a container has ended. Its files do not change any more.
    pub fn container_ended(&self, end: &ContainerEnd) {
        self.shared.state().schedule.container_ended(end);
    }

    /// Orders the last upload of an application, whose containers have ended. An outcome with
    /// `is_last` follows; it is returned if nothing is to be done.
    #[must_use]
    pub fn finish(&self, application: ApplicationId) -> Option<Outcome> {
        let mut state = self.shared.state();
        let outcome = state.schedule.finish(application);
        if outcome.is_none() {
            self.shared.wake(&mut state);
        }
        outcome
    }

    /// Waits until the last uploads of finished applications are done, at most `patience`, and
    /// ends the threads. A thread whose destination hangs is left to the end of the process.
    pub fn stop(&self, patience: Duration) {
        let begin = Instant::now();
        let mut state = self.shared.state();
        state.schedule.stop();
        self.shared.wake(&mut state);
        while state.schedule.has_last_uploads() {
            let Some(left) = patience.checked_sub(begin.elapsed()) else {
                tracing::warn!("stopping with logs that are not aggregated");
                break;
            };
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.shared.owner.end();
        let is_done = !state.schedule.has_last_uploads();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.changed.notify_all();
        for thread in threads {
            if (is_done || thread.is_finished()) && thread.join().is_err() {
                tracing::error!("a thread that uploads logs panicked");
            }
        }
    }
}

impl Shared {
    // No code panics while it holds the lock; even then the schedule would be consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread for an upload that may be due, or starts one.
    fn wake(self: &Arc<Self>, state: &mut State) {
        if state.idle == 0 && state.threads.len() < self.threads_max {
            match self.start_thread(state.threads.len()) {
                Ok(thread) => state.threads.push(thread),
                Err(error) => tracing::warn!(%error, "cannot start another thread for logs"),
            }
        }
        self.changed.notify_all();
    }

    fn start_thread(self: &Arc<Self>, number: usize) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        self.owner
            .start(&format!("logs-{number}"), move || shared.work())
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.state();
        while !self.owner.has_ended() {
            if let Some(upload) = state.schedule.next(Instant::now()) {
                if state.schedule.has_due() {
                    self.wake(&mut state);
                }
                drop(state);
                let result = self.uploader.upload(&upload);
                let outcome = self
                    .state()
                    .schedule
                    .uploaded(&upload, result, Instant::now());
                // Before others learn that the upload is over: a stop waits for the outcome.
                if let Some(outcome) = outcome {
                    (self.listener)(outcome);
                }
                self.changed.notify_all();
                state = self.state();
                continue;
            }
            let deadline = state.schedule.next_deadline();
            state.idle += 1;
            state = match deadline {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.idle -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
