//! The thin shell of the launcher: threads that prepare and spawn, tasks that watch, and the handle
//! that gives them orders.

mod adoption;
mod not_launched;
mod planned;
mod prepared;
mod upkeep;

use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;
use std::{fmt, io};

use cgroup::Cgroup;
use localize::{ContainerFolder, UserName};
use records::{ContainerId, ExecutionType};
use sched::ContainerSpec;
use thiserror::Error;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::LINKS_MAX;
use super::context::{
    ContainerSignal, LAUNCH_SCRIPT, LaunchConfig, LaunchEvent, LaunchPlan, LaunchTimings, PlanError,
};
use super::debug_info::{DebugInfo, DebugTicket};
use super::diagnostics::StderrPattern;
use super::environment::{container_environment, text};
use super::error::LaunchError;
use super::exit_watch::{Watch, watchable};
use super::files::{Directory, announce, entry_names, fill_work_dir};
use super::finishing::Finishing;
use super::lanes::Lanes;
use super::leader::WatchedLeader;
use super::links::{make_links, resolve_links};
use super::one_bash::{BashDefaults, one_bash};
use super::outlives::Outlives;
use super::places::turns_of;
use super::process_tree::Process;
use super::registry::{Order, Registry, RunningProcess, SignalRequest};
use super::scanner::Scanner;
use super::script::{PRELAUNCH_ERR, PRELAUNCH_OUT, announcements, launch_command, launch_script};
use super::shared::{PanicAlarm, Shared};
use super::spawn::{BASH, Command, Leader, spawn};
use crate::isolation::Isolation;

pub use adoption::Adoption;
use not_launched::NotLaunched;
use planned::{Job, Taken};
pub use planned::{Later, MakePlan, Planned};
use prepared::Prepared;
use upkeep::{continue_late_starts, reap_late};

/// Refusal of a launch before it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LaunchRefused {
    /// [`super::LAUNCH_QUEUE_MAX`] launches of its type wait already.
    #[error("too many launches are waiting")]
    Busy,
    /// This container is being launched or runs.
    #[error("container {0} is being launched or runs already")]
    Duplicate(ContainerId),
}

/// Launches containers, watches them, and ends them with all that they started.
///
/// Dropping it terminates launches that have no process yet. Containers that run are watched as
/// long as the runtime lives.
pub struct Launcher {
    registry: Arc<Registry>,
    isolation: Option<Isolation>,
    lanes: Lanes<Job>,
    /// Tasks that end with the launcher.
    tasks: Vec<JoinHandle<Infallible>>,
    broken: Arc<Notify>,
    shared: Arc<Shared>,
    outlives: Option<Outlives>,
    runtime: Handle,
}

