//! Resident memory by mapping: `/proc/PID/smaps` (Hadoop: `ProcfsBasedProcessTree` with
//! `yarn.nodemanager.container-monitor.procfs-tree.smaps-based-rss.enabled`).

use std::fs::File;
use std::io::{BufRead, BufReader};

/// Bytes of memory that ending the process would set free: what it holds that no file backs, of
/// every mapping but those that are shared and cannot be written. `None` when there is no such
/// process, or it may not be looked at.
pub(super) fn anonymous_bytes(pid: i32) -> Option<u64> {
    let file = File::open(format!("/proc/{pid}/smaps")).ok()?;
    sum(BufReader::new(file))
}

fn sum(lines: impl BufRead) -> Option<u64> {
    let mut counts = false;
    let mut kibibytes: u64 = 0;
    for line in lines.lines() {
        // The process may end while its mappings are being read.
        let line = line.ok()?;
        if let Some(value) = line.strip_prefix("Anonymous:") {
            let value = value.trim().trim_end_matches("kB").trim_end();
            if counts {
                kibibytes = kibibytes.saturating_add(value.parse().unwrap_or(0));
            }
        } else if let Some(permissions) = permissions(&line) {
            counts = !matches!(permissions, "r--s" | "r-xs");
        }
    }
    Some(kibibytes.saturating_mul(1024))
}

/// Returns the permissions of the mapping that this line begins. `None` for other lines, which
/// begin with a name and a colon.
fn permissions(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let addresses = words.next()?;
    let is_range = addresses
        .split_once('-')
        .is_some_and(|(from, to)| is_address(from) && is_address(to));
    if is_range { words.next() } else { None }
}

fn is_address(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_that_may_be_written_or_are_private_count() {
        let smaps = "\
            00400000-0040b000 r-xp 00000000 08:01 1 /bin/cat\n\
            Rss:                  44 kB\n\
            Anonymous:             4 kB\n\
            VmFlags: rd ex mr mw me\n\
            7f00-7f10 r--s 00000000 08:01 2 /shared index\n\
            Anonymous:           100 kB\n\
            7f10-7f20 rw-s 00000000 00:05 3 /dev/shm/x\n\
            Anonymous:            16 kB\n";
        assert_eq!(sum(smaps.as_bytes()), Some(20 * 1024));
    }

    #[test]
    fn nonsense_counts_nothing() {
        for text in [
            "",
            "Anonymous: 5 kB\n",
            "a-b rw-p\nAnonymous: x kB\n",
            "\u{0}\n",
        ] {
            assert_eq!(sum(text.as_bytes()), Some(0), "{text:?}");
        }
    }

    #[test]
    fn the_test_itself_holds_memory() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(anonymous_bytes(own).unwrap() > 0);
        assert_eq!(anonymous_bytes(-1), None);
    }
}
