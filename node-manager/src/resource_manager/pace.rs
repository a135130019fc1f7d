//! Shortest gap between two heartbeats. Pure.
//!
//! A container that ends triggers a heartbeat out of band, and every heartbeat reports all
//! containers of the node. Without a gap that grows with their number, the ends of thousands of
//! containers would keep the core and the ResourceManager busy with reports.

use std::time::Duration;

/// Gap after a heartbeat with at most [`FEW`] containers. It limits one node to 500 calls a second
/// (Hadoop has no gap), and is shorter than the shortest life of a container, so that an
/// ApplicationMaster that runs one after the other never waits for it.
pub(super) const GAP_MIN: Duration = Duration::from_millis(2);

/// Containers that an ApplicationMaster may run in turns, each waited for.
const FEW: u32 = 4;

/// Gap after a heartbeat with more containers, without the part for each. Asking the core, the call
/// and its answer take 0.13 ms of CPU time whatever is reported: 2 % of a processor.
const GAP_OF_MANY: Duration = Duration::from_millis(6);

/// Gap for each container that the heartbeat reported: 10,000 statuses a second from one node. The
/// core takes 1.6 µs for a status and the encoding 0.4 µs (`cost_of_a_heartbeat`, a test of
/// `node_core`: 16 and 4 ms for 10,000): 2 % of a processor again, and 0.9 MB/s at 86 bytes each.
const GAP_PER_STATUS: Duration = Duration::from_micros(100);

/// Returns the time from one heartbeat to the next, at the earliest. `interval` is the time between
/// two regular heartbeats, which no gap exceeds.
#[must_use]
pub fn gap_after(statuses: usize, interval: Duration) -> Duration {
    let statuses = u32::try_from(statuses).unwrap_or(u32::MAX);
    let gap = match statuses {
        ..=FEW => GAP_MIN,
        _ => GAP_OF_MANY.saturating_add(GAP_PER_STATUS.saturating_mul(statuses)),
    };
    gap.min(interval).max(GAP_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_grows_with_the_containers_up_to_the_interval() {
        let gap_ms = |statuses| gap_after(statuses, Duration::from_secs(1)).as_millis();
        assert_eq!([0, 1, 4].map(gap_ms), [2; 3]);
        assert_eq!([40, 1_000, 10_000].map(gap_ms), [10, 106, 1_000]);
        assert_eq!([100_000, usize::MAX].map(gap_ms), [1_000; 2]);
        assert_eq!(gap_after(usize::MAX, Duration::ZERO), GAP_MIN);
    }
}
