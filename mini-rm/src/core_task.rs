//! The task that owns the [`Core`]: runs what others hand it, one after the other, lets the core do what is due, and sees
//! to its effects. Everybody else holds a [`Handle`].

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use records::{EpochMillis, Now};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::exception::{HadoopException, RemoteException};

use crate::am_launcher::{self, Launch};
use crate::core::{Core, Effect};

/// Jobs under way. They come from RPC calls, whose number the servers bound; a sender waits when it is full.
const JOBS_MAX: usize = 1024;

/// How often the core looks at what is due. All its times are longer.
const TICK: Duration = Duration::from_millis(100);

/// Masters that are being started at once; more wait. Hadoop: `yarn.resourcemanager.amlauncher.thread-count`.
const LAUNCHES_MAX: usize = 50;

/// The only reader of a clock.
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

/// The task has ended: the ResourceManager is stopping.
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
    /// Runs `work` on the core and answers with what it answers.
    ///
    /// # Errors
    /// [`Stopped`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |core, now| {
            // Whoever asked may have gone away; the work counts all the same.
            let _ = reply.send(work(core, now));
        });
        self.jobs.send(job).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// The same for work that may be refused, as an RPC call wants it.
    ///
    /// # Errors
    /// The refusal, or that the ResourceManager is stopping.
    pub async fn call<T: Send + 'static, E: Into<RemoteException> + Send + 'static>(
        &self,
        work: impl FnOnce(&mut Core, Now) -> Result<T, E> + Send + 'static,
    ) -> Result<T, RemoteException> {
        self.run(work).await?.map_err(Into::into)
    }
}

/// Starts the task with the core that `make` makes. It ends with `stop`; what it started is in `tasks`.
pub fn start(
    make: impl FnOnce(Now) -> Core,
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
        places: Arc::new(Semaphore::new(LAUNCHES_MAX)),
        tasks: tasks.clone(),
        stop: stop.clone(),
    };
    tasks.spawn(async move {
        // Whatever ends this task, a defect included, ends the rest: without it everybody would be refused for ever.
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

/// Runs launches beside the core and brings their outcome back.
struct Launcher {
    handle: Handle,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Launcher {
    /// There is at most one for each unfinished application.
    fn spawn(&self, launch: Launch) {
        let attempt = launch.attempt;
        let (handle, places) = (self.handle.clone(), Arc::clone(&self.places));
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let launched = async {
                let _place = places.acquire().await;
                am_launcher::launch(launch).await
            };
            let outcome = tokio::select! {
                () = stop.cancelled() => return,
                outcome = launched => outcome.map_err(|error| format!("{:#}", anyhow::Error::new(error))),
            };
            // Only a stopping ResourceManager does not take it.
            let _ = handle
                .run(move |core, now| core.master_launched(attempt, outcome, now))
                .await;
        });
    }
}
