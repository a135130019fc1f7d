//! Measures what the node and its containers use, for heartbeats, and enforces the limits of memory
//! that are enforced by polling (Hadoop: `NodeResourceMonitorImpl`, `ContainersMonitorImpl`).
//!
//! A thread, since reading `/proc` can wait. The latest sample is in a `watch` channel; a container
//! that exceeds a limit is reported once, and the receiver of the report ends it.
//!
//! - `node`: the machine; `pressure`: stall times of the machine and of each class of containers
//! - `processes`: the processes of a container; `smaps`: memory of a process by mapping
//! - `containers`: use of each container, compared with its limits
//! - `accounts`: the use of each container as people ask for it, by its cgroup where it has one
//! - `limits`: the limits of a container; `message`: the diagnostics when it exceeds them

mod accounts;
mod containers;
mod limits;
mod message;
mod node;
mod pressure;
mod processes;
mod smaps;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use records::PerExecutionType;
use threads::ThreadOwner;
use tokio::sync::watch;

use crate::isolation::AccountReader;
use crate::launch::{Launcher, RunningProcess};

pub use accounts::{ContainerAccount, StalledParts};
pub use containers::{ContainerLook, ContainerSampler, MemoryExceeded};
pub use limits::{MemoryKind, MemoryPolicy, MemoryUse};

pub(crate) use message::amount;
pub use pressure::{Pressure, PressureFiles, Stalls};

use node::NodeSampler;
use pressure::ClassPressure;

/// An amount in use (Hadoop: `ResourceUtilization`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilization {
    /// Mebibytes of physical memory.
    pub pmem_mb: u64,
    /// Mebibytes of virtual memory.
    pub vmem_mb: u64,
    /// Processors kept busy since the sample before; 0 in the first.
    pub cpu_vcores: f32,
}

impl std::ops::AddAssign for Utilization {
    fn add_assign(&mut self, other: Self) {
        self.pmem_mb = self.pmem_mb.saturating_add(other.pmem_mb);
        self.vmem_mb = self.vmem_mb.saturating_add(other.vmem_mb);
        self.cpu_vcores += other.cpu_vcores;
    }
}

/// A measurement at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The whole machine.
    pub node: Utilization,
    /// Sum over all containers.
    pub containers: Utilization,
    /// Containers by execution type.
    pub by_type: PerExecutionType<Utilization>,
    /// Pressure stall times of the machine.
    pub pressure: Pressure,
    /// Pressure stall times of containers by execution type. `None`: the kernel does not report
    /// them.
    pub pressure_by_type: PerExecutionType<Option<Pressure>>,
    /// Duration of the sampling itself.
    pub took: Duration,
}

/// Interval and extent of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MonitorOptions {
    /// Interval between two samples; `None`: nothing is measured.
    pub interval: Option<Duration>,
    /// Measure the machine as a whole.
    pub node: bool,
    /// Look at containers at all (`yarn.nodemanager.container-monitor.enabled`).
    pub containers: bool,
    /// Memory limits that the monitor enforces.
    pub memory: MemoryPolicy,
    /// Count resident memory by mapping
    /// (`yarn.nodemanager.container-monitor.procfs-tree.smaps-based-rss.enabled`).
    pub smaps_based_rss: bool,
}

/// The thread that measures.
#[derive(Debug)]
pub struct Monitor {
    owner: ThreadOwner,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// Receiver of measurements, called on the monitor's thread.
pub trait Listener: Send + 'static {
    /// A look is done; `containers` are those that were looked at, in no order.
    fn measured(&self, sample: &Sample, containers: &[ContainerLook]);

    /// A container uses too much memory. Told once for each.
    fn exceeded(&self, exceeded: MemoryExceeded);
}

/// State of the monitor's thread.
struct Work {
    options: MonitorOptions,
    launcher: Arc<Launcher>,
    at: Option<Instant>,
    node: NodeSampler,
    containers: ContainerSampler,
    classes: ClassPressure,
}

