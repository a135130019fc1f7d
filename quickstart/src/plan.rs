//! The numbers of the story: sizes of nodes and containers, their count, their run times. They are
//! chosen, not measured, so that the same things happen on every machine: nodes offer the
//! configured capacity, whatever the machine has.

use std::ops::RangeInclusive;
use std::time::Duration;

use records::Resource;

/// How many nodes there may be.
///
/// At least three: the limit of a queue is the mean of all queues and one standard deviation, and
/// of two queues neither is ever longer than that. At most sixteen: each runs up to six real
/// processes at a time, and more would show nothing new.
pub const NODES: RangeInclusive<u16> = 3..=16;

/// How many there are unless somebody says otherwise.
pub const NODES_DEFAULT: u16 = 3;

/// Containers of the opportunistic job that a node has room for.
pub(super) const PLACES_PER_NODE: u32 = 4;

/// The size of each.
pub(super) const TASK: Resource = Resource::new(1024, 1);

/// The size of each master, in MiB. The least that the ResourceManager gives.
pub(super) const MASTER_MEMORY_MB: u64 = 256;

/// Capacity of a node: its places, and capacity for the ApplicationMasters of both jobs, so that an
/// ApplicationMaster takes no place wherever it runs.
pub(super) const NODE: Resource = Resource::new(
    TASK.memory_mb * 4 + MASTER_MEMORY_MB * 2,
    TASK.vcores * 4 + 2,
);

/// Size of the guaranteed job's one container: all places of a node. The containers in that node's
/// queue wait until it ends, so that queue becomes longer than the others.
pub(super) const URGENT: Resource = Resource::new(TASK.memory_mb * 4, TASK.vcores * 4);

/// Opportunistic containers for each node: four run and eight wait, so that a queue is still longer
/// than [`QUEUE_LIMIT_MIN`] when the guaranteed container has come.
const TASKS_PER_NODE: u32 = 12;

/// Opportunistic containers that may wait on a node: more than [`TASKS_PER_NODE`], so that none is
/// turned away, and that no node looks full to the ResourceManager, which leaves full ones out of
/// the mean.
pub(super) const QUEUE_LENGTH_MAX: u32 = 24;

/// No queue is shortened to less than this. Above it the limit is the mean of all queues and one
/// standard deviation, Hadoop's default: a queue that does not move while the others become empty
/// is sure to be over it.
pub(super) const QUEUE_LIMIT_MIN: u32 = 4;

/// Command of the opportunistic containers: writes a line, then sleeps for 1.5 to 3.5 seconds,
/// drawn by each container, so that places do not all become free at once.
pub(super) const TASK_SCRIPT: &str =
    "echo started; tenths=$((15 + RANDOM % 21)); exec sleep ${tenths%?}.${tenths: -1}";

/// Command of the guaranteed container: waits for the file of its first argument. Gives up after
/// about a minute without that file, so that it does not outlive the quick start.
pub(super) const URGENT_SCRIPT: &str = "echo started; for ((i = 0; i < 1200; i++)); do [[ -e $1 ]] && exit 0; sleep 0.05; done; exit 1";

// Nobody is turned away, and queues are over their limit when places are taken.
const _: () = assert!(TASKS_PER_NODE < QUEUE_LENGTH_MAX);
const _: () = assert!(TASKS_PER_NODE > PLACES_PER_NODE + QUEUE_LIMIT_MIN);

/// Interval at which nodes report to the ResourceManager and receive its limit. Four times Hadoop's
/// default pace, for a story of seconds; more often, a container that has just been placed again
/// would be shed before the limit knows of it.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(250);

/// How often the ResourceManager sorts nodes by their queues and computes their limit.
pub(super) const SORTING_INTERVAL: Duration = Duration::from_millis(100);

/// Opportunistic containers of the job.
pub(super) const fn tasks(nodes: u32) -> u32 {
    TASKS_PER_NODE * nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_holds_its_places_beside_both_masters_and_nothing_beside_the_guaranteed_container() {
        let masters = Resource::new(2 * MASTER_MEMORY_MB, 2);
        let left = NODE.saturating_sub(masters);
        let four = Resource::new(
            TASK.memory_mb * u64::from(PLACES_PER_NODE),
            TASK.vcores * PLACES_PER_NODE,
        );
        assert_eq!(left, four);
        assert_eq!(URGENT, four);
        assert!(NODE.memory_mb < TASK.memory_mb * u64::from(PLACES_PER_NODE + 1));
    }
}
