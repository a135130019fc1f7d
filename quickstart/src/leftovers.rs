//! Processes and files that must not exist when everything has ended.

use procfs::process::ProcState;

/// Processes of containers that still live, in words. Whatever a container leaves behind becomes a
/// child of this process, which adopts orphans.
pub(super) fn processes() -> Vec<String> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let Ok(all) = procfs::process::all_processes() else {
        return Vec::new();
    };
    all.flatten()
        .filter_map(|process| process.stat().ok())
        .filter(|stat| stat.ppid == own)
        .filter(|stat| !matches!(stat.state(), Ok(ProcState::Zombie | ProcState::Dead)))
        .map(|stat| format!("process {} ({}) still runs", stat.pid, stat.comm))
        .collect()
}
