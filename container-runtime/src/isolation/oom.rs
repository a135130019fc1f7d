//! Message about a container that the kernel killed for its memory: Hadoop's words, which Spark and
//! people search for, with the limit and the peak (Hadoop:
//! `ContainersMonitorImpl.formatErrorMessage`).

use cgroup::MemoryEvents;
use records::ContainerId;

use crate::monitor::amount;

/// Returns the message. `pid` is the session leader's.
pub(crate) fn message(id: ContainerId, pid: i32, events: &MemoryEvents) -> String {
    let limit = events.limit_bytes.unwrap_or(0);
    // Without a peak (before Linux 5.19) the container has reached its limit, or it would live.
    let peak = events.peak_bytes.unwrap_or(limit);
    let over = peak.saturating_sub(limit);
    format!(
        "Container [pid={pid},containerID={id}] is running {over}B beyond the 'PHYSICAL' memory limit. \
         Current usage: {used}B of {allowed}B physical memory used. Killing container.\n\
         Killed by the kernel at its limit of {limit} bytes; the most that it used was {peak} bytes.\n",
        used = amount(peak),
        allowed = amount(limit),
    )
}

/// Whether the container was killed at its own limit. Where the whole machine is short of memory,
/// the kernel may kill any process, and the container is not at fault.
pub(crate) fn is_of_its_limit(events: &MemoryEvents) -> bool {
    let Some(limit) = events.limit_bytes else {
        return false;
    };
    let killed_of_it = match events.limit_ooms {
        Some(ooms) => ooms > 0,
        // Version 1 does not count them. The allocation that failed may have been large.
        None => events
            .peak_bytes
            .is_none_or(|peak| peak >= limit - limit / 8),
    };
    events.oom_kills > Some(0) && killed_of_it
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::testing::container_id;

    #[test]
    fn the_message_has_hadoops_shape_and_names_limit_and_peak() {
        let events = MemoryEvents {
            limit_bytes: Some(64 << 20),
            peak_bytes: Some(64 << 20),
            ..MemoryEvents::default()
        };
        let id = container_id();
        let text = message(id, 42, &events);
        let expected = format!(
            "Container [pid=42,containerID={id}] is running 0B beyond the 'PHYSICAL' memory limit. Current usage: \
             64 MB of 64 MB physical memory used. Killing container.\n"
        );
        assert!(text.starts_with(&expected), "{text}");
        assert!(text.contains("limit of 67108864 bytes"), "{text}");
    }

    /// Events of a kill far below the limit of a gibibyte.
    fn far_from_its_limit() -> MemoryEvents {
        MemoryEvents {
            oom_kills: Some(1),
            limit_ooms: None,
            limit_bytes: Some(1 << 30),
            peak_bytes: Some(1 << 20),
            high_hits: None,
        }
    }

    #[test]
    fn where_the_kernel_counts_failures_of_the_limit_they_alone_decide() {
        let near = (1 << 30) - 4096;
        for peak_bytes in [None, Some(1 << 20), Some(near)] {
            for (ooms, is_its_own) in [(0, false), (1, true)] {
                let events = MemoryEvents {
                    limit_ooms: Some(ooms),
                    peak_bytes,
                    ..far_from_its_limit()
                };
                assert_eq!(is_of_its_limit(&events), is_its_own, "{events:?}");
            }
        }
    }

    #[test]
    fn where_it_does_not_a_kill_near_the_limit_is_the_limits() {
        let events = far_from_its_limit();
        assert!(!is_of_its_limit(&events));
        for peak_bytes in [None, Some((1 << 30) - 4096)] {
            let near = MemoryEvents {
                peak_bytes,
                ..events
            };
            assert!(is_of_its_limit(&near), "{near:?}");
        }
    }

    #[test]
    fn without_a_kill_or_a_limit_nothing_is_the_limits() {
        let events = MemoryEvents {
            limit_ooms: Some(3),
            ..far_from_its_limit()
        };
        for not in [
            MemoryEvents {
                oom_kills: Some(0),
                ..events
            },
            MemoryEvents {
                limit_bytes: None,
                ..events
            },
        ] {
            assert!(!is_of_its_limit(&not), "{not:?}");
        }
    }
}