impl fmt::Debug for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher")
            .field("containers", &self.registry.len())
            .field("queued", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.registry.terminate_waiting();
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Launcher {
    /// Starts the threads. `events` gets every [`LaunchEvent`]; while it is full, launches and
    /// reports wait.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        config: LaunchConfig,
        events: mpsc::Sender<LaunchEvent>,
        runtime: Handle,
    ) -> io::Result<Self> {
        let registry = Arc::<Registry>::default();
        let scanner = {
            let exits = config
                .outlives
                .as_ref()
                .map(|outlives| outlives.exits.clone());
            Scanner::start(Arc::clone(&registry), exits)?
        };
        let broken = Arc::<Notify>::default();
        let alarm = || PanicAlarm(Arc::clone(&broken));
        let reaping = reap_late(Arc::clone(&registry), scanner.clone(), alarm());
        let reaper = runtime.spawn(reaping);
        let watch = config
            .other_users
            .then(|| runtime.spawn(continue_late_starts(alarm())));
        let tasks = [reaper].into_iter().chain(watch).collect();
        let shared = Arc::new(Shared {
            agent: i32::try_from(std::process::id()).map_err(io::Error::other)?,
            registry: Arc::clone(&registry),
            scanner,
            events,
            sigkill_delay: config.sigkill_delay,
            stderr_pattern: StderrPattern::new(&config.stderr_pattern),
            stderr_tail_bytes: config.stderr_tail_bytes,
            finishing: Finishing::default(),
            keeps_ended: config.outlives.is_some(),
            broken: Arc::clone(&broken),
        });
        let debug_info = config.debug_info.then(DebugInfo::start).transpose()?;
        let isolation = config.isolation.clone();
        let outlives = config.outlives.clone();
        let threads_max = config.launch_threads_max;
        let worker = Arc::new(Worker {
            config,
            shared: Arc::clone(&shared),
            debug_info,
            runtime: runtime.clone(),
        });
        let lanes = Lanes::start(threads_max, move |lane, job| worker.serve(lane, job))?;
        Ok(Self {
            registry,
            isolation,
            lanes,
            tasks,
            broken,
            shared,
            outlives,
            runtime,
        })
    }

    /// Waits until a task of the launcher has panicked, after which ends of containers may not be
    /// reported any more.
    pub fn broken(&self) -> impl Future<Output = ()> + Send + 'static {
        let broken = Arc::clone(&self.broken);
        async move { broken.notified().await }
    }

    /// Returns since when the launch has been under way that takes longest so far; `None`: none is.
    #[must_use]
    pub fn busy_since(&self) -> Option<Instant> {
        self.lanes.busy_since()
    }

    /// Returns since when launches that do not end have taken every thread for guaranteed
    /// containers; `None`: a launch of one would begin at once.
    #[must_use]
    pub fn exhausted_since(&self) -> Option<Instant> {
        self.lanes.exhausted_since()
    }

    /// Queues a launch of a guaranteed container whose plan is made and whose size nobody knows, so
    /// that it gets no cgroup. The outcome comes as an event.
    ///
    /// # Errors
    /// Nothing was queued and no event will come.
    pub fn launch(&self, plan: Box<LaunchPlan>) -> Result<(), LaunchRefused> {
        let id = plan.container_id;
        let make_plan = Box::new(move || Ok(Planned::Ready(plan)));
        self.queue(id, None, ExecutionType::Guaranteed, make_plan)
    }

    /// Queues a launch whose plan a launch thread makes when its turn comes. The outcome comes as
    /// an event. A guaranteed container is never behind an opportunistic one.
    ///
    /// # Errors
    /// Nothing was queued and no event will come.
    pub fn launch_with(
        &self,
        spec: ContainerSpec,
        make_plan: MakePlan,
    ) -> Result<(), LaunchRefused> {
        self.queue(spec.id, Some(spec), spec.execution_type, make_plan)
    }

    fn queue(
        &self,
        id: ContainerId,
        spec: Option<ContainerSpec>,
        execution_type: ExecutionType,
        make_plan: MakePlan,
    ) -> Result<(), LaunchRefused> {
        let orders = self.registry.insert(id, spec);
        let orders = orders.ok_or(LaunchRefused::Duplicate(id))?;
        let confinement = self.isolation.as_ref().zip(spec);
        if let Some((isolation, spec)) = confinement {
            isolation.announce(spec);
        }
        let job = Job {
            id,
            make_plan,
            orders,
            queued: Instant::now(),
        };
        if !self.lanes.push(execution_type, job) {
            self.registry.remove(id);
            if let Some((isolation, _)) = confinement {
                isolation.withdraw(id);
            }
            return Err(LaunchRefused::Busy);
        }
        Ok(())
    }

    /// Changes the size or type of a container. Takes effect soon.
    pub fn change(&self, spec: ContainerSpec) {
        // First, so that it knows each size in which a launch thread makes a cgroup.
        if let Some(isolation) = &self.isolation {
            isolation.apply(spec);
        }
        self.registry.change(spec);
    }

    /// Asks all processes of a container to end (SIGTERM); a launch under way is stopped or its
    /// process is terminated as soon as it exists. Unknown containers are ignored: they have ended.
    pub fn terminate(&self, id: ContainerId) {
        self.order(id, Order::Terminate);
    }

    /// Ends all processes of a container (SIGKILL); otherwise like [`Launcher::terminate`].
    pub fn force_kill(&self, id: ContainerId) {
        self.order(id, Order::ForceKill);
    }

    fn order(&self, id: ContainerId, order: Order) {
        self.registry.order(id, order);
        if let Some(isolation) = &self.isolation {
            isolation.end_ordered(id);
        }
    }

    /// Signals a container's process group. Returns the line for the container's diagnostics, or
    /// `None` where nothing is sent: the container is unknown, or its process is not known yet. In
    /// the second case the signal is sent as soon as it is, and the line comes with
    /// [`LaunchEvent::Launched`] (Hadoop: `ContainerLaunch.signalContainer`, which waits for the
    /// pid).
    #[must_use]
    pub fn signal(&self, id: ContainerId, user: &str, command: ContainerSignal) -> Option<String> {
        let user = user.to_owned();
        self.registry.signal(id, SignalRequest { user, command })
    }

    /// Returns all containers with a process, ordered by id.
    #[must_use]
    pub fn processes(&self) -> Vec<RunningProcess> {
        self.registry.processes()
    }
}

