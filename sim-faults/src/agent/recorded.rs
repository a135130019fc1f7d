//! The record of a scheduler's events, played again as it comes: the same actions, through the
//! form of the files, after each loss.

use std::fmt::Display;

use event_record::{Begin, Entry, Reader, Replay, Step};

use crate::finding::{Checked, Finding};

/// Batches of which the last is lost.
const LOST_EVERY: u64 = 64;

/// Batches of which one is written and read.
const READ_EVERY: u64 = 8;

/// Worker that records.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// `None`: entries were lost, and the record has not begun anew.
    replay: Option<Replay>,
    batches: u64,
}

impl Recorded {
    /// Takes a batch, or loses it. Returns whether the record must begin anew.
    pub(super) fn take(&mut self, entries: Vec<Entry>) -> (Checked, bool) {
        self.batches += 1;
        let begins = entries
            .iter()
            .any(|entry| matches!(entry, Entry::Begin { .. }));
        if !begins && self.batches.is_multiple_of(LOST_EVERY) {
            self.replay = None;
        }
        let checked = entries.into_iter().try_for_each(|entry| self.play(entry));
        (checked, self.replay.is_none())
    }

    fn play(&mut self, entry: Entry) -> Checked {
        match entry {
            Entry::Begin { at, scheduler } => {
                let line = Begin::new(at, *scheduler, false).line();
                let read = Reader::new(&line[..]);
                let (_, begin) = read.map_err(|error| finding(&error))?;
                let replay = Replay::new(&begin);
                self.replay = Some(replay.map_err(|error| finding(&error))?);
                Ok(())
            }
            Entry::Step(step) => {
                let step = if self.batches.is_multiple_of(READ_EVERY) {
                    bare(&step)?
                } else {
                    *step
                };
                let Some(replay) = &mut self.replay else {
                    return Ok(());
                };
                replay.step(&step).map_err(|parted| finding(&parted))
            }
        }
    }
}

fn finding(error: &impl Display) -> Finding {
    Finding {
        what: format!("the record of the scheduler's events: {error}"),
        containers: Vec::new(),
        node: None,
    }
}

/// Returns a step as a file would have it: without diagnostics.
fn bare(step: &Step) -> Result<Step, Finding> {
    Step::read(&step.line()).map_err(|error| finding(&error))
}
