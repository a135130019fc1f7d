//! When each part of a program was last seen to make progress, and which are stuck. Pure: callers
//! tell the time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Times without progress that mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time after which the part is reported as stuck.
    pub reported: Duration,
    /// Time after which the program can only be started again; `None`: it goes on without the
    /// part.
    pub fatal: Option<Duration>,
}

/// Record of the parts of a program. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Vitals(Arc<Mutex<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    next: u64,
    by_number: BTreeMap<u64, Part>,
}

struct Part {
    name: &'static str,
    limits: Limits,
    last: Last,
}

/// Last progress of a part.
enum Last {
    /// The part says so itself.
    Signed(Instant),
    /// Somebody looks: the time since which the part has made no progress, `None` while it need
    /// not make any.
    Looked(Box<dyn Fn() -> Option<Instant> + Send>),
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Part").field(&self.name).finish()
    }
}

/// A part that has made no progress for longer than its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Name of the part.
    pub name: &'static str,
    /// Time without progress.
    pub silent: Duration,
    /// Whether the program can only be started again.
    pub is_fatal: bool,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seconds) = (self.name, self.silent.as_secs());
        write!(f, "{name} has made no progress for {seconds} s")
    }
}

/// A part's right to say that it makes progress. The part is forgotten when this is dropped.
#[derive(Debug)]
pub struct Sign {
    vitals: Vitals,
    number: u64,
}

impl Sign {
    /// Records progress.
    pub fn alive(&self, now: Instant) {
        if let Some(part) = self.vitals.parts().by_number.get_mut(&self.number) {
            part.last = Last::Signed(now);
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        self.vitals.parts().by_number.remove(&self.number);
    }
}

impl Vitals {
    /// Adds a part that will say by itself that it makes progress, and does now.
    #[must_use]
    pub fn sign(&self, name: &'static str, limits: Limits, now: Instant) -> Sign {
        self.add(name, limits, Last::Signed(now))
    }

    /// Adds a part that is looked at. `since` returns the time since which the part has made no
    /// progress, `None` while it need not make any; it must not wait. The part stays until the
    /// returned value is dropped.
    #[must_use]
    pub fn watch(
        &self,
        name: &'static str,
        limits: Limits,
        since: impl Fn() -> Option<Instant> + Send + 'static,
    ) -> Sign {
        self.add(name, limits, Last::Looked(Box::new(since)))
    }

    fn add(&self, name: &'static str, limits: Limits, last: Last) -> Sign {
        let part = Part { name, limits, last };
        let mut parts = self.parts();
        let number = parts.next;
        parts.next += 1;
        parts.by_number.insert(number, part);
        Sign {
            vitals: self.clone(),
            number,
        }
    }

    /// Returns the parts that are stuck, in the order of their addition.
    #[must_use]
    pub fn stuck(&self, now: Instant) -> Vec<Stuck> {
        let parts = self.parts();
        parts
            .by_number
            .values()
            .filter_map(|part| part.stuck(now))
            .collect()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        // Each change is a single step, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    fn stuck(&self, now: Instant) -> Option<Stuck> {
        let since = match &self.last {
            Last::Signed(at) => *at,
            Last::Looked(since) => since()?,
        };
        let silent = now.saturating_duration_since(since);
        (silent >= self.limits.reported).then(|| Stuck {
            name: self.name,
            silent,
            is_fatal: self.limits.fatal.is_some_and(|fatal| silent >= fatal),
        })
    }
}
