//! Reads `/proc/PID/stat`: identity, family, state, CPU time and memory of a process
//! (proc_pid_stat(5)).

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use procfs::FromRead as _;
use procfs::process::Stat;

/// Maximum size of a `stat` line: 52 numbers and a name of at most 64 bytes.
const STAT_BYTES_MAX: usize = 2_048;

/// Opens the `stat` file of a process; `None` when there is no such process.
pub(crate) fn open(pid: i32) -> Option<File> {
    File::open(format!("/proc/{pid}/stat")).ok()
}

/// Reads an open `stat` file from its start; `None` when its process has gone. The file never shows
/// a later process of the same id.
pub(crate) fn read(file: &File) -> Option<Stat> {
    let mut buffer = [0; STAT_BYTES_MAX];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Stat::from_read(buffer.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_newlines_is_parsed() {
        let rest = "S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 8192 100 \
                    18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0";
        for name in ["bash", ") S 1 1 1", "a\nb (c)", ""] {
            let line = format!("42 ({name}) {rest}\n");
            let stat = Stat::from_read(line.as_bytes()).unwrap();
            assert_eq!(stat.comm, name);
            assert_eq!((stat.pid, stat.state, stat.starttime), (42, 'S', 4_711));
            assert_eq!((stat.ppid, stat.pgrp, stat.session), (7, 8, 9));
        }
    }

    #[test]
    fn this_process_is_read_and_an_impossible_one_is_not() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let stat = read(&open(own_pid).unwrap()).unwrap();
        assert_eq!(stat.pid, own_pid);
        assert!(open(0).is_none());
    }
}
