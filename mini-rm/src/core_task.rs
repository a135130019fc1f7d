//! Task that owns the [`Core`]: runs jobs from other tasks one after the other, ticks the core, and
//! performs its effects. Other tasks hold a [`Handle`].

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use records::{EpochMillis, Now};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::exception::{HadoopException, RemoteException};
use wire::protection::Protections;

use crate::am_launcher::{self, Launch};
use crate::core::{Core, Effect};

/// Capacity of the job queue. RPC calls fill it, whose number the servers bound; a sender waits
/// while it is full.
const JOBS_MAX: usize = 1024;

/// Interval between ticks of the core, below all of its timeouts.
const TICK: Duration = Duration::from_millis(100);

/// Limit on concurrent launches of AMs; more wait. Hadoop:
/// `yarn.resourcemanager.amlauncher.thread-count`.
const LAUNCHES_MAX: usize = 50;

/// The only reader of a clock in this crate.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: Instant,
}

impl Clock {
    fn now(self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            mono: self.started.elapsed().into(),
            wall: wall.map_or(EpochMillis(0), EpochMillis::from),
        }
    }
}

/// Error of a job whose task has ended, since the ResourceManager is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the ResourceManager is stopping")]
pub struct Stopped;

impl From<Stopped> for RemoteException {
    fn from(stopped: Stopped) -> Self {
        Self::new(HadoopException::Retriable, stopped.to_string())
    }
}

type Job = Box<dyn FnOnce(&mut Core, Now) + Send>;

/// Access to the core from other tasks. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// Runs `work` on the core and returns its result.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |core, now| {
            // The caller may have gone away; the work has been done all the same.
            let _ = reply.send(work(core, now));
        });
        self.jobs.send(job).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Runs work that may be refused, with the error type of an RPC call.
    ///
    /// # Errors
    /// The refusal by `work`, or a retriable one when the ResourceManager is stopping.
    pub async fn call<T: Send + 'static, E: Into<RemoteException> + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> Result<T, E> + Send + 'static,
    ) -> Result<T, RemoteException> {
        self.run(work).await?.map_err(Into::into)
    }
}

/// Starts the task with the core that `make` returns. Nodes are called under one of these levels of
/// protection. The task ends when `stop` is cancelled;
/// `tasks` tracks it and the launches that it spawns.
pub fn start(
    make: impl FnOnce(Now) -> Core,
    protections: Protections,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Handle {
    let clock = Clock {
        started: Instant::now(),
    };
    let mut core = make(clock.now());
    let (jobs, mut queue) = mpsc::channel::<Job>(JOBS_MAX);
    let handle = Handle { jobs };
    let launcher = Launcher {
        handle: handle.clone(),
        protections,
        places: Arc::new(Semaphore::new(LAUNCHES_MAX)),
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    tasks.spawn(async move {
        // When this task ends, even by a panic, the other tasks must end too: without the core they
        // would refuse every call for ever.
        let _end = stop.clone().drop_guard();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(job) = queue.recv() => job(&mut core, clock.now()),
                _ = ticks.tick() => core.tick(clock.now()),
            }
            for effect in core.take_effects() {
                match effect {
                    Effect::Launch(launch) => launcher.spawn(*launch),
                }
            }
        }
    });
    handle
}

/// Runs AM launches beside the core and reports their outcome to it.
struct Launcher {
    handle: Handle,
    /// Levels of protection of the calls to nodes.
    protections: Protections,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Launcher {
    /// Spawns a launch. At most one runs for each unfinished application.
    fn spawn(&self, launch: Launch) {
        let attempt = launch.attempt;
        let (handle, places) = (self.handle.clone(), Arc::clone(&self.places));
        let (stop, protections) = (self.stop.clone(), self.protections.clone());
        self.tasks.spawn(async move {
            let launched = async {
                let _place = places.acquire().await;
                am_launcher::launch(launch, protections).await
            };
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = launched => outcome.map_err(|error| format!("{:#}", anyhow::Error::new(error))),
            };
            // Fails only while the ResourceManager is stopping.
            let _ = handle
                .run(move |core, now| core.master_launched(attempt, outcome, now))
                .await;
        });
    }
}
