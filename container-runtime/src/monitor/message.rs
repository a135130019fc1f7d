//! Diagnostics of a container that used too much memory, in Hadoop's words
//! (`ContainersMonitorImpl.formatErrorMessage`, `ProcfsBasedProcessTree.getProcessTreeDump`): Spark
//! and people look for them.

use std::fmt::Write as _;

use records::ContainerId;

use super::limits::{MemoryKind, MemoryLimit, MemoryUse};

/// Bytes of the list of processes. Diagnostics keep the last 10,000 characters, so that a longer
/// list, which Hadoop allows, would push out the sentence that says what happened.
const DUMP_BYTES_MAX: usize = 8_000;

/// Bytes shown of one command line.
const COMMAND_BYTES_MAX: usize = 1_000;

const DUMP_HEADER: &str = "\t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE\n";

/// A process of the container, as the message lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DumpedProcess {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// Command name, without the parentheses of `/proc/PID/stat`.
    pub(super) name: String,
    pub(super) user_ms: u64,
    pub(super) system_ms: u64,
    pub(super) vmem_bytes: u64,
    pub(super) rss_pages: u64,
    /// Arguments with blanks between them; `None` if they cannot be read.
    pub(super) command: Option<String>,
}

/// The whole text. `leader`: the process that the launch made.
pub(super) fn exceeded(
    id: ContainerId,
    leader: i32,
    kind: MemoryKind,
    used: MemoryUse,
    limit: MemoryLimit,
    processes: &[DumpedProcess],
) -> String {
    let (name, excess) = match kind {
        MemoryKind::Virtual => ("VIRTUAL", used.vmem_bytes.saturating_sub(limit.vmem_bytes)),
        MemoryKind::Physical => ("PHYSICAL", used.pmem_bytes.saturating_sub(limit.pmem_bytes)),
    };
    let mut text = format!(
        "Container [pid={leader},containerID={id}] is running {excess}B beyond the '{name}' memory limit. \
         Current usage: {}B of {}B physical memory used; {}B of {}B virtual memory used. Killing container.\n\
         Dump of the process-tree for {id} :\n",
        amount(used.pmem_bytes),
        amount(limit.pmem_bytes),
        amount(used.vmem_bytes),
        amount(limit.vmem_bytes),
    );
    dump(&mut text, processes);
    text
}

