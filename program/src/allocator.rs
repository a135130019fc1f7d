//! Memory allocator of a process: freed buffers go back to the kernel.

use std::time::Duration;
use std::{io, thread};

/// Size from which a buffer is a mapping of its own, in bytes: larger than what is allocated often
/// (a log's piece of 64 KiB, twice), smaller than what a peer can make large.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: i32 = 256 * 1024;

/// Makes each large buffer a mapping of its own, so that its memory is the kernel's again once it
/// is freed.
///
/// glibc does so too, until the first such buffer is freed: from then on buffers of up to that
/// size, at most 32 MiB, come from the heap (mallopt(3), `M_MMAP_THRESHOLD`). What is freed below
/// a later allocation stays there, and a node keeps the memory of its largest requests. Other C
/// libraries need no such setting.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the allocator's setting has no safe binding")]
        // SAFETY: mallopt takes two integers, and locks the heap that it changes.
        let accepted = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN) };
        debug_assert_eq!(accepted, 1, "the size is within glibc's bounds");
    }
}

/// Interval at which freed memory goes back to the kernel. A walk over a heap of some ten MiB takes
/// about a millisecond.
const RETURN_INTERVAL: Duration = Duration::from_secs(30);

/// Starts a thread that gives memory inside the heaps back for as long as the process runs.
///
/// # Errors
/// The system cannot start another thread.
pub fn return_freed_memory_regularly() -> io::Result<()> {
    let forever = || {
        loop {
            thread::sleep(RETURN_INTERVAL);
            return_freed_memory();
        }
    };
    let thread = thread::Builder::new().name("allocator".to_owned());
    thread.spawn(forever).map(|_thread| ())
}

/// Gives free pages of all heaps back to the kernel. By itself glibc gives back only what is free
/// at the end of a heap.
///
/// Pages stay in which a thread keeps a freed piece for its next request (glibc: up to seven of
/// each size up to 1 KiB). After a burst these lie scattered, and only the end of the thread frees
/// them.
fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the allocator has no safe binding")]
        // SAFETY: malloc_trim takes an integer, and locks each heap that it changes.
        let _returned_some = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
#[cfg(target_env = "gnu")]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const MIB: usize = 1024 * 1024;

    /// Held while a test measures: all share the memory of one process.
    static MEASURING: Mutex<()> = Mutex::new(());

    /// Returns what this process has resident, in bytes.
    fn resident() -> u64 {
        let own = procfs::process::Process::myself().unwrap();
        own.statm().unwrap().resident * procfs::page_size()
    }

    fn buffer() -> Vec<u8> {
        vec![1; 4 * MIB]
    }

    #[test]
    fn freed_buffers_leave_no_memory_behind_below_one_that_stays() {
        let _alone = MEASURING.lock();
        return_large_buffers();
        // glibc would take the buffers after this one from the heap.
        drop(buffer());
        let mut buffers: Vec<Vec<u8>> = (0..16).map(|_| buffer()).collect();
        let stays = buffers.pop();
        let before = resident();
        drop(buffers);
        let freed = before.saturating_sub(resident());
        assert!(freed > 48 * MIB as u64, "{freed} of 60 MiB came back");
        drop(stays);
    }

    #[test]
    fn freed_memory_between_small_buffers_that_stay_goes_back() {
        let _alone = MEASURING.lock();
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        for _ in 0..512 {
            buffers.push(vec![1; 128 * 1024]);
            buffers.push(vec![1; 64]);
        }
        let before = resident();
        buffers.retain(|buffer| buffer.len() == 64);
        return_freed_memory();
        let freed = before.saturating_sub(resident());
        assert!(freed > 48 * MIB as u64, "{freed} of 64 MiB came back");
    }
}
