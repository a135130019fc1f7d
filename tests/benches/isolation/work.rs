//! The programs of this bench's containers: this same executable with arguments.
//!
//! Jobs work for a given time and write their rate to a file; loads work until they are killed.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a page of memory on every machine that this runs on.
const PAGE: usize = 4096;

/// Steps of arithmetic between two looks at the clock: some milliseconds.
const CHUNK: u64 = 1_000_000;

/// Pause between two looks at resident memory.
const RESIDENT_INTERVAL: Duration = Duration::from_millis(50);

/// Report of a job's run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Chunks of arithmetic, or pages written, per second, over all threads.
    pub(crate) per_s: f64,
    /// Least part of its memory that was resident at any look, in percent.
    pub(crate) resident_percent: f64,
    /// Pages that the job waited for a disk for.
    pub(crate) major_faults: u64,
}

impl Report {
    fn write(self, file: &Path) {
        let text = format!(
            "{} {} {}",
            self.per_s, self.resident_percent, self.major_faults
        );
        fs::write(file, text).expect("the folder of the bench can be written to");
    }

    /// Reads a job's report.
    pub(crate) fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("a job that ended well has written its report");
        let mut words = text.split(' ');
        let mut next = || words.next().expect("a report has three numbers");
        Self {
            per_s: next().parse().expect("a rate"),
            resident_percent: next().parse().expect("a part"),
            major_faults: next().parse().expect("a count"),
        }
    }
}

/// Work of a container.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Job of arithmetic.
    Compute { seconds: u64 },
    /// Job that writes to each page of this many MiB, again and again.
    Fill { seconds: u64, mib: usize },
    /// Load of arithmetic.
    Burn,
    /// Load that wants more than the memory that it has, in MiB: it holds most of that, writes to
    /// each page of it, and reads as much again from a file, so that the kernel reclaims pages of
    /// the file all the time.
    Eat { mib: usize },
}

impl Work {
    /// Returns the arguments for this program; its output goes to `file`.
    pub(crate) fn arguments(self, file: &Path) -> String {
        let words = match self {
            Self::Compute { seconds } => format!("compute {seconds} 0"),
            Self::Fill { seconds, mib } => format!("fill {seconds} {mib}"),
            Self::Burn => "burn 0 0".to_owned(),
            Self::Eat { mib } => format!("eat 0 {mib}"),
        };
        format!("work {words} '{}'", file.display())
    }

    /// Parses the arguments after `work`; `None` for others.
    pub(crate) fn parse(arguments: &[String]) -> Option<(Self, &Path)> {
        let [what, seconds, mib, file] = arguments else {
            return None;
        };
        let (seconds, mib) = (seconds.parse().ok()?, mib.parse().ok()?);
        let work = match what.as_str() {
            "compute" => Self::Compute { seconds },
            "fill" => Self::Fill { seconds, mib },
            "burn" => Self::Burn,
            "eat" => Self::Eat { mib },
            _ => return None,
        };
        Some((work, Path::new(file)))
    }

    /// Runs the work. A load writes an empty file once it is at full strength.
    pub(crate) fn run(self, file: &Path) {
        match self {
            Self::Compute { seconds } => compute(Duration::from_secs(seconds)).write(file),
            Self::Fill { seconds, mib } => fill(Duration::from_secs(seconds), mib).write(file),
            Self::Burn => {
                ready(file);
                loop {
                    chunk();
                }
            }
            Self::Eat { mib } => {
                let mut memory = pages(mib - mib / 4);
                let mut hole = hole(mib);
                read_through(&mut hole);
                ready(file);
                loop {
                    touch(&mut memory);
                    read_through(&mut hole);
                }
            }
        }
    }
}

fn ready(file: &Path) {
    fs::write(file, "").expect("the folder of the bench can be written to");
}

fn chunk() {
    let mut state = black_box(1_u64);
    for _ in 0..CHUNK {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(state);
}

/// Runs a thread for each processor: a job that has them all.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn compute(duration: Duration) -> Report {
    let chunks = AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while begin.elapsed() < duration {
                    chunk();
                    chunks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    Report {
        per_s: rate(chunks.into_inner(), begin),
        resident_percent: 100.0,
        major_faults: major_faults(),
    }
}

/// Runs threads that never wait for each other. If they met after each pass, every few
/// milliseconds, any other work would get a processor in between and the job would have its caches
/// to fill again, which says little of memory and nothing of its limits.
fn fill(duration: Duration, mib: usize) -> Report {
    let mut memory = pages(mib);
    let share = memory.len() / threads();
    let pages_written = AtomicU64::new(0);
    let mut resident_percent = 100.0_f64;
    let faults = major_faults();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for part in memory.chunks_mut(share) {
            let pages_written = &pages_written;
            let pages = u64::try_from(part.len() / PAGE).expect("memory has so many pages");
            scope.spawn(move || {
                while begin.elapsed() < duration {
                    touch(part);
                    pages_written.fetch_add(pages, Ordering::Relaxed);
                }
            });
        }
        while begin.elapsed() < duration {
            std::thread::sleep(RESIDENT_INTERVAL);
            resident_percent = resident_percent.min(100.0 * resident_mib() / mib as f64);
        }
    });
    Report {
        per_s: rate(pages_written.into_inner(), begin),
        resident_percent,
        major_faults: major_faults() - faults,
    }
}

fn rate(count: u64, begin: Instant) -> f64 {
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Memory whose pages are all written to.
fn pages(mib: usize) -> Vec<u8> {
    let mut memory = vec![0; mib << 20];
    touch(&mut memory);
    memory
}

fn touch(memory: &mut [u8]) {
    for page in memory.chunks_mut(PAGE) {
        page[0] = page[0].wrapping_add(1);
    }
    black_box(memory);
}

/// A file that takes no space on its disk, but memory once it is read; removed with its last user.
/// File systems in memory, whose pages cannot be reclaimed, are rare here.
fn hole(mib: usize) -> File {
    let file = tempfile::tempfile_in("/var/tmp").expect("temporary files can be made");
    let length = u64::try_from(mib << 20).expect("a machine has so much memory");
    file.set_len(length)
        .expect("a file may be as long as memory");
    file
}

fn read_through(file: &mut File) {
    let mut buffer = vec![0; 1 << 20];
    file.rewind().expect("a file can be read again");
    while file.read(&mut buffer).expect("a file can be read") > 0 {}
}

fn resident_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process is there");
    let kib: u32 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .expect("a running process has memory");
    f64::from(kib) / 1024.0
}

fn major_faults() -> u64 {
    let own = i32::try_from(std::process::id()).expect("the kernel's ids are positive");
    tests::proc::stat(own)
        .expect("this process is there")
        .majflt
}
