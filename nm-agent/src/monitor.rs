//! Measures what the node and its containers use, for heartbeats (Hadoop: `NodeResourceMonitorImpl`,
//! `ContainersMonitorImpl`). A thread, since reading `/proc` can wait; the latest sample is in a `watch` channel.
//!
//! A container's processes are those of its session. Nothing is enforced here.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use procfs::process::all_processes;
use procfs::{Current, CurrentSI, KernelStats, Meminfo};
use tokio::sync::watch;

use crate::launch::Launcher;

/// Bytes in a mebibyte.
const MIB: u64 = 1 << 20;

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

/// What was measured at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The whole machine.
    pub node: Utilization,
    /// All containers together.
    pub containers: Utilization,
}

/// The thread that measures.
#[derive(Debug)]
pub struct Monitor {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Monitor {
    /// Measures once now and then every `interval`. Returns the thread and where the latest sample is.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub fn start(
        interval: Duration,
        launcher: Arc<Launcher>,
    ) -> io::Result<(Self, watch::Receiver<Sample>)> {
        let mut state = State::default();
        let (samples, latest) = watch::channel(state.sample(&launcher));
        let (stop, stopped) = bounded(1);
        let measure = move || state.run(interval, &launcher, &samples, &stopped);
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(measure)?;
        Ok((Self { stop, thread }, latest))
    }

    /// Ends the thread and waits for it.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the monitor's thread panicked");
        }
    }
}

/// Processor time up to the sample before, in clock ticks.
#[derive(Default)]
struct State {
    at: Option<Instant>,
    node_busy_ticks: u64,
    /// By process of a container.
    process_ticks: BTreeMap<i32, u64>,
}

impl State {
    fn run(
        &mut self,
        interval: Duration,
        launcher: &Launcher,
        samples: &watch::Sender<Sample>,
        stopped: &Receiver<()>,
    ) {
        while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
            samples.send_replace(self.sample(launcher));
        }
    }

    fn sample(&mut self, launcher: &Launcher) -> Sample {
        let now = Instant::now();
        let elapsed = self
            .at
            .replace(now)
            .map(|before| now.duration_since(before));
        Sample {
            node: self.node(elapsed),
            containers: self.containers(launcher, elapsed),
        }
    }

    /// What cannot be read counts as 0: a heartbeat must not fail over it.
    fn node(&mut self, elapsed: Option<Duration>) -> Utilization {
        let (pmem_mb, vmem_mb) = Meminfo::current().map_or((0, 0), |memory| {
            let available = memory.mem_available.unwrap_or(memory.mem_free);
            let used = memory.mem_total.saturating_sub(available);
            (
                used / MIB,
                (used + memory.swap_total.saturating_sub(memory.swap_free)) / MIB,
            )
        });
        let busy = KernelStats::current().map_or(self.node_busy_ticks, |stats| {
            let cpu = stats.total;
            let irq = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0) + cpu.steal.unwrap_or(0);
            cpu.user + cpu.nice + cpu.system + irq
        });
        let used = busy.saturating_sub(self.node_busy_ticks);
        self.node_busy_ticks = busy;
        Utilization {
            pmem_mb,
            vmem_mb,
            cpu_vcores: vcores(used, elapsed),
        }
    }

    fn containers(&mut self, launcher: &Launcher, elapsed: Option<Duration>) -> Utilization {
        let leaders: std::collections::BTreeSet<i32> = launcher
            .processes()
            .into_iter()
            .map(|process| process.pid)
            .collect();
        let mut ticks = BTreeMap::new();
        let (mut rss, mut vsize, mut used) = (0, 0, 0);
        if !leaders.is_empty() {
            // Processes come and go while we look: one that is gone used nothing.
            let stats = all_processes()
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|process| process.stat().ok());
            for stat in stats.filter(|stat| leaders.contains(&stat.session)) {
                let now = stat.utime + stat.stime;
                used +=
                    now.saturating_sub(self.process_ticks.get(&stat.pid).copied().unwrap_or(now));
                ticks.insert(stat.pid, now);
                rss += stat.rss.saturating_mul(procfs::page_size());
                vsize += stat.vsize;
            }
        }
        self.process_ticks = ticks;
        Utilization {
            pmem_mb: rss / MIB,
            vmem_mb: vsize / MIB,
            cpu_vcores: vcores(used, elapsed),
        }
    }
}

/// Processors kept busy by `ticks` of processor time within `elapsed`.
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
    use super::*;

    #[test]
    fn processor_time_over_wall_time_is_processors() {
        let second = procfs::ticks_per_second();
        let used = vcores(3 * second, Some(Duration::from_secs(2)));
        assert!((used - 1.5).abs() < 0.01, "{used}");
        assert_eq!(vcores(5, None), 0.0);
        assert_eq!(vcores(5, Some(Duration::ZERO)), 0.0);
    }

    #[test]
    fn the_node_uses_some_memory() {
        let node = State::default().node(None);
        assert!(node.pmem_mb > 0 && node.vmem_mb >= node.pmem_mb, "{node:?}");
    }
}
