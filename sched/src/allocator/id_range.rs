//! Container ids for a node, counted down from the start of the ResourceManager's epoch, from which
//! the ResourceManager counts up (Hadoop: `OpportunisticContainerAllocator.ContainerIdGenerator` in
//! the AMRMProxy's `DistributedScheduler`).

/// Distance between two epochs of the ResourceManager (Hadoop: `ResourceManager.EPOCH_BIT_SHIFT`).
const IDS_PER_EPOCH: i64 = 1 << 40;

/// Descending range of container ids. Never returns an id twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContainerIdRange {
    /// Start of the ids that the ResourceManager announced.
    start: i64,
    /// Lowest id used, or the start.
    lowest: i64,
}

impl ContainerIdRange {
    /// Creates a range below `start`, of which the ids down to `lowest` are used.
    pub(super) fn new(start: i64, lowest: i64) -> Self {
        Self {
            start,
            lowest: lowest.min(start),
        }
    }

    /// Continues at the start that the ResourceManager announces with a registration. A known start
    /// changes nothing: its ids are used. In a new epoch the count continues, because ids right
    /// below the first two starts, 0 and 2^40, have the same text (`ContainerId.toString` omits the
    /// epoch for both), and nodes distinguish containers by that text.
    pub(super) const fn begin(&mut self, start: i64) {
        let used = self.start.saturating_sub(self.lowest);
        self.start = start;
        self.lowest = start.saturating_sub(used);
    }

    /// Returns the lowest id used.
    pub(super) const fn lowest(&self) -> i64 {
        self.lowest
    }

    /// Returns the next id; `None` when the epoch has none left.
    pub(super) const fn next(&mut self) -> Option<i64> {
        let floor = self.start.saturating_sub(IDS_PER_EPOCH);
        if self.lowest.saturating_sub(1) <= floor {
            return None;
        }
        self.lowest -= 1;
        Some(self.lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_down_from_below_the_start() {
        let mut ids = ContainerIdRange::new(1 << 40, i64::MAX);
        assert_eq!(ids.next(), Some((1 << 40) - 1));
        assert_eq!(ids.next(), Some((1 << 40) - 2));
        assert_eq!(ids.lowest(), (1 << 40) - 2);
    }

    #[test]
    fn the_first_epoch_has_negative_ids_as_in_hadoop() {
        assert_eq!(ContainerIdRange::new(0, 0).next(), Some(-1));
    }

    #[test]
    fn a_known_start_does_not_begin_again_and_a_new_one_goes_on_counting() {
        let mut ids = ContainerIdRange::new(1 << 40, i64::MAX);
        let first = ids.next();
        ids.begin(1 << 40);
        assert_ne!(ids.next(), first);
        ids.begin(2 << 40);
        assert_eq!(ids.next(), Some((2 << 40) - 3));
        ids.begin(3 << 40);
        assert_eq!(ids.next(), Some((3 << 40) - 4));
    }

    #[test]
    fn ids_of_the_first_two_epochs_are_written_differently() {
        let mut ids = ContainerIdRange::new(0, 0);
        let first = ids.next().unwrap();
        ids.begin(1 << 40);
        let second = ids.next().unwrap();
        let written = |id: i64| id & ((1 << 40) - 1);
        assert_ne!(written(first), written(second));
    }

    #[test]
    fn an_epoch_ends_before_the_ids_of_the_one_below() {
        let mut ids = ContainerIdRange::new(1 << 40, 2);
        assert_eq!(ids.next(), Some(1));
        assert_eq!(ids.next(), None);
        let mut ids = ContainerIdRange::new(i64::MIN, i64::MIN);
        assert_eq!(ids.next(), None);
    }
}
