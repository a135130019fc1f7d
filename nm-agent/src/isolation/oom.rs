//! What is said of a container that the kernel killed for its memory: Hadoop's words, which Spark and people search for,
//! with the limit and the peak (Hadoop: `ContainersMonitorImpl.formatErrorMessage`).

use cgroup::MemoryEvents;
use records::ContainerId;

/// The message. `pid` is the session leader's.
pub(crate) fn message(id: ContainerId, pid: i32, events: &MemoryEvents) -> String {
    let limit = events.limit_bytes.unwrap_or(0);
    // Without a peak (before Linux 5.19) the limit is what it reached, or it would live.
    let peak = events.peak_bytes.unwrap_or(limit);
    let over = peak.saturating_sub(limit);
    format!(
        "Container [pid={pid},containerID={id}] is running {over}B beyond the 'PHYSICAL' memory limit. \
         Current usage: {used} of {allowed} physical memory used. Killing container.\n\
         Killed by the kernel at its limit of {limit} bytes; the most that it used was {peak} bytes.\n",
        used = shown(peak),
        allowed = shown(limit),
    )
}

/// Bytes as Hadoop shows them (`StringUtils.TraditionalBinaryPrefix.long2String` with one decimal): units of 1024, a space
/// before the letter, no decimal where it is exact.
fn shown(bytes: u64) -> String {
    const UNITS: [(&str, u32); 6] = [
        ("E", 60),
        ("P", 50),
        ("T", 40),
        ("G", 30),
        ("M", 20),
        ("K", 10),
    ];
    let unit = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    let Some((letter, shift)) = unit else {
        return format!("{bytes} B");
    };
    let whole = bytes >> shift;
    let rest = bytes & ((1 << shift) - 1);
    if rest == 0 {
        return format!("{whole} {letter}B");
    }
    let tenths = (u128::from(bytes) * 10 + (1 << (shift - 1))) >> shift;
    format!("{}.{} {letter}B", tenths / 10, tenths % 10)
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
    fn amounts_are_shown_as_hadoop_shows_them() {
        for (bytes, text) in [
            (512, "512 B"),
            (1024, "1 KB"),
            (1536, "1.5 KB"),
            (1 << 30, "1 GB"),
            ((1 << 30) + (200 << 20), "1.2 GB"),
            (u64::MAX, "16.0 EB"),
        ] {
            assert_eq!(shown(bytes), text, "{bytes}");
        }
    }
}
