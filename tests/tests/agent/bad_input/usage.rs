//! What a process has from the machine: memory, descriptors, threads.

use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use tests::wait;

/// Share of the memory before by which the memory afterwards may be larger: one in so many.
const MEMORY_TOLERANCE: u64 = 10;

/// Memory that the first burst in a process's life may add to that, in KiB: the allocator keeps
/// pages of which a part is in use.
pub(super) const FIRST_BURST_KB: u64 = 8 * 1024;

/// Resources of a process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    rss_kb: u64,
    /// Part of that which files are behind, such as the program: the kernel takes it back when it
    /// wants to.
    file_kb: u64,
    descriptors: usize,
    /// Descriptors that are sockets.
    sockets: usize,
    threads: u64,
}

impl Usage {
    /// Returns what `/proc` shows of a process.
    pub(super) fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .unwrap_or_else(|error| panic!("the agent has ended: {error}"));
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next());
            number.unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        // One may be closed meanwhile.
        let targets: Vec<PathBuf> = descriptors
            .map(|entry| fs::read_link(entry.unwrap().path()).unwrap_or_default())
            .collect();
        let is_socket = |target: &&PathBuf| target.as_os_str().as_bytes().starts_with(b"socket:");
        Self {
            rss_kb: number("VmRSS:"),
            file_kb: number("RssFile:"),
            descriptors: targets.len(),
            sockets: targets.iter().filter(is_socket).count(),
            threads: number("Threads:"),
        }
    }

    /// Returns the larger of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            rss_kb: self.rss_kb.max(other.rss_kb),
            file_kb: self.file_kb.max(other.file_kb),
            descriptors: self.descriptors.max(other.descriptors),
            sockets: self.sockets.max(other.sockets),
            threads: self.threads.max(other.threads),
        }
    }

    /// Asserts that no more was taken since `before` than these bounds allow.
    #[track_caller]
    pub(super) fn assert_within(self, before: &Self, memory_kb: u64, sockets: usize) {
        let is_within =
            self.rss_kb <= before.rss_kb + memory_kb && self.sockets <= before.sockets + sockets;
        assert!(is_within, "{before} before, {self}");
    }

    fn has_memory_of(self, before: &Self, more_kb: u64) -> bool {
        self.rss_kb <= before.rss_kb + before.rss_kb / MEMORY_TOLERANCE + more_kb
    }

    fn is_back_to(self, before: &Self, more_kb: u64) -> bool {
        self.has_memory_of(before, more_kb)
            && self.descriptors <= before.descriptors
            && self.threads <= before.threads
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} MiB resident, {:.1} of it of files, {} descriptors, {} of them sockets, {} threads",
            self.rss_kb as f64 / 1024.0,
            self.file_kb as f64 / 1024.0,
            self.descriptors,
            self.sockets,
            self.threads
        )
    }
}

/// Waits until descriptors and threads are the same for twice the time that the runtime keeps an
/// idle thread; returns the usage.
pub(super) fn settled(pid: u32) -> Usage {
    const LOOKS: usize = 400;
    let mut last = Usage::of(pid);
    let mut same = 0;
    wait::until("an idle agent", Duration::from_secs(180), || {
        let usage = Usage::of(pid);
        let is_same = (usage.descriptors, usage.threads) == (last.descriptors, last.threads);
        same = if is_same { same + 1 } else { 0 };
        last = usage;
        wait::check(same >= LOOKS, usage)
    })
}

/// Waits until the agent uses no more than before, but for a tenth of the memory and `more_kb`.
/// Calls `serves` now and then: some of what the node keeps is looked through when a container
/// starts.
///
/// # Errors
/// With what was awaited and what was seen last.
pub(super) fn wait_back(
    pid: u32,
    before: &Usage,
    more_kb: u64,
    deadline: Duration,
    serves: impl Fn(),
) -> Result<Usage, String> {
    const LOOKS: usize = 100;
    let mut looks = 0_usize;
    wait::try_until(format!("no more than {before}"), deadline, || {
        if looks.is_multiple_of(LOOKS) {
            serves();
        }
        looks += 1;
        let usage = Usage::of(pid);
        wait::check(usage.is_back_to(before, more_kb), usage)
    })
}

/// Connections of the node's own that it may have opened meanwhile: for heartbeats, and for each of
/// two masters whose calls the AMRMProxy forwards.
const OWN_SOCKETS: usize = 3;

/// Waits until the agent has no more sockets than before but for its own, and little more
/// memory. Descriptors of processes that are measured come and go with the machine's.
#[track_caller]
pub(super) fn wait_sockets_back(pid: u32, before: &Usage, deadline: Duration) -> Usage {
    wait::until(format!("no more than {before}"), deadline, || {
        let usage = Usage::of(pid);
        let has_memory = usage.has_memory_of(before, FIRST_BURST_KB);
        let is_back = has_memory && usage.sockets <= before.sockets + OWN_SOCKETS;
        wait::check(is_back, usage)
    })
}
