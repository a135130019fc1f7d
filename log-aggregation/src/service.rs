//! Threads that upload. They share one [`Schedule`]; none of its users waits for a file system.

use std::io;
use std::time::{Duration, Instant};

use records::{ApplicationId, ContainerName};
use threads::{Pool, PoolConfig, Work};

use crate::policy::{ContainerEnd, ContainerRole};
use crate::schedule::{Application, Outcome, Schedule};
use crate::upload::{Upload, Uploader};

/// Settings of the service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceConfig {
    /// Uploads at once (`yarn.nodemanager.logaggregation.threadpool-size-max`). A user gets half
    /// of them, so that a destination which hangs for one does not hold up the others.
    pub threads_max: usize,
    /// Interval of the uploads of applications that run for long; `None`: at their end only.
    pub roll_interval: Option<Duration>,
    /// Longest wait of a last upload for other tokens, where the file system refuses those of the
    /// application; `None`: it is tried again as after any failure.
    pub token_wait: Option<Duration>,
}

/// Receiver of outcomes, called on the threads of the service. It may wait.
pub type Listener = Box<dyn Fn(Outcome) + Send + Sync>;

/// Handle of the service. Cheap to clone.
#[derive(Clone)]
pub struct LogAggregation {
    pool: Pool<Uploads>,
}

struct Uploads {
    schedule: Schedule,
    /// No further upload begins.
    has_ended: bool,
}

impl Work for Uploads {
    type Job = Upload;

    fn next(&mut self, now: Instant) -> Result<Upload, Option<Instant>> {
        if self.has_ended {
            return Err(None);
        }
        let next = self.schedule.next(now);
        next.ok_or_else(|| self.schedule.next_deadline())
    }
}

impl LogAggregation {
    /// Starts the service with one thread; others follow as uploads become due.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(
        config: ServiceConfig,
        uploader: Uploader,
        listener: Listener,
    ) -> io::Result<Self> {
        let per_user_max = config.threads_max.max(1).div_ceil(2);
        let uploads = Uploads {
            schedule: Schedule::new(config.roll_interval, per_user_max)
                .with_token_wait(config.token_wait),
            has_ended: false,
        };
        let pool_config = PoolConfig {
            thread_name: "logs",
            threads_max: config.threads_max,
        };
        let pool = Pool::start(pool_config, uploads, move |pool, upload| {
            let result = uploader.upload(&upload);
            let outcome = pool.change(|Uploads { schedule, .. }| {
                // If the user has another one that waits for this end, this thread begins it.
                (0, schedule.uploaded(&upload, result, Instant::now()))
            });
            if let Some(outcome) = outcome {
                listener(outcome);
            }
        })?;
        Ok(Self { pool })
    }

    /// Begins the aggregation of an application's logs.
    pub fn begin(&self, application: Application) {
        self.pool.change(|Uploads { schedule, .. }| {
            schedule.begin(application, Instant::now());
            (usize::from(schedule.next_deadline().is_some()), ())
        });
    }

    /// Records that a container runs.
    pub fn container_started(&self, id: ContainerName, role: ContainerRole) {
        self.pool
            .change(|uploads| (0, uploads.schedule.container_started(id, role)));
    }

    /// Records that a container has ended. Its files do not change any more.
    pub fn container_ended(&self, end: &ContainerEnd) {
        self.pool
            .change(|uploads| (0, uploads.schedule.container_ended(end)));
    }

    /// Records that an application has other tokens for file systems.
    pub fn tokens_came(&self, application: ApplicationId) {
        self.pool
            .change(|uploads| (1, uploads.schedule.tokens_came(application)));
    }

    /// Orders the last upload of an application, whose containers have ended. An outcome with
    /// `is_last` follows; it is returned if nothing is to be done.
    #[must_use]
    pub fn finish(&self, application: ApplicationId) -> Option<Outcome> {
        self.pool.change(|uploads| {
            let outcome = uploads.schedule.finish(application);
            (usize::from(outcome.is_none()), outcome)
        })
    }

    /// Waits until the last uploads of finished applications are done, at most `patience`, and
    /// ends the threads. A thread whose destination hangs is left to the end of the process.
    pub fn stop(&self, patience: Duration) {
        let begin = Instant::now();
        self.pool.change(|Uploads { schedule, .. }| {
            schedule.stop();
            (usize::MAX, ())
        });
        let is_uploading = |uploads: &mut Uploads| uploads.schedule.has_last_uploads();
        let is_late = self.pool.wait_while(patience, is_uploading);
        self.pool.change(|uploads| (0, uploads.has_ended = true));
        self.pool.close();
        if is_late {
            tracing::warn!("stopping with logs that are not aggregated");
        }
        self.pool
            .wait_ended(patience.saturating_sub(begin.elapsed()));
    }
}

#[cfg(test)]
mod tests;