fn dump(text: &mut String, processes: &[DumpedProcess]) {
    text.push_str(DUMP_HEADER);
    let end = text.len() + DUMP_BYTES_MAX;
    for (shown, process) in processes.iter().enumerate() {
        let command = process.command.as_deref().unwrap_or("N/A");
        let line = format!(
            "\t|- {} {} {} {} ({}) {} {} {} {} {}\n",
            process.pid,
            process.parent,
            process.group,
            process.session,
            process.name,
            process.user_ms,
            process.system_ms,
            process.vmem_bytes,
            process.rss_pages,
            cut(command, COMMAND_BYTES_MAX),
        );
        if text.len() + line.len() > end {
            let rest = processes.len() - shown;
            writeln!(text, "\t|- and {rest} more processes").expect("a string takes any text");
            return;
        }
        text.push_str(&line);
    }
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// An amount with a binary prefix and at most one decimal, without the unit itself: `1 G`, `2.1 G`,
/// `512` (Hadoop: `StringUtils.TraditionalBinaryPrefix.long2String`).
pub(crate) fn amount(bytes: u64) -> String {
    const PREFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];
    let power = bytes.checked_ilog2().unwrap_or(0) / 10;
    let Some(place) = power.checked_sub(1) else {
        return bytes.to_string();
    };
    let place = usize::try_from(place).unwrap_or(0);
    let size = 1_u64 << (10 * power);
    if bytes.is_multiple_of(size) {
        return format!("{} {}", bytes / size, PREFIXES[place]);
    }
    let text = format!("{:.1}", bytes as f64 / size as f64);
    // Rounded up to the next prefix.
    match PREFIXES.get(place + 1) {
        Some(next) if text.starts_with("1024") => {
            format!("{:.1} {next}", bytes as f64 / size as f64 / 1024.0)
        }
        Some(_) | None => format!("{text} {}", PREFIXES[place]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn container() -> ContainerId {
        records::ApplicationId::new(1_700_000_000_000, 7)
            .attempt(1)
            .container(2)
    }

    fn process(pid: i32, command: &str) -> DumpedProcess {
        DumpedProcess {
            pid,
            parent: 1,
            group: 40,
            session: 40,
            name: "bash".to_owned(),
            user_ms: 10,
            system_ms: 20,
            vmem_bytes: 4096,
            rss_pages: 1,
            command: Some(command.to_owned()),
        }
    }

    fn text(kind: MemoryKind, processes: &[DumpedProcess]) -> String {
        let used = MemoryUse {
            pmem_bytes: GIB + GIB / 5,
            vmem_bytes: 2 * GIB + 6 * GIB / 10,
            ..MemoryUse::default()
        };
        let limit = MemoryLimit {
            pmem_bytes: GIB,
            vmem_bytes: 2 * GIB + GIB / 10,
        };
        exceeded(container(), 40, kind, used, limit, processes)
    }

    #[test]
    fn the_text_is_hadoops() {
        let expected = "Container [pid=40,containerID=container_1700000000000_0007_01_000002] is running 536870912B beyond the 'VIRTUAL' memory limit. Current usage: 1.2 GB of 1 GB physical memory used; 2.6 GB of 2.1 GB virtual memory used. Killing container.\n\
            Dump of the process-tree for container_1700000000000_0007_01_000002 :\n\
            \t|- PID PPID PGRPID SESSID CMD_NAME USER_MODE_TIME(MILLIS) SYSTEM_TIME(MILLIS) VMEM_USAGE(BYTES) RSSMEM_USAGE(PAGES) FULL_CMD_LINE\n\
            \t|- 41 1 40 40 (bash) 10 20 4096 1 bash -c x\n";
        assert_eq!(
            text(MemoryKind::Virtual, &[process(41, "bash -c x")]),
            expected
        );
        assert!(
            text(MemoryKind::Physical, &[]).contains("214748364B beyond the 'PHYSICAL' memory")
        );
    }

    #[test]
    fn spark_finds_what_it_looks_for() {
        let text = text(MemoryKind::Physical, &[]);
        for kind in ["physical", "virtual"] {
            let pattern = format!(r"[0-9.]+ [KMG]B of [0-9.]+ [KMG]B {kind} memory used");
            assert!(
                regex::Regex::new(&pattern).unwrap().is_match(&text),
                "{text}"
            );
        }
    }

    #[test]
    fn amounts_are_written_as_hadoop_writes_them() {
        for (bytes, expected) in [
            (0, "0"),
            (512, "512"),
            (1023, "1023"),
            (1024, "1 K"),
            (1536, "1.5 K"),
            (GIB, "1 G"),
            (GIB + 1, "1.0 G"),
            (GIB - 1, "1.0 G"),
            (1024 * 1024 - 1, "1.0 M"),
            (u64::MAX, "16.0 E"),
        ] {
            assert_eq!(amount(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn many_processes_and_long_commands_do_not_push_the_sentence_out() {
        let long = "ä".repeat(100_000);
        let processes: Vec<_> = (0..1_000).map(|pid| process(pid, &long)).collect();
        let text = text(MemoryKind::Physical, &processes);
        assert!(text.len() < 9_000, "{}", text.len());
        assert!(text.starts_with("Container [pid=40"));
        assert!(text.ends_with("more processes\n"), "{text}");
    }

    #[test]
    fn a_command_that_cannot_be_read_is_not_available() {
        let unread = DumpedProcess {
            command: None,
            ..process(41, "")
        };
        assert!(text(MemoryKind::Physical, &[unread]).ends_with(" 1 N/A\n"));
    }
}
