//! Resource use of the whole machine (Hadoop: `NodeResourceMonitorImpl`).

use std::time::Duration;

use procfs::{Current, CurrentSI, KernelStats, Meminfo};

use super::limits::MIB;
use super::{Utilization, vcores};

/// CPU time of the machine up to the previous sample, in clock ticks.
#[derive(Debug, Default)]
pub(super) struct NodeSampler {
    busy_ticks: u64,
}

impl NodeSampler {
    /// Measures the node. Values that cannot be read count as 0, so that a heartbeat does not fail
    /// over them. `elapsed`: time since the previous sample.
    pub(super) fn sample(&mut self, elapsed: Option<Duration>) -> Utilization {
        let (pmem_mb, vmem_mb) = Meminfo::current().map_or((0, 0), |memory| {
            let available = memory.mem_available.unwrap_or(memory.mem_free);
            let used = memory.mem_total.saturating_sub(available);
            (
                used / MIB,
                (used + memory.swap_total.saturating_sub(memory.swap_free)) / MIB,
            )
        });
        let busy = KernelStats::current().map_or(self.busy_ticks, |stats| {
            let cpu = stats.total;
            let irq = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0) + cpu.steal.unwrap_or(0);
            cpu.user + cpu.nice + cpu.system + irq
        });
        let used = busy.saturating_sub(self.busy_ticks);
        self.busy_ticks = busy;
        Utilization {
            pmem_mb,
            vmem_mb,
            cpu_vcores: vcores(used, elapsed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_uses_some_memory() {
        let node = NodeSampler::default().sample(None);
        assert!(node.pmem_mb > 0 && node.vmem_mb >= node.pmem_mb, "{node:?}");
    }
}
