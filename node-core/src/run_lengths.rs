//! How long containers run: what launch contexts tell the scheduler of it, and the record of what
//! it has learnt.

use records::{ContainerId, MonoMillis, Now};
use sched::{Digest, Event, Hinter, LearntCommand, LearntRuns, RunProfile};

use super::Core;
use crate::effect::Effect;
use crate::order::StoreOrder;
use crate::recovery::{LearntCommandRecord, LearntHintsRecord, LearntRunsRecord};

/// Least milliseconds between two records of what was learnt. A crash loses as much; the record may
/// have some hundred kilobytes.
const STORED_EVERY_MS: u64 = 60_000;

/// Record that was stored last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoredRuns {
    at: MonoMillis,
    /// Number of the last run in it.
    count: u64,
}

impl Core {
    /// Returns what the launch context in force tells of how long its container runs; `None`: the
    /// order of the queue does not depend on it, or no context is kept.
    pub(super) fn run_profile(&self, id: ContainerId) -> Option<RunProfile> {
        if !self.scheduler.uses_run_profiles() {
            return None;
        }
        let container = self.containers.get(&id)?;
        container.setups.run_profile(&container.user)
    }

    /// Tells the scheduler how long a container runs, if the order of the queue depends on it.
    pub(super) fn tell_run_profile(&mut self, id: ContainerId, now: Now) {
        if let Some(profile) = self.run_profile(id) {
            self.must_feed(Event::RunProfile { id, profile }, now);
        }
    }

    /// Stores what has been learnt since the last record, once a minute at most.
    pub(super) fn remember_runs(&mut self, now: Now) {
        let count = self.scheduler.learnt_runs_count();
        let is_due = now.mono.since(self.stored_runs.at) >= STORED_EVERY_MS;
        if !self.recorder.are_kept() || !is_due || count == self.stored_runs.count {
            return;
        }
        self.stored_runs = StoredRuns {
            at: now.mono,
            count,
        };
        let record = record_of(&self.scheduler.learnt_runs());
        self.effects
            .push(Effect::Store(StoreOrder::LearntRuns(Box::new(record))));
    }

    /// Takes over what an earlier agent has learnt.
    pub(super) fn restore_runs(&mut self, record: &LearntRunsRecord) {
        let learnt = runs_of(record);
        if learnt.is_none_or(|learnt| !self.scheduler.recall_runs(&learnt)) {
            tracing::warn!("run times of an earlier run are left out: the record is not one");
        }
        self.stored_runs.count = self.scheduler.learnt_runs_count();
    }
}

fn record_of(learnt: &LearntRuns) -> LearntRunsRecord {
    let commands = learnt.commands.iter();
    let commands = commands.map(|command| LearntCommandRecord {
        user: command.user.to_bytes(),
        command: command.command.to_bytes(),
        used: command.used,
        ran_ms: command.ran_ms.clone(),
    });
    let hints = learnt.hinters.iter();
    let hints = hints.map(|(user, hinter)| LearntHintsRecord {
        user: user.to_bytes(),
        right: hinter.right,
        count: hinter.count,
        used: hinter.used,
    });
    LearntRunsRecord {
        commands: commands.collect(),
        hints: hints.collect(),
        uses: learnt.uses,
    }
}

/// Returns what a record tells; `None`: a digest in it is none.
fn runs_of(record: &LearntRunsRecord) -> Option<LearntRuns> {
    let commands = record.commands.iter().map(|command| {
        Some(LearntCommand {
            user: digest_of(&command.user)?,
            command: digest_of(&command.command)?,
            used: command.used,
            ran_ms: command.ran_ms.clone(),
        })
    });
    let hinters = record.hints.iter().map(|hints| {
        let hinter = Hinter {
            right: hints.right,
            count: hints.count,
            used: hints.used,
        };
        Some((digest_of(&hints.user)?, hinter))
    });
    Some(LearntRuns {
        commands: commands.collect::<Option<_>>()?,
        hinters: hinters.collect::<Option<_>>()?,
        uses: record.uses,
    })
}

fn digest_of(bytes: &[u8]) -> Option<Digest> {
    let (words, []) = bytes.as_chunks::<4>() else {
        return None;
    };
    let words: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    words.try_into().ok().map(Digest)
}
