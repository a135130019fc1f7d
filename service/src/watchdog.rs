//! Thread that reports stuck parts, and notifies the service manager as long as none is.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use threads::ThreadOwner;

use crate::manager::Manager;
use crate::message::Message;
use crate::vitals::Vitals;

/// Longest time between two looks.
const PERIOD: Duration = Duration::from_secs(5);

/// Looks in the time after which the manager ends the program.
const LOOKS_PER_WATCHDOG: u32 = 4;

/// A running watchdog.
#[derive(Debug)]
pub struct Watchdog {
    owner: ThreadOwner,
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    /// Starts the thread. A part that gets stuck is an error in the log, once; while one is beyond
    /// its fatal limit, the manager is not notified and will end the program.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn start(vitals: Vitals, manager: Manager) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let owner = ThreadOwner::default();
        let thread = owner.start("watchdog", move || {
            let period = period(manager.watchdog());
            let mut looks = Looks::new(vitals, manager, period);
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                looks.look(Instant::now());
            }
        })?;
        Ok(Self { owner, end, thread })
    }

    /// Ends the thread.
    pub fn stop(self) {
        self.owner.end();
        drop(self.end);
        // A panic of the thread has been reported where panics are.
        let _panicked = self.thread.join();
    }
}

/// Returns the time between two looks.
fn period(watchdog: Option<Duration>) -> Duration {
    let watchdog = watchdog.map(|watchdog| watchdog / LOOKS_PER_WATCHDOG);
    watchdog.map_or(PERIOD, |period| period.min(PERIOD))
}

/// Findings of the thread so far.
struct Looks {
    vitals: Vitals,
    manager: Manager,
    period: Duration,
    last: Option<Instant>,
    /// Names of the parts that have been reported.
    reported: BTreeSet<&'static str>,
}

impl Looks {
    fn new(vitals: Vitals, manager: Manager, period: Duration) -> Self {
        Self {
            vitals,
            manager,
            period,
            last: None,
            reported: BTreeSet::new(),
        }
    }

    fn look(&mut self, now: Instant) {
        let last = self.last.replace(now);
        let gap = last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        // The whole process was stopped, or had no CPU time: no part could make progress. The next
        // look judges.
        let stuck = if gap > self.period * 2 {
            Vec::new()
        } else {
            self.vitals.stuck(now)
        };
        for part in &stuck {
            if self.reported.insert(part.name) {
                tracing::error!("{part}");
            }
        }
        self.reported.retain(|name| {
            let is_stuck = gap > self.period * 2 || stuck.iter().any(|part| part.name == *name);
            if !is_stuck {
                tracing::info!("{name} makes progress again");
            }
            is_stuck
        });
        if let Some(fatal) = stuck.iter().find(|part| part.is_fatal) {
            self.manager.notify(Message::Status(&fatal.to_string()));
        } else if self.manager.watchdog().is_some() {
            self.manager.notify(Message::Alive);
        }
    }
}
