//! The end of a whole process, as opposed to that of its first thread.
//!
//! A process whose first thread has called `pthread_exit` shows the state of a zombie in
//! `/proc/PID/stat` for as long as its other threads run: the state is that of the first thread.
//! The files that describe its memory are empty there, and those of another thread are not.

use procfs::process::{Process, Stat};

/// Returns whether a process has ended: no thread of it runs. Until it is reaped, it keeps its pid
/// and holds no memory.
///
/// Reads further files only for a process whose first thread has ended and that has others.
#[must_use]
pub fn has_ended(stat: &Stat) -> bool {
    is_dead(stat) && (stat.num_threads <= 1 || running_thread(stat.pid).is_none())
}

/// Returns the number of a thread of a process that runs, the first thread if that does; `None`:
/// none does, or there is no such process. `/proc` has the memory of the process under this number.
#[must_use]
pub fn running_thread(pid: i32) -> Option<i32> {
    let threads = Process::new(pid).and_then(|process| process.tasks()).ok()?;
    let mut running = threads.flatten().filter(|thread| {
        // A thread that is gone meanwhile does not run.
        thread.stat().is_ok_and(|stat| !is_dead(&stat))
    });
    running.next().map(|thread| thread.tid)
}

/// Returns whether the thread that the line describes has ended.
fn is_dead(stat: &Stat) -> bool {
    matches!(stat.state, 'Z' | 'X')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32) -> Stat {
        let pid = i32::try_from(pid).unwrap();
        Process::new(pid)
            .and_then(|process| process.stat())
            .unwrap()
    }

    #[test]
    fn this_process_runs_and_a_zombie_has_ended() {
        let own = stat(std::process::id());
        assert!(!has_ended(&own));
        assert!(running_thread(own.pid).is_some());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while stat(child.id()).state != 'Z' {
            std::thread::yield_now();
        }
        let zombie = stat(child.id());
        assert!(has_ended(&zombie));
        assert_eq!(running_thread(zombie.pid), None);
        child.wait().unwrap();
        assert_eq!(running_thread(zombie.pid), None);
    }
}
