//! Limits known to hold in the parent cgroups, so that only differences are written: a write costs
//! every start and every end of a container, and a memory bound written anew reclaims anew.

use cgroup::Limits;

use super::action::{Part, Scope};

/// Knowledge about each part of each parent.
#[derive(Debug, Default)]
pub(super) struct ScopeLimits([[Ledger; 3]; 3]);

/// Knowledge about one part of one parent.
#[derive(Debug, Default)]
struct Ledger {
    /// Limits that hold; unknown ones are unset, and therefore written.
    known: Limits,
    /// The last write was refused, and reported.
    refused: bool,
    /// A write is under way.
    in_flight: bool,
    /// Other limits were wanted during that write.
    outdated: bool,
}

/// Conclusions from a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// Other limits have been wanted meanwhile.
    pub(super) is_outdated: bool,
    /// The write before was refused, too.
    pub(super) was_refused: bool,
}

impl ScopeLimits {
    fn ledger(&mut self, scope: Scope, part: Part) -> &mut Ledger {
        let parts = match scope {
            Scope::AllContainers => &mut self.0[0],
            Scope::Guaranteed => &mut self.0[1],
            Scope::Opportunistic => &mut self.0[2],
        };
        match part {
            Part::Cpu => &mut parts[0],
            Part::Memory => &mut parts[1],
            Part::Other => &mut parts[2],
        }
    }

    /// Returns the writes that make `wanted` hold, part by part, so that a refused one leaves no
    /// other limit unset. A part that is being written waits for [`ScopeLimits::finish`].
    pub(super) fn update(&mut self, scope: Scope, wanted: &Limits) -> Vec<(Part, Limits)> {
        let mut writes = Vec::new();
        for (part, wanted) in [
            (Part::Cpu, wanted.cpu_only()),
            (Part::Memory, wanted.memory_only()),
            (Part::Other, wanted.tasks_and_io_only()),
        ] {
            let ledger = self.ledger(scope, part);
            let news = wanted.changes_from(&ledger.known);
            if ledger.in_flight {
                ledger.outdated |= wanted != Limits::default();
            } else if news != Limits::default() {
                ledger.in_flight = true;
                writes.push((part, news));
            }
        }
        writes
    }

    /// Records the result of a write. A refused one is written again at the next update.
    pub(super) fn finish(
        &mut self,
        scope: Scope,
        part: Part,
        limits: Limits,
        is_refused: bool,
    ) -> Finished {
        let ledger = self.ledger(scope, part);
        // After a refusal it is not known which of them were written.
        ledger.known = if is_refused {
            Limits::default()
        } else {
            limits.written_over(ledger.known)
        };
        ledger.in_flight = false;
        Finished {
            is_outdated: std::mem::take(&mut ledger.outdated),
            was_refused: std::mem::replace(&mut ledger.refused, is_refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use cgroup::{Bound, Weight};

    use super::*;

    const SCOPE: Scope = Scope::Opportunistic;

    fn limits(high: u64) -> Limits {
        Limits {
            cpu_weight: Some(Weight::MAX),
            memory_low: Some(0),
            memory_high: Some(Bound::At(high)),
            ..Limits::default()
        }
    }

    fn finish_all(known: &mut ScopeLimits, writes: &[(Part, Limits)]) {
        for (part, limits) in writes {
            known.finish(SCOPE, *part, *limits, false);
        }
    }

    #[test]
    fn only_differences_are_written() {
        let mut known = ScopeLimits::default();
        let first = known.update(SCOPE, &limits(1));
        let expected = [
            (Part::Cpu, limits(1).cpu_only()),
            (Part::Memory, limits(1).memory_only()),
        ];
        assert_eq!(first, expected);
        finish_all(&mut known, &first);
        assert_eq!(known.update(SCOPE, &limits(1)), []);
        let high = Limits {
            memory_high: Some(Bound::At(2)),
            ..Limits::default()
        };
        assert_eq!(known.update(SCOPE, &limits(2)), [(Part::Memory, high)]);
    }

    #[test]
    fn a_refused_part_is_written_again_and_the_others_are_not() {
        let mut known = ScopeLimits::default();
        let writes = known.update(SCOPE, &limits(1));
        let (cpu, memory) = (writes[0].1, writes[1].1);
        let refused = known.finish(SCOPE, Part::Cpu, cpu, true);
        assert!(!refused.was_refused);
        known.finish(SCOPE, Part::Memory, memory, false);
        assert_eq!(known.update(SCOPE, &limits(1)), [(Part::Cpu, cpu)]);
        assert!(known.finish(SCOPE, Part::Cpu, cpu, true).was_refused);
    }

    #[test]
    fn cpu_time_is_written_while_a_memory_write_is_under_way() {
        let mut known = ScopeLimits::default();
        let memory = limits(1).memory_only();
        assert_eq!(known.update(SCOPE, &memory), [(Part::Memory, memory)]);
        let cpu = limits(1).cpu_only();
        assert_eq!(known.update(SCOPE, &limits(2)), [(Part::Cpu, cpu)]);
        assert!(known.finish(SCOPE, Part::Memory, memory, false).is_outdated);
    }
}
