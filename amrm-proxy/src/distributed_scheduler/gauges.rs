//! Current numbers of a distributed scheduler, for metrics and pages.

use records::MonoMillis;

/// Current numbers of one attempt's scheduler, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Opportunistic containers requested and not allocated yet.
    pub containers_outstanding: u64,
    /// Time at which the current list of nodes arrived; `None` without a list.
    pub nodes_at: Option<MonoMillis>,
    /// Containers allocated here whose completion has not been reported to the AM.
    pub containers_live: u64,
}

impl Gauges {
    /// Combines both: sums of the counts, and the older of the two lists of nodes.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            containers_outstanding: self.containers_outstanding + other.containers_outstanding,
            nodes_at: match (self.nodes_at, other.nodes_at) {
                (Some(one), Some(another)) => Some(one.min(another)),
                (one, another) => one.or(another),
            },
            containers_live: self.containers_live + other.containers_live,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_are_summed_and_the_older_list_of_nodes_counts() {
        let gauges = |count, at| Gauges {
            containers_outstanding: count,
            nodes_at: at,
            containers_live: 10 * count,
        };
        let (early, late) = (Some(MonoMillis(1)), Some(MonoMillis(2)));
        for (one, other, oldest) in [
            (early, late, early),
            (late, early, early),
            (None, late, late),
        ] {
            assert_eq!(gauges(1, one).and(gauges(2, other)), gauges(3, oldest));
        }
    }
}
