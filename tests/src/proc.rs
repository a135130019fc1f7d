//! Processes that belong to a test: those whose command line or environment names the test's
//! folder.
//!
//! A node's containers are in process groups of their own, so killing the node's group does not
//! reach them; but their scripts, working folders and `HADOOP_CONF_DIR` all lie in the test's
//! folder.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use procfs::process::{Process, Stat};

/// A process as `/proc` shows it.
#[derive(Debug, Clone)]
pub struct Found {
    /// Id of the process.
    pub pid: i32,
    /// Command line, arguments separated by blanks.
    pub command: String,
    /// Variable `CONTAINER_ID` of the environment: only processes of containers have it.
    pub container_id: Option<String>,
}

/// Returns the processes that name `folder`, except this one. Zombies have neither command line nor
/// environment and are not found.
#[must_use]
pub fn mentioning(folder: &Path) -> Vec<Found> {
    let needle = folder.as_os_str().as_encoded_bytes();
    let own = Pid::this().as_raw();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| look(pid, needle))
        .collect()
}

/// Returns the processes of containers that name `folder`.
#[must_use]
pub fn containers(folder: &Path) -> Vec<Found> {
    mentioning(folder)
        .into_iter()
        .filter(|found| found.container_id.is_some())
        .collect()
}

/// Kills every process that names `folder`; returns their number.
pub fn kill_mentioning(folder: &Path) -> usize {
    let found = mentioning(folder);
    for process in &found {
        // The process may have ended by itself.
        let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
    }
    found.len()
}

/// Reads a process; `None` when it has ended or does not name the folder.
fn look(pid: i32, needle: &[u8]) -> Option<Found> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    // The environment of another user's process cannot be read; its command line still can.
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !contains(&command, needle) && !contains(&environment, needle) {
        return None;
    }
    let container_id = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(b"CONTAINER_ID="))
        .map(|id| String::from_utf8_lossy(id).into_owned());
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    Some(Found {
        pid,
        command,
        container_id,
    })
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

/// Reads `/proc/PID/stat`; `None` when there is no such process.
#[must_use]
pub fn stat(pid: i32) -> Option<Stat> {
    let process = Process::new(pid).ok()?;
    process.stat().ok()
}

/// Returns the agent below its front and its keeper, which it has with recovery.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn agent_below(front: u32) -> u32 {
    let first_child = |parent: u32| -> Option<u32> {
        let process = Process::new(parent.cast_signed()).ok()?;
        let tasks = process.tasks().ok()?.flatten();
        let mut children = tasks.flat_map(|task| task.children().unwrap_or_default());
        children.next()
    };
    let agent = first_child(front).and_then(first_child);
    agent.unwrap_or_else(|| panic!("process {front} is no front with a keeper and an agent"))
}

/// Returns the CPU time that a process has used, its threads together.
///
/// # Panics
/// When the process has ended.
#[must_use]
pub fn processor_time(id: u32) -> Duration {
    // The kernel shows times in hundredths of a second to every program (USER_HZ).
    const TICK: Duration = Duration::from_millis(10);
    let stat = i32::try_from(id).ok().and_then(stat);
    let stat = stat.unwrap_or_else(|| panic!("process {id} has ended"));
    let ticks = u32::try_from(stat.utime + stat.stime).expect("a process of this test is young");
    TICK * ticks
}

/// Returns the memory that a process has resident and that is in no file, in bytes.
///
/// # Panics
/// When the process has ended.
#[must_use]
pub fn anonymous_memory(id: u32) -> u64 {
    let status = i32::try_from(id).ok().and_then(|id| Process::new(id).ok());
    let status = status.and_then(|process| process.status().ok());
    let kib = status.and_then(|status| status.rssanon);
    kib.unwrap_or_else(|| panic!("process {id} has ended")) * 1024
}

/// Returns the processes that a process has started.
#[must_use]
pub fn children(id: u32) -> Vec<u32> {
    let process = i32::try_from(id).ok().and_then(|id| Process::new(id).ok());
    let tasks = process.and_then(|process| process.tasks().ok());
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .flat_map(|task| task.children().unwrap_or_default())
        .collect()
}

/// Returns the largest resident memory that a process has had, in MiB.
///
/// # Panics
/// When the process has ended.
#[must_use]
pub fn peak_memory_mib(id: u32) -> f64 {
    let status = i32::try_from(id).ok().and_then(|id| Process::new(id).ok());
    let status = status.and_then(|process| process.status().ok());
    let kib = status.and_then(|status| status.vmhwm);
    let kib = kib.unwrap_or_else(|| panic!("process {id} has ended"));
    let kib = u32::try_from(kib).expect("a process of this test is small");
    f64::from(kib) / 1024.0
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::wait;

    #[test]
    fn a_process_is_found_by_its_environment_and_can_be_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .env("LOCAL_DIRS", folder.path())
            .env("CONTAINER_ID", "container_1_0001_01_000002")
            .spawn()
            .unwrap();
        let found = wait::until("the process", Duration::from_secs(30), || {
            // Between fork and exec the child still has the environment of this process.
            containers(folder.path()).pop().ok_or("not there")
        });
        assert_eq!(
            found.container_id.as_deref(),
            Some("container_1_0001_01_000002")
        );
        assert_eq!(kill_mentioning(folder.path()), 1);
        assert!(!child.wait().unwrap().success());
        assert!(mentioning(folder.path()).is_empty());
    }
}
