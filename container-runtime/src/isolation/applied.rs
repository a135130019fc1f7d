//! What was last written to the cgroup of a class, so that only differences are written: a write costs every start and
//! every end of a container, and a bound of memory that is written anew presses memory back anew.

use std::sync::Mutex;

use cgroup::{CgroupError, Limits};

use super::table::locked;

/// What is known of one cgroup. Each part has a lock of its own, which is held while it is written: the one about memory may
/// take as long as a disk does, and processor time must be had while it does.
#[derive(Debug, Default)]
pub(super) struct Applied {
    processors: Mutex<Part>,
    memory: Mutex<Part>,
    others: Mutex<Part>,
}

#[derive(Debug, Default)]
struct Part {
    /// What holds there. What is not known is written.
    known: Limits,
    /// The last write was refused, which was told.
    refused: bool,
}

impl Applied {
    /// Makes `wanted` hold. A part that is refused is told once and tried again the next time, and does not keep the others
    /// from being written.
    pub(super) fn bring(
        &self,
        who: &str,
        wanted: &Limits,
        write: impl Fn(&Limits) -> Result<(), CgroupError>,
    ) {
        for (part, wanted) in [
            (&self.processors, wanted.cpu_only()),
            (&self.memory, wanted.memory_only()),
            (&self.others, wanted.tasks_and_io_only()),
        ] {
            // Without its lock: somebody else may be writing it.
            if wanted != Limits::default() {
                bring(&mut locked(part), who, &wanted, &write);
            }
        }
    }
}

fn bring(
    part: &mut Part,
    who: &str,
    wanted: &Limits,
    write: impl Fn(&Limits) -> Result<(), CgroupError>,
) {
    let news = wanted.changes_from(&part.known);
    if news == Limits::default() {
        return;
    }
    match write(&news) {
        Ok(()) => {
            part.known = news.written_over(part.known);
            part.refused = false;
        }
        Err(error) => {
            // Which of them were written is not known.
            part.known = Limits::default();
            let error = crate::error_chain(&error);
            if std::mem::replace(&mut part.refused, true) {
                tracing::debug!(who, error, "limits still cannot be changed");
            } else {
                tracing::error!(who, error, "limits cannot be changed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use cgroup::{Bound, Weight};

    use super::*;

    const REFUSED: CgroupError = CgroupError::Unsupported {
        operation: "be tested",
    };

    fn limits(high: u64) -> Limits {
        Limits {
            cpu_weight: Some(Weight::MAX),
            memory_low: Some(0),
            memory_high: Some(Bound::At(high)),
            ..Limits::default()
        }
    }

    #[test]
    fn only_what_has_changed_is_written() {
        let applied = Applied::default();
        let written = RefCell::new(Vec::new());
        let write = |limits: &Limits| {
            written.borrow_mut().push(*limits);
            Ok(())
        };
        applied.bring("test", &limits(1), write);
        let first = [limits(1).cpu_only(), limits(1).memory_only()];
        assert_eq!(written.take(), first);
        applied.bring("test", &limits(1), write);
        assert_eq!(written.take(), []);
        applied.bring("test", &limits(2), write);
        let high = Limits {
            memory_high: Some(Bound::At(2)),
            ..Limits::default()
        };
        assert_eq!(written.take(), [high]);
    }

    #[test]
    fn what_is_refused_is_tried_again_and_keeps_nothing_else_from_being_written() {
        let applied = Applied::default();
        let written = RefCell::new(Vec::new());
        let no_processors = |limits: &Limits| {
            written.borrow_mut().push(*limits);
            match limits.cpu_weight {
                Some(_) => Err(REFUSED),
                None => Ok(()),
            }
        };
        applied.bring("test", &limits(1), no_processors);
        let both = [limits(1).cpu_only(), limits(1).memory_only()];
        assert_eq!(written.take(), both);
        applied.bring("test", &limits(1), no_processors);
        assert_eq!(written.take(), [limits(1).cpu_only()]);
    }

    #[test]
    fn processor_time_is_written_while_memory_takes_its_time() {
        let applied = Applied::default();
        let written = RefCell::new(Vec::new());
        let memory = limits(1).memory_only();
        applied.bring("test", &memory, |limits| {
            written.borrow_mut().push(*limits);
            let processors = limits_cpu_only();
            applied.bring("test", &processors, |limits| {
                written.borrow_mut().push(*limits);
                Ok(())
            });
            Ok(())
        });
        assert_eq!(written.take(), [memory, limits_cpu_only()]);
    }

    fn limits_cpu_only() -> Limits {
        limits(1).cpu_only()
    }
}
