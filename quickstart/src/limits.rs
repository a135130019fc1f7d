//! Limits of this process: open files and processes, checked before anything starts.

use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::unistd::geteuid;

use super::error::QuickstartError;

/// Open files beside those of the nodes: the runtime, the ResourceManager and its connections,
/// readers of its pages.
const DESCRIPTORS: u64 = 96;

/// Open files for each node: two ports, connections of masters and readers, and a handful for each
/// of six containers.
const DESCRIPTORS_PER_NODE: u64 = 64;

/// Threads of this process that do not belong to a node: the runtime's.
const THREADS: u64 = 32;

/// Threads of each node, and processes of its containers: six at a time, each with a shell or the
/// runtime of a master.
const TASKS_PER_NODE: u64 = 48;

/// Raises the limit of open files if it can be; says no when the machine does not give what is
/// needed.
pub(super) fn check(nodes: u16) -> Result<(), QuickstartError> {
    if !Path::new("/bin/bash").exists() {
        return Err(QuickstartError::NoBash);
    }
    let nodes = u64::from(nodes);
    check_descriptors(DESCRIPTORS + DESCRIPTORS_PER_NODE * nodes)?;
    check_processes(THREADS + TASKS_PER_NODE * nodes)
}

fn check_descriptors(needed: u64) -> Result<(), QuickstartError> {
    // A limit that cannot be read is met soon enough.
    match container_runtime::open_files::raise() {
        Ok(limit) if limit < needed => Err(QuickstartError::Descriptors { needed, limit }),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn check_processes(needed: u64) -> Result<(), QuickstartError> {
    // Root is not limited.
    if geteuid().is_root() {
        return Ok(());
    }
    let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NPROC) else {
        return Ok(());
    };
    // Counting all processes takes a while, and a limit of thousands is never what stops this.
    if limit == RLIM_INFINITY || limit > 4096 + needed {
        return Ok(());
    }
    let present = tasks_of_user();
    if present + needed <= limit {
        return Ok(());
    }
    Err(QuickstartError::Processes {
        needed,
        limit,
        present,
    })
}

/// Processes and threads of this user.
fn tasks_of_user() -> u64 {
    let own = geteuid().as_raw();
    let Ok(processes) = procfs::process::all_processes() else {
        return 0;
    };
    let threads = processes
        .flatten()
        .filter(|process| process.uid().is_ok_and(|uid| uid == own))
        .filter_map(|process| u64::try_from(process.stat().ok()?.num_threads).ok());
    threads.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_than_any_system_gives_are_refused_with_both_numbers() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        match check_descriptors(u64::MAX - 1) {
            Err(QuickstartError::Descriptors { needed, limit }) => {
                assert_eq!((needed, limit), (u64::MAX - 1, hard));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_threads_of_this_test_are_counted() {
        assert!(tasks_of_user() >= 1);
    }
}
