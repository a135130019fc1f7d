//! Pressure stall times of the machine and of each class of containers (kernel:
//! `Documentation/accounting/psi.rst`).

use std::fs::File;
use std::io::{self, BufReader};

use cgroup::{CgroupError, Parent, PressureFile, Resource};
use procfs::FromBufRead;
use procfs::{CpuPressure, IoPressure, MemoryPressure};
use records::ExecutionType;

use records::PerExecutionType;

/// Microseconds since the machine started, or since the cgroup of a class was made. All 0 where the
/// kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Stall times for CPU.
    pub cpu: Stalls,
    /// Stall times for disks and other devices.
    pub io: Stalls,
    /// Stall times for memory: reclaim, swap, and reading dropped pages again.
    pub memory: Stalls,
}

/// Microseconds in which processes waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Time in which at least one task was stalled, in microseconds.
    pub some_us: u64,
    /// Time in which all runnable tasks were stalled, in microseconds.
    pub all_us: u64,
}

impl Pressure {
    /// Returns the current totals.
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

/// The pressure files of a class of containers, kept open.
#[derive(Debug)]
pub struct PressureFiles {
    cpu: PressureFile,
    io: PressureFile,
    memory: PressureFile,
}

impl PressureFiles {
    /// `None`: the kernel measures none for cgroups, or only legacy hierarchies are used.
    pub(crate) fn open(class: &Parent) -> Result<Option<Self>, CgroupError> {
        let file = |resource| class.pressure_file(resource);
        let files = (
            file(Resource::Cpu)?,
            file(Resource::Io)?,
            file(Resource::Memory)?,
        );
        let (Some(cpu), Some(io), Some(memory)) = files else {
            return Ok(None);
        };
        Ok(Some(Self { cpu, io, memory }))
    }

    /// Returns the current totals; `None` if the kernel does not measure them.
    fn read(&self) -> io::Result<Option<Pressure>> {
        let all = (self.cpu.read()?, self.io.read()?, self.memory.read()?);
        let (Some(cpu), Some(io), Some(memory)) = all else {
            return Ok(None);
        };
        Ok(Some(Pressure {
            cpu: cpu.into(),
            io: io.into(),
            memory: memory.into(),
        }))
    }
}

impl From<cgroup::Pressure> for Stalls {
    fn from(pressure: cgroup::Pressure) -> Self {
        Self {
            some_us: pressure.some.total_us,
            all_us: pressure.full.map_or(0, |full| full.total_us),
        }
    }
}

/// Looks at the pressure of both classes, for as long as the kernel tells.
#[derive(Debug)]
pub(super) struct ClassPressure(PerExecutionType<Option<PressureFiles>>);

impl ClassPressure {
    pub(super) fn new(files: PerExecutionType<Option<PressureFiles>>) -> Self {
        Self(files)
    }

    /// Returns the current totals. A class that could not be read once is not read again: its
    /// cgroup is never created again.
    pub(super) fn sample(&mut self) -> PerExecutionType<Option<Pressure>> {
        let mut sample = PerExecutionType::default();
        for class in [ExecutionType::Guaranteed, ExecutionType::Opportunistic] {
            let files = self.0.of(class);
            match files.as_ref().map(PressureFiles::read) {
                Some(Ok(pressure)) => *sample.of(class) = pressure,
                Some(Err(error)) => {
                    tracing::warn!(?class, %error, "the pressure of a class is not told any more");
                    *files = None;
                }
                None => {}
            }
        }
        sample
    }
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

    #[test]
    fn a_kernel_that_does_not_say_when_all_waited_leaves_it_at_zero() {
        let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
        let full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        for (text, all_us) in [(some.to_owned(), 0), (some.to_owned() + full, 5)] {
            let stalls = Stalls::from(cgroup::Pressure::parse(&text).unwrap());
            let some_us = 17;
            assert_eq!(stalls, Stalls { some_us, all_us });
        }
    }

    #[test]
    fn without_files_no_class_has_any_pressure() {
        let mut classes = ClassPressure::new(PerExecutionType::default());
        assert_eq!(classes.sample(), PerExecutionType::default());
    }
}
