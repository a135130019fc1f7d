//! How long processes of the machine have waited for what (kernel: `Documentation/accounting/psi.rst`).

use std::fs::File;
use std::io::BufReader;

use procfs::FromBufRead;
use procfs::{CpuPressure, IoPressure, MemoryPressure};

/// Microseconds since the machine started. All 0 where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// For a processor.
    pub cpu: Stalls,
    /// For a disk or the like.
    pub io: Stalls,
    /// For memory: reclaim, swap, and reading back what was dropped.
    pub memory: Stalls,
}

/// Microseconds in which processes waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// At least one.
    pub some_us: u64,
    /// All that had something to do.
    pub all_us: u64,
}

impl Pressure {
    /// As of now.
    pub(super) fn read() -> Self {
        let stalls = |some: u64, all: u64| Stalls {
            some_us: some,
            all_us: all,
        };
        Self {
            cpu: read::<CpuPressure>("cpu").map_or_else(Stalls::default, |cpu| {
                stalls(cpu.some.total, cpu.full.total)
            }),
            io: read::<IoPressure>("io")
                .map_or_else(Stalls::default, |io| stalls(io.some.total, io.full.total)),
            memory: read::<MemoryPressure>("memory").map_or_else(Stalls::default, |memory| {
                stalls(memory.some.total, memory.full.total)
            }),
        }
    }
}

/// `None` when the kernel was built or started without it, or does not tell us.
fn read<T: FromBufRead>(resource: &str) -> Option<T> {
    let file = File::open(format!("/proc/pressure/{resource}")).ok()?;
    T::from_buf_read(BufReader::new(file)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_wait_for_some_wait_for() {
        let pressure = Pressure::read();
        for stalls in [pressure.cpu, pressure.io, pressure.memory] {
            assert!(stalls.some_us >= stalls.all_us, "{pressure:?}");
        }
    }
}