/// State shared by the launch threads.
struct Worker {
    config: LaunchConfig,
    shared: Arc<Shared>,
    debug_info: Option<DebugInfo>,
    runtime: Handle,
}

impl Worker {
    fn launch(&self, taken: Taken, plan: LaunchPlan) -> Result<(), NotLaunched> {
        let Taken {
            id,
            orders,
            queued,
            taken,
        } = taken;
        let prepared = self.prepare(&plan)?;
        // Once more, since the disk may have been slow. A later order is obeyed by the watch, as
        // soon as the process exists.
        unless_ordered_to_end(&orders)?;
        let ready = Instant::now();
        let leader = self.spawn_in_cgroup(&plan, &prepared)?;
        let pid = leader.pid();
        let spawned = Instant::now();
        // Before anybody can signal it by its number: a leader that cannot be watched is reaped at
        // once.
        let leader = {
            let _runtime = self.runtime.enter();
            watchable(leader).map_err(|(pid, source)| LaunchError::Watch { pid, source })?
        };
        let signals = self.shared.registry.started(id, pid);
        let launched = LaunchEvent::Launched {
            id,
            pid,
            start_time: self.start_time(pid),
            timings: LaunchTimings {
                queue_us: micros(queued, taken),
                prepare_us: micros(taken, ready),
                spawn_us: micros(ready, spawned),
            },
            signals,
        };
        let user = turns_of(&plan.user);
        let log_dir = plan.dirs.log_dir;
        let (ticket, undescribed) = self
            .debug_info
            .as_ref()
            .map(|_| prepared.into_description())
            .unzip();
        let watch = self.watch((id, user), log_dir, orders, ticket, leader);
        self.runtime
            .spawn(watch.run(Arc::clone(&self.shared), Some(launched)));
        if let Some((debug_info, undescribed)) = self.debug_info.as_ref().zip(undescribed) {
            debug_info.describe(undescribed);
        }
        Ok(())
    }

    /// Returns the start time of a leader, if somebody will ask for it.
    fn start_time(&self, pid: i32) -> u64 {
        let outlives = self.config.outlives.is_some();
        let process = outlives.then(|| Process::read(pid)).flatten();
        process.map_or(0, |process| process.start_time)
    }

    /// Makes the container's cgroup, if it is to have one, and starts the process in it.
    fn spawn_in_cgroup(
        &self,
        plan: &LaunchPlan,
        prepared: &Prepared,
    ) -> Result<Leader, LaunchError> {
        let spec = self.shared.registry.spec(plan.container_id);
        let Some((isolation, spec)) = self.config.isolation.as_ref().zip(spec) else {
            return self.spawn(plan, prepared, spec, None);
        };
        let group = isolation.enter(&spec).map_err(LaunchError::from)?;
        let leader = self.spawn(plan, prepared, Some(spec), Some(&group))?;
        isolation.started(&spec);
        Ok(leader)
    }

