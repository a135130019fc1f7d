//! The thin shell: threads that prepare and spawn, tasks that watch, and the handle that orders them about.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use records::ContainerId;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::context::{ContainerSignal, LaunchConfig, LaunchEvent, LaunchPlan};
use super::registry::{Order, Registry, RunningProcess};

/// Launches that may wait for a launch thread. Filled by the scheduler when many containers fit at once; more than
/// two seconds of work at 300 launches/s. When full, [`Launcher::launch`] says so and the scheduler fails the launch.
pub const LAUNCH_QUEUE_MAX: usize = 1_024;

/// Why a launch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaunchRefused {
    /// [`LAUNCH_QUEUE_MAX`] launches wait already.
    #[error("too many launches are waiting")]
    Busy,
    /// This container is being launched or runs.
    #[error("container {0} is being launched or runs already")]
    Duplicate(ContainerId),
}

struct Job {
    plan: Box<LaunchPlan>,
    orders: watch::Receiver<Order>,
    queued: Instant,
}

/// Launches containers, watches them, and ends them with all that they started.
pub struct Launcher {
    registry: Arc<Registry>,
    queue: Sender<Job>,
    _jobs: Receiver<Job>,
}

impl Launcher {
    /// Starts the threads. `events` gets every [`LaunchEvent`]; a full channel makes launches and reports wait.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: LaunchConfig,
        events: mpsc::Sender<LaunchEvent>,
        runtime: Handle,
    ) -> std::io::Result<Self> {
        let (queue, jobs) = bounded(LAUNCH_QUEUE_MAX);
        drop((config, events, runtime));
        Ok(Self {
            registry: Arc::default(),
            queue,
            _jobs: jobs,
        })
    }

    /// Queues a launch. Its outcome comes as an event.
    ///
    /// # Errors
    /// Nothing was queued and no event will come.
    pub fn launch(&self, plan: Box<LaunchPlan>) -> Result<(), LaunchRefused> {
        let id = plan.container_id;
        let orders = self
            .registry
            .insert(id)
            .ok_or(LaunchRefused::Duplicate(id))?;
        let job = Job {
            plan,
            orders,
            queued: Instant::now(),
        };
        self.queue.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(_) | TrySendError::Disconnected(_) => {
                self.registry.remove(id);
                LaunchRefused::Busy
            }
        })
    }

    /// Asks all processes of a container to end (SIGTERM); a launch under way is stopped or its process is
    /// terminated as soon as it exists. Unknown containers are ignored: they have ended.
    pub fn terminate(&self, id: ContainerId) {
        self.registry.order(id, Order::Terminate);
    }

    /// Ends all processes of a container (SIGKILL); otherwise like [`Launcher::terminate`].
    pub fn force_kill(&self, id: ContainerId) {
        self.registry.order(id, Order::ForceKill);
    }

    /// Signals a container's process group. What to add to the container's diagnostics, or `None` when it has no
    /// process, in which case nothing is sent (Hadoop: `ContainerLaunch.signalContainer`).
    #[must_use]
    pub fn signal(&self, id: ContainerId, user: &str, command: ContainerSignal) -> Option<String> {
        let (number, name) = command.signal();
        let (pid, sent) = self.registry.signal(id, number)?;
        let result = if sent { "success" } else { "failed" };
        Some(format!(
            "Sent signal {} ({name}) to pid {pid} as user {user} for container {id}, result={result}",
            command.as_str()
        ))
    }

    /// All containers with a process, by id.
    #[must_use]
    pub fn processes(&self) -> Vec<RunningProcess> {
        self.registry.processes()
    }
}
