//! Jobs whose rows stand on lines one after another.

use std::io::BufRead;

use crate::TraceError;
use crate::input::{Lines, Place};
use crate::job::{RawJob, TASKS_MAX};

/// Line of a job.
pub(crate) trait Row: Sized {
    /// Reads a line; `None`: it is passed over.
    fn read(line: &str) -> Result<Option<Self>, String>;

    /// Returns the id of the row's job.
    fn job(&self) -> &str;

    /// Returns the job that begins with this row, still without it.
    fn begin(&self) -> RawJob;

    /// Adds the row to its job.
    fn add(self, job: &mut RawJob) -> Result<(), String>;
}

/// Reader of jobs from their rows.
pub(crate) struct Groups<R, T> {
    pub(crate) lines: Lines<R>,
    pending: Option<(Place, T)>,
}

impl<R: BufRead, T: Row> Groups<R, T> {
    pub(crate) fn new(input: R) -> Self {
        let lines = Lines::new(input);
        Self {
            lines,
            pending: None,
        }
    }

    fn next_row(&mut self) -> Result<Option<(Place, T)>, TraceError> {
        if let Some(pending) = self.pending.take() {
            return Ok(Some(pending));
        }
        while let Some((place, line)) = self.lines.next_line()? {
            let row = T::read(line).map_err(|reason| TraceError::new(place, reason))?;
            if let Some(row) = row {
                return Ok(Some((place, row)));
            }
        }
        Ok(None)
    }

    pub(crate) fn next_job(&mut self) -> Result<Option<(Place, RawJob)>, TraceError> {
        let Some((begin, first)) = self.next_row()? else {
            return Ok(None);
        };
        let mut job = first.begin();
        let mut next = Some((begin, first));
        let mut rows = 0;
        while let Some((place, row)) = next {
            if row.job() != job.id {
                self.pending = Some((place, row));
                break;
            }
            rows += 1;
            if rows > TASKS_MAX {
                let reason = format!("a job of more than {TASKS_MAX} lines");
                return Err(TraceError::new(place, reason));
            }
            row.add(&mut job)
                .map_err(|reason| TraceError::new(place, reason))?;
            next = self.next_row()?;
        }
        Ok(Some((begin, job)))
    }
}