    fn prepare(&self, plan: &LaunchPlan) -> Result<Prepared, LaunchError> {
        // First, since their handles are kept open for this.
        let work_dir = Directory::of(&plan.dirs.work_dir)?;
        let log_dir = Directory::of(&plan.dirs.log_dir)?;
        let environment = container_environment(&self.config, plan)?;
        let run_as = plan.run_as.as_deref();
        let links = resolve_links(&plan.links, |target| entry_names(target, LINKS_MAX, run_as))?;
        let work_path = plan.dirs.work_dir.path();
        let script_path = work_path.join(LAUNCH_SCRIPT);
        let script_path = CString::new(text(&script_path)?).map_err(|_nul| PlanError::Path {
            path: work_path.to_owned(),
        })?;
        fill_work_dir(&work_dir, &plan.credentials, &links)?;
        let made = if environment.runs_code() {
            0
        } else {
            make_links(work_dir.handle(), &links)
        };
        let command = launch_command(&self.config, plan)?;
        let script = launch_script(&self.config, plan, &environment, &links, made, &command)?;
        work_dir.create(LAUNCH_SCRIPT, 0o700, script.as_bytes())?;
        let log_path = text(plan.dirs.log_dir.path())?;
        let one_bash = (self.config.one_bash && made == links.len())
            .then(BashDefaults::of_this_machine)
            .flatten()
            .and_then(|defaults| one_bash(defaults, &environment, log_path, &command));
        Ok(Prepared {
            work_dir,
            log_dir,
            environment,
            script_path,
            one_bash,
            script,
            links,
            run_as: plan.run_as.clone(),
        })
    }

    fn spawn(
        &self,
        plan: &LaunchPlan,
        prepared: &Prepared,
        spec: Option<ContainerSpec>,
        group: Option<&Cgroup>,
    ) -> Result<Leader, LaunchError> {
        // The script opens the same files; until then, bash's own complaints go there too. Without
        // them the script fails, and says why if it can.
        let output = [PRELAUNCH_OUT, PRELAUNCH_ERR].map(|name| prepared.log_dir.output(name));
        let lines = announcements(self.config.debug_info);
        let one_bash = prepared.one_bash.as_ref();
        let script_bash;
        let bash = match one_bash.filter(|_| announce(&output, &lines)) {
            Some(one_bash) => one_bash,
            None => {
                script_bash = prepared.script_bash()?;
                &script_bash
            }
        };
        let command = Command {
            bash,
            work_dir: prepared.work_dir.as_fd(),
            output,
            group,
            run_as: prepared.run_as.as_deref(),
        };
        let slot = self.config.outlives.as_ref();
        let claim = |outlives: &Outlives| outlives.claim(plan.container_id, spec.as_ref());
        let slot = slot.map(claim).transpose().map_err(LaunchError::Note)?;
        spawn(&command, slot).map_err(|source| LaunchError::Spawn {
            program: BASH,
            source,
        })
    }

    fn watch(
        &self,
        (id, user): (ContainerId, UserName),
        log_dir: ContainerFolder,
        orders: watch::Receiver<Order>,
        debug_info: Option<DebugTicket>,
        leader: AsyncFd<Leader>,
    ) -> Watch {
        Watch {
            id,
            user,
            leader: WatchedLeader::Child(leader),
            orders,
            log_dir,
            debug_info,
            confined: self
                .config
                .isolation
                .as_ref()
                .map(|isolation| isolation.confined(id)),
            seen: Vec::new(),
            foreseen: None,
        }
    }
}

fn unless_ordered_to_end(orders: &watch::Receiver<Order>) -> Result<(), NotLaunched> {
    match *orders.borrow() {
        Order::Run => Ok(()),
        Order::Terminate | Order::ForceKill => Err(NotLaunched::Terminated),
    }
}

fn micros(from: Instant, to: Instant) -> u64 {
    u64::try_from(to.duration_since(from).as_micros()).unwrap_or(u64::MAX)
}