impl Monitor {
    /// Measures once now and then every `interval`, if there is one. `classes` are the pressure
    /// files of the classes that have any, `groups` reads the cgroups of containers. Returns the
    /// thread and where the latest sample is.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn start(
        options: MonitorOptions,
        launcher: Arc<Launcher>,
        classes: PerExecutionType<Option<PressureFiles>>,
        groups: Option<AccountReader>,
        listener: impl Listener,
    ) -> io::Result<(Self, watch::Receiver<Sample>)> {
        let mut work = Work {
            options,
            launcher,
            at: None,
            node: NodeSampler::default(),
            containers: ContainerSampler::new(options.memory, options.smaps_based_rss)
                .with_groups(groups),
            classes: ClassPressure::new(classes),
        };
        let first = work.sample(&listener);
        let (samples, latest) = watch::channel(first);
        let (stop, stopped) = bounded(1);
        let measure = move || work.run(&samples, &stopped, &listener);
        let owner = ThreadOwner::default();
        let thread = owner.start("monitor", measure)?;
        let monitor = Self {
            owner,
            stop,
            thread,
        };
        Ok((monitor, latest))
    }

    /// Ends the thread and waits for it.
    pub fn stop(self) {
        self.owner.end();
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the monitor's thread panicked");
        }
    }
}

impl Work {
    fn run(
        &mut self,
        samples: &watch::Sender<Sample>,
        stopped: &Receiver<()>,
        listener: &impl Listener,
    ) {
        // A time that no clock reaches is waited for without end.
        let interval = self.options.interval.unwrap_or(Duration::MAX);
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            samples.send_replace(self.sample(listener));
        }
    }

    fn sample(&mut self, listener: &impl Listener) -> Sample {
        let now = Instant::now();
        let elapsed = self
            .at
            .replace(now)
            .map(|before| now.duration_since(before));
        let node = if self.options.node {
            self.node.sample(elapsed)
        } else {
            Utilization::default()
        };
        let running: Vec<RunningProcess> = if self.options.containers {
            self.launcher.processes()
        } else {
            Vec::new()
        };
        let exceeded = |exceeded| listener.exceeded(exceeded);
        let by_type = self.containers.sample(&running, elapsed, &exceeded);
        let mut containers = by_type.guaranteed;
        containers += by_type.opportunistic;
        let sample = Sample {
            node,
            containers,
            by_type,
            pressure: Pressure::read(),
            pressure_by_type: self.classes.sample(),
            took: now.elapsed(),
        };
        listener.measured(&sample, self.containers.looks());
        sample
    }
}

/// Returns the number of CPUs kept busy by `ticks` of CPU time within `elapsed`.
fn vcores(ticks: u64, elapsed: Option<Duration>) -> f32 {
    let Some(elapsed) = elapsed.filter(|elapsed| !elapsed.is_zero()) else {
        return 0.0;
    };
    let busy =
        Duration::from_millis(ticks.saturating_mul(1000) / procfs::ticks_per_second().max(1));
    busy.div_duration_f32(elapsed)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;
    use tokio::sync::mpsc;

    use super::*;
    use crate::launch::testing;

    struct Deaf;

    impl Listener for Deaf {
        fn measured(&self, _: &Sample, _: &[ContainerLook]) {}

        fn exceeded(&self, exceeded: MemoryExceeded) {
            panic!("{exceeded:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_to_be_measured_is_zero_and_the_thread_ends_all_the_same() {
        let (events, _receiver) = mpsc::channel(1);
        let launcher = Launcher::start(testing::config(), events, Handle::current()).unwrap();
        let launcher = Arc::new(launcher);
        let measured = |node: bool| {
            let options = MonitorOptions {
                interval: None,
                node,
                containers: false,
                memory: MemoryPolicy {
                    pmem: true,
                    vmem: true,
                    vmem_pmem_ratio: 2.1,
                },
                smaps_based_rss: false,
            };
            let classes = PerExecutionType::default();
            let started = Monitor::start(options, Arc::clone(&launcher), classes, None, Deaf);
            let (monitor, latest) = started.unwrap();
            monitor.stop();
            let sample = *latest.borrow();
            assert_eq!(sample.containers, Utilization::default());
            sample.node
        };
        assert_eq!(measured(false), Utilization::default());
        assert_ne!(measured(true), Utilization::default());
    }

    #[test]
    fn processor_time_over_wall_time_is_processors() {
        let second = procfs::ticks_per_second();
        let used = vcores(3 * second, Some(Duration::from_secs(2)));
        assert!((used - 1.5).abs() < 0.01, "{used}");
        assert_eq!(vcores(5, None), 0.0);
        assert_eq!(vcores(5, Some(Duration::ZERO)), 0.0);
    }
}
