//! The jobs of a trace, checked.

use std::collections::{BTreeSet, VecDeque};

use crate::job::TraceJob;
use crate::{Source, TraceError};

/// Ids that are remembered to find one that comes again: the memory for them does not grow with
/// the trace. One that comes back after so many others is not found.
pub const IDS_REMEMBERED: usize = 50_000;

/// Basis and factor of FNV-1a.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Jobs of a trace, in its order. Ends with the first error.
pub struct Jobs<'a> {
    source: Option<Box<dyn Source + 'a>>,
    /// Marks of the last ids, and their order. Two ids of 50,000 have the same mark by chance once
    /// in 10 billion traces.
    seen: BTreeSet<u64>,
    order: VecDeque<u64>,
}

impl<'a> Jobs<'a> {
    pub(crate) fn new(source: Box<dyn Source + 'a>) -> Self {
        Self {
            source: Some(source),
            seen: BTreeSet::new(),
            order: VecDeque::new(),
        }
    }

    fn read(&mut self) -> Result<Option<TraceJob>, TraceError> {
        let Some(source) = &mut self.source else {
            return Ok(None);
        };
        let Some((place, raw)) = source.next_job()? else {
            return Ok(None);
        };
        let job = raw
            .checked()
            .map_err(|reason| TraceError::new(place, reason))?;
        if !self.remember(&job.id) {
            let id = job.id.escape_debug();
            let reason = format!("job {id} comes a second time");
            return Err(TraceError::new(place, reason));
        }
        Ok(Some(job))
    }

    /// Remembers an id; false: it is there already.
    fn remember(&mut self, id: &str) -> bool {
        let mark = id.bytes().fold(FNV_BASIS, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        });
        if !self.seen.insert(mark) {
            return false;
        }
        self.order.push_back(mark);
        if self.order.len() > IDS_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

impl Iterator for Jobs<'_> {
    type Item = Result<TraceJob, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if !matches!(read, Ok(Some(_))) {
            self.source = None;
        }
        read.transpose()
    }
}

impl std::fmt::Debug for Jobs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}
