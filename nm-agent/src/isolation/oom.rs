//! What is said of a container that the kernel killed for its memory: Hadoop's words, which Spark and people search for,
//! with the limit and the peak (Hadoop: `ContainersMonitorImpl.formatErrorMessage`).

use cgroup::MemoryEvents;
use records::ContainerId;

use crate::monitor::amount;

/// The message. `pid` is the session leader's.
pub(crate) fn message(id: ContainerId, pid: i32, events: &MemoryEvents) -> String {
    let limit = events.limit_bytes.unwrap_or(0);
    // Without a peak (before Linux 5.19) the limit is what it reached, or it would live.
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

/// Whether it was its own limit that the container ran into. Where the whole machine is short of memory, the kernel kills
/// whom it likes, and that is not the container's doing.
pub(crate) fn is_of_its_limit(events: &MemoryEvents) -> bool {
    let Some(limit) = events.limit_bytes else {
        return false;
    };
    // What did not fit any more may have been large, and kernels do not count all hits of version 1.
    let came_near = events
        .peak_bytes
        .is_none_or(|peak| peak >= limit - limit / 8);
    events.oom_kills > Some(0) && (events.limit_hits > Some(0) || came_near)
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

    #[test]
    fn a_kill_far_from_the_limit_is_not_the_limits() {
        let events = MemoryEvents {
            oom_kills: Some(1),
            limit_hits: Some(0),
            limit_bytes: Some(1 << 30),
            peak_bytes: Some(1 << 20),
            high_hits: None,
        };
        assert!(!is_of_its_limit(&events));
        for of_its_limit in [
            MemoryEvents {
                peak_bytes: Some((1 << 30) - 4096),
                ..events
            },
            MemoryEvents {
                limit_hits: Some(3),
                ..events
            },
            MemoryEvents {
                peak_bytes: None,
                ..events
            },
        ] {
            assert!(is_of_its_limit(&of_its_limit), "{of_its_limit:?}");
        }
        for not in [
            MemoryEvents {
                oom_kills: Some(0),
                limit_hits: Some(3),
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
